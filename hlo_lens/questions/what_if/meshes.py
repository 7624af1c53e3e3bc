"""Meshes of a program: partition specs over them, and edits to another mesh."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcodes_where
from hlo_lens.questions.sharding.mesh_axes import named_meshes
from hlo_lens.questions.what_if.arguments import EntryArrays, result_name
from hlo_lens.questions.what_if.edits import Change, ProgramEdit, TextEdits
from hlo_lens.shapes import shardy
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.named_sharding import (
    PartitionSpec,
    ShardingKind,
    named_sharding,
    partition_spec_text,
)
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule


_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSharding:
    """A partition spec over one of the program's meshes.

    Attributes:
        spec: The spec.
        mesh: The mesh.
        name: Its name in the text; None for a text without Shardy's meshes.
        names_axes: Whether ``sharding=`` of this text names mesh axes.
    """

    spec: PartitionSpec
    mesh: Mesh
    name: str | None
    names_axes: bool = False

    def __str__(self) -> str:
        return f"{partition_spec_text(self.spec)} over {self.mesh}"

    def hlo(self, rank: int) -> str:
        """Return the sharding as ``sharding=`` has it."""
        if self.names_axes:
            return f"{named_sharding(self.mesh, self.spec, rank)}"
        return HloSharding.from_partition_spec(self.mesh, self.spec, rank=rank).text

    def shardy(self, rank: int) -> str:
        """Return the sharding as Shardy prints it: ``<@mesh, [{"x"}, {}]>``, quotes escaped."""
        entries = [*self.spec, *(None,) * (rank - len(self.spec))]
        dims = ", ".join(f"{{{', '.join(_quoted(axis) for axis in axes_of(e))}}}" for e in entries)
        return f"<@{self.name}, [{dims}]>"


class ProgramMeshes:
    """The meshes that a spec can be over.

    Attributes:
        is_shardy: Whether the text states shardings for Shardy.
    """

    def __init__(self, module: HloModule, given: Sequence[Mesh]) -> None:
        named = shardy.shardy_meshes(module.frontend_attributes.get(shardy.MESHES, ""))
        self.is_shardy = bool(named)
        self._named: dict[str | None, Mesh] = dict(named.items())
        self._given = tuple(given) or named_meshes(module)
        self._names_axes = not named and "sharding={mesh[" in module.columns.source.text
        self._devices = module.num_partitions

    def chosen(self, spec: PartitionSpec, first: str | None = None) -> MeshSharding | str:
        """Return a spec over the first mesh that has its axes, or why there is none.

        Args:
            spec: The spec.
            first: Name of a mesh to prefer.
        """
        if self._devices == 1:
            return "the program runs on one device"
        wanted = {axis for entry in spec for axis in axes_of(entry)}
        tried: dict[str | None, Mesh] = {}
        if self.is_shardy:
            tried = {first: self._named[first]} if first in self._named else {}
            tried |= self._named
        elif self._given:
            fitting = [mesh for mesh in self._given if wanted <= set(mesh.axis_names)]
            sized = [mesh for mesh in fitting if mesh.size == self._devices]
            tried[None] = (sized or fitting or self._given)[0]
        for name, mesh in tried.items():
            if wanted <= set(mesh.axis_names) and mesh.size == self._devices:
                return MeshSharding(spec=spec, mesh=mesh, name=name, names_axes=self._names_axes)
        if not tried:
            return "the text names no mesh axes; name them with --mesh, such as data=2,model=4"
        axes = listed([str(mesh) for mesh in dict.fromkeys(tried.values())], _SHOWN)
        unknown = sorted(wanted - {a for mesh in tried.values() for a in mesh.axis_names})
        if unknown:
            return f"no axis {', '.join(unknown)} in {axes}"
        return f"no mesh of {self._devices} devices has its axes: {axes}"


def why_uneven(sizes: Sequence[int | None], chosen: MeshSharding) -> str:
    """Return why a spec cannot divide a value of these sizes evenly; empty if it can."""
    spec = chosen.spec
    if len(spec) > len(sizes):
        return f"{partition_spec_text(spec)} is for {len(spec)} dimensions, it has {len(sizes)}"
    try:
        sharding = HloSharding.from_partition_spec(chosen.mesh, spec, rank=len(sizes))
    except HloLensError as error:
        return str(error)
    for place, (size, count) in enumerate(zip(sizes, sharding.tile_counts, strict=False)):
        if size is None or size % count:
            return f"dimension {place} of {size} does not divide by {count}"
    return ""


def axes_of(entry: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the axes of one entry of a spec."""
    return (entry,) if isinstance(entry, str) else tuple(entry or ())


def _quoted(axis: str) -> str:
    return f'\\"{axis}\\"'


_OF_ONE_DEVICE = (
    "FullToShardShape",
    "ShardToFullShape",
    "GlobalToLocalShape",
    "LocalToGlobalShape",
    "replica_groups=",
    "source_target_pairs=",
    "sharding={manual}",
    *shardy.MANUAL_BODIES,
)
"""Words in attributes of instructions whose shapes or groups depend on the number of devices."""

_SUB_AXIS = re.compile(r"""(?:\\"|\\22|['"])([^'"\\]+)(?:\\"|\\22|['"]):\(""")


def edit_mesh(module: HloModule, request: str, *, meshes: Sequence[Mesh] = ()) -> ProgramEdit:
    """Return the text's change for other sizes of mesh axes; all of it, or nothing.

    Args:
        module: The program before optimizations.
        request: ``data=8,model=4``; axes that it does not name keep their sizes.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If the request is malformed.
    """
    wanted = Mesh.from_sizes_text(request)
    resizer = _Resizer(module, wanted, meshes)
    if not resizer.old and wanted.size == module.num_partitions > 1:
        effect = f"names the axes of the {wanted.size} devices, which the text only numbers"
        change = Change(kind="mesh", target=request, effect=effect)
        return ProgramEdit(changes=(change.for_request(request),))
    return resizer.edit(request)


def resized_mesh(mesh: Mesh, request: str) -> Mesh:
    """Return a mesh with the sizes of a request; axes that it does not name keep theirs."""
    wanted = Mesh.from_sizes_text(request)
    return _resized(mesh, dict(zip(wanted.axis_names, wanted.axis_sizes, strict=True)))


def _resized(mesh: Mesh, wanted: Mapping[str, int]) -> Mesh:
    sizes = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    return Mesh.of({name: wanted.get(name, size) for name, size in sizes})


class _Resizer:
    """Edits of the mesh of one module."""

    def __init__(self, module: HloModule, wanted: Mesh, given: Sequence[Mesh]) -> None:
        self.module = module
        self.arrays = EntryArrays.of(module)
        self.edits = TextEdits(module)
        self.wanted = dict(zip(wanted.axis_names, wanted.axis_sizes, strict=True))
        named = shardy.shardy_meshes(module.frontend_attributes.get(shardy.MESHES, ""))
        self.is_shardy = bool(named)
        known = named.values() if named else self.arrays.table.meshes or given
        self.old = [mesh for mesh in known if mesh.axis_names]

    def edit(self, request: str) -> ProgramEdit:
        """Return the edit."""
        known = {mesh for mesh in self.old if self.wanted.keys() <= set(mesh.axis_names)}
        if known and all(self._resized(mesh) == mesh for mesh in self.old):
            change = Change(kind="mesh", target=request, effect="it is the program's own mesh")
            return ProgramEdit(changes=(change.for_request(request),))
        reason = self._why_not() or self._rewrite_shardings()
        if reason:
            return ProgramEdit(
                changes=(Change.refused("mesh", request, reason).for_request(request),)
            )
        old, new = self.old[0], self._resized(self.old[0])
        count = f"{new.size} devices"
        if new.size != old.size:
            count += f" instead of {old.size}"
        self.edits.set_header("num_partitions", str(new.size) if new.size > 1 else "")
        change = Change(kind="mesh", target=request, effect=f"{new} for {old}: {count}")
        changes = (change.for_request(request),)
        return ProgramEdit(changes=changes, replacements=self.edits.replacements())

    # ---- applicability -------------------------------------------------------------------------

    def _why_not(self) -> str:
        """Return why the mesh cannot be changed."""
        if not self.old:
            return "the text numbers devices and names no mesh axes"
        axes = set(self.old[0].axis_names)
        if any(set(mesh.axis_names) != axes for mesh in self.old):
            return f"it has several meshes: {', '.join(map(str, self.old))}"
        if unknown := sorted(self.wanted.keys() - axes):
            return f"no axis {', '.join(unknown)} in {self.old[0]}"
        if any(mesh.device_assignment is not None for mesh in self.old):
            return f"{self.old[0]} has its devices in an order of its own"
        if self.module.replica_count > 1:
            return f"the program has {self.module.replica_count} replicas"
        if divided := self.wanted.keys() & set(_SUB_AXIS.findall(self.module.columns.source.text)):
            return f"a sharding has a part of axis {min(divided)}"
        manual = next(self._of_one_device(), None)
        if manual is not None:
            place = manual.source or f"line {manual.line}"
            return f"{manual.name} ({place}) has shapes or groups for the devices of this mesh"
        return self._uneven()

    def _resized(self, mesh: Mesh) -> Mesh:
        return _resized(mesh, self.wanted)

    def _of_one_device(self) -> Iterator[HloInstruction]:
        """Yield instructions of manual parts, and collectives."""
        module = self.module
        text = module.columns.source.text
        for word in _OF_ONE_DEVICE:
            if word in text:
                for row in module.columns.rows_with_attribute_text(word):
                    yield module.instruction(row)
        for row in module.opcodes.places_of(opcodes_where(lambda one: one.is_device_number)):
            yield module.instruction(row)

    def _uneven(self) -> str:
        """Return which stated sharding does not divide its value."""
        new = self._resized(self.old[0])
        sizes = dict(zip(new.axis_names, new.axis_sizes, strict=True))
        results = enumerate(self.arrays.results)
        stated = [one for place, one in results if place not in self.arrays.open_results]
        for value in (*self.arrays.arguments, *stated):
            spec = None if value.sharding is None else value.sharding.to_partition_spec(self.old[0])
            shape = value.global_shape
            for place, (entry, size) in enumerate(
                zip(spec or (), () if shape is None else shape.dimensions, strict=False)
            ):
                axes = (entry,) if isinstance(entry, str) else entry or ()
                count = math.prod(sizes[axis] for axis in axes)
                if size is None or size % count:
                    is_output = value.value.kind == "output"
                    name = result_name(value) if is_output else value.value.name
                    return f"dimension {place} of {name}, {size}, does not divide by {count}"
        return ""

    # ---- edits ---------------------------------------------------------------------------------

    def _rewrite_shardings(self) -> str:
        """Edit all shardings; return why one of them cannot be."""
        if self.is_shardy:
            value = self.module.header["frontend_attributes"]
            self.edits.set_header("frontend_attributes", self._resized_text(value))
        for instruction in self._with_sharding():
            text = instruction.attribute("sharding")
            if text is not None and (new := self._rewritten(text, instruction)) is None:
                place = instruction.source or f"line {instruction.line}"
                return f"the sharding of {instruction.name} ({place}) has no form by axes: {text}"
            if text is not None:
                self.edits.set_attribute(instruction, "sharding", new or None)
        return ""

    def _with_sharding(self) -> Iterator[HloInstruction]:
        rows = self.module.columns.rows_with_attribute_text("sharding=")
        return (self.module.instruction(row) for row in dict.fromkeys(rows))

    def _rewritten(self, text: str, instruction: HloInstruction) -> str | None:
        """Return a sharding for the new mesh; empty to leave it out; None if there is none."""
        if self.is_shardy:
            return ""
        sharding = self.module.reader.sharding(text)
        shape = instruction.shape
        elements = sharding.elements or (sharding,)
        shapes = [leaf for _, leaf in shape.leaves()] if shape is not None else []
        ranks = [leaf.rank for leaf in shapes] or [0]
        if len(ranks) != len(elements):
            ranks = ranks[:1] * len(elements)
        new = [self._for_new_mesh(one, rank) for one, rank in zip(elements, ranks, strict=True)]
        if any(one is None for one in new):
            return None
        words = [str(one) for one in new]
        return f"{{{', '.join(words)}}}" if sharding.elements else words[0]

    def _for_new_mesh(self, sharding: HloSharding, rank: int) -> str | None:
        old = self.old[0]
        if sharding.named is not None and sharding.named.mesh == old:
            return sharding.text.replace(str(old), str(self._resized(old)))
        if sharding.kind is ShardingKind.MAXIMAL:
            return sharding.text
        spec = sharding.to_partition_spec(old)
        if spec is None:
            return None
        return HloSharding.from_partition_spec(self._resized(old), spec, rank=rank).text

    def _resized_text(self, text: str) -> str:
        """Return the text of a table of meshes with the new sizes."""
        for name, size in self.wanted.items():
            quoted = rf'((?:\\?"|\\22){re.escape(name)}(?:\\?"|\\22)\s*=\s*)\d+'
            text = re.sub(quoted, rf"\g<1>{size}", text)
        return text
