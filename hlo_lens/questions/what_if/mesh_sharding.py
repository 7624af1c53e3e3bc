"""Partition specs over the meshes of a program, as its text writes shardings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.mesh_axes import named_meshes
from hlo_lens.shapes import shardy
from hlo_lens.shapes.named_sharding import named_sharding
from hlo_lens.shapes.partition_spec import PartitionSpec, partition_spec_text
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.mesh import Mesh

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
