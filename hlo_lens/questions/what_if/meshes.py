"""Meshes of a program: partition specs over them, and edits to another mesh."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcodes_where
from hlo_lens.questions.sharding.mesh_axes import named_meshes
from hlo_lens.questions.what_if.arguments import EntryArrays, result_name
from hlo_lens.questions.what_if.edits import InapplicableError
from hlo_lens.shapes import shardy
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.named_sharding import (
    PartitionSpec,
    ShardingKind,
    axes_of_entry,
    named_sharding,
    partition_spec_text,
)
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import HloLensError, UsageError
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.questions.what_if.edits import TextEdits


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
        quoted = (", ".join(f'\\"{axis}\\"' for axis in axes_of_entry(entry)) for entry in entries)
        return f"<@{self.name}, [{', '.join(f'{{{axes}}}' for axes in quoted)}]>"

    def require_even(self, sizes: Sequence[int | None]) -> None:
        """Raise InapplicableError if it does not divide a value of these sizes evenly."""
        if len(self.spec) > len(sizes):
            text = partition_spec_text(self.spec)
            count = len(self.spec)
            raise InapplicableError(f"{text} is for {count} dimensions, it has {len(sizes)}")
        try:
            sharding = HloSharding.from_partition_spec(self.mesh, self.spec, rank=len(sizes))
        except HloLensError as error:
            raise InapplicableError(str(error)) from error
        for place, (size, count) in enumerate(zip(sizes, sharding.tile_counts, strict=False)):
            if size is None or size % count:
                raise InapplicableError(f"dimension {place} of {size} does not divide by {count}")


class ProgramMeshes:
    """The meshes that a spec can be over.

    Attributes:
        is_shardy: Whether the text states shardings for Shardy.
    """

    def __init__(self, module: HloModule, given: Sequence[Mesh]) -> None:
        self._named: dict[str | None, Mesh] = dict(_shardy_meshes(module).items())
        self.is_shardy = bool(self._named)
        self._given = tuple(given) or named_meshes(module)
        self._names_axes = not self._named and "sharding={mesh[" in module.columns.source.text
        self._devices = module.num_partitions

    def chosen(self, spec: PartitionSpec, first: str | None = None) -> MeshSharding:
        """Return a spec over the first mesh that has its axes.

        Args:
            spec: The spec.
            first: Name of a mesh to prefer.

        Raises:
            InapplicableError: If there is none.
        """
        if self._devices == 1:
            raise InapplicableError("the program runs on one device")
        wanted = {axis for entry in spec for axis in axes_of_entry(entry)}
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
            raise InapplicableError(
                "the text names no mesh axes; name them with --mesh, such as data=2,model=4"
            )
        axes = listed([str(mesh) for mesh in dict.fromkeys(tried.values())], _SHOWN)
        if unknown := sorted(wanted - {a for mesh in tried.values() for a in mesh.axis_names}):
            raise InapplicableError(f"no axis {', '.join(unknown)} in {axes}")
        raise InapplicableError(f"no mesh of {self._devices} devices has its axes: {axes}")


def _shardy_meshes(module: HloModule) -> dict[str, Mesh]:
    text = module.frontend_attributes.get(shardy.MESHES, "")
    return dict(shardy.shardy_meshes(text))


# ---- splits of devices -------------------------------------------------------------------------


def program_mesh(module: HloModule, meshes: Sequence[Mesh] = ()) -> Mesh:
    """Return the mesh of a program.

    Args:
        module: The program before optimizations.
        meshes: Meshes of a program whose text names none.

    Raises:
        UsageError: If the program has no mesh, or several.
    """
    known = {mesh for mesh in (_shardy_meshes(module).values() or meshes) if mesh.axis_names}
    if len(known) != 1:
        raise UsageError(f"--mesh '*' needs a program with one mesh; this has {len(known)}")
    return known.pop()


def mesh_splits(
    module: HloModule, meshes: Sequence[Mesh] = (), *, devices: int | None = None
) -> tuple[str, ...]:
    """Return every split of a program's devices over the axes of its mesh: ``data=4,model=2``.

    Args:
        module: The program before optimizations.
        meshes: Meshes of a program whose text names none.
        devices: Number of devices to split; None for those of the program.

    Raises:
        UsageError: If the program has no mesh, or several.
    """
    mesh = program_mesh(module, meshes)
    splits = _factors(devices or mesh.size, len(mesh.axis_names))
    return tuple(mesh_text(mesh.axis_names, sizes) for sizes in splits)


def mesh_text(names: Sequence[str], sizes: Sequence[int]) -> str:
    """Return sizes of mesh axes as options name them: ``data=8,model=4``."""
    return ",".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))


def _factors(size: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as a product of some numbers, the largest first."""
    if count == 1:
        yield (size,)
        return
    for first in range(size, 0, -1):
        if size % first == 0:
            yield from ((first, *rest) for rest in _factors(size // first, count - 1))


# ---- another mesh ------------------------------------------------------------------------------

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


def resized_mesh(mesh: Mesh, sizes: Mapping[str, int]) -> Mesh:
    """Return a mesh with other sizes of some axes."""
    own = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    return Mesh.of({name: sizes.get(name, size) for name, size in own})


def axis_sizes(request: str) -> dict[str, int]:
    """Return the sizes of mesh axes that an option names: ``data=8,model=4``.

    Raises:
        UsageError: If it is malformed.
    """
    mesh = Mesh.from_sizes_text(request)
    return dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))


def edit_mesh(edits: TextEdits, sizes: Mapping[str, int], meshes: Sequence[Mesh] = ()) -> str:
    """Give mesh axes other sizes, in all of the text; return what that means.

    Args:
        edits: Edits of the program before optimizations.
        sizes: Sizes of axes; others keep theirs.
        meshes: Meshes of a program whose text names none.

    Raises:
        InapplicableError: If it cannot be done; the edits are then of no use.
    """
    module, devices = edits.module, math.prod(sizes.values())
    arrays, named = EntryArrays.of(module), _shardy_meshes(module)
    known = named.values() if named else arrays.table.meshes or meshes
    old = [mesh for mesh in known if mesh.axis_names]
    if not old and devices == module.num_partitions > 1:
        return f"names the axes of the {devices} devices, which the text only numbers"
    new = [resized_mesh(mesh, sizes) for mesh in old]
    if new == old and any(sizes.keys() <= set(mesh.axis_names) for mesh in old):
        return "it is the program's own mesh"
    _require_one_mesh(module, old, sizes)
    manual = next(_of_one_device(module), None)
    if manual is not None:
        place = manual.source or f"line {manual.line}"
        raise InapplicableError(
            f"{manual.name} ({place}) has shapes or groups for the devices of this mesh"
        )
    _require_even(arrays, old[0], new[0])
    if named:
        text = module.header["frontend_attributes"]
        for name, size in sizes.items():
            quoted = rf'((?:\\?"|\\22){re.escape(name)}(?:\\?"|\\22)\s*=\s*)\d+'
            text = re.sub(quoted, rf"\g<1>{size}", text)
        edits.header["frontend_attributes"] = text
    for row in module.columns.rows_with_attribute_text("sharding="):
        instruction = module.instruction(row)
        sharding = instruction.attribute("sharding")
        if sharding is not None:  # Shardy writes its own again
            edits.line(instruction).attributes["sharding"] = (
                None if named else _resharded(instruction, sharding, old[0], new[0])
            )
    edits.header["num_partitions"] = str(new[0].size) if new[0].size > 1 else ""
    instead = f" instead of {old[0].size}" if new[0].size != old[0].size else ""
    return f"{new[0]} for {old[0]}: {new[0].size} devices{instead}"


def _require_one_mesh(module: HloModule, old: Sequence[Mesh], sizes: Mapping[str, int]) -> None:
    """Raise InapplicableError where the program has not one plain mesh with these axes."""
    if not old:
        raise InapplicableError("the text numbers devices and names no mesh axes")
    axes = set(old[0].axis_names)
    if any(set(mesh.axis_names) != axes for mesh in old):
        raise InapplicableError(f"it has several meshes: {', '.join(map(str, old))}")
    if unknown := sorted(sizes.keys() - axes):
        raise InapplicableError(f"no axis {', '.join(unknown)} in {old[0]}")
    if any(mesh.device_assignment is not None for mesh in old):
        raise InapplicableError(f"{old[0]} has its devices in an order of its own")
    if module.replica_count > 1:
        raise InapplicableError(f"the program has {module.replica_count} replicas")
    if divided := sizes.keys() & set(_SUB_AXIS.findall(module.columns.source.text)):
        raise InapplicableError(f"a sharding has a part of axis {min(divided)}")


def _of_one_device(module: HloModule) -> Iterator[HloInstruction]:
    """Yield instructions of manual parts, and collectives."""
    for word in _OF_ONE_DEVICE:
        if word in module.columns.source.text:
            yield from map(module.instruction, module.columns.rows_with_attribute_text(word))
    rows = module.opcodes.places_of(opcodes_where(lambda one: one.is_device_number))
    yield from map(module.instruction, rows)


def _require_even(arrays: EntryArrays, old: Mesh, new: Mesh) -> None:
    """Raise InapplicableError where a stated sharding does not divide its value over the mesh."""
    sizes = dict(zip(new.axis_names, new.axis_sizes, strict=True))
    results = enumerate(arrays.results)
    stated = [value for place, value in results if place not in arrays.open_results]
    for value in (*arrays.arguments, *stated):
        spec = None if value.sharding is None else value.sharding.to_partition_spec(old)
        dimensions = () if value.global_shape is None else value.global_shape.dimensions
        for place, (entry, size) in enumerate(zip(spec or (), dimensions, strict=False)):
            count = math.prod(sizes[axis] for axis in axes_of_entry(entry))
            if size is None or size % count:
                is_output = value.value.kind == "output"
                name = result_name(value) if is_output else value.value.name
                raise InapplicableError(
                    f"dimension {place} of {name}, {size}, does not divide by {count}"
                )


def _resharded(instruction: HloInstruction, text: str, old: Mesh, new: Mesh) -> str:
    """Return a sharding for another mesh; one of a tuple has one for each leaf."""
    sharding = instruction.computation.module.reader.sharding(text)
    elements = sharding.elements or (sharding,)
    leaves = [] if instruction.shape is None else list(instruction.shape.leaves())
    ranks = [leaf.rank for _, leaf in leaves] or [0]
    if len(ranks) != len(elements):
        ranks = ranks[:1] * len(elements)
    words = []
    for element, rank in zip(elements, ranks, strict=True):
        if element.named is not None and element.named.mesh == old:
            words.append(element.text.replace(str(old), str(new)))
        elif element.kind is ShardingKind.MAXIMAL:
            words.append(element.text)
        elif (spec := element.to_partition_spec(old)) is not None:
            words.append(HloSharding.from_partition_spec(new, spec, rank=rank).text)
        else:
            place = instruction.source or f"line {instruction.line}"
            raise InapplicableError(
                f"the sharding of {instruction.name} ({place}) has no form by axes: {text}"
            )
    return f"{{{', '.join(words)}}}" if sharding.elements else words[0]
