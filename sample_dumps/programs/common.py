"""What every sample program is made of: a jitted step, abstract arguments, a mesh and facts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import jax
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np


@dataclasses.dataclass(frozen=True)
class Program:
    """One jitted function that can be compiled without data and without devices.

    Attributes:
        step: The jitted function.
        arguments: One pytree of sharded `ShapeDtypeStruct` per positional argument of `step`.
        mesh: The mesh that all arguments are sharded over.
        planted: Facts that hold by construction of the source. Values must be JSON values.
    """

    step: jax.stages.Wrapped
    arguments: tuple[object, ...]
    mesh: Mesh
    planted: Mapping[str, object]


def device_mesh(devices: Sequence[jax.Device], **axis_sizes: int) -> Mesh:
    """Returns a mesh with the named axes in the given order.

    Args:
        devices: The devices, as many as the product of the sizes.
        **axis_sizes: Number of devices along each axis.
    """
    shape = tuple(axis_sizes.values())
    grid = mesh_utils.create_device_mesh(
        shape, devices=list(devices), allow_split_physical_axes=True
    )
    return Mesh(grid, tuple(axis_sizes))


def abstract(
    mesh: Mesh, shape: tuple[int, ...], dtype: np.dtype | type, *spec: str | tuple[str, ...] | None
) -> jax.ShapeDtypeStruct:
    """Returns an array without data.

    Args:
        mesh: The mesh of the sharding.
        shape: Global shape.
        dtype: Element type.
        *spec: The entries of the `PartitionSpec`; none means replicated.
    """
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
