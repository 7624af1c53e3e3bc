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

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.analysis.collectives.data_movement import data_movement
from hlo_lens.analysis.collectives.operation_parts import CollectiveParts, whole_operations
from hlo_lens.analysis.collectives.operations import CUSTOM_CALL, CollectiveOp, collective_ops
from hlo_lens.analysis.collectives.origin import CollectiveOrigins
from hlo_lens.analysis.collectives.overlap import EXPOSED, Overlap, Transfer, overlaps
from hlo_lens.analysis.collectives.results import Collective, Collectives
from hlo_lens.analysis.collectives.wire_bytes import (
    NOTHING,
    TRANSFERS,
    UNKNOWN,
    Moved,
    is_payload_at_most,
    moved_by_groups,
    moved_by_pairs,
    payload,
)
from hlo_lens.analysis.program.call_counts import CallCounts
from hlo_lens.analysis.program.origins import Origins
from hlo_lens.analysis.sharding.mesh_axes import (
    NO_AXES,
    GroupAxes,
    ModuleMesh,
    axes_of_groups,
    axes_of_pairs,
    module_meshes,
    transfer_pattern,
)
from hlo_lens.model.hlo.opcodes import is_collective_like, opcode_traits
from hlo_lens.model.hlo.query import InstructionTable, evident_partitions
from hlo_lens.model.shapes.replica_groups import (
    CollectiveOpGroupMode,
    Groups,
    collective_op_group_mode,
    connected_devices,
    device_groups,
)
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.shapes.mesh import Mesh

__all__ = ["Collective", "Collectives", "collectives", "end_of", "instruction_of"]

_PAIRS = "_xla_send_recv_source_target_pairs"
_HANDLER = "_xla_host_transfer_handler_name"
_MEGASCALE = "xla_megascale_runtime"
_STEPS = 8
"""Callers followed from a collective to the instruction that ends it."""

_SLICE_TRANSFER = "_xla_megascale_transfer_type"
_RENDEZVOUS = "_xla_host_transfer_rendezvous"


def collectives(
    table: InstructionTable,
    *,
    calls: CallCounts | None = None,
    mesh: Mesh | None = None,
    before: Callable[[], HloModule | None] | None = None,
    lowered: Callable[[], Sequence[Mesh]] | None = None,
    origins: Origins | None = None,
) -> Collectives:
    """Return the collectives of a module, each once.

    Args:
        table: Table of the module.
        calls: Run counts of its computations; computed if None.
        mesh: Mesh given by the user; None for the mesh of the texts.
        before: Returns the module's text from before optimizations; called only if there are
            collectives and nothing else names a mesh.
        lowered: Returns the meshes of the program as lowered; called only if there are collectives.
        origins: Origins of the module's values; found here if None.
    """
    calls = CallCounts(table) if calls is None else calls
    ops, clones = collective_ops(table, calls)
    opcodes = table.opcode_counts
    origins = Origins(table.module) if origins is None else origins
    context = _Context(table, calls, origins)
    every = [context.read(op) for op in ops]
    read = whole_operations(every)
    meshes: tuple[ModuleMesh, ...] = ()
    if read:
        of_groups = (one.groups for one in read if one.op.kind not in TRANSFERS)
        groups = [listed for listed in of_groups if listed is not None]
        meshes = module_meshes(table.module, before, mesh, groups, lowered)
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
        movement=data_movement(table, calls, origins),
        is_complete=table.module.has_whole_entry,
        is_scheduled=table.module.is_scheduled,
    )


class _Sizes(NamedTuple):
    """Bytes of one run of a collective; fields as in `Collective`."""

    group_size: int | None
    payload_bytes: int | None
    element_type: str | None
    moved: Moved

    @property
    def on_link(self) -> int | None:
        """Bytes that go over a link each time; of transfers from or to others the payload."""
        return self.moved.wire_bytes or (None if self.moved == NOTHING else self.payload_bytes)


class _Context:
    """Facts of a module that its collectives share."""

    def __init__(self, table: InstructionTable, calls: CallCounts, origins: Origins) -> None:
        self._module = table.module
        self._calls = calls
        self._replicas = table.module.replica_count
        self._partitions = evident_partitions(table)
        self._table = table
        self._origins = CollectiveOrigins(table.module, calls, origins)
        self._axes: dict[tuple[Groups, bool], GroupAxes | None] = {}
        self._devices: dict[tuple[object, ...], tuple[Groups | None, Groups | None]] = {}
        self._payloads: dict[tuple[object, ...], tuple[int | None, str | None]] = {}

    def read(self, op: CollectiveOp) -> CollectiveParts:
        """Return the attributes of a collective from its text."""
        attributes = op.instruction.attributes
        channel = op.instruction.channel_id
        channel_id = None if channel is None or channel < 0 else channel
        is_custom = op.instruction.opcode == CUSTOM_CALL
        mode = None if is_custom else _mode(op.kind, channel_id, attributes)
        frontend = attributes.get("frontend_attributes")
        said = self._module.reader.frontend_attributes(frontend) if frontend else {}
        text = None if is_custom else _listed_text(op.kind, attributes, said)
        key = (op.kind, mode, text)
        if key not in self._devices:
            self._devices[key] = self._groups_and_pairs(op.kind, mode, text)
        groups, pairs = self._devices[key]
        across = said.get(_SLICE_TRANSFER)
        return CollectiveParts(
            op=op,
            channel_id=channel_id,
            mode=mode,
            groups=groups,
            pairs=pairs,
            is_host_transfer=attributes.get("is_host_transfer") == "true",
            crosses_slices=said.get(_HANDLER) == _MEGASCALE,
            slice_transfer=across.lower().replace("_", "-") if across else None,
            rendezvous=said.get(_RENDEZVOUS),
        )

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

    def _payload(self, op: CollectiveOp, group_size: int | None) -> tuple[int | None, str | None]:
        """Return bytes and element types of a payload; computed once per result shape."""
        instruction = op.instruction
        if op.kind in ("ragged-all-to-all", "send", "recv"):  # depends on the shape of an operand
            return payload(instruction, op.kind, group_size)
        key = (op.kind, instruction.opcode, instruction.shape_text, group_size)
        if key not in self._payloads:
            self._payloads[key] = payload(instruction, op.kind, group_size)
        return self._payloads[key]

    def collective(
        self,
        read: CollectiveParts,
        meshes: Sequence[ModuleMesh],
        sizes: _Sizes,
        overlap: Overlap | None,
    ) -> Collective:
        """Return one collective with all its fields."""
        op = read.op
        instruction = op.instruction
        name, computation = instruction.name, instruction.computation.name
        axes = self._axes_of(read, meshes)
        runs = self._calls.of(computation)
        is_bound = is_payload_at_most(instruction, op.kind)
        starter = op.start.name
        return Collective(
            name=name,
            kind=read.kind,
            computation=computation,
            channel_id=read.channel_id,
            mode=None if read.mode is None else read.mode.value,
            groups=read.groups,
            group_size=sizes.group_size,
            num_groups=None if read.groups is None else len(read.groups),
            axes=None if axes is None else axes.axes,
            payload_bytes=sizes.payload_bytes,
            wire_bytes_per_device=sizes.moved.wire_bytes,
            element_type=sizes.element_type,
            dynamic_count=runs.times,
            loop_path=runs.loop_path,
            is_async=op.is_async,
            overlap_instructions=None if overlap is None else overlap.instructions,
            source_target_pairs=read.pairs,
            axis_parts=None if axes is None else axes.parts,
            transfer=None if read.pairs is None else transfer_pattern(read.pairs, axes, meshes),
            steps=sizes.moved.steps,
            moves_nothing=sizes.moved == NOTHING,
            is_at_most=runs.is_at_most or is_bound,
            branches=runs.branches,
            is_payload_at_most=is_bound,
            overlap_flops=None if overlap is None else overlap.flops,
            overlap_bytes=None if overlap is None else overlap.size_bytes,
            covered_ratio=None if overlap is None else overlap.covered_ratio,
            is_host_transfer=read.is_host_transfer,
            crosses_slices=read.crosses_slices,
            performed_as=read.slice_transfer or (read.kind if read.kind != op.kind else None),
            started_by=None if starter == name else starter,
            ended_by=None if op.done is None else op.done.name,
            **self._origins.of(op, sizes.payload_bytes)._asdict(),
        )

    def sizes(self, read: CollectiveParts) -> _Sizes:
        """Return the bytes of one run of a collective."""
        counts = {len(group) for group in read.groups} if read.groups else set()
        group_size = next(iter(counts)) if len(counts) == 1 else None
        size, element_type = self._payload(read.op, group_size)
        moved = self._moved(read, size)
        if read.answer is not None:  # a part goes there or comes back, the whole the other way
            received, _ = self._payload(read.answer, None)
            size = None if size is None or received is None else max(size, received)
        if read.shift is not None:
            size = _unpadded_bytes(read.op.instruction) or size
            extra = self._moved(read.shift, self._payload(read.shift.op, None)[0])
            moved = moved.and_then(extra)
        return _Sizes(group_size, size, element_type, moved)

    def _moved(self, read: CollectiveParts, payload_bytes: int | None) -> Moved:
        kind = read.op.kind
        if read.crosses_slices:
            return Moved(wire_bytes=0 if kind == "recv" else payload_bytes, steps=1)
        if read.is_host_transfer:
            return Moved(wire_bytes=0, steps=1)
        if kind in TRANSFERS:
            devices = None if self._partitions is None else self._partitions * self._replicas
            return moved_by_pairs(kind, payload_bytes, read.pairs, devices)
        if kind == CUSTOM_CALL:
            return UNKNOWN
        return moved_by_groups(read.kind, payload_bytes, read.groups)

    def _axes_of(self, read: CollectiveParts, meshes: Sequence[ModuleMesh]) -> GroupAxes | None:
        """Return the axes of a collective; computed once for equal groups."""
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
        """Return the axis along which slices differ, by the first devices of each.

        The text is of one slice; the mesh is of all slices, each with consecutive devices. Along
        several axes, the text does not show which of them a transfer follows: None.
        """
        devices = (self._partitions or 0) * self._replicas
        for mesh in meshes:
            if devices and mesh.mesh.size > devices and mesh.mesh.size % devices == 0:
                slices = tuple(range(0, mesh.mesh.size, devices))
                found = axes_of_groups((slices,), (mesh,))
                return found if found is not None and len(found.axes) == 1 else None
        return None

    def overlaps(
        self, listed: Sequence[CollectiveParts], sizes: Sequence[_Sizes]
    ) -> dict[int, Overlap]:
        """Return the overlaps of collectives by position, as far as they are known."""
        if not self._module.is_scheduled:
            return {}
        transfers = {
            number: Transfer(
                start=one.op.start, done=one.op.done, size_bytes=size.on_link, link=one.link
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


def end_of(module: HloModule, collective: Collective) -> HloInstruction | None:
    """Return the instruction with the collective's result; by default that of `instruction_of`."""
    instruction = instruction_of(module, collective)
    if instruction is None or collective.ended_by is None:
        return instruction
    computation = instruction.computation
    for _ in range(_STEPS):
        end = computation.instruction(collective.ended_by)
        if end is not None:
            return end
        if not computation.callers:
            break
        computation = computation.callers[0].computation
    return instruction


def instruction_of(module: HloModule, collective: Collective) -> HloInstruction | None:
    """Return the instruction of a collective."""
    computation = module.computation(collective.computation) if collective.computation else None
    computation = computation or module.entry
    return computation.instruction(collective.name)
