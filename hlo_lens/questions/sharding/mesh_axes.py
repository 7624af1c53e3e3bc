"""Mesh axes along which the devices of a collective differ; slices of a mesh.

A mesh is taken from, in this order: the caller; the arguments' shardings, where the framework that
compiled the module is at hand; the meshes of Shardy and of shardings by mesh axes, in the module's
text, then in the text from before optimizations; the program as lowered (``module.mlir``);
mesh-form replica groups with axis names that no other mesh has. Where the text names no axes, the
sizes alone are inferred from the steps between device ids in shardings and groups, and the axes are
named ``axis_0``, ``axis_1``, ... as XLA itself names such axes.

A program for several slices has a mesh of all devices and a text of one slice, whose device ids
count the devices of a slice.

Sources: xla/hlo/ir/mesh_and_axis.cc (sub-axes ``'x':(pre)size``), xla/service/spmd/shardy/
constants.h, as of August 2026.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.module import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import evident_partitions
from hlo_lens.load.devices import slices_of
from hlo_lens.program.summary import instruction_table
from hlo_lens.shapes.mesh import AxisRef, Mesh, nested_loops
from hlo_lens.shapes.replica_groups import Groups, MeshAxesReplicaGroupList
from hlo_lens.shapes.sharding import MESHES, shardy_meshes
from hlo_lens.text.errors import DumpSyntaxError, UsageError
from hlo_lens.text.units import listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.shapes.mesh import MeshLike
    from hlo_lens.shapes.replica_groups import Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSlices:
    """Devices of a mesh in each slice.

    Attributes:
        devices: Device ids of the mesh, of each slice, in the order of the text's device ids.
        is_assumed: Whether the dump has no device assignment, so that each slice is taken to have
            consecutive devices.
    """

    devices: Groups
    is_assumed: bool

    def whole(self, groups: Groups) -> Groups | None:
        """Return groups of the text's devices as those of all slices; None for unknown devices."""
        most = max((max(group) for group in groups if group), default=-1)
        if most >= len(self.devices[0]):
            return None
        return tuple(tuple(own[d] for d in group) for own in self.devices for group in groups)


def _mesh_slices(
    size: int, devices: int, assignment: Sequence[Sequence[int]] | None
) -> MeshSlices | None:
    """Return the slices of a mesh; None where the text has all its devices, or slices do not fit.

    `size` counts the devices of the mesh, `devices` those of the text, `assignment` has device ids
    by replica and partition.
    """
    if size <= devices or size % devices:
        return None
    if assignment is None:
        in_order = tuple(tuple(range(k, k + devices)) for k in range(0, size, devices))
        return MeshSlices(devices=in_order, is_assumed=True)
    found = slices_of(assignment)
    is_fit = len(found) * devices == size and all(len(own) == devices for own in found)
    return MeshSlices(devices=found, is_assumed=False) if is_fit else None


_MESH_SHARDING = "sharding={mesh["
_MESH_TEXT = re.compile(r"sharding=\{(mesh\[[^\]]*\](?:, device_ids=\([^)]*\))?)")
_SYNTHETIC = re.compile(r"axis_\d+\Z")
_MOST_MESHES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleMesh:
    """Mesh of a module's devices, and those of each slice where the text is of one slice.

    `source`: ``given``, ``arguments``, ``text``, ``before_optimizations``, ``module.mlir``,
    ``replica groups`` or ``inferred``.
    """

    mesh: Mesh
    source: str
    slices: MeshSlices | None = None

    def positions(self, groups: Groups) -> list[list[int]] | None:
        """Return the positions of the text's devices in the mesh, of all slices, by group.

        Groups and their devices have the order of the text; None where the mesh lacks a device.
        """
        mesh = self.mesh
        whole = groups if self.slices is None else self.slices.whole(groups)
        if whole is None or not mesh.axis_names:
            return None
        if mesh.device_assignment is None:
            most = max((max(group) for group in whole if group), default=-1)
            return [list(group) for group in whole] if most < mesh.size else None
        place = {device: position for position, device in enumerate(mesh.device_ids)}
        if any(device not in place for group in whole for device in group):
            return None
        return [[place[device] for device in group] for group in whole]

    def __str__(self) -> str:
        return f"{_sizes_text(self.mesh)} ({self.source})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAxes:
    """Position of the devices of each group in a mesh.

    Attributes:
        axes: Axes along which devices of one group differ, most major first.
        parts: The same if the groups are exactly all devices along axes or parts of them, as
            XLA would print it without quotes: ``model`` or ``model:(2)2``; else None.
    """

    axes: tuple[str, ...]
    parts: tuple[str, ...] | None

    @property
    def is_whole(self) -> bool:
        return self.parts == self.axes


def meshes_text(meshes: Sequence[ModuleMesh]) -> str:
    """Return the axes of each mesh, with its source; empty for none."""
    return "; ".join(map(str, meshes))


NO_AXES = GroupAxes(axes=(), parts=())


def module_meshes(
    module: HloModule,
    before: Callable[[], HloModule | None] | None,
    given: Mesh | None,
    groups: Iterable[Groups],
    lowered: Callable[[], Sequence[Mesh]] | None = None,
) -> tuple[ModuleMesh, ...]:
    """Return the meshes of a module's devices from the most reliable source, in text order.

    `before` reads its text from before optimizations, only if `module` names no mesh; sizes are
    inferred from `groups` of its collectives; `lowered` meshes of the program are added.
    """
    if given is not None:
        return (ModuleMesh(mesh=given, source="given"),)
    told = () if module.framework is None else module.framework.meshes
    sources = dict.fromkeys(told, "arguments")
    for mesh in named_meshes(module):
        sources.setdefault(mesh, "text")
    earlier = None if sources or before is None else before()
    if earlier is not None:
        sources = dict.fromkeys(named_meshes(earlier), "before_optimizations")
    for mesh in () if lowered is None else lowered():
        sources.setdefault(mesh, "module.mlir")
    names = {name for mesh in sources for name in mesh.axis_names}
    for mesh in _meshes_of_groups(module):
        if not names.issuperset(mesh.axis_names):  # else a part of a mesh above
            sources[mesh] = "replica groups"
    if sources:
        return tuple(ModuleMesh(mesh=mesh, source=source) for mesh, source in sources.items())
    inferred = _inferred(module, groups)
    return () if inferred is None else (ModuleMesh(mesh=inferred, source="inferred"),)


def with_slices(
    meshes: Sequence[ModuleMesh],
    devices: int,
    assignment: Callable[[], Sequence[Sequence[int]] | None] | None,
) -> tuple[ModuleMesh, ...]:
    """Return meshes with their slices where the text, of `devices`, is of one slice.

    `assignment` returns the device ids by replica and partition; called only if needed.
    """
    if not any(one.mesh.size > devices > 0 for one in meshes):
        return tuple(meshes)
    ids = None if assignment is None else assignment()
    return tuple(replace(one, slices=_mesh_slices(one.mesh.size, devices, ids)) for one in meshes)


def named_meshes(module: HloModule) -> list[Mesh]:
    """Return the meshes that a module's shardings name: Shardy's, and those of V3 shardings.

    Meshes known to the framework come first.
    """
    told = () if module.framework is None else module.framework.meshes
    found: dict[Mesh, None] = dict.fromkeys(told)
    has_attributes = "frontend_attributes" in module.header
    meshes = module.frontend_attributes.get(MESHES, "") if has_attributes else ""
    found.update(dict.fromkeys(shardy_meshes(meshes).values()))
    text = module.columns.source.text
    start = text.find(_MESH_SHARDING, module.start)
    matches = _MESH_TEXT.finditer(text, start) if start >= 0 else iter(())
    texts: dict[str, None] = {}
    while len(texts) <= _MOST_MESHES and (match := next(matches, None)):
        texts[match[1]] = None
    for printed in texts:
        try:
            named = module.reader.sharding(f"{{{printed}, []}}").named
        except DumpSyntaxError:
            continue
        if named is not None:
            found[named.mesh] = None
    return [mesh for mesh in found if mesh.axis_names]


_GROUPS_TEXT = re.compile(r"replica_groups=(mesh\[[^\]]*\](?:, device_ids=\([^)]*\))? \{[^}]*\})")


def _meshes_of_groups(module: HloModule) -> list[Mesh]:
    found: dict[Mesh, None] = {}
    opcodes = module.opcodes
    kinds = {o for o in opcodes.different if opcode_traits(o).collective_kind is not None}
    texts = map(module.columns.attributes_text, opcodes.places_of(kinds))
    matches = (_GROUPS_TEXT.search(text) for text in texts)
    for printed in dict.fromkeys(match[1] for match in matches if match is not None):
        try:
            listed = module.reader.device_list(printed)
        except DumpSyntaxError:
            continue
        if isinstance(listed, MeshAxesReplicaGroupList) and not all(
            map(_SYNTHETIC.match, listed.mesh.axis_names)
        ):
            found[listed.mesh] = None
    return list(found)


def _inferred(module: HloModule, groups: Iterable[Groups]) -> Mesh | None:
    """Return a mesh without names of its own that explains all groups and shardings, or None.

    Each loop of `size` steps of `stride` in the device ids needs an edge between axes at its stride
    and at its end. The edges must divide one another; else no single mesh explains them all.
    """
    edges: set[int] = {1}
    most = 0
    for ids in dict.fromkeys(groups):
        most = max(most, 1 + max((max(group) for group in ids if group), default=-1))
        for group in ids[:1]:
            edges |= _edges(sorted(group))
    edges |= _sharding_edges(module)
    edges |= {most} if most > 1 else set()
    chain = sorted(edges)
    if len(chain) < 2 or any(b % a for a, b in itertools.pairwise(chain)):
        return None
    sizes = [b // a for a, b in itertools.pairwise(chain)][::-1]
    return Mesh.of({f"axis_{place}": size for place, size in enumerate(sizes)})


def _edges(devices: Sequence[int]) -> set[int]:
    loops = nested_loops([device - devices[0] for device in devices]) if devices else None
    return {edge for size, stride in loops or () for edge in (stride, stride * size)}


def _sharding_edges(module: HloModule) -> set[int]:
    edges: set[int] = set()
    entry, opcodes = module.entry, module.opcodes
    parameters = [row for row in entry.rows if opcodes[row] == "parameter"]
    for text in {HloInstruction(entry, row).attribute("sharding") for row in parameters}:
        try:
            sharding = None if text is None else module.reader.sharding(text)
        except DumpSyntaxError:
            continue
        for leaf in (sharding.elements or (sharding,)) if sharding is not None else ():
            tiles = leaf.tile_assignment
            for axes in (tiles.axes_of_dimensions() or ()) if tiles is not None else ():
                edges |= {edge for size, stride in axes for edge in (stride, stride * size)}
    return edges


def axes_of_groups(groups: Groups, meshes: Sequence[ModuleMesh]) -> GroupAxes | None:
    """Return the axes of groups of device ids; None where no mesh has these devices.

    Of several meshes, the one of which the groups are whole axes, else the first.
    """
    found = [axes for m in meshes if (axes := _axes_in(groups, m)) is not None]
    return next((axes for axes in found if axes.is_whole), found[0] if found else None)


def _axes_in(groups: Groups, mesh: ModuleMesh) -> GroupAxes | None:
    found = mesh.positions(groups)
    return None if found is None else _axes_at([*map(sorted, found)], mesh.mesh)


def axes_between_slices(meshes: Iterable[ModuleMesh]) -> GroupAxes | None:
    """Return the axis along which slices differ.

    Along several axes, the text does not show which of them a transfer follows: None.
    """
    for mesh in meshes:
        if mesh.slices is not None:
            across = tuple(zip(*mesh.slices.devices, strict=True))
            found = _axes_in(across, replace(mesh, slices=None))
            return found if found is not None and len(found.axes) == 1 else None
    return None


def _axes_at(positions: list[list[int]], mesh: Mesh) -> GroupAxes:
    vary = [
        name
        for name, size, stride in strides_of(mesh)
        if any(len({p // stride % size for p in group}) > 1 for group in positions)
    ]
    return GroupAxes(axes=tuple(vary), parts=_exact_parts(positions, mesh))


def strides_of(mesh: Mesh) -> list[tuple[str, int, int]]:
    """Return name, size and step in the row-major position of each axis."""
    steps = [math.prod(mesh.axis_sizes[k + 1 :]) for k in range(len(mesh.axis_sizes))]
    return list(zip(mesh.axis_names, mesh.axis_sizes, steps, strict=True))


def _exact_parts(positions: list[list[int]], mesh: Mesh) -> tuple[str, ...] | None:
    """Return the axes and parts of axes whose devices each group is exactly; None if none.

    Groups must have the same steps from their first devices, and begin where the steps begin.
    """
    shapes = {tuple(p - group[0] for p in group) for group in positions if group}
    if len(shapes) != 1:
        return None
    loops = nested_loops(next(iter(shapes)))
    if loops is None or any(g[0] // step % size for g in positions for size, step in loops):
        return None
    parts: list[AxisRef] = []
    for size, step in sorted(loops, key=lambda loop: -loop[1]):
        axes = axes_of_step(mesh, size, step)
        if axes is None:
            return None
        parts += axes
    return tuple(str(axis).replace("'", "") for axis in parts)


def axes_of_step(mesh: Mesh, size: int, stride: int) -> list[AxisRef] | None:
    """Return the axes and sub-axes of `size` steps of `stride` positions, most major first.

    None if the steps divide an axis unevenly.
    """
    axes: list[AxisRef] = []
    inner = mesh.size
    for name, whole in mesh.sizes.items():
        outer, inner = inner, inner // whole
        low, high = max(inner, stride), min(outer, stride * size)
        if low >= high:
            continue
        if outer % high or high % low or low % inner:
            return None
        is_whole = (low, high) == (inner, outer)
        part = AxisRef(axis=name, pre_size=outer // high, size=high // low)
        axes.append(AxisRef(axis=name) if is_whole else part)
    return axes if stride * size <= mesh.size else None


def axes_of_pairs(pairs: Groups, meshes: Sequence[ModuleMesh]) -> GroupAxes | None:
    """Return the axes of transfers; None where no mesh has these devices."""
    moved = tuple(pair for pair in pairs if len(set(pair)) > 1)
    if not moved:
        return NO_AXES
    for module_mesh in meshes:
        found = _axes_in(moved, module_mesh)
        if found is not None:
            return GroupAxes(axes=found.axes, parts=found.axes)
    return None


def stating_mesh(modules: Sequence[ModuleDump], mesh: MeshLike | None) -> list[ModuleDump]:
    """Return modules with a mesh that names the axes of those it fits.

    Raises:
        UsageError: If it fits none of them, or is none.
    """
    if mesh is None:
        return list(modules)
    mesh = Mesh.of(mesh)
    found: list[ModuleDump] = []
    misfits: dict[str, list[str]] = {}
    for one in modules:
        stated = one.stating(mesh=mesh)
        table = instruction_table(stated) if one.has_hlo else None
        misfit = mesh_misfit(mesh, table, one.before, one.lowered_meshes) if table else ""
        found.append(one if misfit else stated)
        if misfit:
            misfits.setdefault(misfit, []).append(one.name)
    if misfits and sum(map(len, misfits.values())) == len(modules):
        raise UsageError(
            f"mesh {_sizes_text(mesh)} of {plural(mesh.size, 'device')} does not fit: "
            f"{'; '.join(f'{listed(names, 2)} {what}' for what, names in misfits.items())}"
        )
    return found


_BETWEEN_SLICES = "xla_megascale_runtime"


def mesh_misfit(
    mesh: Mesh, table: InstructionTable, before: HloModule | None, lowered: Sequence[Mesh] = ()
) -> str:
    """Return what the program has instead of a mesh; empty if the mesh fits.

    `before` is its text from before optimizations, `lowered` has meshes of it as lowered.
    """
    module = table.module
    texts = [module, *([] if before is None else [before])]
    named = dict.fromkeys([*(m for text in texts for m in named_meshes(text)), *lowered])
    there = f"; its mesh is {' or '.join(map(_sizes_text, named))}" if named else ""
    partitions = evident_partitions(table)
    has_slices = _BETWEEN_SLICES in module.columns.source.text
    counts = {partitions, *(text.num_partitions for text in texts)} - {None}
    counts |= {(count or 0) * text.replica_count for count in counts for text in texts}
    is_multiple = has_slices and partitions and mesh.size % partitions == 0
    if partitions is not None and mesh.size not in counts and not is_multiple:
        of = " in each slice" if has_slices else ""
        return f"has {plural(partitions * module.replica_count, 'device')}{of}{there}"
    names = set(mesh.axis_names)
    near = [other for other in named if names & set(other.axis_names)]
    if near and _long_axes(mesh) not in map(_long_axes, named):
        return f"has {' or '.join(map(_sizes_text, near))}"
    return ""


def _long_axes(mesh: Mesh) -> list[tuple[str, int]]:
    return [(name, size) for name, size in mesh.sizes.items() if size > 1]


def _sizes_text(mesh: Mesh) -> str:
    return ",".join(f"{name}={size}" for name, size in mesh.sizes.items())
