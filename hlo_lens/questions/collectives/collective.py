"""Collectives of a program: each logical operation once, with groups, bytes, counts and overlap.

Groups are of flattened ids, replica * num_partitions + partition, of devices that exchange data
with one another; for collective-permute, send and recv, of devices that their transfers connect.

An all-reduce that TPU's compiler fused with the slice that each device keeps is a reduce-scatter. A
send to other slices and the recv of its answer are one operation, of the kind that the multi-slice
runtime performs with them (``_xla_megascale_transfer_type``).

Where the header prints no num_partitions, as before 2024, it is taken from the shardings of the
entry's parameters; without them, groups whose size depends on it are unknown.

Source: collective_op_group_mode.cc, as of August 2026.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS, is_collective_like
from hlo_lens.hlo.query import InstructionTable, evident_partitions
from hlo_lens.load.devices import device_assignment
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import origins
from hlo_lens.program.runs import CallCounts, SumBounds, SumPart, bounded_sum, call_counts
from hlo_lens.program.signature import moved_arguments
from hlo_lens.program.summary import instruction_table
from hlo_lens.program.trip_counts import TripCounts
from hlo_lens.questions.collectives.operations import (
    CUSTOM_CALL,
    CollectiveDevices,
    CollectiveParts,
    collective_ops,
    read_collectives,
    whole_operations,
    with_rings_joined,
)
from hlo_lens.questions.collectives.origin import (
    CollectiveOrigin,
    CollectiveOrigins,
    Member,
    shares,
)
from hlo_lens.questions.collectives.transfer import (
    EXPOSED,
    NOT_KNOWN,
    RAGGED,
    TRANSFERS,
    DataMovement,
    Overlap,
    Transfer,
    data_movement,
    is_payload_at_most,
    overlaps,
    payload,
    wire_bytes_of_groups,
    wire_bytes_of_pairs,
)
from hlo_lens.questions.sharding.mesh_axes import (
    NO_AXES,
    GroupAxes,
    ModuleMesh,
    axes_between_slices,
    axes_of_groups,
    axes_of_pairs,
    module_meshes,
    with_slices,
)
from hlo_lens.render.result import NOT_SAVED, Records, Unit, sum_of
from hlo_lens.shapes.replica_groups import CollectiveOpGroupMode
from hlo_lens.text.names import digest
from hlo_lens.text.units import Amount, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump

COUNT, PAYLOAD, WIRE = "dynamic_count", "payload_bytes_per_run", "wire_bytes_per_run"
UNCOVERED = "uncovered_bytes_per_run"
"""Figures of one run."""

UNKNOWN_TIMES = "x?"

RING = "collective-permute"
"""How a product with its all-gather or reduce-scatter in steps is performed."""


def _of_text(default: Any = None) -> Any:
    return field(default=default, compare=False, repr=False, metadata=NOT_SAVED)


@dataclass(slots=True, kw_only=True, unsafe_hash=True)  # frozen, 20,000 take three times as long
class Collective:
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
    slices; ``collective-permute`` for a product in steps around a ring (`with_rings_joined`), whose
    counts and loops are those of the whole ring. `ended_by` is in the computation of the
    instruction that starts it. Of the fields without a column, `devices` is a digest of the groups,
    or of sources and targets; `are_axes_named` is false for inferred axes (``axis_0``); `loops` has
    operation path and trip count of the enclosing loops, outermost first; `start_row` is the row of
    the instruction that has the operands where it runs.
    """

    name: Annotated[str, "instruction that performs or starts it"] = _of_text("")
    kind: Annotated[str, "all-reduce, all-gather, ..."]
    computation: Annotated[str, "computation that performs it"] = _of_text("")
    channel_id: Annotated[int | None, "channel; not unique"] = _of_text()
    mode: Annotated[str | None, "what the printed ids number"] = _of_text()
    groups: Annotated[tuple[tuple[int, ...], ...] | None, "device ids of each group"] = _of_text()
    group_size: Annotated[int | None, Unit.COUNT, "devices in each group"] = None
    num_groups: Annotated[int | None, Unit.COUNT, "number of groups"] = None
    axes: Annotated[tuple[str, ...] | None, "mesh axes along which a group differs"] = None
    payload_bytes: Annotated[int | None, Unit.BYTES, "bytes of the full tensor of one group"] = None
    wire_bytes_per_device: Annotated[int | None, Unit.BYTES, "bytes that leave each device"] = None
    element_type: Annotated[str | None, "element type of the payload"] = None
    static_count: Annotated[int, Unit.COUNT, "always 1"] = _of_text(1)
    dynamic_count: Annotated[int | None, Unit.COUNT, "runs per program run"] = None
    loop_path: Annotated[tuple[str, ...], "enclosing loops"] = _of_text(())
    is_async: Annotated[bool, "whether other instructions may run at the same time"]
    overlap_instructions: Annotated[int | None, Unit.COUNT, "instructions that overlap it"] = None
    op_name: Annotated[str | None, "scope path of the framework"] = None
    source_file: Annotated[str | None, "file of the user's program"] = None
    source_line: Annotated[int | None, "1-based line in it"] = None
    source_target_pairs: Annotated[tuple[tuple[int, ...], ...] | None, "source, target"] = (
        _of_text()
    )
    axis_parts: Annotated[tuple[str, ...] | None, "axes or parts that groups are exactly"] = None
    moves_nothing: Annotated[bool, "whether each group is one device"] = False
    is_at_most: Annotated[bool, "whether count or bytes are an upper bound"] = False
    overlap_flops: Annotated[int | None, Unit.COUNT, "arithmetic of these instructions"] = None
    overlap_bytes: Annotated[int | None, Unit.BYTES, "bytes that they read and write"] = None
    is_host_transfer: Annotated[bool, "whether it is between device and host"] = _of_text(False)
    crosses_slices: Annotated[bool, "whether it goes to other slices"] = False
    performed_as: Annotated[str | None, "kind, where the printed opcode is another"] = None
    started_by: Annotated[str | None, "instruction that starts it, if another"] = _of_text()
    ended_by: Annotated[str | None, "instruction that ends it, if another"] = _of_text()
    stack: Annotated[tuple[str, ...], "Python call stack, innermost first"] = _of_text(())
    origin_basis: Annotated[str | None, "way that op_name and source line were found"] = None
    argument: Annotated[str | None, "argument that it moves, if that is all"] = _of_text()
    parameters: Annotated[tuple[str, ...], "arguments whose bytes it moves"] = _of_text(())
    members: Annotated[tuple[Member, ...], "operations that it combines"] = _of_text(())
    branches: Annotated[tuple[str, ...], "branches of conditionals around it"] = ()
    is_payload_at_most: Annotated[bool, "whether its bytes are an upper bound each time"] = False
    covered_ratio: Annotated[float | None, Unit.RATIO, "share that work covers, at most"] = None
    devices: str | None = None
    are_axes_named: bool = False
    loops: tuple[str, ...] = ()
    has_own_path: bool = _of_text(False)
    member_stacks: tuple[tuple[str, ...], ...] = _of_text(())
    row: int | None = _of_text()
    start_row: int | None = _of_text()
    end_row: int | None = _of_text()

    @property
    def axis(self) -> Annotated[str, "axes or parts of them as one text"]:
        """The axes as text: ``data,model``; ``?`` if unknown, ``-`` for none.

        ``data?`` for groups that differ along the axis, but are no regular part of it.
        """
        if self.axes is None:
            return "?"
        if self.axis_parts is None:
            return f"{','.join(self.axes)}?"
        return ",".join(self.axis_parts) or "-"

    @property
    def source(self) -> Annotated[str | None, "source_file:source_line"]:
        if self.source_file is None:
            return None
        return f"{self.source_file}:{self.source_line}" if self.source_line else self.source_file

    @property
    def wire_bytes_per_run(self) -> Annotated[int | None, Unit.BYTES, "bytes sent in one run"]:
        return _scaled(self.wire_bytes_per_device, self.dynamic_count)

    @property
    def is_exposed(self) -> Annotated[bool | None, "whether it lasts longer than that work"]:
        if self.moves_nothing or self.overlap_instructions is None:
            return False if self.moves_nothing else None
        if not self.overlap_instructions:
            return True
        return None if self.covered_ratio is None else self.covered_ratio < 1

    @property
    def uncovered_bytes_per_run(self) -> Annotated[int | None, Unit.BYTES, "bytes not covered"]:
        """Least bytes that leave each device in one run while no work runs; None if unknown."""
        size, ratio = self.wire_bytes_per_run, self.covered_ratio
        if size == 0 or self.is_exposed is None or size is None:
            return 0 if size == 0 else None
        return size - math.ceil(size * (ratio or 0.0))

    @property
    def payload_bytes_per_run(self) -> int | None:
        return _scaled(self.payload_bytes, self.dynamic_count)

    @property
    def times(self) -> str:
        return times_text(self.dynamic_count, is_at_most=bool(self.branches))

    @property
    def own_op_name(self) -> str | None:
        return self.op_name if self.has_own_path else None

    @property
    def parts(self) -> tuple[Collective, ...]:
        """A collective for each operation of a combined one, with its part of the bytes.

        The first of the largest parts counts as the collective, the others count as none.
        """
        if not self.members:
            return (self,)
        sizes = [member.payload_bytes or 0 for member in self.members]
        wire = self.wire_bytes_per_device
        wires = [None] * len(sizes) if wire is None else shares(wire, sizes)
        largest = sizes.index(max(sizes))
        return tuple(
            replace(
                self,
                **member._asdict(),
                wire_bytes_per_device=wires[position],
                stack=self.member_stacks[position] if self.member_stacks else (),
                static_count=int(position == largest),
                members=(),
                member_stacks=(),
            )
            for position, member in enumerate(self.members)
        )


def _scaled(size: int | None, times: int | None) -> int | None:
    if size == 0 or times == 0:
        return 0
    return None if size is None or times is None else size * times


_PART_OF_AXIS = re.compile(r"(\w+):\(\d+\)(\d+)")


def axis_text(axis: str) -> str:
    """Return mesh axes with XLA's name of a part of one, ``fsdp:(1)2``, in words.

    >>> axis_text("fsdp:(1)2")
    'groups of 2 along fsdp'
    """
    return _PART_OF_AXIS.sub(r"groups of \2 along \1", axis)


def times_text(times: int | None, *, is_at_most: bool) -> str:
    """Return a number of runs per program run, as text."""
    kind = Kind.AT_MOST if is_at_most else Kind.EXACT
    return UNKNOWN_TIMES if times is None else str(Amount(times, kind))


def run_sum(rows: Iterable[Collective], figure: str) -> SumBounds | None:
    """Return the bounds of the sum of a figure of one run; None if a part is not known.

    Of collectives in branches that exclude each other those of the largest branch count
    (`branch_sums`). A sum is an upper bound if branches differ, and a sum of bytes also if those of
    a collective are an upper bound.
    """
    get = attrgetter(figure)
    listed = list(rows)
    return None if any(get(row) is None for row in listed) else known_sum(listed, figure)


def known_sum(rows: Iterable[Collective], figure: str) -> SumBounds:
    """Return the bounds of the sum of the known parts of a figure of one run."""
    get = attrgetter(figure)
    return bounded_sum(
        SumPart(row.branches, get(row) or 0, is_exact=figure == COUNT or not row.is_payload_at_most)
        for row in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSizes:
    """Sizes of the axes of a mesh, most major first, and their source; ``inferred`` if made up."""

    axes: Mapping[str, int]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTrips:
    """A loop, without names of instructions; `trip_source` is ``printed`` or ``derived``."""

    op_name: str | None
    trip_count: int | None
    trip_source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTotals:
    """Figures of the collectives of a module by kind, of one run unless `static`.

    None if a trip count is not known. `unknown_opcodes` are named like collectives, and not
    counted; `loops` has the loops of the program in the order of the text.
    """

    static: Mapping[str, int]
    dynamic: Mapping[str, int | None]
    wire_bytes_per_device: int | None
    rows: tuple[Collective, ...] = ()
    unknown_opcodes: Mapping[str, int] = field(default_factory=dict)
    mesh: MeshSizes | None = None
    meshes: tuple[MeshSizes, ...] = ()
    loops: tuple[LoopTrips, ...] = ()
    dynamic_is_at_most: Mapping[str, bool] = field(default_factory=dict)
    wire_bytes_is_at_most: bool = False


@dataclass(frozen=True, kw_only=True)
class Collectives(Records[Collective]):
    """All collectives of a module, in text order.

    Attributes:
        collectives: Each logical operation once.
        clones: Number of further instructions that are parts of counted operations.
        unknown_opcodes: Opcodes not known to XLA of August 2026 that sound like collectives, and
            the count of each in the text; they are no collectives here.
        is_scheduled: Whether overlap is known.
        is_complete: Whether the text has the whole entry; else figures of one run are not known.
    """

    KIND: ClassVar[str] = "collectives"
    collectives: tuple[Collective, ...]
    clones: int
    unknown_opcodes: tuple[tuple[str, int], ...]
    meshes: tuple[ModuleMesh, ...] = ()
    trips: TripCounts = field(default_factory=lambda: TripCounts(loops=()))
    movement: DataMovement = field(default_factory=lambda: DataMovement(copies=()))
    is_scheduled: bool = False
    is_complete: bool = True

    def static_counts(self) -> dict[str, int]:
        counts = Counter(collective.kind for collective in self.collectives)
        custom = (CUSTOM_CALL,) if CUSTOM_CALL in counts else ()
        return {kind: counts[kind] for kind in (*COLLECTIVE_KINDS, *custom)}

    def dynamic_bounds(self) -> dict[str, SumBounds | None]:
        """Return the bounds of the runs of every kind per program run; None if any is unknown."""
        rows: dict[str, list[Collective]] = {kind: [] for kind in self.static_counts()}
        for collective in self.collectives:
            rows[collective.kind].append(collective)
        return {
            kind: run_sum(listed, COUNT) if self.is_complete else None
            for kind, listed in rows.items()
        }

    @property
    def wire_bounds(self) -> SumBounds | None:
        """Bounds of the bytes that leave each device in one run; None if any is unknown."""
        return run_sum(self.collectives, WIRE) if self.is_complete else None

    @property
    def wire_bytes_per_device(self) -> int | None:
        """Most bytes that leave each device in one run of the program; None if any is unknown."""
        bounds = self.wire_bounds
        return None if bounds is None else bounds.most

    @property
    def known_wire_bytes(self) -> SumBounds:
        """Bounds of the bytes that leave each device in one run, as far as known."""
        return known_sum(self.collectives, WIRE)

    @property
    def figures(self) -> CollectiveTotals:
        """The figures of reports and rules, without rows and loops."""
        meshes = tuple(MeshSizes(axes=mesh.mesh.sizes, source=mesh.source) for mesh in self.meshes)
        runs, wire = self.dynamic_bounds(), self.wire_bounds
        return CollectiveTotals(
            static=self.static_counts(),
            dynamic={kind: None if b is None else b.most for kind, b in runs.items()},
            wire_bytes_per_device=None if wire is None else wire.most,
            dynamic_is_at_most={k: b is not None and b.is_at_most for k, b in runs.items()},
            wire_bytes_is_at_most=wire is not None and wire.is_at_most,
            unknown_opcodes=dict(self.unknown_opcodes),
            mesh=meshes[0] if meshes else None,
            meshes=meshes,
        )


@fact
def collectives(module: ModuleDump) -> Collectives:
    """Return the collectives of a module, each logical operation once.

    The text from before optimizations is read only if there are collectives and nothing else names
    a mesh; the device assignment only where the mesh has more devices than the text, which is then
    of one slice.
    """
    table, calls = instruction_table(module), call_counts(module)
    partitions, opcodes = evident_partitions(table), table.opcode_counts
    ops, clones = collective_ops(table, calls)
    every = read_collectives(table.module, ops, partitions)
    listed = with_rings_joined(table.module, whole_operations(every))
    meshes = _meshes(module, listed, (partitions or 0) * table.module.replica_count)
    maker = _Maker(module, meshes, partitions)
    sizes = [maker.sizes(parts) for parts in listed]
    overlap = _overlaps(table, calls, listed, sizes)
    return Collectives(
        collectives=tuple(
            maker.collective(parts, size, overlap.get(number, NOT_KNOWN))
            for number, (parts, size) in enumerate(zip(listed, sizes, strict=True))
        ),
        clones=clones + len(every) - len(listed),
        unknown_opcodes=tuple(sorted((o, n) for o, n in opcodes.items() if is_collective_like(o))),
        meshes=meshes,
        trips=calls.trips,
        movement=data_movement(table, calls, origins(module)),
        is_complete=table.module.has_whole_entry,
        is_scheduled=table.module.is_scheduled,
    )


def _meshes(
    module: ModuleDump, listed: Sequence[CollectiveParts], devices: int
) -> tuple[ModuleMesh, ...]:
    """Return the meshes that name the axes of some collectives; `devices` is 0 if unknown."""
    if not listed:
        return ()
    different = {id(parts.devices): parts for parts in listed if parts.op.kind not in TRANSFERS}
    groups = [g for parts in different.values() if (g := parts.devices.groups) is not None]
    found = module_meshes(
        instruction_table(module).module,
        lambda: module.before,
        module.given.mesh,
        groups,
        lambda: module.lowered_meshes,
    )
    return with_slices(found, devices, lambda: device_assignment(module))


def _overlaps(
    table: InstructionTable,
    calls: CallCounts,
    listed: Sequence[CollectiveParts],
    sizes: Sequence[_Sizes],
) -> dict[int, Overlap]:
    if not table.module.is_scheduled:
        return {}
    found: dict[int, Overlap] = {}
    transfers: dict[int, Transfer] = {}
    for number, (parts, size) in enumerate(zip(listed, sizes, strict=True)):
        op = parts.op
        if parts.ring:  # of steps, each beside a product
            continue
        if not op.is_async:
            found[number] = EXPOSED
        if op.done is not None:  # transfers from or to others send the payload
            payload_bytes = None if parts.devices.moves_nothing else size.payload_bytes
            on_link = size.wire_bytes_per_device or payload_bytes
            transfers[number] = Transfer(op.sender, op.done, on_link, parts.link)
    return found | overlaps(table, calls, transfers)


class _Sizes(NamedTuple):
    """Bytes of one run of a collective; fields as in `Collective`."""

    group_size: int | None
    payload_bytes: int | None
    element_type: str | None
    wire_bytes_per_device: int | None
    is_payload_at_most: bool


class _Maker:
    """Makes the records of a module's collectives; what many have in common once."""

    def __init__(
        self, module: ModuleDump, meshes: Sequence[ModuleMesh], partitions: int | None
    ) -> None:
        self._calls = call_counts(module)
        self._module = instruction_table(module).module
        self._partitions = partitions
        self._meshes = meshes
        self._named = {a for mesh in meshes if mesh.source != "inferred" for a in mesh.mesh.sizes}
        self._origins = CollectiveOrigins(self._module, self._calls, origins(module))
        self._labels = loop_labels(self._module, self._calls.trips)
        self._arguments = moved_arguments(module)
        self._loops: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._sizes: dict[tuple[int, str, str, str], _Sizes] = {}
        self._common: dict[tuple[object, ...], tuple[dict[str, Any], CollectiveOrigin]] = {}
        self._of_devices: dict[int, dict[str, Any]] = {}

    def collective(self, parts: CollectiveParts, sizes: _Sizes, overlap: Overlap) -> Collective:
        op = parts.op
        computation = op.instruction.computation
        if parts.home is not None:
            computation = self._module.computations[parts.home]
        runs = self._calls.at(computation.place)
        if runs.loop_path not in self._loops:
            labels = (self._labels.get(name, UNKNOWN_TIMES) for name in runs.loop_path)
            self._loops[runs.loop_path] = tuple(labels)
        return Collective(
            name=op.instruction.name,
            computation=computation.name,
            channel_id=parts.channel_id,
            dynamic_count=runs.times,
            loop_path=runs.loop_path,
            loops=self._loops[runs.loop_path],
            is_async=op.is_async,
            is_at_most=runs.is_at_most or sizes.is_payload_at_most,
            branches=runs.branches,
            overlap_instructions=overlap.instructions,
            overlap_flops=overlap.flops,
            overlap_bytes=overlap.size_bytes,
            covered_ratio=overlap.covered_ratio,
            started_by=op.started_by,
            ended_by=None if op.done is None else op.done.name,
            row=op.instruction.row,
            start_row=op.sender.row,
            parameters=self._parameters(parts),
            end_row=op.instruction.row if op.done is None else op.done.row,
            **self._fields(parts, sizes),
        )

    def _parameters(self, parts: CollectiveParts) -> tuple[str, ...]:
        if not parts.ring:
            return self._arguments.get(parts.op.instruction.row, ())
        moved = (self._arguments.get(step.op.instruction.row, ()) for step in parts.ring)
        return tuple(dict.fromkeys(name for names in moved for name in names))

    def _fields(self, parts: CollectiveParts, sizes: _Sizes) -> dict[str, Any]:
        origin = self._origins.of(parts.op, parts.text, sizes.payload_bytes)
        devices = parts.devices
        key = (id(devices), id(sizes), parts.kind, id(origin))
        if key not in self._common:  # the origin is kept, so that no other has its number
            fields = {
                **self._device_fields(devices),
                **origin._asdict(),
                **sizes._asdict(),
                "kind": parts.kind,
                "moves_nothing": devices.moves_nothing,
                "performed_as": _performed_as(parts),
            }
            self._common[key] = fields, origin
        return self._common[key][0]

    def _device_fields(self, devices: CollectiveDevices) -> dict[str, Any]:
        if id(devices) not in self._of_devices:
            groups, pairs = devices.groups, devices.pairs
            axes = self._axes_of(devices)
            ids = groups if pairs is None else tuple(sorted(pairs))  # their order means nothing
            self._of_devices[id(devices)] = {
                "mode": None if devices.mode is None else devices.mode.value,
                "groups": groups,
                "num_groups": None if groups is None else len(groups),
                "axes": None if axes is None else axes.axes,
                "axis_parts": None if axes is None else axes.parts,
                "are_axes_named": axes is not None and self._named.issuperset(axes.axes),
                "devices": None if ids is None else digest(repr(ids)),
                "source_target_pairs": pairs,
                "is_host_transfer": devices.is_host_transfer,
                "crosses_slices": devices.crosses_slices,
            }
        return self._of_devices[id(devices)]

    def _axes_of(self, devices: CollectiveDevices) -> GroupAxes | None:
        if devices.crosses_slices:
            return axes_between_slices(self._meshes)
        ids = devices.groups if devices.pairs is None else devices.pairs
        if ids is None:
            return None
        if devices.moves_nothing:
            return NO_AXES
        return (axes_of_groups if devices.pairs is None else axes_of_pairs)(ids, self._meshes)

    def sizes(self, parts: CollectiveParts) -> _Sizes:
        if parts.ring:
            return self._ring_sizes(parts)
        is_single = parts.answer is None and parts.shift is None
        if not is_single or parts.op.kind in (RAGGED, "send", "recv"):
            return self._sizes_of(parts)  # depends on the shape of an operand, or of others
        instruction = parts.op.instruction
        key = (id(parts.devices), parts.kind, instruction.opcode, instruction.shape_text)
        if key not in self._sizes:
            self._sizes[key] = self._sizes_of(parts)
        return self._sizes[key]

    def _ring_sizes(self, parts: CollectiveParts) -> _Sizes:
        """Return the bytes of a ring of permutes; the parts of the devices are the full tensor."""
        times = self._calls.at(parts.home or 0).times
        sizes = [self.sizes(step) for step in parts.ring]
        wires: list[int | None] = []
        for step, size in zip(parts.ring, sizes, strict=True):
            runs = self._calls.at(step.op.instruction.computation.place).times
            each = None if not times or runs is None else runs // times
            wires.append(_scaled(size.wire_bytes_per_device, each))
        largest = max(sizes, key=lambda size: size.payload_bytes or 0)
        group_size = largest.group_size
        payload_bytes = _scaled(largest.payload_bytes, group_size)
        return largest._replace(payload_bytes=payload_bytes, wire_bytes_per_device=sum_of(wires))

    def _sizes_of(self, parts: CollectiveParts) -> _Sizes:
        instruction, groups = parts.op.instruction, parts.devices.groups
        counts = {len(group) for group in groups} if groups else set()
        group_size = next(iter(counts)) if len(counts) == 1 else None
        size, element_type = payload(instruction, parts.op.kind, group_size)
        wires = [self._wire_bytes(parts, size)]
        if parts.answer is not None:  # a part goes there or comes back, the whole the other way
            received, _ = payload(parts.answer.instruction, parts.answer.kind, None)
            size = None if size is None or received is None else max(size, received)
        if parts.shift is not None:
            size = _unpadded_bytes(instruction) or size
        for more in (*parts.further, *([parts.shift] if parts.shift else [])):
            extra, _ = payload(more.op.instruction, more.op.kind, None)
            wires.append(self._wire_bytes(more, extra))
        is_at_most = is_payload_at_most(instruction, parts.kind)
        return _Sizes(group_size, size, element_type, sum_of(wires), is_at_most)

    def _wire_bytes(self, parts: CollectiveParts, size: int | None) -> int | None:
        kind, devices = parts.op.kind, parts.devices
        if devices.crosses_slices:
            return 0 if kind == "recv" else size
        if devices.is_host_transfer:
            return 0
        if kind in TRANSFERS:
            partitions = self._partitions
            if partitions is None and devices.mode is CollectiveOpGroupMode.CROSS_REPLICA:
                partitions = 1  # the share of the replicas that send is that of all devices
            count = None if partitions is None else partitions * self._module.replica_count
            return wire_bytes_of_pairs(kind, size, devices.pairs, count)
        return wire_bytes_of_groups(parts.kind, size, devices.groups)


def _performed_as(parts: CollectiveParts) -> str | None:
    if parts.ring or parts.kind == parts.op.kind:
        return RING if parts.ring else parts.devices.slice_transfer
    return parts.devices.slice_transfer or parts.kind


def _unpadded_bytes(instruction: HloInstruction) -> int | None:
    """Return the bytes of the operands of a reduction before they are padded; None if unknown."""
    sizes: list[int | None] = []
    for name in instruction.operand_names:
        operand = instruction.computation.instruction(name)
        shape = None if operand is None else operand.shape
        if operand is not None and operand.opcode == "pad":
            shape = operand.operand_shape(0)
        sizes.append(None if shape is None else shape.size_bytes)
    return sum_of(sizes) or None


def loop_paths(module: HloModule) -> dict[tuple[str, str], str | None]:
    """Return the operation path of each loop, by computation and name."""
    loops = map(module.instruction, module.opcodes.places_of({"while"}))
    return {(loop.computation.name, loop.name): loop.op_name for loop in loops}


def loop_labels(module: HloModule, trips: TripCounts) -> dict[str, str]:
    """Return loop name to operation path and trip count."""
    labels: dict[str, str] = {}
    paths = loop_paths(module) if trips.loops else {}
    for trip in trips.loops:
        path = paths.get((trip.computation, trip.loop)) or "while"
        labels.setdefault(trip.loop, f"{path} {trip.text}")
    return labels


def instruction_of(module: HloModule, collective: Collective) -> HloInstruction | None:
    """Return the instruction of a collective of a module."""
    return None if collective.row is None else module.instruction(collective.row)


def end_of(module: HloModule, collective: Collective) -> HloInstruction | None:
    """Return the instruction with the collective's result; by default that of `instruction_of`."""
    return None if collective.end_row is None else module.instruction(collective.end_row)
