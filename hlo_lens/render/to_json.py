"""Report to JSON, one row on each line.

Objects in a list that have the same keys are printed by column, many rows at a time: a report has
tens of thousands of rows with few different values in most columns.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, TextIO

from hlo_lens.render.objects import JoinedObjects, Objects, RowObjects

if TYPE_CHECKING:
    from hlo_lens.render.table import RenderOptions, Report

_WRITTEN = 1 << 20
"""Characters that are written at once."""

_NEXT = ",\n"
_ROWS = 512
"""Rows that are printed together."""

_FEW = 8
"""Rows that are faster to print one by one."""

_MADE = (Objects, RowObjects, JoinedObjects)
"""Lists whose objects are made on access."""

_SCALARS = frozenset({str, int, float, bool, type(None)})


def _listed(value: object) -> list[object]:
    """Return a list of objects that are made on access, as `json` prints an empty one."""
    if isinstance(value, _MADE):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be printed as JSON")


_encoded = json.JSONEncoder(check_circular=False, default=_listed).encode
_by_line = json.JSONEncoder(check_circular=False, separators=("\n", ": ")).encode


def render_json(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write the report's data: full integers, keys in a fixed order, ASCII only."""
    pieces: list[str] = []
    length = 0
    for piece in _pieces(report.data, ""):
        pieces.append(piece)
        length += len(piece)
        if length > _WRITTEN:
            out.write("".join(pieces))
            pieces.clear()
            length = 0
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
        yield from _items(value, deeper)
        yield f"\n{indent}]"
    else:
        yield _encoded(value)


def _is_long(value: object) -> bool:
    """Return whether a value is printed on several lines: a larger object, a list of objects."""
    kind = type(value)
    if kind in _SCALARS:
        return False
    if kind is tuple:
        return any(map(_is_object, map(type, value)))  # type: ignore[call-overload]
    if isinstance(value, Mapping):
        return len(value) > 1 or any(map(_is_long, value.values()))
    if isinstance(value, _MADE):
        return len(value) > 0
    return isinstance(value, (list, tuple)) and any(map(_is_object, map(type, value)))


@functools.cache
def _is_object(kind: type) -> bool:
    return issubclass(kind, Mapping)


# ---- items of a list ---------------------------------------------------------------------------


def _items(items: Sequence[object], indent: str) -> Iterator[str]:
    """Yield the text of the items of a list, each on a line of its own or on several."""
    if isinstance(items, JoinedObjects):
        for position, part in enumerate(items.parts):
            yield _NEXT if position else ""
            yield from _items(part, indent)
        return
    separator = f"{_NEXT}{indent}"
    is_apart = isinstance(items, Objects) or len(items) < _FEW
    step = 1 if is_apart else _ROWS
    for start in range(0, len(items), step):
        yield separator if start else indent
        some = items[start : start + step]
        rows = None if is_apart else _row_texts(some)
        if rows is not None:
            yield separator.join(rows)
            continue
        for position, item in enumerate(some):
            if position:
                yield separator
            yield from _pieces(item, indent)


def _row_texts(items: Sequence[object]) -> Iterator[str] | None:
    """Return the text of each of some objects; None if their keys differ, or one is long."""
    keys, rows = _keys_and_rows(items)
    if not keys:
        return None
    parts: list[Iterable[str]] = []
    lead = "{"
    for key, column in zip(keys, zip(*rows, strict=True), strict=True):
        lead += f"{_encoded(key)}: "
        texts = _cell_texts(column)
        if texts is None:
            return None
        if isinstance(texts, str):
            lead += texts
        else:
            parts += (repeat(lead), texts)
            lead = ""
        lead += ", "
    parts.append(repeat(f"{lead[:-2]}}}", len(rows)))
    return map("".join, zip(*parts, strict=False))


def _keys_and_rows(
    items: Sequence[object],
) -> tuple[tuple[str, ...], Sequence[tuple[object, ...]]]:
    """Return the keys of some objects and the values of each; no keys if they differ."""
    if isinstance(items, RowObjects):
        return items.names, items.rows()
    if set(map(type, items)) != {dict}:
        return (), ()
    objects = [item for item in items if isinstance(item, dict)]
    keys = set(map(tuple, objects))
    if len(keys) != 1 or set(map(type, objects[0])) != {str}:
        return (), ()
    return keys.pop(), [tuple(one.values()) for one in objects]


def _cell_texts(column: Sequence[object]) -> Iterator[str] | str | None:
    """Return the text of each cell, or of all if they are one; None if one is long.

    Each different object is encoded once, whatever it is equal to (1, 1.0 and true are equal).
    """
    places = list(map(id, column))
    different = dict(zip(places, column, strict=True))
    cells = different.values()
    if _SCALARS.issuperset(map(type, cells)):
        texts = _by_line(list(cells))[1:-1].split("\n")
    elif any(map(_is_long, cells)):
        return None
    else:
        texts = list(map(_encoded, cells))
    if len(texts) == 1:
        return texts[0]
    return map(dict(zip(different, texts, strict=True)).__getitem__, places)
