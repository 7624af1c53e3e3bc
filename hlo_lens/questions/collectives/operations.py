"""Collective operations of a module, each logical operation once, with start and end.

Counted: the plain opcode or its ``-start``, never ``-done`` or ``-update``; of an async-start or
``X-start`` whose computation contains the collective, only that inner one, also inside a fusion
there (GPU, jax 0.12); of the copies that TPU compilers make of one asynchronous collective (in
AsyncCollectiveStart, async_collective_fusion* and AsyncCollectiveDone computations), the one at the
start; and custom calls that are known to communicate (`COMMUNICATING`).

Sources, as of August 2026: hlo_instruction.cc (async sugar), gpu/backend_configs.proto (is_sync),
jax/_src/tpu_custom_call.py (has_communication); forms of the TPU compiler as in dumps of libtpu
0.0.11 to 0.0.51.

Products in steps around a ring of devices are one all-gather or reduce-scatter each: a loop passes
a part on to the next device by a collective-permute while the product of another part is computed
(windowed einsum). The body is ``windowed_dot_general_body_ag`` or ``_rs``; permutes of the same
operation and devices before and after it belong to it if their value comes from the loop or goes
into it. Short loops are unrolled: then the permutes of one operation and the same devices in one
computation belong together if one passes on what another one received: as it is in an all-gather,
after an addition in a reduce-scatter. Source: spmd/dot_handler.cc (EmitWindowedDotGeneral).
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import END, LONG_NUMBER, NOTHING, OPERANDS_END, STRIDE
from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS, collective_op_group_mode, opcode_traits
from hlo_lens.program.value_flow import Value, value_flow
from hlo_lens.questions.collectives.transfer import RAGGED, TRANSFERS, payload
from hlo_lens.shapes.replica_groups import (
    CollectiveOpGroupMode,
    Groups,
    connected_devices,
    device_groups,
)
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError
from hlo_lens.text.names import last_scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.program.runs import CallCounts

CUSTOM_CALL = "custom-call"
"""Kind of a custom call that communicates and is none of XLA's own collectives."""

COMMUNICATING: Mapping[str, str] = {
    "mpi_allgather": "all-gather",
    "mpi_allreduce": "all-reduce",
    "mpi_alltoall": "all-to-all",
    "mpi_bcast": "collective-broadcast",
    "mpi_recv": "recv",
    "mpi_send": "send",
    "mpi_sendrecv": "collective-permute",
    **dict.fromkeys(("mpi_gather", "mpi_reduce", "mpi_scan", "mpi_scatter"), CUSTOM_CALL),
    **dict.fromkeys(("te_collective_gemm_ffi", "te_comm_gemm_ffi"), CUSTOM_CALL),
    "MegaScaleCollectiveInputStart": CUSTOM_CALL,
}
"""Kinds of custom calls that communicate, by target: mpi4jax (its names end in ``_ffi``
or begin with ``mpi_xla_`` in some versions), Transformer Engine, and the runtime that connects TPU
slices and hosts. A ``tpu_custom_call`` (Pallas) communicates where its configuration says
``has_communication``."""

_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_TPU_START = 'custom_call_target="AsyncCollectiveStart"'
_TPU_DONE = 'custom_call_target="AsyncCollectiveDone"'
_TPU_FUSION = "async_collective_fusion"
_TPU_ROWS = 1000
"""Fused computations are small; larger ones are no part of an asynchronous TPU collective."""

_STEPS = 2000
"""Most instructions that are visited from an end back to its start."""


class CollectiveOp(NamedTuple):
    """One collective operation in the text.

    Attributes:
        instruction: The instruction with the attributes of the collective.
        start: The instruction that starts it where it runs: `instruction` itself, or the
            async-start or fusion around it.
        done: The instruction that ends it; None for a synchronous one, and if not found.
        update: The first async-update with operands, if the start has none (SparseCore of TPUs:
            the start only prepares); else None.
    """

    instruction: HloInstruction
    kind: str
    start: HloInstruction
    done: HloInstruction | None
    is_async: bool
    update: HloInstruction | None = None

    @property
    def sender(self) -> HloInstruction:
        """The instruction that has the operands: nothing is sent before it."""
        return self.start if self.update is None else self.update

    @property
    def started_by(self) -> str | None:
        """Name of the instruction that starts it, if that is another."""
        if self.start is self.instruction or self.start.name == self.instruction.name:
            return None
        return self.start.name


def collective_ops(
    table: InstructionTable, calls: CallCounts
) -> tuple[tuple[CollectiveOp, ...], int]:
    """Return the collectives of a module in text order, each once, and the number of clones.

    Clones are further instructions that are parts of counted operations.
    """
    traits = map(opcode_traits, table.different_opcodes)
    kinds = {trait.opcode: trait.collective_kind for trait in traits if trait.collective_kind}
    instructions = [table.instruction(row) for row in table.rows_of(kinds)]
    roles = _tpu_roles(table, instructions)
    kept = _without_wrappers(_without_tpu_clones(instructions, roles), table)
    listed = [(instruction, kinds[table.opcodes[instruction.row]]) for instruction in kept]
    custom = _custom_calls(table)
    if custom:
        listed = sorted([*listed, *custom], key=lambda item: item[0].span.start)
    if not listed:
        return (), 0
    operands_of = table.module.links.operands_of
    wrappers = _wrapped(table)
    ends = _by_start(
        table,
        table.rows_where(lambda traits: traits.phase == "done"),
        lambda row, _: opcode_traits(table.opcodes[row]).is_start,
    )
    ends |= _ends_of_fusions(table, calls, instructions, roles)
    prepared = table.rows_where(lambda traits: traits.phase == "update")
    updates = _by_start(  # the first with operands of a start that has none
        table,
        [row for row in prepared if len(operands_of(row)) > 1],
        lambda row, _: opcode_traits(table.opcodes[row]).is_start and not operands_of(row),
    )
    ops: list[CollectiveOp] = []
    for instruction, kind in listed:
        computation = instruction.computation
        is_tpu_start = bool(roles) and roles.get(computation.name) == "start"
        start = instruction
        if computation.place in wrappers:
            start = table.instruction(wrappers[computation.place])
        elif is_tpu_start:
            sites = calls.sites_at(computation.place)
            start = sites[0].caller if sites else instruction
        is_async = (
            is_tpu_start
            or opcode_traits(table.opcodes[instruction.row]).is_paired
            or opcode_traits(table.opcodes[start.row]).phase == "start"
        ) and not _is_marked_sync(instruction, start)
        end, update = (rows.get(start.row) if is_async else None for rows in (ends, updates))
        done = None if end is None else table.instruction(end)
        sender = None if update is None else table.instruction(update)
        ops.append(CollectiveOp(instruction, kind, start, done, is_async, sender))
    return tuple(ops), len(instructions) - len(kept)


def _custom_calls(table: InstructionTable) -> list[tuple[HloInstruction, str]]:
    found = []
    for row in table.rows_of({"custom-call"}):
        text = table.module.columns.attributes_text(row)
        match = _TARGET.search(text)
        target = "" if match is None else match[1]
        name = target.replace("mpi_xla_", "mpi_").removesuffix("_ffi")
        kind = COMMUNICATING.get(target) or COMMUNICATING.get(name)
        if target == "tpu_custom_call":
            plain = text.replace("\\", "").replace(" ", "")
            kind = CUSTOM_CALL if '"has_communication":true' in plain else None
        if kind is not None:
            found.append((table.instruction(row), kind))
    return found


def _tpu_roles(table: InstructionTable, instructions: Sequence[HloInstruction]) -> dict[str, str]:
    columns, roles = table.module.columns, dict[str, str]()
    for place in dict.fromkeys(instruction.computation.place for instruction in instructions):
        computation = table.module.computations[place]
        rows = computation.rows
        if computation.is_entry or len(rows) > _TPU_ROWS:
            continue
        first, last = rows[0] * STRIDE + OPERANDS_END, rows[-1] * STRIDE + END
        for word, role in ((_TPU_START, "start"), (_TPU_DONE, "done")):
            is_near = columns.source.text.find(word, columns.spans[first], columns.spans[last]) >= 0
            if is_near and any(word in columns.attributes_text(row) for row in rows):
                roles.setdefault(computation.name, role)
        if computation.name.startswith(_TPU_FUSION):
            roles.setdefault(computation.name, "step")
    return roles


def _twin_key(instruction: HloInstruction) -> tuple[str, int | None]:
    return opcode_traits(instruction.opcode).base, instruction.channel_id


def _without_tpu_clones(
    instructions: Sequence[HloInstruction], roles: Mapping[str, str]
) -> list[HloInstruction]:
    """Drop the later parts of asynchronous TPU collectives.

    If the start is missing, as in a truncated text, the first later part is kept.
    """
    seen = {_twin_key(i) for i in instructions if roles.get(i.computation.name) == "start"}
    kept = []
    for instruction in instructions:
        if roles.get(instruction.computation.name) in ("step", "done"):
            if _twin_key(instruction) in seen:
                continue
            seen.add(_twin_key(instruction))
        kept.append(instruction)
    return kept


def _without_wrappers(
    instructions: Sequence[HloInstruction], table: InstructionTable
) -> list[HloInstruction]:
    opcodes, owners, calls = table.opcodes, table.owners, table.module.links.calls
    starts = {o: opcode_traits(o).base for o in table.different_opcodes if o.endswith("-start")}
    held = {(owners[i.row], opcode_traits(opcodes[i.row]).base) for i in instructions}
    return [
        instruction
        for instruction in instructions
        if (base := starts.get(opcodes[instruction.row])) is None
        or all((call.place, base) not in held for call in calls.of_row(instruction.row))
    ]


def _wrapped(table: InstructionTable) -> dict[int, int]:
    """Return the computations that async starts run, and those below, each with the start's row.

    Without those that ``all-reduce-start`` and its like apply to elements.
    """
    links = table.module.links
    starts = table.rows_where(lambda traits: traits.phase == "start")
    calls = [call for row in starts for call in links.calls.of_row(row)]
    roots = {call.place: call.row for call in calls if call.role != "to_apply"}
    roots.pop(NOTHING, None)
    return links.below(roots)


def _ends_of_fusions(
    table: InstructionTable,
    calls: CallCounts,
    instructions: Sequence[HloInstruction],
    roles: Mapping[str, str],
) -> dict[int, int]:
    """Return for each fusion that starts a TPU collective the one that ends it, as rows."""
    twins: dict[str | None, dict[int, tuple[str, int | None]]] = defaultdict(dict)
    for instruction in instructions if roles else ():
        place, role = instruction.computation.place, roles.get(instruction.computation.name)
        callers = [site.caller.row for site in calls.sites_at(place)] if role else []
        twins[role] |= dict.fromkeys(callers, _twin_key(instruction))
    starts, ends = twins["start"], twins["done"]
    return _by_start(table, ends, lambda row, end: starts.get(row) == ends[end])


def _by_start(
    table: InstructionTable, ends: Iterable[int], is_start: Callable[[int, int], bool]
) -> dict[int, int]:
    """Return the nearest starts that the operands of some ends come from, each with its first end.

    Only instructions that forward the result of a start are followed.
    """
    operands_of = table.module.links.operands_of
    found: dict[int, int] = {}
    for end in ends:
        operands = operands_of(end)
        if len(operands) == 1 and operands[0] != NOTHING and is_start(operands[0], end):
            found.setdefault(operands[0], end)
            continue
        waiting = deque(operands)
        seen = set(waiting)
        while waiting and len(seen) < _STEPS:
            producer = waiting.popleft()
            if producer == NOTHING:
                continue
            if is_start(producer, end):
                found.setdefault(producer, end)
                break
            traits = opcode_traits(table.opcodes[producer])
            if traits.is_carrying or traits.phase == "update":
                new = [row for row in dict.fromkeys(operands_of(producer)) if row not in seen]
                seen.update(new)
                waiting.extend(new)
    return found


def _is_marked_sync(instruction: HloInstruction, start: HloInstruction) -> bool:
    """Return whether GPU's compiler marked a collective as synchronous.

    The mark is ``is_sync`` in the backend_config of the start (2022: with escaped quotes).
    """
    columns = instruction.computation.module.columns
    marked = (one for one in (start, instruction) if "is_sync" in columns.attributes_text(one.row))
    configs = ((one.attribute("backend_config") or "").replace("\\", "") for one in marked)
    return any('"is_sync":true' in config.replace(" ", "") for config in configs)


_PAIRS = "_xla_send_recv_source_target_pairs"
_HANDLER = "_xla_host_transfer_handler_name"
_MEGASCALE = "xla_megascale_runtime"
_SLICE_TRANSFER = "_xla_megascale_transfer_type"
_RENDEZVOUS = "_xla_host_transfer_rendezvous"


class CollectiveDevices(NamedTuple):
    """Devices of a collective, one object for all of a kind that print the same.

    `groups` and source and target in `pairs` are flattened ids; `slice_transfer` is the kind of the
    collective between slices that it is part of.
    """

    mode: CollectiveOpGroupMode | None
    groups: Groups | None
    pairs: Groups | None
    is_host_transfer: bool
    crosses_slices: bool
    slice_transfer: str | None

    @property
    def moves_nothing(self) -> bool:
        ids = self.groups if self.pairs is None else self.pairs
        is_between = not self.crosses_slices and not self.is_host_transfer
        return is_between and ids is not None and all(len(set(group)) < 2 for group in ids)


class CollectiveParts(NamedTuple):
    """The instructions that perform one collective, and their printed attributes.

    Attributes:
        text: Its other attributes than the channel, without the applied computation.
        rendezvous: Name that the send and the recv of a transfer between slices have in common.
        is_scattered: Whether it is an all-reduce fused with the slice that each device keeps.
        answer: The recv of a send.
        further: Sends of the sizes and offsets of a ragged all-to-all.
        shift: The collective-permute behind a reduce-scatter of padded parts.
        ring: The permutes, of which this is the first, that perform it around a ring.
        ring_kind: Kind of what the ring performs; empty without a ring.
        home: Place of the computation that performs the ring; None without one.
    """

    op: CollectiveOp
    channel_id: int | None
    text: str
    devices: CollectiveDevices
    rendezvous: str | None
    is_scattered: bool
    answer: CollectiveOp | None = None
    further: tuple[CollectiveParts, ...] = ()
    shift: CollectiveParts | None = None
    ring: tuple[CollectiveParts, ...] = ()
    ring_kind: str = ""
    home: int | None = None

    @property
    def kind(self) -> str:
        if self.ring_kind or self.is_scattered:
            return self.ring_kind or "reduce-scatter"
        if self.answer is not None and self.devices.slice_transfer in COLLECTIVE_KINDS:
            return self.devices.slice_transfer or ""
        return self.op.kind

    @property
    def link(self) -> object:
        devices = self.devices
        across = "slices" if devices.crosses_slices else "host"
        is_transfer = self.op.kind in TRANSFERS
        return (
            across if devices.is_host_transfer else (is_transfer, devices.pairs or devices.groups)
        )


_OF_DEVICES = ("frontend_attributes=", "replica_groups=", "_pairs=", "use_global_device_ids=")
"""Attributes that XLA prints before the metadata."""


def read_collectives(
    module: HloModule, ops: Iterable[CollectiveOp], partitions: int | None
) -> list[CollectiveParts]:
    """Return collectives with their printed attributes.

    Devices are read once for all collectives of a kind whose attributes differ in nothing but the
    channel, metadata, and the computation that they apply to elements. `partitions` is None if
    unknown.
    """
    read: dict[tuple[str, str, bool, str], tuple[CollectiveDevices, str | None]] = {}
    devices: dict[tuple[object, ...], CollectiveDevices] = {}
    parts: list[CollectiveParts] = []
    for op in ops:
        instruction = op.instruction
        printed = module.columns.attributes_text(instruction.row)
        text, number = _without(", channel_id=", printed)
        channel = int(number) if number.isdecimal() and len(number) < LONG_NUMBER else None
        if channel is None and "channel_id=" in printed:
            channel = instruction.channel_id
        channel_id = None if channel is None or channel < 0 else channel
        text, _ = _without(", to_apply=", text)
        head, _, tail = text.partition(", metadata={")
        if any(word in tail for word in _OF_DEVICES):  # in a text that is not XLA's own
            head = text
        key = (op.kind, instruction.opcode, channel_id is None, head)
        if key not in read:
            found = _devices(op, channel_id, partitions, devices)
            read[key] = found, instruction.frontend_attributes.get(_RENDEZVOUS)
        is_scattered = (
            instruction.opcode == "all-reduce"
            and instruction.computation.name.startswith(
                "all-reduce-scatter"  # fused with the slice that each device keeps (TPU)
            )
        )
        parts.append(CollectiveParts(op, channel_id, text, *read[key], is_scattered))
    return parts


def _without(name: str, text: str) -> tuple[str, str]:
    """Return attributes without the value of one, and this value; empty if not found.

    >>> _without(", channel_id=", ", channel_id=7, dimensions={0}")
    (', channel_id=, dimensions={0}', '7')
    """
    before, found, after = text.partition(name)
    if not found or '"' in before:  # then it may be inside a string
        return text, ""
    value, comma, rest = after.partition(",")
    return f"{before}{name}{comma}{rest}", value


def _devices(
    op: CollectiveOp,
    channel_id: int | None,
    partitions: int | None,
    known: dict[tuple[object, ...], CollectiveDevices],
) -> CollectiveDevices:
    """Return the devices of a collective; `known` has those read so far."""
    kind, attributes, opcode = op.kind, op.instruction.attributes, op.instruction.opcode
    has_frontend = "frontend_attributes" in attributes
    frontend = op.instruction.frontend_attributes if has_frontend else {}
    mode, listed = None, None
    if opcode_traits(kind).is_paired and opcode != CUSTOM_CALL:
        listed = frontend.get(_PAIRS)
    elif opcode != CUSTOM_CALL:
        is_permute = kind == "collective-permute"
        listed = attributes.get("source_target_pairs" if is_permute else "replica_groups")
        listed = "{}" if listed is None and not is_permute else listed
        is_global = attributes.get("use_global_device_ids") == "true"
        with contextlib.suppress(DumpMismatchError):  # an invalid combination
            mode = collective_op_group_mode(kind, channel_id, is_global)
    is_host_transfer = attributes.get("is_host_transfer") == "true"
    crosses_slices = frontend.get(_HANDLER) == _MEGASCALE
    across = frontend.get(_SLICE_TRANSFER)
    key = (kind, mode, listed, is_host_transfer, crosses_slices, across)
    if key not in known:
        groups, pairs = _groups_and_pairs(op, mode, listed, partitions)
        transfer = across.lower().replace("_", "-") if across else None
        known[key] = CollectiveDevices(
            mode, groups, pairs, is_host_transfer, crosses_slices, transfer
        )
    return known[key]


def _groups_and_pairs(
    op: CollectiveOp, mode: CollectiveOpGroupMode | None, text: str | None, partitions: int | None
) -> tuple[Groups | None, Groups | None]:
    """Return groups, and source and target of each transfer, of flattened ids."""
    module, is_transfer = op.instruction.computation.module, op.kind in TRANSFERS
    try:
        ids = module.reader.device_list(text).flattened_replica_groups() if text else None
    except DumpSyntaxError:
        return None, None
    if ids is None or (mode is None and not is_transfer):
        return None, None
    if is_transfer and any(len(pair) != 2 for pair in ids):  # of a damaged text
        return None, None
    found: Groups | None = ids
    if mode is not None and (ids or not is_transfer):  # no ids of groups mean all devices
        found = device_groups(ids, mode, module.replica_count, partitions)
    if not is_transfer or found is None:
        return found, None
    return connected_devices(found), found


_SHIFT_STEPS = 4
"""Most instructions between a reduce-scatter and the shift of its padding."""


def whole_operations(read: Sequence[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with their parts joined, in the order of the text.

    A send to other slices and the recv of its answer have one rendezvous; a ragged all-to-all has
    more sends with it, of its sizes and offsets. A reduce-scatter of TPUs whose parts are padded is
    an all-reduce fused with a slice, and a collective-permute of the rows that a device got and its
    neighbour keeps; the compiler makes it of a slice of the fusion's result, without metadata
    (observed in dumps of libtpu 0.0.52).
    """
    return _with_shifts_joined(_with_answers_joined(read))


def _with_answers_joined(read: Sequence[CollectiveParts]) -> list[CollectiveParts]:
    ends: dict[str, dict[tuple[int, str], list[CollectiveParts]]] = {"send": {}, "recv": {}}
    for parts in read:
        name = parts.rendezvous
        if parts.devices.crosses_slices and parts.op.kind in ends and name is not None:
            key = (parts.op.instruction.computation.place, name)
            ends[parts.op.kind].setdefault(key, []).append(parts)
    whole: dict[int, CollectiveParts] = {}
    joined: set[int] = set()
    for key, sends in ends["send"].items():
        recvs = ends["recv"].get(key, [])
        further: tuple[CollectiveParts, ...] = ()
        if len(recvs) == 1 and sends[0].devices.slice_transfer == RAGGED:
            sizes = [payload(send.op.instruction, send.op.kind, None)[0] or 0 for send in sends]
            data = sizes.index(max(sizes))  # the others are of its sizes and offsets
            further = (*sends[:data], *sends[data + 1 :])
            sends = [sends[data]]
        for send, recv in zip(sends, recvs, strict=False):
            op = send.op._replace(done=recv.op.done)
            whole[id(send)] = send._replace(op=op, answer=recv.op, further=further)
            joined.add(id(recv))
        joined.update(map(id, further))
    return [whole.get(id(parts), parts) for parts in read if id(parts) not in joined]


def _with_shifts_joined(read: list[CollectiveParts]) -> list[CollectiveParts]:
    fusions: dict[int, int] = {}
    for number, parts in enumerate(read):
        if parts.is_scattered:
            computation = parts.op.instruction.computation
            for call in computation.module.links.calls.of_computation(computation.place):
                fusions[call.row] = number
    shifts: dict[int, CollectiveParts] = {}
    joined: set[int] = set()
    for number, parts in enumerate(read) if fusions else ():
        is_permute = parts.op.kind == "collective-permute"
        source = _source_of_shift(parts.op.instruction) if is_permute else None
        behind = fusions.get(source.row) if source is not None else None
        if behind is not None and behind not in shifts:
            shifts[behind] = parts
            joined.add(number)
    if not joined:
        return read
    listed = ((n, parts) for n, parts in enumerate(read) if n not in joined)
    return [parts._replace(shift=shifts.get(number)) for number, parts in listed]


def _source_of_shift(instruction: HloInstruction) -> HloInstruction | None:
    """Return the instruction of which a collective without metadata moves a slice."""
    if instruction.op_name:
        return None
    source: HloInstruction | None = instruction
    for _ in range(_SHIFT_STEPS):
        names = source.operand_names if source is not None else ()
        source = instruction.computation.instruction(names[0]) if names else None
        if source is None or not opcode_traits(source.opcode).is_formatting:
            break
    return source


_BODY = re.compile(r"windowed_dot_general_body_(ag|rs)\b")
_KINDS = {"ag": "all-gather", "rs": "reduce-scatter"}

_RING_STEPS = 24
"""Values that are visited from a permute back to another one."""

_NESTED = 4
"""Calls around a permute up to its loop."""


def with_rings_joined(module: HloModule, read: list[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with the permutes of each ring joined to the first of them, in order."""
    permutes = [parts for parts in read if _is_around_groups(parts)]
    rings = list(_Rings(module, permutes).found()) if permutes else []
    joined = {id(parts): ring for ring in rings for parts in ring.ring}
    firsts = {id(ring.ring[0]) for ring in rings}
    kept = (parts for parts in read if id(parts) not in joined or id(parts) in firsts)
    return [joined.get(id(parts), parts) for parts in kept]


def _is_around_groups(parts: CollectiveParts) -> bool:
    pairs, groups = parts.devices.pairs, parts.devices.groups
    if parts.op.kind != "collective-permute" or not pairs or not groups:
        return False
    ends = ({pair[end] for pair in pairs} for end in (0, 1))
    devices = {device for group in groups for device in group}
    return len(pairs) == len(devices) and all(end == devices for end in ends)


class _Rings:
    """Sets of permutes that perform one operation; a set has at most one loop."""

    def __init__(self, module: HloModule, permutes: Sequence[CollectiveParts]) -> None:
        self._module, self._flow = module, value_flow(module)
        self._owners = module.links.owners
        self._permutes = {parts.op.instruction.row: parts for parts in permutes}
        self._loops = {row: self._loop_of(row) for row in self._permutes}
        self._set_of: dict[int, int] = {}
        self._is_summing: dict[int, bool] = {}

    def found(self) -> Iterator[CollectiveParts]:
        """Yield the first permute of each ring with all of them, in the order of the text."""
        of_operand: dict[object, int] = {}
        for row in self._permutes:
            loop = self._loops[row]
            if loop is not None:
                self._join(row, loop)
            elif last_scopes(self._module.instruction(row).op_name) == "dot_general":
                operand = self._flow.operands(row, 1)
                start = (self._key(row), self._flow.definition(operand[0])) if operand else row
                self._join(row, of_operand.setdefault(start, row))
                self._connect(row)
        for loop in {loop for loop in self._loops.values() if loop is not None}:
            shape = self._module.instruction(loop).shape
            for k in range(0 if shape is None else len(shape.tuple_shapes)):
                before = self._flow.operand(loop, 0, (k,))
                made = None if before is None else self._flow.maker(self._flow.definition(before))
                if made is not None and self._loops.get(made.row, loop) is None:
                    self._join_alike(made.row, loop)
        rings: dict[int, list[int]] = defaultdict(list)
        for row in self._permutes:
            rings[self._set(row)].append(row)
        for first, rows in rings.items():
            loop = next((self._loops[row] for row in rows if self._loops[row] is not None), None)
            kind = self._kind(first, loop)
            if kind is not None:
                home = self._owners[rows[0] if loop is None else loop]
                ring = tuple(self._permutes[row] for row in rows)
                yield ring[0]._replace(ring=ring, ring_kind=kind, home=home)

    def _loop_of(self, row: int) -> int | None:
        place = self._owners[row]
        for _ in range(_NESTED):
            calls = self._module.links.calls.of_computation(place)
            if not calls or self._module.computations[place].is_entry:
                return None
            if calls[0].role == "body":
                is_window = _BODY.search(self._module.computations[place].name)
                return calls[0].row if is_window else None
            place = self._owners[calls[0].row]
        return None

    def _key(self, row: int) -> tuple[object, ...]:
        op_name = self._module.instruction(row).op_name
        return self._owners[row], op_name, self._permutes[row].devices.groups

    def _connect(self, row: int) -> None:
        waiting, seen = self._flow.sources(Value(row))[:], {Value(row)}
        while waiting and len(seen) < _RING_STEPS:
            source = waiting.pop(0)
            if source in seen:
                continue
            seen.add(source)
            if self._loops.get(source.row, row) is None:  # a permute outside of loops
                if self._key(source.row) == self._key(row):
                    self._join(row, source.row)
                    operands = self._flow.operands(row, 1)
                    made = map(self._flow.maker, operands)
                    self._is_summing[row] = source.row not in {m.row for m in made if m is not None}
            elif source.row in self._loops.values():
                self._join_alike(row, source.row)
            else:
                waiting += self._flow.sources(source)

    def _join_alike(self, row: int, loop: int) -> None:
        one, other = self._module.instruction(row), self._module.instruction(loop)
        if one.op_name == other.op_name and self._owners[row] == self._owners[loop]:
            self._join(row, loop)

    def _kind(self, first: int, loop: int | None) -> str | None:
        """Return the kind of the operation that a set of permutes performs; None for no ring."""
        if loop is not None:
            body = self._flow.root(loop, "body")
            name = "" if body is None else self._module.computations[self._owners[body]].name
            match = _BODY.search(name)
            return None if match is None else _KINDS[match[1]]
        steps = [is_sum for row, is_sum in self._is_summing.items() if self._set(row) == first]
        return None if not steps else _KINDS["rs" if any(steps) else "ag"]

    def _set(self, member: int) -> int:
        while self._set_of.get(member, member) != member:
            member = self._set_of[member]
        return member

    def _join(self, one: int, other: int) -> None:
        self._set_of[self._set(one)] = self._set(other)
