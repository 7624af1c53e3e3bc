"""Shardy attributes: meshes, and shardings by mesh axes.

JAX passes shardings to XLA as Shardy attributes in ``frontend_attributes``; the partitioner removes
them, so only texts before it have them. A Shardy sharding is a V3 sharding with other quotes and a
mesh by name, so it is rewritten as one and parsed as one.

Sources: xla/service/spmd/shardy/constants.h (the keys); printer and parser of shardy/dialect/sdy/ir
(parsers.cc, printers.cc: ``#sdy.mesh``, ``#sdy.sharding``, ``#sdy.sharding_per_value``), as of
August 2026. The priority of a dimension (``{"x"}p1``) only affects propagation and is dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TypeAlias

from hlo_lens.shapes.mesh import MOST_DEVICES, Mesh, TileAssignment
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.patterns import lazy_pattern

Meshes: TypeAlias = "Mapping[str, Mesh]"

MESHES = "xla.sdy.meshes"
SHARDING = "xla.sdy.sharding"
IN_SHARDINGS = "xla.sdy.in_shardings"
OUT_SHARDINGS = "xla.sdy.out_shardings"
MANUAL_AXES = "xla.sdy.manual_axes"
SHARDINGS_BEGIN = "#sdy.sharding"
TUPLE_ARGS_SHARDINGS = "xla.sdy.tuple_args_shardings"
TUPLE_RESULTS_SHARDINGS = "xla.sdy.tuple_results_shardings"

MANUAL_BODIES = (
    "xla.sdy.manual_computation_body",
    "xla.sdy.inlinable_manual_computation_body",
)
"""Prefixes of the names of shard_map bodies; shapes in them are those of one device."""

_BODY = r"<\[(?P<axes>[^\]]*)\](?:\s*,\s*device_ids\s*=\s*\[(?P<ids>[^\]]*)\])?>"
_MESH = lazy_pattern(rf"@?\"?(?P<name>[\w.$-]+)\"?\s*=\s*#sdy\.mesh{_BODY}")
_LOWERED = lazy_pattern(rf"sdy\.mesh\s+@\"?(?P<name>[\w.$-]+)\"?\s*=\s*{_BODY}")
_AXIS = re.compile(r'"([^"]*)"\s*=\s*(\d+)')
_TOO_LONG = re.compile(r"\d{19}")
"""A number of more devices than any mesh has."""

_SHARDING = lazy_pattern(rf'<(?:@"?(?P<name>[\w.$-]+)"?|mesh{_BODY})\s*,\s*(?P<rest>\[[^<>]*)>')
_PRIORITY = re.compile(r"(?<=\})p\d+")
_NAME = re.compile(r'"([^"]*)"')


def shardy_meshes(text: str) -> dict[str, Mesh]:
    """Return the meshes of an ``xla.sdy.meshes`` value by name, without those of no devices.

    >>> str(shardy_meshes('{mesh = #sdy.mesh<["data"=2, "model"=4]>}')["mesh"])
    "mesh['data'=2,'model'=4]"
    """
    found = ((match["name"], _mesh(match)) for match in _MESH.finditer(_plain(text)))
    return {name: mesh for name, mesh in found if mesh is not None}


def lowered_meshes(text: str) -> tuple[Mesh, ...]:
    """Return the meshes with axes of a program as lowered to MLIR (``sdy.mesh``), in text order.

    >>> [str(mesh) for mesh in lowered_meshes('sdy.mesh @mesh_0 = <["p"=4, "q"=2]>')]
    ["mesh['p'=4,'q'=2]"]
    """
    found = meshes_by_name(text).values()
    return tuple(dict.fromkeys(mesh for mesh in found if mesh.axis_names))


def meshes_by_name(text: str) -> dict[str, Mesh]:
    """Return the meshes of a program as lowered by name, without those of no devices."""
    found = ((match["name"], _mesh(match)) for match in _LOWERED.finditer(text))
    return {name: mesh for name, mesh in found if mesh is not None}


def shardy_shardings(text: str, meshes: Meshes) -> tuple[HloSharding | None, ...]:
    """Return the shardings of ``#sdy.sharding<...>``, or of each in ``sharding_per_value``.

    Args:
        text: Value of an attribute with shardings.
        meshes: Meshes by name; a sharding on another mesh, or a malformed one, is None.

    >>> shardy_shardings('#sdy.sharding<@m, [{"x"}, {}]>', {"m": Mesh.of({"x": 4})})[0].text
    "{mesh['x'=4], [{'x'}, {}]}"
    """
    found: list[HloSharding | None] = []
    for match in _SHARDING.finditer(_plain(text)):
        mesh = meshes.get(match["name"]) if match["name"] else _mesh(match)
        found.append(None if mesh is None else _sharding(mesh, match["rest"]))
    return tuple(found)


def shardy_axes(text: str) -> tuple[str, ...]:
    """Return the axis names of ``#sdy<manual_axes{"x", "y"}>``."""
    return tuple(_NAME.findall(_plain(text)))


def _plain(text: str) -> str:
    return text.replace("\\22", '"').replace('\\"', '"')


def _mesh(match: re.Match[str]) -> Mesh | None:
    """Return a mesh; None for one without devices, or with too many."""
    if _TOO_LONG.search(match["axes"]) or _TOO_LONG.search(match["ids"] or ""):
        return None
    sizes = {name: int(size) for name, size in _AXIS.findall(match["axes"])}
    ids = [int(number) for number in re.findall(r"\d+", match["ids"] or "")]
    if not sizes:
        return Mesh.maximal(ids[0]) if ids else Mesh()
    if not 0 < math.prod(sizes.values()) <= MOST_DEVICES:
        return None
    assignment = None
    if len(ids) == math.prod(sizes.values()):
        listed = TileAssignment(dimensions=tuple(sizes.values()), device_ids=tuple(ids))
        assignment = listed if ids != sorted(ids) else None
    return Mesh(
        axis_names=tuple(sizes), axis_sizes=tuple(sizes.values()), device_assignment=assignment
    )


def _sharding(mesh: Mesh, rest: str) -> HloSharding | None:
    """Return a sharding on a mesh; None if its axes are not those of the mesh."""
    if not mesh.axis_names and not mesh.is_maximal:
        return None
    dims = _PRIORITY.sub("", rest).replace('"', "'")
    try:
        return HloSharding.parse(f"{{{mesh}}}" if mesh.is_maximal else f"{{{mesh}, {dims}}}")
    except DumpSyntaxError:
        return None
