"""Collectives of a program: each logical operation once, with groups, bytes, counts and overlap.

Counted operations: `operations`. Bytes and steps: `wire_bytes`. Runs: the call graph's counts
weighted by trip counts (`call_counts`, `trip_counts`). Mesh axes: `mesh_axes`. Overlap: `overlap`.

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

from typing import TYPE_CHECKING, Any, NamedTuple

from hlo_lens.hlo.opcodes import is_collective_like
from hlo_lens.hlo.query import InstructionTable, evident_partitions
from hlo_lens.load.devices import device_assignment
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import Origins, origins
from hlo_lens.program.runs import CallCounts, call_counts
from hlo_lens.program.summary import instruction_table
from hlo_lens.questions.collectives.data_movement import data_movement
from hlo_lens.questions.collectives.operation_parts import CollectiveParts, whole_operations
from hlo_lens.questions.collectives.operations import CUSTOM_CALL, CollectiveOp, collective_ops
from hlo_lens.questions.collectives.origin import CollectiveOrigin, CollectiveOrigins
from hlo_lens.questions.collectives.overlap import EXPOSED, Overlap, Transfer, overlaps
from hlo_lens.questions.collectives.printed_attributes import AttributeReader, CollectiveDevices
from hlo_lens.questions.collectives.results import Collective, Collectives
from hlo_lens.questions.collectives.wire_bytes import (
    NOTHING,
    RAGGED,
    TRANSFERS,
    UNKNOWN,
    Moved,
    is_payload_at_most,
    is_scattered_at_once,
    moved_by_groups,
    moved_by_pairs,
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
from hlo_lens.shapes.replica_groups import CollectiveOpGroupMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.shapes.replica_groups import Groups

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
