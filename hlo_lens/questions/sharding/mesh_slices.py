"""Devices of a mesh in each slice, where the mesh is of all slices and the text of one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.load.devices import slices_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    @property
    def across(self) -> Groups:
        """The corresponding devices of all slices, for each device of the text."""
        return tuple(zip(*self.devices, strict=True))

    def whole(self, groups: Groups) -> Groups | None:
        """Return groups of the text's devices as those of all slices; None for unknown devices."""
        most = max((max(group) for group in groups if group), default=-1)
        if most >= len(self.devices[0]):
            return None
        return tuple(tuple(own[d] for d in group) for own in self.devices for group in groups)


def mesh_slices(
    size: int, devices: int, assignment: Sequence[Sequence[int]] | None
) -> MeshSlices | None:
    """Return the slices of a mesh; None where the text has all its devices, or slices do not fit.

    Args:
        size: Devices of the mesh.
        devices: Devices of the text; 0 if unknown.
        assignment: Device ids by replica and partition; None if unknown.
    """
    if devices < 1 or size <= devices or size % devices:
        return None
    if assignment is None:
        in_order = tuple(tuple(range(k, k + devices)) for k in range(0, size, devices))
        return MeshSlices(devices=in_order, is_assumed=True)
    found = slices_of(assignment)
    if len(found) * devices != size or any(len(own) != devices for own in found):
        return None
    return MeshSlices(devices=found, is_assumed=False)
