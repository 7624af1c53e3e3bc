"""Which collectives a program contains, each logical operation once, as the text has them.

Counted: the plain opcode or its ``-start``, never ``-done`` or ``-update``; of an async-start whose
computation holds the collective, that inner one alone; of the copies that TPU compilers make of one
asynchronous collective (in AsyncCollectiveStart, async_collective_fusion* and AsyncCollectiveDone
computations), the one at the start. How often a loop runs them is not in these counts.

Bytes: the payload is the full tensor of one group: result of all-reduce and all-gather, operand of
all others, summed over the arrays of a combined collective; of ragged-all-to-all the whole input.
Groups: flattened ids, replica * num_partitions + partition, of devices that exchange data with one
another; for collective-permute, send and recv, of devices that their transfers connect.

Where the header prints no num_partitions, as before 2024, it is taken from the shardings of the
entry's parameters; without them, groups whose size depends on it are unknown.

Sources: collective_op_group_mode.cc; payload as in NCCL's tests (PERFORMANCE.md).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.model.device_groups import connected_devices, device_groups
from hlo_lens.model.hlo_query import (
    COLLECTIVE_KINDS,
    called_closure,
    collective_kind,
    evident_partitions,
    is_collective_like,
    split_phase,
)
from hlo_lens.model.replica_groups import collective_op_group_mode
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.model.hlo import HloInstruction, HloModule
    from hlo_lens.model.hlo_query import InstructionTable
    from hlo_lens.model.replica_groups import CollectiveOpGroupMode, Groups
    from hlo_lens.model.shape import Shape

_ASYNC_STARTS = frozenset({"async-start"})
_TPU_START = 'custom_call_target="AsyncCollectiveStart"'
_TPU_DONE = 'custom_call_target="AsyncCollectiveDone"'
_TPU_FUSION = "async_collective_fusion"
_PAIRS = "_xla_send_recv_source_target_pairs"
_TRANSFERS = frozenset({"collective-permute", "send", "recv"})


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One collective operation.

    Attributes:
        name: Name of the instruction that performs or starts it.
        kind: One of `COLLECTIVE_KINDS`.
        computation: Computation that holds the instruction.
        channel_id: Channel; not unique.
        mode: What the printed ids count: a `CollectiveOpGroupMode` value; None for send and recv.
        groups: Flattened device ids; None where they are not known.
        group_size: Devices in each group; None where unknown or unequal.
        num_groups: Number of groups.
        axes: Mesh axes of the groups; not told here.
        payload_bytes: Bytes of the full tensor of one group.
        wire_bytes_per_device: Bytes that leave each device; not told here.
        element_type: Element type of the payload; several joined by commas.
        static_count: 1.
        dynamic_count: How often one run of the program performs it; not told here.
        loop_path: Enclosing loops; not told here.
        is_async: Whether other instructions may run between its start and its end.
        overlap_instructions: How many do; not told here.
        op_name: Scope path of the framework.
        source_file: File of the user's program.
        source_line: 1-based line in it.
        source_target_pairs: Flattened ids of source and target of each transfer; None for kinds
            that have none, and where they are not known.
    """

    name: str
    kind: str
    computation: str
    channel_id: int | None
    mode: str | None
    groups: Groups | None
    group_size: int | None
    num_groups: int | None
    axes: tuple[str, ...] | None = None
    payload_bytes: int | None
    wire_bytes_per_device: int | None = None
    element_type: str | None
    static_count: int = 1
    dynamic_count: int | None = None
    loop_path: tuple[str, ...] = ()
    is_async: bool
    overlap_instructions: int | None = None
    op_name: str | None
    source_file: str | None
    source_line: int | None
    source_target_pairs: Groups | None = None


@dataclass(frozen=True, kw_only=True)
class CollectiveCounts(Result):
    """All collectives of a module, in text order.

    Attributes:
        collectives: Each logical operation once.
        clones: How many further instructions are parts of operations that are counted already.
        unknown_opcodes: Opcodes not known to XLA of August 2026 that sound like collectives, and
            how often each stands in the text; they are not counted.
    """

    KIND: ClassVar[str] = "collectives"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", Unit.NONE, "instruction that performs or starts it"),
        Column("kind", Unit.NONE, "all-reduce, all-gather, ..."),
        Column("computation", Unit.NONE, "computation that holds the instruction"),
        Column("channel_id", Unit.NONE, "channel; not unique"),
        Column("mode", Unit.NONE, "what the printed ids count"),
        Column("groups", Unit.NONE, "flattened ids of the devices of each group"),
        Column("group_size", Unit.COUNT, "devices in each group"),
        Column("num_groups", Unit.COUNT, "number of groups"),
        Column("axes", Unit.NONE, "mesh axes of the groups"),
        Column("payload_bytes", Unit.BYTES, "bytes of the full tensor of one group"),
        Column("wire_bytes_per_device", Unit.BYTES, "bytes that leave each device"),
        Column("element_type", Unit.NONE, "element type of the payload"),
        Column("static_count", Unit.COUNT, "1: each operation has its row"),
        Column("dynamic_count", Unit.COUNT, "how often one run performs it"),
        Column("loop_path", Unit.NONE, "enclosing loops"),
        Column("is_async", Unit.NONE, "whether other instructions may run meanwhile"),
        Column("overlap_instructions", Unit.COUNT, "how many instructions run meanwhile"),
        Column("op_name", Unit.NONE, "scope path of the framework"),
        Column("source_file", Unit.NONE, "file of the user's program"),
        Column("source_line", Unit.NONE, "1-based line in it"),
        Column("source_target_pairs", Unit.NONE, "source and target of each transfer"),
    )
    collectives: tuple[Collective, ...]
    clones: int
    unknown_opcodes: tuple[tuple[str, int], ...]

    def rows(self) -> Iterator[Row]:
        """Yield the collectives in text order."""
        names = [field.name for field in fields(Collective)]
        for collective in self.collectives:
            yield tuple(getattr(collective, name) for name in names)

    @property
    def row_count(self) -> int:
        """Number of collectives."""
        return len(self.collectives)

    def static_counts(self) -> dict[str, int]:
        """Return every kind with how many there are, in the order of `COLLECTIVE_KINDS`."""
        counts = Counter(collective.kind for collective in self.collectives)
        return {kind: counts[kind] for kind in COLLECTIVE_KINDS}


def collective_counts(table: InstructionTable) -> CollectiveCounts:
    """Return the collectives of a module, each once."""
    found = Counter(table.opcodes)
    kinds = {opcode: kind for opcode in found if (kind := collective_kind(opcode)) is not None}
    instructions = [table.instruction(row) for row in table.rows_of(frozenset(kinds))]
    kept = _without_wrappers(_without_tpu_clones(instructions))
    context = _Context.of(table) if kept else None
    return CollectiveCounts(
        collectives=tuple(_collective(i, kinds[i.opcode], context) for i in kept if context),
        clones=len(instructions) - len(kept),
        unknown_opcodes=tuple(
            sorted((opcode, found[opcode]) for opcode in found if is_collective_like(opcode))
        ),
    )


def _without_tpu_clones(instructions: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Leave out the later parts of asynchronous TPU collectives.

    A part that continues or ends one whose start is missing, as in a truncated text, stays once.
    """
    roles = {id(i.computation): _tpu_role(i) for i in instructions}
    if not any(roles.values()):
        return list(instructions)
    seen = {_twin_key(i) for i in instructions if roles[id(i.computation)] == "start"}
    kept = []
    for instruction in instructions:
        if roles[id(instruction.computation)] == "clone":
            if _twin_key(instruction) in seen:
                continue
            seen.add(_twin_key(instruction))
        kept.append(instruction)
    return kept


def _twin_key(instruction: HloInstruction) -> tuple[str, int | None]:
    return split_phase(instruction.opcode)[0], instruction.channel_id


def _tpu_role(instruction: HloInstruction) -> str:
    """Return ``start``, ``clone`` or nothing for the computation that holds a collective."""
    computation = instruction.computation
    if computation.is_entry:
        return ""
    columns = computation.module.columns
    rows = computation.rows
    texts = [columns.attributes_text(row) for row in rows] if len(rows) <= _TPU_ROWS else []
    if any(_TPU_START in text for text in texts):
        return "start"
    is_clone = computation.name.startswith(_TPU_FUSION) or any(_TPU_DONE in t for t in texts)
    return "clone" if is_clone else ""


_TPU_ROWS = 1000
"""Fused computations are small; larger ones are no part of an asynchronous TPU collective."""


def _without_wrappers(instructions: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Leave out each ``X-start`` that prints the computation whose own X is in the list too."""
    held = {
        (instruction.computation.name, split_phase(instruction.opcode)[0])
        for instruction in instructions
    }
    return [
        instruction
        for instruction in instructions
        if not instruction.opcode.endswith("-start")
        or not any(
            (name, split_phase(instruction.opcode)[0]) in held
            for name in instruction.called_computations
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """What one collective needs to know of its module.

    Attributes:
        replicas: Number of replicas.
        partitions: Number of partitions; None where the text does not tell.
        async_starts: Computations that run asynchronously, with the instruction that starts them.
    """

    replicas: int
    partitions: int | None
    async_starts: Mapping[str, HloInstruction]

    @classmethod
    def of(cls, table: InstructionTable) -> _Context:
        """Return the context of a module's collectives."""
        starts: dict[str, HloInstruction] = {}
        for row in table.rows_of(_ASYNC_STARTS):
            start = table.instruction(row)
            starts.update(dict.fromkeys(start.called_computations, start))
        return cls(
            replicas=table.module.replica_count,
            partitions=evident_partitions(table),
            async_starts=called_closure(table.module, starts),
        )


def _collective(instruction: HloInstruction, kind: str, context: _Context) -> Collective:
    """Return what one instruction says."""
    module = instruction.computation.module
    attributes = instruction.attributes
    channel = attributes.get("channel_id", "")
    channel_id = int(channel) if channel.isdecimal() else None
    mode = _mode(kind, channel_id, attributes)
    groups = pairs = _groups(kind, mode, _listed(module, kind, attributes), context)
    if kind not in _TRANSFERS:
        pairs = None
    elif pairs is not None:
        groups = connected_devices(pairs)
    sizes = {len(group) for group in groups} if groups else set()
    group_size = next(iter(sizes)) if len(sizes) == 1 else None
    payload_bytes, element_type = _payload(instruction, kind, group_size)
    metadata = module.reader.metadata(attributes["metadata"]) if "metadata" in attributes else None
    location = None if metadata is None else module.source_location(metadata)
    return Collective(
        name=instruction.name,
        kind=kind,
        computation=instruction.computation.name,
        channel_id=channel_id,
        mode=None if mode is None else mode.value,
        groups=groups,
        group_size=group_size,
        num_groups=None if groups is None else len(groups),
        payload_bytes=payload_bytes,
        element_type=element_type,
        is_async=_is_async(instruction, context),
        op_name=None if metadata is None else metadata.op_name,
        source_file=None if location is None else location.file,
        source_line=None if location is None else location.line,
        source_target_pairs=pairs,
    )


def _mode(
    kind: str, channel_id: int | None, attributes: Mapping[str, str]
) -> CollectiveOpGroupMode | None:
    """Return what the printed ids count; None for send and recv, and where XLA allows no such."""
    if kind in ("send", "recv"):
        return None
    is_global = attributes.get("use_global_device_ids") == "true"
    try:
        return collective_op_group_mode(kind, channel_id, is_global)
    except DumpMismatchError:
        return None


def _listed(module: HloModule, kind: str, attributes: Mapping[str, str]) -> Groups | None:
    """Return the groups or pairs that are printed; () for none, which means everybody."""
    reader = module.reader
    if kind == "collective-permute":
        text = attributes.get("source_target_pairs")
    elif kind in ("send", "recv"):
        frontend = attributes.get("frontend_attributes")
        text = reader.frontend_attributes(frontend).get(_PAIRS) if frontend else None
    else:
        text = attributes.get("replica_groups", "{}")
    try:
        return reader.device_list(text).flattened_replica_groups() if text else None
    except DumpSyntaxError:
        return None


def _groups(
    kind: str, mode: CollectiveOpGroupMode | None, listed: Groups | None, context: _Context
) -> Groups | None:
    """Return groups, or source and target of each transfer, of flattened ids."""
    is_transfer = kind in _TRANSFERS
    if listed is None or (mode is None and not is_transfer):
        return None
    if mode is None or (is_transfer and not listed):
        return listed
    return device_groups(listed, mode, context.replicas, context.partitions)


def _is_async(instruction: HloInstruction, context: _Context) -> bool:
    """Return whether the operation has a start and an end, and is not marked as synchronous.

    GPU compilers mark by ``is_sync`` in the backend_config of the start (of 2022: escaped quotes).
    """
    start = context.async_starts.get(instruction.computation.name)
    if start is None:
        phase = split_phase(instruction.opcode)[1]
        is_tpu_start = _tpu_role(instruction) == "start"
        if phase != "start" and instruction.opcode not in ("send", "recv") and not is_tpu_start:
            return False
        start = instruction
    config = (start.attribute("backend_config") or "").replace("\\", "").replace(" ", "")
    return '"is_sync":true' not in config


def _payload(
    instruction: HloInstruction, kind: str, group_size: int | None
) -> tuple[int | None, str | None]:
    """Return bytes and element types of the payload; None where they are not known."""
    shape = _payload_shape(instruction, kind)
    if shape is None:
        return None, None
    size = shape.size_bytes
    arrays = [leaf for _, leaf in shape.leaves() if not leaf.is_token]
    types = ",".join(dict.fromkeys(leaf.element_type for leaf in arrays)) or None
    if kind == "reduce-scatter" and not _prints_operand(instruction):
        size = None if size is None or group_size is None else size * group_size
    return size, types


def _prints_operand(instruction: HloInstruction) -> bool:
    """Return whether the result of a ``-start`` repeats the operands."""
    return instruction.opcode.endswith("-start") and instruction.opcode != "all-reduce-start"


def _payload_shape(instruction: HloInstruction, kind: str) -> Shape | None:
    """Return the shape of the payload, or for a plain reduce-scatter that of its result.

    All other kinds have results as large as their operands, or want the result.
    """
    if kind == "ragged-all-to-all":
        return _operand_shape(instruction)
    shape = instruction.shape
    if shape is None:
        return None
    if kind in ("send", "recv"):
        return shape.tuple_shapes[0] if shape.tuple_shapes else shape
    if not _prints_operand(instruction) or not shape.is_tuple:
        return shape
    wanted = 0 if kind == "reduce-scatter" else 1
    return shape.tuple_shapes[wanted] if wanted < len(shape.tuple_shapes) else None


def _operand_shape(instruction: HloInstruction) -> Shape | None:
    """Return the shape of the first operand."""
    for operand in instruction.operands[:1]:
        producer = instruction.computation.instruction(operand.name)
        shape = None if producer is None else producer.shape
        for position in operand.index:
            parts = () if shape is None else shape.tuple_shapes
            shape = parts[position] if position < len(parts) else None
        return shape
    return None
