"""Arguments and results of a jitted function, joined to the parameters and outputs of its program.

Public API of jax where there is one: ``Compiled.args_info``, ``input_shardings`` (None for an
argument that the program does not use), ``output_shardings``, ``NamedSharding``. Names of
positional arguments have no public API: they come from the debug information of executables of
jax 0.4.30 to 0.12.0; without it an argument is called ``args[0]``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hlo_lens.hlo.framework import FrameworkValue
from hlo_lens.shapes.mesh import AxisRef, Mesh
from hlo_lens.shapes.named_sharding import DimensionSharding, NamedSharding
from hlo_lens.shapes.primitive_type import xla_name
from hlo_lens.shapes.shape import Shape
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.shapes.tile_assignment import TileAssignment
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One array of the arguments or of the result, with its jax objects.

    Attributes:
        name: Its path.
        aval: Object with ``shape`` and ``dtype``; None where there is none.
        sharding: A ``jax.sharding.Sharding``, or None.
        is_donated: None for results.
        is_used: Whether the program has a parameter for it.
    """

    name: str
    aval: Any
    sharding: Any
    is_donated: bool | None = None
    is_used: bool = True


class Meshes:
    """Converter of jax's meshes and shardings.

    Device ids in HLO text are positions in the device assignment, which is the order of the devices
    in the first mesh; a mesh of the same devices in another order has a permutation of them.
    """

    def __init__(self) -> None:
        self._places: dict[object, int] = {}
        self._known: dict[int, tuple[object, Mesh]] = {}

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """All meshes with axes, in order of appearance, without repetition."""
        found = dict.fromkeys(mesh for _, mesh in self._known.values() if mesh.axis_names)
        return tuple(found)

    def sharding_of(self, sharding: Any, rank: int) -> HloSharding | None:
        """Return the HloSharding of a jax sharding; None for kinds without a known counterpart."""
        if sharding is None:
            return None
        try:
            if getattr(sharding, "spec", None) is not None and hasattr(sharding, "mesh"):
                return self._named(sharding)
            convert = getattr(sharding, "_to_xla_hlo_sharding", None)
            return None if convert is None else HloSharding.parse(str(convert(rank)))
        except (HloLensError, AttributeError, NotImplementedError, TypeError, ValueError):
            return None

    def _named(self, sharding: Any) -> HloSharding | None:
        dims = []
        for entry in sharding.spec:
            names = () if entry is None else (entry,) if isinstance(entry, str) else entry
            if not isinstance(names, (tuple, list)):
                return None  # PartitionSpec.UNCONSTRAINED: left to XLA
            dims.append(DimensionSharding(axes=tuple(AxisRef(axis=name) for name in names)))
        partial = getattr(sharding.spec, "unreduced", None) or ()
        axes = tuple(AxisRef(axis=name) for name in sorted(partial))
        mesh = self._mesh(sharding.mesh)
        named = NamedSharding(mesh=mesh, dim_shardings=tuple(dims), unreduced_axes=axes)
        return HloSharding.parse(str(named))

    def _mesh(self, mesh: Any) -> Mesh:
        known = self._known.get(id(mesh))
        if known is None:
            known = self._known[id(mesh)] = (mesh, self._made(mesh))
        return known[1]

    def _made(self, mesh: Any) -> Mesh:
        made = Mesh.of({str(name): int(size) for name, size in mesh.shape.items()})
        devices = getattr(mesh, "devices", None)
        if devices is None or not hasattr(devices, "flat"):  # an AbstractMesh has none
            return made
        listed = list(devices.flat)
        if not self._places:
            self._places = {device: place for place, device in enumerate(listed)}
        ids = tuple(self._places.get(device, -1) for device in listed)
        if ids == tuple(range(len(ids))) or min(ids, default=-1) < 0:
            return made
        return replace(
            made,
            device_assignment=TileAssignment(dimensions=made.axis_sizes, device_ids=ids),
        )


def _element_type(leaf: Leaf) -> str | None:
    """Return XLA's name of an array's type; None for extended dtypes of jax, such as PRNG keys."""
    dtype = getattr(leaf.aval, "dtype", None)
    return xla_name(str(getattr(dtype, "name", dtype)))


def argument_values(
    leaves: Sequence[Leaf], module: HloModule, meshes: Meshes
) -> tuple[tuple[FrameworkValue, ...], tuple[str, ...]]:
    """Return the arguments joined to their parameters, and notes on those that were not joined.

    jit drops arguments that the program does not use and numbers the others consecutively. It may
    put constants and tokens before them, or pass all as one tuple.
    """
    used = [leaf for leaf in leaves if leaf.is_used]
    places = _places(used, module)
    notes = []
    if places is None and used:
        notes.append(
            f"{plural(len(used), 'used argument')}, but the program has "
            f"{plural(len(module.entry.parameters), 'parameter')}: they cannot be matched"
        )
    known = iter(places or ())
    values = []
    for leaf in leaves:
        value = _value(leaf, meshes)
        place = next(known, None) if leaf.is_used else None
        if place is not None:
            value = replace(value, number=place[0], index=place[1])
        values.append(value)
    return tuple(values), tuple(notes)


def _places(used: Sequence[Leaf], module: HloModule) -> list[tuple[int, tuple[int, ...]]] | None:
    """Return parameter number and index of each used argument; None if they do not match."""
    parameters = module.entry.parameters
    if len(parameters) == 1 and len(used) != 1:
        shape = parameters[0].shape
        if shape is not None and shape.is_tuple and len(shape.tuple_shapes) == len(used):
            return [(0, (k,)) for k in range(len(used))]
    before = len(parameters) - len(used)
    types = [None if p.shape is None else p.shape.element_type for p in parameters]
    if not _follow(used, types, before):
        return None
    return [(before + k, ()) for k in range(len(used))]


def output_values(
    leaves: Sequence[Leaf], module: HloModule, meshes: Meshes
) -> tuple[tuple[FrameworkValue, ...], tuple[str, ...]]:
    """Return the results with their index in the root's shape, and notes on mismatches."""
    values = tuple(_value(leaf, meshes) for leaf in leaves)
    root = module.entry.root
    shape = None if root is None else root.shape
    if shape is None or not values:
        return (), ()
    if not shape.is_tuple and len(values) == 1:
        return values, ()
    parts = shape.tuple_shapes if shape.is_tuple else (shape,)
    before = len(parts) - len(values)
    if not shape.is_tuple or not _follow(leaves, [part.element_type for part in parts], before):
        counts = f"{plural(len(values), 'result')}, but the program has {len(parts)}"
        return (), (f"{counts}: they cannot be matched",)
    return tuple(replace(value, index=(before + k,)) for k, value in enumerate(values)), ()


def _follow(leaves: Sequence[Leaf], types: Sequence[str | None], before: int) -> bool:
    """Return whether the element types of arrays match, after the first `before` types."""
    if before < 0:
        return False
    pairs = zip(map(_element_type, leaves), types[before:], strict=True)
    return not before or all(None in pair or pair[0] == pair[1] for pair in pairs)


def _value(leaf: Leaf, meshes: Meshes) -> FrameworkValue:
    sizes = getattr(leaf.aval, "shape", None)
    kind = _element_type(leaf)
    shape = None
    if sizes is not None and kind is not None and all(isinstance(size, int) for size in sizes):
        shape = Shape(element_type=kind, dimensions=tuple(sizes))
    return FrameworkValue(
        name=leaf.name,
        shape=shape,
        sharding=meshes.sharding_of(leaf.sharding, len(sizes or ())),
        is_donated=leaf.is_donated,
        is_used=leaf.is_used,
    )


def keyed_leaves(tree: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Return path and leaf for each leaf of a pytree; None is a leaf."""
    import jax

    found = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda leaf: leaf is None)[0]
    return [(tuple(path), leaf) for path, leaf in found]


def path_name(path: Sequence[Any], names: Mapping[int, str]) -> str:
    """Return jax's name of a leaf of ``(args, kwargs)``: ``params['w']``, ``scale``."""
    import jax

    if len(path) < 2:
        return str(jax.tree_util.keystr(tuple(path)))
    side, root = path[0].idx, path[1]
    key = getattr(root, "key", getattr(root, "idx", root))
    head = names.get(key, f"args[{key}]") if side == 0 else str(key)
    return head + str(jax.tree_util.keystr(tuple(path[2:])))


def root_names(paths: Sequence[tuple[Any, ...]], named: Iterable[str | None]) -> dict[int, str]:
    """Return the names of positional arguments by number, taken from the names of all leaves."""
    import jax

    found: dict[int, str] = {}
    for path, name in zip(paths, named, strict=False):
        if name is None or len(path) < 2 or getattr(path[0], "idx", 1) != 0:
            continue
        rest = jax.tree_util.keystr(tuple(path[2:]))
        if name.endswith(rest) and len(name) > len(rest):
            found.setdefault(path[1].idx, name.removesuffix(rest) if rest else name)
    return found
