"""Collective operations of a module, each logical operation once, with start and end.

Counted: the plain opcode or its ``-start``, never ``-done`` or ``-update``; of an async-start or
``X-start`` whose computation contains the collective, only that inner one, also inside a fusion
there (GPU, jax 0.12); of the copies that TPU compilers make of one asynchronous
collective (in AsyncCollectiveStart, async_collective_fusion* and AsyncCollectiveDone computations),
the one at the start; and custom calls that are known to communicate (`COMMUNICATING`).

Sources: xla/service/hlo_instruction.cc (async sugar), xla/service/gpu/backend_configs.proto
(is_sync), jax/_src/tpu_custom_call.py (has_communication), as of August 2026. The TPU compiler's
is not public: its forms are observed in dumps of libtpu 0.0.11 to 0.0.51.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import END, LONG_NUMBER, NOTHING, OPERANDS_END, STRIDE
from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS, collective_op_group_mode, opcode_traits
from hlo_lens.questions.collectives.transfer import RAGGED, TRANSFERS, payload
from hlo_lens.shapes.replica_groups import (
    CollectiveOpGroupMode,
    Groups,
    connected_devices,
    device_groups,
)
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.hlo.module import HloComputation, HloInstruction, HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.program.runs import CallCounts


CUSTOM_CALL = "custom-call"
"""Kind of a custom call that communicates and is none of XLA's own collectives."""

COMMUNICATING: Mapping[str, str] = {
    "mpi_allgather": "all-gather",
    "mpi_allreduce": "all-reduce",
    "mpi_alltoall": "all-to-all",
    "mpi_bcast": "collective-broadcast",
    "mpi_gather": CUSTOM_CALL,
    "mpi_recv": "recv",
    "mpi_reduce": CUSTOM_CALL,
    "mpi_scan": CUSTOM_CALL,
    "mpi_scatter": CUSTOM_CALL,
    "mpi_send": "send",
    "mpi_sendrecv": "collective-permute",
    "te_collective_gemm_ffi": CUSTOM_CALL,
    "te_comm_gemm_ffi": CUSTOM_CALL,
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
        kind: One of `COLLECTIVE_KINDS`, or ``custom-call``.
        start: The instruction that starts it where it runs: `instruction` itself, or the
            async-start or fusion around it.
        done: The instruction that ends it; None for a synchronous one, and if not found.
        is_async: Whether other instructions may run between its start and its end.
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

    Args:
        table: Table of the module.
        calls: Callers of its computations.
    """
    traits = map(opcode_traits, table.different_opcodes)
    kinds = {one.opcode: kind for one in traits if (kind := one.collective_kind) is not None}
    instructions = [table.instruction(row) for row in table.rows_of(kinds)]
    roles = _tpu_roles(table, instructions)
    kept = _without_wrappers(_without_tpu_clones(instructions, roles), table)
    found = [(instruction, kinds[table.opcodes[instruction.row]]) for instruction in kept]
    custom = _custom_calls(table)
    if custom:
        found = sorted([*found, *custom], key=lambda item: item[0].span.start)
    if not found:
        return (), 0
    pairing = _Pairing(table, calls, instructions, roles)
    ops = tuple(pairing.op(instruction, kind) for instruction, kind in found)
    return ops, len(instructions) - len(kept)


def _custom_calls(table: InstructionTable) -> list[tuple[HloInstruction, str]]:
    """Return the custom calls that are known to communicate, with their kinds."""
    found = []
    columns = table.module.columns
    for row in table.rows_of({"custom-call"}):
        text = columns.attributes_text(row)
        match = _TARGET.search(text)
        kind = None if match is None else _custom_kind(match[1], text)
        if kind is not None:
            found.append((table.instruction(row), kind))
    return found


def _custom_kind(target: str, text: str) -> str | None:
    if target == "tpu_custom_call":
        plain = text.replace("\\", "").replace(" ", "")
        return CUSTOM_CALL if '"has_communication":true' in plain else None
    name = target.replace("mpi_xla_", "mpi_").removesuffix("_ffi")
    return COMMUNICATING.get(target) or COMMUNICATING.get(name)


def _tpu_roles(table: InstructionTable, instructions: Sequence[HloInstruction]) -> dict[str, str]:
    """Return the roles of computations in asynchronous TPU collectives: start, step or done."""
    roles: dict[str, str] = {}
    for place in dict.fromkeys(one.computation.place for one in instructions):
        computation = table.module.computations[place]
        if computation.is_entry or len(computation.rows) > _TPU_ROWS:
            continue
        if _has_attribute(computation, _TPU_START):
            roles[computation.name] = "start"
        elif _has_attribute(computation, _TPU_DONE):
            roles[computation.name] = "done"
        elif computation.name.startswith(_TPU_FUSION):
            roles[computation.name] = "step"
    return roles


def _has_attribute(computation: HloComputation, word: str) -> bool:
    """Return whether the attributes of any instruction of a computation contain a word."""
    columns, rows = computation.module.columns, computation.rows
    first, last = rows[0] * STRIDE + OPERANDS_END, rows[-1] * STRIDE + END
    if columns.source.text.find(word, columns.spans[first], columns.spans[last]) < 0:
        return False
    return any(word in columns.attributes_text(row) for row in rows)


def _twin_key(instruction: HloInstruction) -> tuple[str, int | None]:
    return opcode_traits(instruction.opcode).base, instruction.channel_id


def _without_tpu_clones(
    instructions: Sequence[HloInstruction], roles: Mapping[str, str]
) -> list[HloInstruction]:
    """Drop the later parts of asynchronous TPU collectives.

    If the start is missing, as in a truncated text, the first later part is kept.
    """
    if not roles:
        return list(instructions)
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
    """Drop async wrappers whose inner collective is already listed."""
    opcodes, owners, calls = table.opcodes, table.owners, table.module.links.calls
    starts = {o for o in table.different_opcodes if o.endswith("-start")}
    if not any(opcodes[one.row] in starts for one in instructions):
        return list(instructions)
    held = {(owners[one.row], opcode_traits(opcodes[one.row]).base) for one in instructions}

    def is_wrapper(row: int) -> bool:
        opcode = opcodes[row]
        if opcode not in starts:
            return False
        base = opcode_traits(opcode).base
        return any((call.place, base) in held for call in calls.of_row(row))

    return [instruction for instruction in instructions if not is_wrapper(instruction.row)]


class _Pairing:
    """Finds where the collectives of a module start and end."""

    def __init__(
        self,
        table: InstructionTable,
        calls: CallCounts,
        instructions: Sequence[HloInstruction],
        roles: Mapping[str, str],
    ) -> None:
        self._table = table
        self._roles = roles
        self._calls = calls
        self._wrappers = _wrapped(table)
        self._ends = _ends_of_starts(table) | self._ends_of_fusions(instructions)
        self._updates = _updates_with_operands(table)

    def op(self, instruction: HloInstruction, kind: str) -> CollectiveOp:
        """Return one collective with its start and end."""
        computation = instruction.computation
        row = self._wrappers.get(computation.place)
        role = self._roles.get(computation.name) if self._roles else None
        start = instruction
        if row is not None:
            start = self._table.instruction(row)
        elif role == "start":
            sites = self._calls.sites_at(computation.place)
            start = sites[0].caller if sites else instruction
        opcodes = self._table.opcodes
        is_async = (
            role == "start"
            or opcode_traits(opcodes[instruction.row]).is_paired
            or opcode_traits(opcodes[start.row]).phase == "start"
        )
        if not is_async or _is_marked_sync(instruction, start):
            return CollectiveOp(instruction, kind, start, None, is_async=False)
        done = self._ends.get(start.row)
        end = None if done is None else self._table.instruction(done)
        given = self._updates.get(start.row)
        update = None if given is None else self._table.instruction(given)
        return CollectiveOp(instruction, kind, start, end, is_async=True, update=update)

    def _ends_of_fusions(self, instructions: Iterable[HloInstruction]) -> dict[int, int]:
        """Return for each fusion that starts a TPU collective the one that ends it, as rows."""
        starts: dict[int, tuple[str, int | None]] = {}
        ends: list[tuple[int, tuple[str, int | None]]] = []
        for instruction in instructions if self._roles else ():
            role = self._roles.get(instruction.computation.name)
            for site in self._calls.sites_at(instruction.computation.place) if role else ():
                if role == "start":
                    starts[site.caller.row] = _twin_key(instruction)
                elif role == "done":
                    ends.append((site.caller.row, _twin_key(instruction)))
        found: dict[int, int] = {}
        for end, twin in ends:

            def is_start(candidate: int, twin: object = twin) -> bool:
                return starts.get(candidate) == twin

            start = _first_behind(self._table, end, is_start)
            if start is not None:
                found.setdefault(start, end)
        return found


def _ends_of_starts(table: InstructionTable) -> dict[int, int]:
    """Return for each start the ``-done`` that its result goes to, in the same computation."""

    def is_start(row: int) -> bool:
        return opcode_traits(table.opcodes[row]).is_start

    found: dict[int, int] = {}
    for done in table.rows_where(lambda traits: traits.phase == "done"):
        start = _first_behind(table, done, is_start)
        if start is not None:
            found.setdefault(start, done)
    return found


def _updates_with_operands(table: InstructionTable) -> dict[int, int]:
    """Return for each start without operands its first ``-update`` with some, as rows."""
    operands_of = table.module.links.operands_of

    def is_empty_start(row: int) -> bool:
        return opcode_traits(table.opcodes[row]).is_start and not operands_of(row)

    found: dict[int, int] = {}
    for update in table.rows_where(lambda traits: traits.phase == "update"):
        if len(operands_of(update)) > 1:
            start = _first_behind(table, update, is_empty_start)
            if start is not None:
                found.setdefault(start, update)
    return found


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


def _first_behind(
    table: InstructionTable, end: int, is_wanted: Callable[[int], bool]
) -> int | None:
    """Return the nearest row wanted that an instruction's operands come from, or None.

    Only instructions that forward the result of a start are followed.
    """
    operands_of = table.module.links.operands_of
    waiting = deque(operands_of(end))
    seen = set(waiting)
    while waiting and len(seen) < _STEPS:
        producer = waiting.popleft()
        if producer == NOTHING:
            continue
        if is_wanted(producer):
            return producer
        traits = opcode_traits(table.opcodes[producer])
        if not traits.is_carrying and traits.phase != "update":
            continue
        new = [row for row in dict.fromkeys(operands_of(producer)) if row not in seen]
        seen.update(new)
        waiting.extend(new)
    return None


def _is_marked_sync(instruction: HloInstruction, start: HloInstruction) -> bool:
    """Return whether GPU's compiler marked a collective as synchronous.

    The mark is ``is_sync`` in the backend_config of the start (2022: with escaped quotes).
    """
    columns = instruction.computation.module.columns
    for marked in (start, instruction):
        if "is_sync" not in columns.attributes_text(marked.row):
            continue
        config = (marked.attribute("backend_config") or "").replace("\\", "").replace(" ", "")
        if '"is_sync":true' in config:
            return True
    return False


_PAIRS = "_xla_send_recv_source_target_pairs"
_HANDLER = "_xla_host_transfer_handler_name"
_MEGASCALE = "xla_megascale_runtime"
_SLICE_TRANSFER = "_xla_megascale_transfer_type"
_RENDEZVOUS = "_xla_host_transfer_rendezvous"


class CollectiveDevices(NamedTuple):
    """Devices of a collective, one object for all of a kind that print the same.

    Attributes:
        mode: What the printed ids number.
        groups: Flattened ids of the devices of each group.
        pairs: Source and target of each transfer.
        is_host_transfer: Whether it is between a device and its host.
        crosses_slices: Whether it goes to other slices.
        slice_transfer: Kind of the collective between slices that it is part of.
    """

    mode: CollectiveOpGroupMode | None
    groups: Groups | None
    pairs: Groups | None
    is_host_transfer: bool
    crosses_slices: bool
    slice_transfer: str | None


class PrintedAttributes(NamedTuple):
    """Attributes of a collective, one object for all of a kind that print the same.

    Attributes:
        text: Their text, without channel and applied computation.
        devices: Its devices.
        rendezvous: Name that the send and the recv of a transfer between slices have in common.
    """

    text: str
    devices: CollectiveDevices
    rendezvous: str | None


class AttributeReader:
    """Reads the attributes of a module's collectives.

    Args:
        module: The module.
        partitions: Its number of partitions; None if unknown.
    """

    def __init__(self, module: HloModule, partitions: int | None) -> None:
        self._module = module
        self._replicas = module.replica_count
        self._partitions = partitions
        self._read: dict[tuple[str, str, bool, str], PrintedAttributes] = {}
        self._devices: dict[tuple[object, ...], CollectiveDevices] = {}

    def read(self, instruction: HloInstruction, kind: str) -> tuple[int | None, PrintedAttributes]:
        """Return the channel of a collective, and its other attributes."""
        printed = self._module.columns.attributes_text(instruction.row)
        text, number = _without(", channel_id=", printed)
        channel = int(number) if number.isdecimal() and len(number) < LONG_NUMBER else None
        if channel is None and "channel_id=" in printed:
            channel = instruction.channel_id
        channel_id = None if channel is None or channel < 0 else channel
        text, _ = _without(", to_apply=", text)
        key = (kind, instruction.opcode, channel_id is None, text)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = self._parsed(instruction, kind, channel_id, text)
        return channel_id, found

    def _parsed(
        self, instruction: HloInstruction, kind: str, channel_id: int | None, text: str
    ) -> PrintedAttributes:
        attributes = instruction.attributes
        is_custom = instruction.opcode == CUSTOM_CALL
        mode = None if is_custom else _mode(kind, channel_id, attributes)
        frontend = attributes.get("frontend_attributes")
        said = self._module.reader.frontend_attributes(frontend) if frontend else {}
        listed = None if is_custom else _listed_text(kind, attributes, said)
        is_host_transfer = attributes.get("is_host_transfer") == "true"
        crosses_slices = said.get(_HANDLER) == _MEGASCALE
        across = said.get(_SLICE_TRANSFER)
        key = (kind, mode, listed, is_host_transfer, crosses_slices, across)
        if key not in self._devices:
            groups, pairs = self._groups_and_pairs(kind, mode, listed)
            transfer = across.lower().replace("_", "-") if across else None
            self._devices[key] = CollectiveDevices(
                mode, groups, pairs, is_host_transfer, crosses_slices, transfer
            )
        return PrintedAttributes(text, self._devices[key], said.get(_RENDEZVOUS))

    def _groups_and_pairs(
        self, kind: str, mode: CollectiveOpGroupMode | None, text: str | None
    ) -> tuple[Groups | None, Groups | None]:
        """Return groups, and source and target of each transfer, of flattened ids."""
        listed = _listed(self._module, text)
        is_transfer = kind in TRANSFERS
        if listed is None or (mode is None and not is_transfer):
            return None, None
        if mode is not None and (listed or not is_transfer):
            found = device_groups(listed, mode, self._replicas, self._partitions)
        else:
            found = listed
        if not is_transfer or found is None:
            return found, None
        return connected_devices(found), found


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


def _mode(
    kind: str, channel_id: int | None, attributes: Mapping[str, str]
) -> CollectiveOpGroupMode | None:
    """Return the meaning of the printed ids; None for send, recv and invalid combinations."""
    if opcode_traits(kind).is_paired:
        return None
    is_global = attributes.get("use_global_device_ids") == "true"
    try:
        return collective_op_group_mode(kind, channel_id, is_global)
    except DumpMismatchError:
        return None


def _listed_text(
    kind: str, attributes: Mapping[str, str], frontend: Mapping[str, str]
) -> str | None:
    if kind == "collective-permute":
        return attributes.get("source_target_pairs")
    if opcode_traits(kind).is_paired:
        return frontend.get(_PAIRS)
    return attributes.get("replica_groups", "{}")


def _listed(module: HloModule, text: str | None) -> Groups | None:
    """Return the printed groups or pairs; () if empty, which means all devices."""
    try:
        return module.reader.device_list(text).flattened_replica_groups() if text else None
    except DumpSyntaxError:
        return None


_OPERATION_PARTS_STEPS = 4
"""Most instructions between a reduce-scatter and the shift of its padding."""


class CollectiveParts(NamedTuple):
    """The instructions that perform one collective, and their printed attributes.

    Attributes:
        op: The operation.
        channel_id: Its channel; None if there is none.
        printed: Its other attributes.
        is_scattered: Whether it is an all-reduce fused with the slice that each device keeps.
        answer: The recv of a send.
        further: Sends of the sizes and offsets of a ragged all-to-all.
        shift: The collective-permute behind a reduce-scatter of padded parts.
    """

    op: CollectiveOp
    channel_id: int | None
    printed: PrintedAttributes
    is_scattered: bool
    answer: CollectiveOp | None = None
    further: tuple[CollectiveParts, ...] = ()
    shift: CollectiveParts | None = None

    @property
    def devices(self) -> CollectiveDevices:
        """Its devices."""
        return self.printed.devices

    @property
    def kind(self) -> str:
        """Kind of the whole operation."""
        if self.is_scattered:
            return "reduce-scatter"
        if self.answer is not None and self.devices.slice_transfer in COLLECTIVE_KINDS:
            return self.devices.slice_transfer or ""
        return self.op.kind

    @property
    def link(self) -> object:
        """Equal for collectives that share links: of the same devices in the same directions."""
        devices = self.devices
        across = "slices" if devices.crosses_slices else "host"
        is_transfer = self.op.kind in TRANSFERS
        return (
            across if devices.is_host_transfer else (is_transfer, devices.pairs or devices.groups)
        )


def whole_operations(read: Sequence[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with their parts joined, in the order of the text."""
    return _with_shifts_joined(_with_answers_joined(read))


def _with_answers_joined(read: Sequence[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with the recv of each send between slices joined to it."""
    waiting: dict[tuple[int, str | None], list[CollectiveParts]] = {}
    for one in read:
        name = one.printed.rendezvous
        if one.devices.crosses_slices and one.op.kind == "recv" and name is not None:
            place = one.op.instruction.computation.place
            waiting.setdefault((place, name), []).append(one)
    if not waiting:
        return list(read)
    sends: dict[tuple[int, str | None], list[CollectiveParts]] = {}
    for one in read:
        key = (one.op.instruction.computation.place, one.printed.rendezvous)
        if one.devices.crosses_slices and one.op.kind == "send" and key in waiting:
            sends.setdefault(key, []).append(one)
    whole: dict[int, CollectiveParts] = {}
    joined: set[int] = set()
    for key, found in sends.items():
        firsts, further = _without_further(found, waiting[key])
        for send, recv in zip(firsts, waiting[key], strict=False):
            op = send.op._replace(done=recv.op.done)
            whole[id(send)] = send._replace(op=op, answer=recv.op, further=further)
            joined.add(id(recv))
        joined.update(id(one) for one in further)
    return [whole.get(id(one), one) for one in read if id(one) not in joined]


def _without_further(
    sends: list[CollectiveParts], recvs: list[CollectiveParts]
) -> tuple[list[CollectiveParts], tuple[CollectiveParts, ...]]:
    """Return the sends of the data of one rendezvous, and those of its sizes and offsets."""
    if len(recvs) != 1 or sends[0].devices.slice_transfer != RAGGED:
        return sends, ()
    data = max(sends, key=lambda one: payload(one.op.instruction, one.op.kind, None)[0] or 0)
    return [data], tuple(one for one in sends if one is not data)


def _with_shifts_joined(read: list[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with the shift of padded parts joined to their reduce-scatter."""
    fusions: dict[int, int] = {}
    for place, one in enumerate(read):
        if one.is_scattered:
            computation = one.op.instruction.computation
            for call in computation.module.links.calls.of_computation(computation.place):
                fusions[call.row] = place
    shifts: dict[int, CollectiveParts] = {}
    joined: set[int] = set()
    for place, one in enumerate(read) if fusions else ():
        is_permute = one.op.kind == "collective-permute"
        source = _source_of_shift(one.op.instruction) if is_permute else None
        behind = fusions.get(source.row) if source is not None else None
        if behind is not None and behind not in shifts:
            shifts[behind] = one
            joined.add(place)
    if not joined:
        return read
    return [
        one._replace(shift=shifts.get(place))
        for place, one in enumerate(read)
        if place not in joined
    ]


def _source_of_shift(instruction: HloInstruction) -> HloInstruction | None:
    """Return the instruction of which a collective without metadata moves a slice."""
    if instruction.op_name:
        return None
    source: HloInstruction | None = instruction
    for _ in range(_OPERATION_PARTS_STEPS):
        names = source.operand_names if source is not None else ()
        source = instruction.computation.instruction(names[0]) if names else None
        if source is None or not opcode_traits(source.opcode).is_formatting:
            break
    return source
