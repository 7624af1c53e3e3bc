"""Text of a sharding, in any spelling, to `HloSharding`.

The grammar is the definition (`parse_sharding_with_grammar`). `parse_sharding` reads the forms that
XLA prints most by regular expressions, with the same result; all other texts go to the grammar,
which also finds the places of errors. It is loaded when it is first needed.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Any

from hlo_lens.grammar.misplaced import MisplacedError
from hlo_lens.shapes.mesh_reader import (
    AXIS_REFS,
    IOTA,
    MESH,
    NUMBERS,
    device_array,
    named_sharding,
    printed_axes,
    printed_iota,
    printed_mesh,
    printed_sizes,
)
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh

_WHOLE = re.compile(r"\{(?:(replicated|manual|unknown|unreduced)|maximal device=(\d{1,9}))\}")
_KIND = r"(?:replicated|manual|unreduced)"
_TILED = re.compile(
    rf"\{{devices=\[({NUMBERS})\](?:<={IOTA}|({NUMBERS}))"
    rf"(?: (?:(last_tile_dim_replicate)|last_tile_dims=\{{({_KIND}(?:, ?{_KIND})*+)\}}))?+\}}"
)
"""V1 and V2. Groups: dimensions; view and permutation of an iota, or ids; the two kinds of tail."""

_DIMENSION = rf"\{{(?:{AXIS_REFS}(?:, ?\?)?+|\?)?+\}}"
_NAMED = re.compile(
    rf"\{{{MESH}, (?:({_KIND})|\[((?:{_DIMENSION}(?:, ?{_DIMENSION})*+)?+)\]"
    rf"((?:, (?:replicated|unreduced|manual)=\{{{AXIS_REFS}\}})*+))\}}"
)
"""V3. Groups: those of `MESH`; one kind for all axes, or dimensions and axes that divide none."""

_PRINTED_DIMENSION = re.compile(r"\{([^{}]*+)\}")
_PRINTED_FIELD = re.compile(r"(\w++)=\{([^{}]*+)\}")
_ELEMENT = r"\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}"
_TUPLE = re.compile(rf"\{{({_ELEMENT}(?:, ?{_ELEMENT})*+)\}}")
_ELEMENTS = re.compile(_ELEMENT)
_INDEX = re.compile(r"(?<=, )/\*index=\d++\*/(?=\{)")
"""Comment before each fifth element of a tuple."""


@functools.lru_cache(maxsize=1 << 14)
def parse_sharding(text: str) -> HloSharding:
    """Return the sharding that a text prints; each distinct text is parsed once.

    Raises:
        DumpSyntaxError: If it is malformed; line and column are those within the text.
    """
    try:
        found = _printed(text)
    except (MisplacedError, UsageError):
        found = None
    if found is None:
        from hlo_lens.shapes.sharding_grammar import parse_sharding_with_grammar

        return parse_sharding_with_grammar(text)
    return dataclasses.replace(found, text=text)


def _printed(text: str) -> HloSharding | None:
    """Return a sharding of a common form; None where only the grammar can decide."""
    match = _TUPLE.fullmatch(_INDEX.sub("", text) if "/*" in text else text)
    if match is None:
        return _single(text)
    known: dict[str, HloSharding] = {}
    elements: list[HloSharding] = []
    for piece in _ELEMENTS.findall(match[1]):
        element = known.get(piece) or _single(piece)
        if element is None:
            return None
        known[piece] = element
        elements.append(element)
    return HloSharding(kind=ShardingKind.TUPLE, elements=tuple(elements))


def _single(text: str) -> HloSharding | None:
    match = _WHOLE.fullmatch(text)
    if match is not None:
        if match[2] is not None:
            return HloSharding(kind=ShardingKind.MAXIMAL, device=int(match[2]))
        return HloSharding(kind=ShardingKind(match[1]))
    match = _TILED.fullmatch(text)
    if match is not None:
        return _tiled(match)
    match = _NAMED.fullmatch(text)
    return None if match is None else _named(match)


def _tiled(match: re.Match[str]) -> HloSharding | None:
    dimensions, view, order, ids, replicate, kinds = match.groups()
    subgroups: tuple[ShardingKind, ...] = ()
    if replicate is not None:
        subgroups = (ShardingKind.REPLICATED,)
    elif kinds is not None:
        subgroups = tuple(ShardingKind(kind.strip()) for kind in kinds.split(","))
    sizes = printed_sizes(dimensions).values
    if len(subgroups) > len(sizes):
        return None
    devices = printed_sizes(ids) if ids is not None else printed_iota(view, order)
    return HloSharding.tiled(device_array(dimensions, sizes, devices), subgroups)


def _named(match: re.Match[str]) -> HloSharding | None:
    axes, view, order, ids, kind, dims, fields = match.groups()
    mesh = printed_mesh(axes, view, order, ids)
    if kind is not None:
        return _over_mesh(mesh, {"kind": ShardingKind(kind)})
    listed = _PRINTED_FIELD.findall(fields)
    found: dict[str, Any] = {name: (None, printed_axes(text)) for name, text in listed}
    if len(found) != len(listed):
        return None
    found["dims"] = [
        (printed_axes(dim.removesuffix("?")), dim.endswith("?"))
        for dim in _PRINTED_DIMENSION.findall(dims)
    ]
    return _over_mesh(mesh, found)


def _over_mesh(mesh: Mesh, found: dict[str, Any]) -> HloSharding:
    named = named_sharding(mesh, found)
    return dataclasses.replace(HloSharding.from_named(named), named=named, text="")
