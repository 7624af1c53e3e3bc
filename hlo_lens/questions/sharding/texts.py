"""Shardings in all spellings: of XLA, of Shardy, and of JAX with its meshes and specs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.shapes.named_sharding import named_sharding
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.shapes.shardy import shardy_shardings
from hlo_lens.text.errors import DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from hlo_lens.logs.jax_values import JaxValue
    from hlo_lens.shapes.mesh import Mesh

ACCEPTED = (
    "{devices=[2,1]<=[2]}, {mesh['x'=2], [{'x'}, {}]}, NamedSharding(mesh=Mesh('x': 2), "
    'spec=P(\'x\', None)), #sdy.sharding<mesh<["x"=2]>, [{"x"}, {}]>, or with --mesh x=2 '
    "P('x', None) or ('x', None)"
)
"""Spellings, for messages."""

_PREFIX = re.compile(r"(?:[\w.]*sharding[ ]*=[ ]*)?(?P<text>.*?)[ ]*,?\Z", re.DOTALL)
_MESH_NAME = re.compile(r'<@"?([\w.$-]+)')


def read_sharding(text: str, mesh: Mesh | None, rank: int) -> tuple[HloSharding, Mesh | None]:
    """Return the sharding of a text, and the mesh that names its axes.

    Args:
        text: The sharding in any spelling that ``hlo-lens report`` reads; a JAX spec as
            ``P('x', None)`` or as ``('x', None)``, which ``str(tuple(spec))`` prints.
        mesh: Mesh of a spelling that names axes alone; None if there is none.
        rank: Dimensions of the value.

    Raises:
        UsageError: If it is none of these, or has another mesh or more dimensions.
    """
    match = _PREFIX.match(text.strip())
    bare = _without_quotes(match["text"] if match else text)
    try:
        if "sdy.sharding" in bare or bare.startswith("<"):
            return _shardy(bare, mesh), mesh
        if bare.startswith("("):
            return _jax(f"P{bare}", mesh, rank)
        if bare[:1].isalpha() and ("(" in bare or "@" in bare):
            return _jax(bare, mesh, rank)
        return HloSharding.parse(bare if bare.startswith("{") else f"{{{bare}}}"), mesh
    except DumpSyntaxError as error:
        raise UsageError(
            f"not a sharding: {text}: {error.message}; write it like {ACCEPTED}"
        ) from error


def _without_quotes(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].strip()
    return text


def _shardy(text: str, mesh: Mesh | None) -> HloSharding:
    """Return the sharding of ``#sdy.sharding<@mesh, [...]>``."""
    names = _MESH_NAME.findall(text) if mesh is not None else []
    found = shardy_shardings(text, {name: mesh for name in names if mesh is not None})
    if len(found) == 1 and found[0] is not None:
        return found[0]
    if mesh is None and "@" in text:
        raise UsageError(f"{text} names its mesh alone; add the axes with --mesh x=4,y=2")
    fits = "" if mesh is None else f" over {mesh}"
    raise UsageError(f"not a sharding{fits}: {text}; write it like {ACCEPTED}")


def _jax(text: str, mesh: Mesh | None, rank: int) -> tuple[HloSharding, Mesh | None]:
    """Return the sharding that JAX prints, and its mesh."""
    from hlo_lens.logs.jax_items import CodeError
    from hlo_lens.logs.logs_jax_values import parse_value

    try:
        value = parse_value(text)
    except CodeError:
        raise UsageError(
            f"{text} is source code: names of variables have no value here; write it like "
            f"{ACCEPTED}"
        ) from None
    if value is None or not (value.spec or value.hlo_sharding):
        raise UsageError(f"not a sharding: {text}; write it like {ACCEPTED}")
    own = None if value.mesh is None else value.mesh.mesh
    if own is not None and mesh is not None and own != mesh:
        raise UsageError(f"{text} has a mesh of its own, other than --mesh {mesh}")
    return _named(value, own or mesh, rank, text), own or mesh


def _named(value: JaxValue, mesh: Mesh | None, rank: int, text: str) -> HloSharding:
    """Return the sharding of a value with a spec over a mesh, or with one of XLA."""
    if value.hlo_sharding is not None:
        return value.hlo_sharding
    if value.spec is None or not value.spec.is_constrained:
        raise UsageError(f"{text} leaves a dimension to XLA (UNCONSTRAINED)")
    if mesh is None:
        raise UsageError(f"{text} needs the axes of its mesh: add --mesh x=4,y=2")
    if len(value.spec.entries) > rank:
        raise UsageError(
            f"{text} has {len(value.spec.entries)} entries, the shape {rank} dimensions"
        )
    named = named_sharding(mesh, value.spec.entries, rank, value.spec.unreduced)
    return HloSharding.from_named(named)
