"""Sums of counts and bytes over collectives in one run of the program, with their bounds.

Of collectives in branches that exclude each other those of the largest branch count
(`branch_sums`). A sum is an upper bound if branches differ, and a sum of bytes also if those of a
collective are an upper bound (`wire_bytes`).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS, is_collective_like
from hlo_lens.hlo.query import InstructionTable, evident_partitions
from hlo_lens.load.devices import device_assignment
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import Origins, origins
from hlo_lens.program.runs import Branches, CallCounts, SumBounds, SumPart, bounded_sum, call_counts
from hlo_lens.program.summary import instruction_table
from hlo_lens.program.trip_counts import TripCounts
from hlo_lens.questions.collectives.data_movement import DataMovement, data_movement
from hlo_lens.questions.collectives.operations import (
    CUSTOM_CALL,
    AttributeReader,
    CollectiveDevices,
    CollectiveOp,
    CollectiveParts,
    collective_ops,
    whole_operations,
)
from hlo_lens.questions.collectives.origin import (
    CollectiveOrigin,
    CollectiveOrigins,
    Member,
    shares,
)
from hlo_lens.questions.collectives.transfer import (
    EXPOSED,
    NOTHING,
    RAGGED,
    TRANSFERS,
    UNKNOWN,
    Moved,
    Overlap,
    Transfer,
    is_payload_at_most,
    is_scattered_at_once,
    moved_by_groups,
    moved_by_pairs,
    overlaps,
    payload,
)
from hlo_lens.questions.sharding.mesh_axes import (
    NO_AXES,
    GroupAxes,
    ModuleMesh,
    axes_between_slices,
    axes_of_groups,
    axes_of_pairs,
    module_meshes,
    transfer_pattern,
    with_slices,
)
from hlo_lens.render.result import Column, Result, Unit
from hlo_lens.shapes.replica_groups import CollectiveOpGroupMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.runs import Branches, SumBounds
    from hlo_lens.questions.sharding.mesh_axes import ModuleMesh
    from hlo_lens.shapes.replica_groups import Groups


COUNT, PAYLOAD, WIRE = "dynamic_count", "payload_bytes_per_run", "wire_bytes_per_run"
UNCOVERED = "uncovered_bytes_per_run"
"""Figures of one run."""


class RunFigures(Protocol):
    """Figures of a collective in one run, of a module or of a snapshot; None if not known.

    `branches` is None in snapshots of versions that did not save it.
    """

    @property
    def branches(self) -> Branches | None:
        """Branches around it, outermost first."""

    @property
    def is_at_most(self) -> bool:
        """Whether its count or its bytes are an upper bound."""

    @property
    def is_payload_at_most(self) -> bool:
        """Whether its bytes are an upper bound each time."""

    @property
    def dynamic_count(self) -> int | None:
        """Runs in one run of the program."""

    @property
    def payload_bytes_per_run(self) -> int | None:
        """Bytes of the full tensor of one group in one run."""

    @property
    def wire_bytes_per_run(self) -> int | None:
        """Bytes that leave each device in one run."""


def run_sum(rows: Iterable[RunFigures], figure: str) -> SumBounds | None:
    """Return the bounds of the sum of a figure of one run; None if a part is not known."""
    get = attrgetter(figure)
    parts = []
    for row in rows:
        amount: int | None = get(row)
        if amount is None:
            return None
        parts.append(_part(row, amount, figure))
    return bounded_sum(parts)


def known_sum(rows: Iterable[RunFigures], figure: str) -> SumBounds:
    """Return the bounds of the sum of the known parts of a figure of one run."""
    get = attrgetter(figure)
    return bounded_sum(_part(row, get(row) or 0, figure) for row in rows)


def _part(row: RunFigures, amount: int, figure: str) -> SumPart:
    branches = row.branches
    if branches is None:
        return SumPart((), amount, is_exact=not row.is_at_most)
    return SumPart(branches, amount, is_exact=figure == COUNT or not row.is_payload_at_most)


def parts_of(collective: Collective) -> tuple[Collective, ...]:
    """Return a collective for each operation of a combined one, with its part of the bytes.

    The first of the largest parts counts as the collective, the others count as none.
    """
    members = collective.members
    if not members:
        return (collective,)
    sizes = [member.payload_bytes or 0 for member in members]
    wire = collective.wire_bytes_per_device
    wires = [None] * len(sizes) if wire is None else shares(wire, sizes)
    largest = sizes.index(max(sizes))
    return tuple(
        collective._replace(
            source_file=member.source_file,
            source_line=member.source_line,
            op_name=member.op_name,
            origin_basis=member.origin_basis,
            payload_bytes=member.payload_bytes,
            wire_bytes_per_device=wires[position],
            stack=collective.member_stacks[position] if collective.member_stacks else (),
            static_count=int(position == largest),
            members=(),
            member_stacks=(),
        )
        for position, member in enumerate(members)
    )


UNKNOWN_TIMES = "x?"


class Collective(NamedTuple):
    """One collective operation; its fields are columns of `Collectives`.

    None means unknown, or that a kind has no such thing. `mode` is a `CollectiveOpGroupMode` value,
    `kind` one of `COLLECTIVE_KINDS` or ``custom-call``. `axes` are most major first, and () for
    groups of one device; parts of axes in `axis_parts` are written ``model:(2)2``. `dynamic_count`
    is the number of runs if all `branches` around it are taken (as in `branch_sums`), and None if
    the trip count of a loop around it is unknown. `is_at_most` marks a count or bytes that are an
    upper bound: in a branch, of a ragged-all-to-all, of dynamic shapes (`is_payload_at_most`).
    `overlap_instructions` and `covered_ratio` are None if the module is not scheduled or the end is
    not found; `covered_ratio` also if bytes or work are not known. `performed_as` is the kind where
    the printed opcode is another: an all-reduce fused with a slice (TPU), a send and recv between
    slices. `ended_by` is in the computation of the instruction that starts it. `row`,
    `start_row` and `end_row` are no columns: the rows, in the columns of the module, of the
    instruction, of the one that has its operands where it runs, and of its end.
    """

    name: str
    kind: str
    computation: str
    channel_id: int | None
    mode: str | None
    groups: Groups | None
    group_size: int | None
    num_groups: int | None
    payload_bytes: int | None
    element_type: str | None
    is_async: bool
    op_name: str | None
    source_file: str | None
    source_line: int | None
    axes: tuple[str, ...] | None = None
    wire_bytes_per_device: int | None = None
    static_count: int = 1
    dynamic_count: int | None = None
    loop_path: tuple[str, ...] = ()
    overlap_instructions: int | None = None
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
    ended_by: str | None = None
    stack: tuple[str, ...] = ()
    origin_basis: str | None = None
    argument: str | None = None
    members: tuple[Member, ...] = ()
    has_own_path: bool = False
    member_stacks: tuple[tuple[str, ...], ...] = ()
    branches: Branches = ()
    is_payload_at_most: bool = False
    covered_ratio: float | None = None
    row: int | None = None
    start_row: int | None = None
    end_row: int | None = None

    @property
    def is_exposed(self) -> bool | None:
        """Whether it moves bytes for longer than the work that overlaps it; None if unknown."""
        if self.moves_nothing or self.overlap_instructions is None:
            return False if self.moves_nothing else None
        if not self.overlap_instructions:
            return True
        return None if self.covered_ratio is None else self.covered_ratio < 1

    @property
    def uncovered_bytes_per_run(self) -> int | None:
        """Least bytes that leave each device in one run while no work runs; None if unknown."""
        size, ratio = self.wire_bytes_per_run, self.covered_ratio
        if size == 0 or self.is_exposed is None or size is None:
            return 0 if size == 0 else None
        return size - math.ceil(size * (ratio or 0.0))

    @property
    def axis(self) -> str:
        """The axes as text: ``data,model``; ``?`` if unknown, ``-`` for none.

        ``data?`` for groups that differ along the axis, but are no regular part of it.
        """
        if self.axes is None:
            return "?"
        if self.axis_parts is None:
            return f"{','.join(self.axes)}?"
        return ",".join(self.axis_parts) or "-"

    @property
    def source(self) -> str | None:
        """Source line that it comes from, ``file:line``."""
        if self.source_file is None:
            return None
        return f"{self.source_file}:{self.source_line}" if self.source_line else self.source_file

    @property
    def own_op_name(self) -> str | None:
        """Operation path, if it is not inferred."""
        return self.op_name if self.has_own_path else None

    @property
    def payload_bytes_per_run(self) -> int | None:
        """Bytes of the full tensor of one group in one run of the program; None if unknown."""
        return _scaled(self.payload_bytes, self.dynamic_count)

    @property
    def wire_bytes_per_run(self) -> int | None:
        """Bytes that leave each device in one run of the program; None if unknown."""
        return _scaled(self.wire_bytes_per_device, self.dynamic_count)


def _scaled(size: int | None, times: int | None) -> int | None:
    if size == 0 or times == 0:
        return 0
    return None if size is None or times is None else size * times


@dataclass(frozen=True, kw_only=True)
class Collectives(Result):
    """All collectives of a module, in text order.

    Attributes:
        collectives: Each logical operation once.
        clones: Number of further instructions that are parts of counted operations.
        unknown_opcodes: Opcodes not known to XLA of August 2026 that sound like collectives, and
            the count of each in the text; they are no collectives here.
        meshes: The meshes that axes are named by.
        trips: Trip counts of the loops.
        movement: Copies between the memories of device and host.
        is_scheduled: Whether overlap is known.
        is_complete: Whether the text has the whole entry; else figures of one run are not known.
    """

    KIND: ClassVar[str] = "collectives"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", Unit.NONE, "instruction that performs or starts it"),
        Column("kind", Unit.NONE, "all-reduce, all-gather, ..."),
        Column("computation", Unit.NONE, "computation of the instruction"),
        Column("channel_id", Unit.NONE, "channel; not unique"),
        Column("mode", Unit.NONE, "what the printed ids number"),
        Column("groups", Unit.NONE, "flattened ids of the devices of each group"),
        Column("group_size", Unit.COUNT, "devices in each group"),
        Column("num_groups", Unit.COUNT, "number of groups"),
        Column("axes", Unit.NONE, "mesh axes along which the devices of a group differ"),
        Column("payload_bytes", Unit.BYTES, "bytes of the full tensor of one group"),
        Column("wire_bytes_per_device", Unit.BYTES, "bytes that leave each device, each time"),
        Column("element_type", Unit.NONE, "element type of the payload"),
        Column("static_count", Unit.COUNT, "always 1"),
        Column("dynamic_count", Unit.COUNT, "runs per program run"),
        Column("loop_path", Unit.NONE, "enclosing loops"),
        Column("is_async", Unit.NONE, "whether other instructions may run at the same time"),
        Column("overlap_instructions", Unit.COUNT, "instructions whose work overlaps it"),
        Column("op_name", Unit.NONE, "scope path of the framework"),
        Column("source_file", Unit.NONE, "file of the user's program"),
        Column("source_line", Unit.NONE, "1-based line in it"),
        Column("source_target_pairs", Unit.NONE, "source and target of each transfer"),
        Column("axis_parts", Unit.NONE, "axes, or parts of them, that the groups are exactly"),
        Column("transfer", Unit.NONE, "pattern of source and target pairs"),
        Column("steps", Unit.COUNT, "rounds of the ring or chain"),
        Column("moves_nothing", Unit.NONE, "whether each group is one device"),
        Column("is_at_most", Unit.NONE, "whether count or bytes are an upper bound"),
        Column("overlap_flops", Unit.COUNT, "arithmetic of the overlapping instructions"),
        Column("overlap_bytes", Unit.BYTES, "bytes that they read and write"),
        Column("is_host_transfer", Unit.NONE, "whether it is between a device and its host"),
        Column("crosses_slices", Unit.NONE, "whether it goes to other slices"),
        Column("performed_as", Unit.NONE, "kind, where the printed opcode is another"),
        Column("started_by", Unit.NONE, "instruction that starts it, if another"),
        Column("ended_by", Unit.NONE, "instruction that ends it, if another"),
        Column("stack", Unit.NONE, "Python call stack, innermost first"),
        Column("origin_basis", Unit.NONE, "way that op_name and source line were found"),
        Column("argument", Unit.NONE, "argument that it moves, if that is all"),
        Column(
            "members", Unit.NONE, "parts of a combined one: file, line, op_name, basis, payload"
        ),
        Column("axis", Unit.NONE, "axes or parts of them as one text"),
        Column("source", Unit.NONE, "source_file:source_line"),
        Column("wire_bytes_per_run", Unit.BYTES, "bytes that leave each device in one run"),
        Column("branches", Unit.NONE, "branches of conditionals around it"),
        Column("is_payload_at_most", Unit.NONE, "whether its bytes are an upper bound each time"),
        Column("covered_ratio", Unit.RATIO, "largest share of the transfer that work covers"),
        Column("is_exposed", Unit.NONE, "whether the transfer lasts longer than that work"),
        Column("uncovered_bytes_per_run", Unit.BYTES, "bytes of one run that it cannot cover"),
    )
    RECORDS: ClassVar[str] = "collectives"
    collectives: tuple[Collective, ...]
    clones: int
    unknown_opcodes: tuple[tuple[str, int], ...]
    meshes: tuple[ModuleMesh, ...] = ()
    trips: TripCounts = field(default_factory=lambda: TripCounts(loops=()))
    movement: DataMovement = field(default_factory=lambda: DataMovement(copies=()))
    is_scheduled: bool = False
    is_complete: bool = True

    def static_counts(self) -> dict[str, int]:
        """Return the number of collectives of every kind, in the order of `COLLECTIVE_KINDS`."""
        counts = Counter(collective.kind for collective in self.collectives)
        return {kind: counts[kind] for kind in (*COLLECTIVE_KINDS, *self._custom())}

    def dynamic_bounds(self) -> dict[str, SumBounds | None]:
        """Return the bounds of the runs of every kind per program run; None if any is unknown."""
        return {
            kind: run_sum((c for c in self.collectives if c.kind == kind), COUNT)
            if self.is_complete
            else None
            for kind in (*COLLECTIVE_KINDS, *self._custom())
        }

    def dynamic_counts(self) -> dict[str, int | None]:
        """Return the most runs of every kind per program run; None if any is unknown."""
        bounds = self.dynamic_bounds()
        return {kind: None if one is None else one.most for kind, one in bounds.items()}

    def _custom(self) -> tuple[str, ...]:
        return (CUSTOM_CALL,) if any(c.kind == CUSTOM_CALL for c in self.collectives) else ()

    @property
    def wire_bounds(self) -> SumBounds | None:
        """Bounds of the bytes that leave each device in one run; None if any is unknown."""
        return run_sum(self.collectives, WIRE) if self.is_complete else None

    @property
    def known_runs(self) -> SumBounds:
        """Bounds of the runs of those collectives whose number is known."""
        return known_sum(self.collectives, COUNT)

    @property
    def known_uncovered_bytes(self) -> int:
        """Least bytes that leave each device in one run while no work runs, as far as known."""
        return known_sum(self.collectives, UNCOVERED).least

    @property
    def known_wire_bytes(self) -> SumBounds:
        """Bounds of the bytes that leave each device in one run, as far as known."""
        return known_sum(self.collectives, WIRE)

    @property
    def wire_bytes_per_device(self) -> int | None:
        """Most bytes that leave each device in one run of the program; None if any is unknown."""
        bounds = self.wire_bounds
        return None if bounds is None else bounds.most


def times_of(collective: Collective) -> str:
    """Return the runs of a collective per program run, as text."""
    return times_text(collective.dynamic_count, is_at_most=bool(collective.branches))


def times_text(times: int | None, *, is_at_most: bool) -> str:
    """Return a number of runs per program run, as text."""
    return UNKNOWN_TIMES if times is None else f"{'<=' if is_at_most else ''}{times:,}"


__all__ = ["Collective", "Collectives", "collectives", "end_of", "instruction_of"]


@fact
def collectives(module: ModuleDump) -> Collectives:
    """Return the collectives of a module, each logical operation once.

    The text from before optimizations is read only if there are collectives and nothing else names
    a mesh, or for the lines of combined collectives; the device assignment only where the mesh has
    more devices than the text, which is then of one slice.
    """
    table, calls = instruction_table(module), call_counts(module)

    def before() -> HloModule | None:
        return module.before

    ops, clones = collective_ops(table, calls)
    opcodes = table.opcode_counts
    context = _Context(table, calls, origins(module), before)
    every = [context.read(op) for op in ops]
    read = whole_operations(every)
    meshes: tuple[ModuleMesh, ...] = ()
    if read:
        different = {id(one.devices): one for one in read if one.op.kind not in TRANSFERS}
        groups = [g for one in different.values() if (g := one.devices.groups) is not None]
        given = module.given.mesh
        found = module_meshes(table.module, before, given, groups, lambda: module.lowered_meshes)
        meshes = with_slices(found, context.devices, lambda: device_assignment(module))
    sizes = [context.sizes(one) for one in read]
    overlap = context.overlaps(read, sizes)
    return Collectives(
        collectives=tuple(
            context.collective(one, meshes, size, overlap.get(number))
            for number, (one, size) in enumerate(zip(read, sizes, strict=True))
        ),
        clones=clones + len(every) - len(read),
        unknown_opcodes=tuple(
            sorted((opcode, opcodes[opcode]) for opcode in opcodes if is_collective_like(opcode))
        ),
        meshes=meshes,
        trips=calls.trips,
        movement=data_movement(table, calls, origins(module)),
        is_complete=table.module.has_whole_entry,
        is_scheduled=table.module.is_scheduled,
    )


class _Sizes(NamedTuple):
    """Bytes of one run of a collective; fields as in `Collective`."""

    group_size: int | None
    payload_bytes: int | None
    element_type: str | None
    moved: Moved
    is_at_most: bool

    @property
    def on_link(self) -> int | None:
        """Bytes that go over a link each time; of transfers from or to others the payload."""
        return self.moved.wire_bytes or (None if self.moved == NOTHING else self.payload_bytes)


class _Context:
    """Facts of a module that its collectives share."""

    def __init__(
        self,
        table: InstructionTable,
        calls: CallCounts,
        origins: Origins,
        before: Callable[[], HloModule | None] | None,
    ) -> None:
        self._module = table.module
        self._calls = calls
        self._replicas = table.module.replica_count
        self._partitions = evident_partitions(table)
        self._table = table
        self._origins = CollectiveOrigins(table.module, calls, origins, before)
        self._attributes = AttributeReader(table.module, self._partitions)
        self._sizes: dict[tuple[int, str, str, str], _Sizes] = {}
        self._made: dict[tuple[int, int, str, int], tuple[Collective, CollectiveOrigin]] = {}
        self._axes: dict[tuple[Groups, bool], GroupAxes | None] = {}

    @property
    def devices(self) -> int:
        """Number of devices of the text; 0 if unknown."""
        return (self._partitions or 0) * self._replicas

    def read(self, op: CollectiveOp) -> CollectiveParts:
        """Return the attributes of a collective from its text."""
        channel_id, printed = self._attributes.read(op.instruction, op.kind)
        return CollectiveParts(op, channel_id, printed, is_scattered_at_once(op.instruction))

    def collective(
        self,
        read: CollectiveParts,
        meshes: Sequence[ModuleMesh],
        sizes: _Sizes,
        overlap: Overlap | None,
    ) -> Collective:
        """Return one collective with all its fields."""
        op = read.op
        computation = op.instruction.computation
        runs = self._calls.at(computation.place)
        alike = self._alike(read, meshes, sizes)
        return alike._replace(
            name=op.instruction.name,
            computation=computation.name,
            channel_id=read.channel_id,
            dynamic_count=runs.times,
            loop_path=runs.loop_path,
            is_async=op.is_async,
            overlap_instructions=None if overlap is None else overlap.instructions,
            is_at_most=runs.is_at_most or alike.is_payload_at_most,
            branches=runs.branches,
            overlap_flops=None if overlap is None else overlap.flops,
            overlap_bytes=None if overlap is None else overlap.size_bytes,
            covered_ratio=None if overlap is None else overlap.covered_ratio,
            started_by=op.started_by,
            ended_by=None if op.done is None else op.done.name,
            row=op.instruction.row,
            start_row=op.sender.row,
            end_row=op.instruction.row if op.done is None else op.done.row,
        )

    def _alike(
        self, read: CollectiveParts, meshes: Sequence[ModuleMesh], sizes: _Sizes
    ) -> Collective:
        """Return a collective with the fields that many have in common, and others empty."""
        origin = self._origins.of(read.op, read.printed, sizes.payload_bytes)
        key = (id(read.devices), id(sizes), read.kind, id(origin))
        found, _ = self._made.get(key, (None, None))
        if found is None:
            found = Collective(
                name="",
                computation="",
                channel_id=None,
                is_async=read.op.is_async,
                **self._fields(read, meshes, sizes),
                **origin._asdict(),
            )
            self._made[key] = found, origin  # kept, so that no other has its number
        return found

    def _fields(
        self, read: CollectiveParts, meshes: Sequence[ModuleMesh], sizes: _Sizes
    ) -> dict[str, Any]:
        """Return the fields of a collective that all with its attributes and sizes share."""
        devices = read.devices
        axes = self._axes_of(devices, meshes)
        return {
            "kind": read.kind,
            "mode": None if devices.mode is None else devices.mode.value,
            "groups": devices.groups,
            "group_size": sizes.group_size,
            "num_groups": None if devices.groups is None else len(devices.groups),
            "axes": None if axes is None else axes.axes,
            "payload_bytes": sizes.payload_bytes,
            "wire_bytes_per_device": sizes.moved.wire_bytes,
            "element_type": sizes.element_type,
            "source_target_pairs": devices.pairs,
            "axis_parts": None if axes is None else axes.parts,
            "transfer": None
            if devices.pairs is None
            else transfer_pattern(devices.pairs, axes, meshes),
            "steps": sizes.moved.steps,
            "moves_nothing": sizes.moved == NOTHING,
            "is_payload_at_most": sizes.is_at_most,
            "is_host_transfer": devices.is_host_transfer,
            "crosses_slices": devices.crosses_slices,
            "performed_as": devices.slice_transfer
            or (read.kind if read.kind != read.op.kind else None),
        }

    def sizes(self, read: CollectiveParts) -> _Sizes:
        """Return the bytes of one run of a collective; one object for all that are alike."""
        op = read.op
        is_single = read.answer is None and read.shift is None
        if not is_single or op.kind in (RAGGED, "send", "recv"):
            return self._sizes_of(read)  # depends on the shape of an operand, or of others
        instruction = op.instruction
        key = (id(read.devices), read.kind, instruction.opcode, instruction.shape_text)
        if key not in self._sizes:
            self._sizes[key] = self._sizes_of(read)
        return self._sizes[key]

    def _sizes_of(self, read: CollectiveParts) -> _Sizes:
        op, groups = read.op, read.devices.groups
        counts = {len(group) for group in groups} if groups else set()
        group_size = next(iter(counts)) if len(counts) == 1 else None
        size, element_type = payload(op.instruction, op.kind, group_size)
        moved = self._moved(read, size)
        if read.answer is not None:  # a part goes there or comes back, the whole the other way
            received, _ = payload(read.answer.instruction, read.answer.kind, None)
            size = None if size is None or received is None else max(size, received)
        for one in read.further:
            moved = moved.beside(
                self._moved(one, payload(one.op.instruction, one.op.kind, None)[0])
            )
        if read.shift is not None:
            size = _unpadded_bytes(op.instruction) or size
            shifted = read.shift.op
            extra = self._moved(read.shift, payload(shifted.instruction, shifted.kind, None)[0])
            moved = moved.and_then(extra)
        is_at_most = is_payload_at_most(op.instruction, read.kind)
        return _Sizes(group_size, size, element_type, moved, is_at_most)

    def _moved(self, read: CollectiveParts, payload_bytes: int | None) -> Moved:
        kind = read.op.kind
        if read.devices.crosses_slices:
            return Moved(wire_bytes=0 if kind == "recv" else payload_bytes, steps=1)
        if read.devices.is_host_transfer:
            return Moved(wire_bytes=0, steps=1)
        if kind in TRANSFERS:
            partitions = self._partitions
            if partitions is None and read.devices.mode is CollectiveOpGroupMode.CROSS_REPLICA:
                partitions = 1  # the share of the replicas that send is that of all devices
            devices = None if partitions is None else partitions * self._replicas
            return moved_by_pairs(kind, payload_bytes, read.devices.pairs, devices)
        if kind == CUSTOM_CALL:
            return UNKNOWN
        return moved_by_groups(read.kind, payload_bytes, read.devices.groups)

    def _axes_of(self, read: CollectiveDevices, meshes: Sequence[ModuleMesh]) -> GroupAxes | None:
        """Return the axes of a collective; computed once for equal groups."""
        if read.crosses_slices:
            return axes_between_slices(meshes)
        wanted = read.groups if read.pairs is None else read.pairs
        if wanted is None:
            return None
        key = (wanted, read.pairs is None)
        if key not in self._axes:
            find = axes_of_groups if read.pairs is None else axes_of_pairs
            nothing = all(len(set(group)) < 2 for group in wanted)
            self._axes[key] = NO_AXES if nothing else find(wanted, meshes)
        return self._axes[key]

    def overlaps(
        self, listed: Sequence[CollectiveParts], sizes: Sequence[_Sizes]
    ) -> dict[int, Overlap]:
        """Return the overlaps of collectives by position, as far as they are known."""
        if not self._module.is_scheduled:
            return {}
        transfers = {
            number: Transfer(
                start=one.op.sender, done=one.op.done, size_bytes=size.on_link, link=one.link
            )
            for number, (one, size) in enumerate(zip(listed, sizes, strict=True))
            if one.op.done is not None
        }
        sync = {number: EXPOSED for number, one in enumerate(listed) if not one.op.is_async}
        return sync | overlaps(self._table, self._calls, transfers)


def _unpadded_bytes(instruction: HloInstruction) -> int | None:
    """Return the bytes of the operands of a reduction before they are padded; None if unknown."""
    total = 0
    for name in instruction.operand_names:
        operand = instruction.computation.instruction(name)
        is_padded = operand is not None and operand.opcode == "pad"
        shape = (
            None if operand is None else operand.operand_shape(0) if is_padded else operand.shape
        )
        if shape is None or shape.size_bytes is None:
            return None
        total += shape.size_bytes
    return total or None


def instruction_of(module: HloModule, collective: Collective) -> HloInstruction | None:
    """Return the instruction of a collective of a module."""
    return None if collective.row is None else module.instruction(collective.row)


def end_of(module: HloModule, collective: Collective) -> HloInstruction | None:
    """Return the instruction with the collective's result; by default that of `instruction_of`."""
    return None if collective.end_row is None else module.instruction(collective.end_row)
