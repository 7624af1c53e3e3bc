"""Facts about a program that its framework knows and the HLO text does not contain.

The text has at most one name for each parameter, mesh axes only in some versions, and nothing about
unused arguments. The reader of compiled programs (`hlo_lens.load.jax`) fills this in.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape, ShapeIndex
    from hlo_lens.shapes.sharding import HloSharding


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkValue:
    """One array argument or result of the user's function.

    Attributes:
        name: Path of the argument (``params['layer_0']['kernel']``) or of the result.
        number: Number of the HLO parameter; None for an output, and for an argument that the
            program does not use or whose parameter is not known.
        index: Shape index: of the leaf of a parameter that is a tuple, or of the output.
        shape: Global shape, over all devices; None if not known.
        sharding: Its sharding; None if not known.
        is_donated: Whether the user donated it; None for outputs.
        is_used: Whether the program has a parameter for it; True for outputs.
    """

    name: str
    number: int | None = None
    index: ShapeIndex = ()
    shape: Shape | None = None
    sharding: HloSharding | None = None
    is_donated: bool | None = None
    is_used: bool = True


@dataclass(frozen=True, kw_only=True)
class Framework:
    """Facts that a framework knows about a program.

    Attributes:
        name: Framework and version: ``jax 0.10.2``.
        backend: ``cpu``, ``gpu`` or ``tpu``; None if not known.
        arguments: All arrays of the arguments, in the order of the flattened arguments.
        outputs: All arrays of the result, in order.
        meshes: Meshes of arguments and results, in order of appearance.
        memory: Bytes by the names of XLA's CompiledMemoryStats; empty if there are none.
        notes: Sentences on what could not be found out.
    """

    name: str
    backend: str | None = None
    arguments: tuple[FrameworkValue, ...] = ()
    outputs: tuple[FrameworkValue, ...] = ()
    meshes: tuple[Mesh, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def unused(self) -> tuple[FrameworkValue, ...]:
        """Arguments without a parameter in the program."""
        return tuple(value for value in self.arguments if not value.is_used)

    def argument(self, number: int | None, index: ShapeIndex = ()) -> FrameworkValue | None:
        """Return the argument of a parameter, or of a leaf of one; None if not known."""
        return self._by_parameter.get((number, index))

    @functools.cached_property
    def _by_parameter(self) -> Mapping[tuple[int | None, ShapeIndex], FrameworkValue]:
        known = (value for value in self.arguments if value.number is not None)
        return {(value.number, value.index): value for value in known}
