"""Shardings, meshes and array types as JAX prints them into logs, and drawn boxes.

Sources: see ``grammars/jax_values.lark`` and ``grammars/sharding_boxes.lark``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.shapes.named_sharding import named_sharding
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import Gap, HloLensError

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape

UNCONSTRAINED = "UNCONSTRAINED"
"""Entry of a partition spec where XLA may choose."""

_MOST_IDS = 16
"""Most device ids of a mesh that its text lists."""

Entry = str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxMesh:
    """A mesh as JAX prints it.

    Attributes:
        mesh: Axes and sizes, and device ids if they are printed.
        axis_types: ``Auto``, ``Explicit`` or ``Manual`` for each axis; empty if not printed.
        is_abstract: Whether it is a mesh without devices.
    """

    mesh: Mesh
    axis_types: tuple[str, ...] = ()
    is_abstract: bool = False

    @property
    def text(self) -> str:
        """Axes as ``x=4, y=2``; with device ids as ``x=2 [1,0]`` if their order is not simple."""
        pairs = zip(self.mesh.axis_names, self.mesh.axis_sizes, strict=True)
        axes = ", ".join(f"{name}={size}" for name, size in pairs)
        if self.mesh.device_assignment is None:
            return axes
        ids = self.mesh.device_ids
        more = f",... {len(ids)} in all" if len(ids) > _MOST_IDS else ""
        return f"{axes} [{','.join(map(str, ids[:_MOST_IDS]))}{more}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxSpec:
    """A PartitionSpec.

    Attributes:
        entries: Axes of each dimension; `UNCONSTRAINED` where XLA may choose.
        unreduced: Axes along which partial results are not yet summed.
        reduced: Axes along which they are.
    """

    entries: tuple[Entry, ...] = ()
    unreduced: tuple[str, ...] = ()
    reduced: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Text of the spec as JAX prints it since 0.7."""
        words = [e if e == UNCONSTRAINED else repr(e) for e in self.entries]
        words += [
            f"{name}={{{', '.join(map(repr, axes))}}}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        ]
        return f"P({', '.join(words)}{',' if len(words) == len(self.entries) == 1 else ''})"

    @property
    def is_constrained(self) -> bool:
        """Whether no entry is left to XLA."""
        return UNCONSTRAINED not in self.entries


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxValue:
    """One value of a log.

    Attributes:
        kind: ``Mesh``, ``NamedSharding``, ``PartitionSpec``, ``ShapeDtypeStruct``,
            ``ShapedArray``, ``HloSharding``, ``Shape``, ...
        text: As printed, on one line.
        mesh: Mesh of the value, or the value itself.
        spec: Partition spec of the value, or the value itself; of a type the axes in it.
        hlo_sharding: Sharding, if it is printed in XLA's notation.
        shape: Shape, if it is an array type.
        dtype: Element type as numpy names it.
        manual_axes: Mesh axes along which each device has an array of its own.
        memory_kind: Such as ``device``; None if it is not printed.
        label: Text before it on its line.
        line: 1-based line of the file.
    """

    kind: str
    text: str = field(default="", compare=False)
    mesh: JaxMesh | None = None
    spec: JaxSpec | None = None
    hlo_sharding: HloSharding | None = None
    shape: Shape | None = None
    dtype: str | None = None
    manual_axes: tuple[str, ...] = ()
    memory_kind: str | None = None
    label: str = field(default="", compare=False)
    line: int = field(default=1, compare=False)

    def sharding(self, rank: int | None = None) -> HloSharding | None:
        """Return the sharding in XLA's form; None if the text does not determine it.

        Args:
            rank: Dimensions of the array, used if the value has no shape.
        """
        if self.hlo_sharding is not None:
            return self.hlo_sharding
        if self.mesh is None or self.spec is None or not self.spec.is_constrained:
            return None
        known = self.shape.rank if self.shape is not None else rank
        spec = self.spec
        named = named_sharding(self.mesh.mesh, spec.entries, known or 0, spec.unreduced)
        try:
            return HloSharding.from_named(named)
        except HloLensError:
            return None

    def device_shape(self) -> Shape | None:
        """Return the shape of one device's part; None if it is not known."""
        sharding = None if self.shape is None else self.sharding()
        if self.shape is None or sharding is None:
            return None
        try:
            return sharding.shard_shape(self.shape)
        except HloLensError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCell:
    """One box of a drawing.

    Attributes:
        row: Its first row of boxes.
        column: Its first column of boxes.
        text: Text in it.
        devices: Device ids, ascending; None if the text has none, or not all.
    """

    row: int
    column: int
    text: str = ""
    devices: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingBoxes:
    """Drawn boxes: which devices hold which part of a value of one or two dimensions.

    Attributes:
        rows: Rows of boxes.
        columns: Columns of boxes.
        cells: The boxes, row by row.
        platform: Word before the device ids, such as ``GPU``.
        label: The last words before it.
        line: 1-based line of the file where it begins.
        lines: Number of its lines.
    """

    rows: int
    columns: int
    cells: tuple[BoxCell, ...]
    platform: str = ""
    label: str = field(default="", compare=False)
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)

    def tiles(self) -> dict[int, tuple[int, int]] | None:
        """Return the row and the column of each device; None unless every box names its devices."""
        found: dict[int, tuple[int, int]] = {}
        for cell in self.cells:
            if cell.devices is None:
                return None
            for device in cell.devices:
                if device in found:
                    return None
                found[device] = (cell.row, cell.column)
        return found if found else None


@dataclass(kw_only=True)
class ShardingLog:
    """Shardings in a log, in text order.

    Attributes:
        values: Meshes, shardings, specs, types.
        boxes: Drawings.
        dumps: Number of skipped dumps of Python objects.
        dump_lines: Number of their lines.
        code_calls: Number of skipped calls in source code, whose arguments are names.
        gaps: Values and drawings that could not be read.
    """

    values: tuple[JaxValue, ...] = ()
    boxes: tuple[ShardingBoxes, ...] = ()
    dumps: int = 0
    dump_lines: int = 0
    code_calls: int = 0
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)
