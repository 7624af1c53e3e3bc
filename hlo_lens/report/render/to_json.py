"""Report to JSON, one row on each line."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from hlo_lens.report.render.table import Objects, RenderOptions, Report

_PIECES = 4096
_NEXT = ",\n"
_SCALARS = frozenset({str, int, float, bool, type(None)})
_encoded = json.JSONEncoder(check_circular=False).encode


def render_json(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write the report's data: full integers, keys in a fixed order, ASCII only."""
    pieces: list[str] = []
    for piece in _pieces(report.data, ""):
        pieces.append(piece)
        if len(pieces) > _PIECES:
            out.write("".join(pieces))
            pieces.clear()
    pieces.append("\n")
    out.write("".join(pieces))


def _pieces(value: object, indent: str) -> Iterator[str]:
    """Yield the text of a value; one without objects inside is on one line."""
    deeper = f"{indent}  "
    if type(value) is dict and _SCALARS.issuperset(map(type, value.values())):
        yield _encoded(value)
    elif isinstance(value, Mapping) and any(map(_is_long, value.values())):
        yield "{\n"
        for position, (key, item) in enumerate(value.items()):
            yield f"{_NEXT if position else ''}{deeper}{_encoded(key)}: "
            yield from _pieces(item, deeper)
        yield f"\n{indent}}}"
    elif _is_long(value) and isinstance(value, Sequence):
        yield "[\n"
        for position, item in enumerate(value):
            yield f"{_NEXT if position else ''}{deeper}"
            yield from _pieces(item, deeper)
        yield f"\n{indent}]"
    else:
        yield _encoded([] if isinstance(value, Objects) else value)


def _is_long(value: object) -> bool:
    """Return whether a value is printed on several lines: a larger object, a list of objects."""
    kind = type(value)
    if kind in _SCALARS:
        return False
    if kind is tuple:
        return any(map(_is_object, map(type, value)))  # type: ignore[call-overload]
    if isinstance(value, Mapping):
        return len(value) > 1 or any(map(_is_long, value.values()))
    if isinstance(value, Objects):
        return len(value) > 0
    return isinstance(value, (list, tuple)) and any(map(_is_object, map(type, value)))


@functools.cache
def _is_object(kind: type) -> bool:
    return issubclass(kind, Mapping)
