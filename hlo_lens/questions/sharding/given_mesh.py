"""Whether a mesh that the user names is one of a program.

It is not if it has another number of devices than the program has partitions, replicas counted or
not; of a program for several slices, whose text is of one slice, the devices of all slices count
too. Nor is it if it has an axis name of a mesh in the texts and differs from that mesh: other names
for all axes are a choice of the user, an unknown name or another size beside known ones an error.
Axes of size 1 change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.query import evident_partitions
from hlo_lens.questions.sharding.mesh_axes import named_meshes
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.mesh import Mesh

_BETWEEN_SLICES = "xla_megascale_runtime"


def mesh_misfit(
    mesh: Mesh, table: InstructionTable, before: HloModule | None, lowered: Sequence[Mesh] = ()
) -> str:
    """Return what the program has instead of a mesh; empty if the mesh fits.

    Args:
        mesh: The mesh.
        table: Table of the module.
        before: Its text from before optimizations.
        lowered: Meshes of the program as lowered.
    """
    module = table.module
    texts = [module, *([] if before is None else [before])]
    named = dict.fromkeys([*(m for text in texts for m in named_meshes(text)), *lowered])
    there = f"; its mesh is {' or '.join(map(_sizes_text, named))}" if named else ""
    partitions = evident_partitions(table)
    if partitions is not None and not _has_devices(mesh.size, partitions, texts):
        of = " in each slice" if _BETWEEN_SLICES in module.columns.source.text else ""
        return f"has {plural(partitions * module.replica_count, 'device')}{of}{there}"
    names = set(mesh.axis_names)
    near = [other for other in named if names & set(other.axis_names)]
    if near and _long_axes(mesh) not in map(_long_axes, named):
        return f"has {' or '.join(map(_sizes_text, near))}"
    return ""


def _has_devices(size: int, partitions: int, texts: Sequence[HloModule]) -> bool:
    counts = {partitions, *(text.num_partitions for text in texts)}
    if size in counts | {count * text.replica_count for count in counts for text in texts}:
        return True
    text = texts[0].columns.source.text
    return size % partitions == 0 and _BETWEEN_SLICES in text


def _long_axes(mesh: Mesh) -> list[tuple[str, int]]:
    pairs = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    return [(name, size) for name, size in pairs if size > 1]


def _sizes_text(mesh: Mesh) -> str:
    pairs = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    return ",".join(f"{name}={size}" for name, size in pairs)
