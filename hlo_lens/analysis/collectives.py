"""Which collectives a program contains: each logical operation once, with all that it means.

What counts as one: `collective_ops`. Bytes and steps: `collective_bytes`. How often: the call
graph's counts weighted by trip counts (`call_counts`, `trip_counts`). Mesh axes: `mesh_axes`. What
runs meanwhile: `collective_overlap`.

Groups are of flattened ids, replica * num_partitions + partition, of devices that exchange data
with one another; for collective-permute, send and recv, of devices that their transfers connect.
Where the header prints no num_partitions, as before 2024, it is taken from the shardings of the
entry's parameters; without them, groups whose size depends on it are unknown.

Source: collective_op_group_mode.cc, as of August 2026.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.call_counts import CallCounts
from hlo_lens.analysis.collective_bytes import (
    NOTHING,
    TRANSFERS,
    UNKNOWN,
    Moved,
    is_scattered_at_once,
    moved_by_groups,
    moved_by_pairs,
    payload,
)
from hlo_lens.analysis.collective_ops import CUSTOM_CALL, collective_ops
from hlo_lens.analysis.collective_overlap import EXPOSED, OverlapFinder
from hlo_lens.analysis.data_movement import DataMovement, data_movement
from hlo_lens.analysis.mesh_axes import (
    NO_AXES,
    ModuleMesh,
    axes_of_groups,
    axes_of_pairs,
    module_meshes,
    transfer_pattern,
)
from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.analysis.trip_counts import TripCounts, trip_counts
from hlo_lens.model.device_groups import connected_devices, device_groups
from hlo_lens.model.hlo_query import COLLECTIVE_KINDS, evident_partitions, is_collective_like
from hlo_lens.model.replica_groups import collective_op_group_mode
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.collective_ops import CollectiveOp
    from hlo_lens.analysis.collective_overlap import Overlap
    from hlo_lens.analysis.mesh_axes import GroupAxes
    from hlo_lens.model.hlo import HloInstruction, HloModule
    from hlo_lens.model.hlo_query import InstructionTable
    from hlo_lens.model.mesh import Mesh
    from hlo_lens.model.metadata import OpMetadata
    from hlo_lens.model.replica_groups import CollectiveOpGroupMode, Groups

_PAIRS = "_xla_send_recv_source_target_pairs"
_HANDLER = "_xla_host_transfer_handler_name"
_MEGASCALE = "xla_megascale_runtime"
_STEPS = 8
"""How far back an operand's operation path is looked for."""

_SLICE_TRANSFER = "_xla_megascale_transfer_type"


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One collective operation.

    Attributes:
        name: Name of the instruction that performs or starts it.
        kind: One of `COLLECTIVE_KINDS`; ``custom-call`` for one that is none of them.
        computation: Computation that holds the instruction.
        channel_id: Channel; not unique.
        mode: What the printed ids count: a `CollectiveOpGroupMode` value; None for send and recv.
        groups: Flattened device ids; None where they are not known.
        group_size: Devices in each group; None where unknown or unequal.
        num_groups: Number of groups.
        axes: Mesh axes along which the devices of a group differ, most major first; () for groups
            of one device; None where no mesh is known.
        payload_bytes: Bytes of the full tensor of one group.
        wire_bytes_per_device: Bytes that leave each device when it runs once; see
            `collective_bytes`.
        element_type: Element type of the payload; several joined by commas.
        static_count: 1.
        dynamic_count: How often one run of the program performs it, at most where `is_at_most`;
            None where the trip count of a loop around it is not known.
        loop_path: Enclosing loops, outermost first.
        is_async: Whether other instructions may run between its start and its end.
        overlap_instructions: How many do; 0 where it is exposed, None where the module is not
            scheduled or the end is not found.
        op_name: Scope path of the framework.
        source_file: File of the user's program.
        source_line: 1-based line in it.
        source_target_pairs: Flattened ids of source and target of each transfer; None for kinds
            that have none, and where they are not known.
        axis_parts: The same as `axes` where groups are exactly all devices along axes or parts of
            axes, which are written ``model:(2)2``; else None.
        transfer: What source and target pairs do: ``shift +1 around model``, ``2 cycles of 4``.
        steps: Rounds of the ring or chain.
        moves_nothing: Whether each group is one device, or each device sends to itself.
        is_at_most: Whether a conditional decides if it runs.
        overlap_flops: Multiplications and additions of the instructions that run meanwhile.
        overlap_bytes: Bytes of their results.
        is_host_transfer: Whether a send or recv goes between a device and its host.
        crosses_slices: Whether the multi-slice runtime carries it to other slices.
        performed_as: The kind that it is fused to (TPU: all-reduce and slice to reduce-scatter), or
            of the collective between slices that it is part of.
        started_by: The instruction that starts it, where that is not the one named.
        stack: Python call stack, innermost first: ``file:line (function)``.
        near_op_name: Where nothing says where it comes from: scope path of its first operand.
        near_source: And the place in the user's program that this operand comes from.
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
    axis_parts: tuple[str, ...] | None = None
    transfer: str | None = None
    steps: int | None = None
    moves_nothing: bool = False
    is_at_most: bool = False
    overlap_flops: int | None = None
    overlap_bytes: int | None = None
    is_host_transfer: bool = False
    crosses_slices: bool = False
    performed_as: str | None = None
    started_by: str | None = None
    stack: tuple[str, ...] = ()
    near_op_name: str | None = None
    near_source: str | None = None

    @property
    def is_exposed(self) -> bool | None:
        """Whether nothing runs meanwhile, although it moves something; None if not known."""
        if self.moves_nothing:
            return False
        return None if self.overlap_instructions is None else not self.overlap_instructions

    @property
    def axis_label(self) -> str:
        """The axes as people read them: ``data,model``; ``?`` if unknown, ``-`` for none."""
        if self.axes is None:
            return "?"
        return ",".join(self.axes if self.axis_parts is None else self.axis_parts) or "-"

    @property
    def wire_bytes_per_run(self) -> int | None:
        """Bytes that leave each device in one run of the program; None if not known."""
        if self.wire_bytes_per_device == 0 or self.dynamic_count == 0:
            return 0
        if self.wire_bytes_per_device is None or self.dynamic_count is None:
            return None
        return self.wire_bytes_per_device * self.dynamic_count


@dataclass(frozen=True, kw_only=True)
class Collectives(Result):
    """All collectives of a module, in text order.

    Attributes:
        collectives: Each logical operation once.
        clones: How many further instructions are parts of operations that are counted already.
        unknown_opcodes: Opcodes not known to XLA of August 2026 that sound like collectives, and
            how often each stands in the text; they are not counted.
        meshes: The meshes that axes are named by.
        trips: Trip counts of the loops.
        movement: Copies between the memories of device and host.
        is_scheduled: Whether it is known what runs meanwhile.
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
        Column("axes", Unit.NONE, "mesh axes along which the devices of a group differ"),
        Column("payload_bytes", Unit.BYTES, "bytes of the full tensor of one group"),
        Column("wire_bytes_per_device", Unit.BYTES, "bytes that leave each device, each time"),
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
        Column("axis_parts", Unit.NONE, "axes, or parts of them, that the groups are exactly"),
        Column("transfer", Unit.NONE, "what source and target pairs do"),
        Column("steps", Unit.COUNT, "rounds of the ring or chain"),
        Column("moves_nothing", Unit.NONE, "whether each group is one device"),
        Column("is_at_most", Unit.NONE, "whether a conditional decides if it runs"),
        Column("overlap_flops", Unit.COUNT, "arithmetic that runs meanwhile"),
        Column("overlap_bytes", Unit.BYTES, "bytes of the results that are made meanwhile"),
        Column("is_host_transfer", Unit.NONE, "whether it goes between a device and its host"),
        Column("crosses_slices", Unit.NONE, "whether it goes to other slices"),
        Column("performed_as", Unit.NONE, "kind that it is fused to"),
        Column("started_by", Unit.NONE, "instruction that starts it, where another does"),
        Column("stack", Unit.NONE, "Python call stack, innermost first"),
        Column("near_op_name", Unit.NONE, "scope path of its operand, where it has none itself"),
        Column("near_source", Unit.NONE, "place that its operand comes from, likewise"),
    )
    collectives: tuple[Collective, ...]
    clones: int
    unknown_opcodes: tuple[tuple[str, int], ...]
    meshes: tuple[ModuleMesh, ...] = ()
    trips: TripCounts = field(default_factory=lambda: TripCounts(loops=()))
    movement: DataMovement = field(default_factory=lambda: DataMovement(copies=()))
    is_scheduled: bool = False

    def rows(self) -> Iterator[Row]:
        """Yield the collectives in text order."""
        names = [one.name for one in fields(Collective)]
        for collective in self.collectives:
            yield tuple(getattr(collective, name) for name in names)

    @property
    def row_count(self) -> int:
        """Number of collectives."""
        return len(self.collectives)

    def static_counts(self) -> dict[str, int]:
        """Return every kind with how many there are, in the order of `COLLECTIVE_KINDS`."""
        counts = Counter(collective.kind for collective in self.collectives)
        return {kind: counts[kind] for kind in (*COLLECTIVE_KINDS, *self._custom())}

    def dynamic_counts(self) -> dict[str, int | None]:
        """Return every kind with how often one run performs it; None if not known for each."""
        found: dict[str, int | None] = dict.fromkeys((*COLLECTIVE_KINDS, *self._custom()), 0)
        for collective in self.collectives:
            so_far, more = found[collective.kind], collective.dynamic_count
            found[collective.kind] = None if so_far is None or more is None else so_far + more
        return found

    def _custom(self) -> tuple[str, ...]:
        return (CUSTOM_CALL,) if any(c.kind == CUSTOM_CALL for c in self.collectives) else ()

    @property
    def wire_bytes_per_device(self) -> int | None:
        """Bytes that leave each device in one run of the program; None if not known for each."""
        parts = [collective.wire_bytes_per_run for collective in self.collectives]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


def collectives(
    table: InstructionTable,
    *,
    mesh: Mesh | None = None,
    before: Callable[[], HloModule | None] | None = None,
) -> Collectives:
    """Return the collectives of a module, each once.

    Args:
        table: Table of the module.
        mesh: Mesh that the user names; None to take what the texts say.
        before: Gives the module's text from before optimizations; asked only where there are
            collectives and nothing else names a mesh.
    """
    trips = trip_counts(table)
    calls = CallCounts(table, trips)
    found = collective_ops(table, calls)
    opcodes = Counter(table.opcodes)
    context = _Context(table, calls)
    read = [context.read(op) for op in found.ops]
    meshes: tuple[ModuleMesh, ...] = ()
    if read:
        groups = [listed for one in read for listed in one.id_groups]
        meshes = module_meshes(table.module, before, mesh, groups)
    return Collectives(
        collectives=tuple(context.collective(one, meshes) for one in read),
        clones=found.clones,
        unknown_opcodes=tuple(
            sorted((opcode, opcodes[opcode]) for opcode in opcodes if is_collective_like(opcode))
        ),
        meshes=meshes,
        trips=trips,
        movement=data_movement(table, calls),
        is_scheduled=table.module.is_scheduled,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What one collective's own text says.

    Attributes:
        op: The collective.
        attributes: Attributes of its instruction.
        channel_id: Channel.
        mode: What printed ids count.
        groups: Flattened ids of the devices of each group.
        pairs: Flattened ids of source and target of each transfer.
        is_host_transfer: Whether it goes between a device and its host.
        crosses_slices: Whether the multi-slice runtime carries it on.
        slice_transfer: The collective between slices that it is part of.
    """

    op: CollectiveOp
    attributes: Mapping[str, str]
    channel_id: int | None
    mode: CollectiveOpGroupMode | None
    groups: Groups | None
    pairs: Groups | None
    is_host_transfer: bool
    crosses_slices: bool
    slice_transfer: str | None

    @property
    def id_groups(self) -> tuple[Groups, ...]:
        """The groups, once, as a mesh is inferred from them; none for transfers."""
        return () if self.groups is None or self.op.kind in TRANSFERS else (self.groups,)


class _Context:
    """What one collective needs to know of its module.

    Args:
        table: Table of the module.
        calls: How often its computations run.
    """

    def __init__(self, table: InstructionTable, calls: CallCounts) -> None:
        self._module = table.module
        self._calls = calls
        self._replicas = table.module.replica_count
        self._partitions = evident_partitions(table)
        self._overlaps = OverlapFinder(table, calls)
        self._axes: dict[tuple[Groups, bool], GroupAxes | None] = {}

    def read(self, op: CollectiveOp) -> _Read:
        """Return what the text of a collective says."""
        attributes = op.instruction.attributes
        channel = attributes.get("channel_id", "")
        channel_id = int(channel) if channel.isdecimal() else None
        is_custom = op.instruction.opcode == CUSTOM_CALL
        mode = None if is_custom else _mode(op.kind, channel_id, attributes)
        listed = None if is_custom else _listed(self._module, op.kind, attributes)
        groups = pairs = self._groups(op.kind, mode, listed)
        if op.kind not in TRANSFERS:
            pairs = None
        elif pairs is not None:
            groups = connected_devices(pairs)
        frontend = attributes.get("frontend_attributes")
        said = self._module.reader.frontend_attributes(frontend) if frontend else {}
        across = said.get(_SLICE_TRANSFER)
        return _Read(
            op=op,
            attributes=attributes,
            channel_id=channel_id,
            mode=mode,
            groups=groups,
            pairs=pairs,
            is_host_transfer=attributes.get("is_host_transfer") == "true",
            crosses_slices=said.get(_HANDLER) == _MEGASCALE,
            slice_transfer=across.lower().replace("_", "-") if across else None,
        )

    def _groups(
        self, kind: str, mode: CollectiveOpGroupMode | None, listed: Groups | None
    ) -> Groups | None:
        """Return groups, or source and target of each transfer, of flattened ids."""
        is_transfer = kind in TRANSFERS
        if listed is None or (mode is None and not is_transfer):
            return None
        if mode is None or (is_transfer and not listed):
            return listed
        return device_groups(listed, mode, self._replicas, self._partitions)

    def collective(self, read: _Read, meshes: Sequence[ModuleMesh]) -> Collective:
        """Return one collective with all that it means."""
        op = read.op
        instruction = op.instruction
        sizes = {len(group) for group in read.groups} if read.groups else set()
        group_size = next(iter(sizes)) if len(sizes) == 1 else None
        payload_bytes, element_type = payload(instruction, op.kind, group_size)
        is_scattered = is_scattered_at_once(instruction)
        moved = self._moved(read, payload_bytes)
        axes = self._axes_of(read, meshes)
        runs = self._calls.of(instruction.computation.name)
        overlap = self._overlap(op)
        origin = _Origin.of(op, self._calls)
        return Collective(
            name=instruction.name,
            kind=op.kind,
            computation=instruction.computation.name,
            channel_id=read.channel_id,
            mode=None if read.mode is None else read.mode.value,
            groups=read.groups,
            group_size=group_size,
            num_groups=None if read.groups is None else len(read.groups),
            axes=None if axes is None else axes.axes,
            payload_bytes=payload_bytes,
            wire_bytes_per_device=moved.wire_bytes,
            element_type=element_type,
            dynamic_count=runs.times,
            loop_path=runs.loop_path,
            is_async=op.is_async,
            overlap_instructions=None if overlap is None else overlap.instructions,
            op_name=origin.op_name,
            source_file=origin.source_file,
            source_line=origin.source_line,
            source_target_pairs=read.pairs,
            axis_parts=None if axes is None else axes.parts,
            transfer=None if read.pairs is None else transfer_pattern(read.pairs, axes, meshes),
            steps=moved.steps,
            moves_nothing=moved == NOTHING,
            is_at_most=runs.is_at_most,
            overlap_flops=None if overlap is None else overlap.flops,
            overlap_bytes=None if overlap is None else overlap.size_bytes,
            is_host_transfer=read.is_host_transfer,
            crosses_slices=read.crosses_slices,
            performed_as="reduce-scatter" if is_scattered else read.slice_transfer,
            started_by=None if op.start.name == instruction.name else op.start.name,
            stack=origin.stack,
            near_op_name=origin.near_op_name,
            near_source=origin.near_source,
        )

    def _moved(self, read: _Read, payload_bytes: int | None) -> Moved:
        kind = read.op.kind
        if read.crosses_slices:
            return _across_slices(kind, payload_bytes)
        if read.is_host_transfer:
            return Moved(wire_bytes=0, steps=1)
        if kind in TRANSFERS:
            devices = None if self._partitions is None else self._partitions * self._replicas
            return moved_by_pairs(kind, payload_bytes, read.pairs, devices)
        if kind == CUSTOM_CALL:
            return UNKNOWN
        if is_scattered_at_once(read.op.instruction):
            kind = "reduce-scatter"
        return moved_by_groups(kind, payload_bytes, read.groups)

    def _axes_of(self, read: _Read, meshes: Sequence[ModuleMesh]) -> GroupAxes | None:
        """Return the axes of a collective; those of equal groups are found once."""
        if read.crosses_slices:
            return self._slice_axes(meshes)
        wanted = read.groups if read.pairs is None else read.pairs
        if wanted is None:
            return None
        key = (wanted, read.pairs is None)
        if key not in self._axes:
            find = axes_of_groups if read.pairs is None else axes_of_pairs
            nothing = all(len(set(group)) < 2 for group in wanted)
            self._axes[key] = NO_AXES if nothing else find(wanted, meshes)
        return self._axes[key]

    def _slice_axes(self, meshes: Sequence[ModuleMesh]) -> GroupAxes | None:
        """Return the axes along which slices differ: those of devices in the same place of each.

        The text is one slice's; the mesh is of all of them, the devices of each slice in a row.
        """
        devices = (self._partitions or 0) * self._replicas
        for mesh in meshes:
            if devices and mesh.mesh.size > devices and mesh.mesh.size % devices == 0:
                slices = tuple(range(0, mesh.mesh.size, devices))
                return axes_of_groups((slices,), (mesh,))
        return None

    def _overlap(self, op: CollectiveOp) -> Overlap | None:
        """Return what runs meanwhile; None where it is not known."""
        if not self._module.is_scheduled:
            return None
        if not op.is_async:
            return EXPOSED
        return None if op.done is None else self._overlaps.between(op.start, op.done)


def _across_slices(kind: str, payload_bytes: int | None) -> Moved:
    """Return what a transfer by the multi-slice runtime moves: its send all, its recv nothing."""
    return Moved(wire_bytes=0 if kind == "recv" else payload_bytes, steps=1)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where a collective comes from in the user's program."""

    op_name: str | None = None
    source_file: str | None = None
    source_line: int | None = None
    stack: tuple[str, ...] = ()
    near_op_name: str | None = None
    near_source: str | None = None

    @classmethod
    def of(cls, op: CollectiveOp, calls: CallCounts) -> _Origin:
        """Return what the metadata of the collective says, or of what starts it or fuses it."""
        metadata = op.instruction.metadata
        if metadata is None or not metadata.op_name:
            around = [op.start, *(s.caller for s in calls.sites(op.instruction.computation.name))]
            named = [i for i in around if i.opcode in ("fusion", "async-start")]
            metadata = next((i.metadata for i in named if i.metadata is not None), metadata)
        if metadata is None or not (metadata.op_name or metadata.stack_frame_id):
            near = _operand_with_path(op.start)
            path = None if near is None or near.metadata is None else near.metadata.op_name
            place = None if near is None else near.source_location
            return cls(near_op_name=path, near_source=None if place is None else str(place))
        module = op.instruction.computation.module
        location = module.source_location(metadata)
        return cls(
            op_name=metadata.op_name,
            source_file=None if location is None else location.file,
            source_line=None if location is None else location.line,
            stack=stack_of(module, metadata),
        )


def _operand_with_path(start: HloInstruction) -> HloInstruction | None:
    """Return what makes the first operand, past what has no operation path of its own; or None."""
    instruction: HloInstruction | None = start
    for _ in range(_STEPS):
        names = () if instruction is None else instruction.operand_names
        instruction = start.computation.instruction(names[0]) if names else None
        if instruction is not None and instruction.metadata and instruction.metadata.op_name:
            return instruction
    return None


def stack_of(module: HloModule, metadata: OpMetadata) -> tuple[str, ...]:
    """Return a call stack as text, innermost first: ``file:line (function)``."""
    frames = module.stack_frames.stack(metadata.stack_frame_id or 0)
    return tuple(
        f"{frame} ({frame.function})" if frame.function else str(frame) for frame in frames
    )


def instruction_of(module: HloModule, collective: Collective) -> HloInstruction | None:
    """Return the instruction that a collective was read from."""
    computation = module.computation(collective.computation) if collective.computation else None
    computation = computation or module.entry
    return computation.instruction(collective.name)
