"""Cells of a column as lines of text of a width: cut or wrapped, as the role of the column asks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.render.column_roles import Role
from hlo_lens.render.table import DOTS, cell_width, shorten
from hlo_lens.render.whole_commands import joined, separated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_LAYOUT = re.compile(r"(?<=\])\{[^{}]*\}")
_XLA_NAME = re.compile(r"[\w.\-]+(\{[\d,]*\})?")
_PLACE = re.compile(r"/[^/\[\]]*\.\w+:\d+( ~)?$")
"""Path with a line, such as the label of a group."""
_MOST_LINES = 2
"""Lines of a wrapped cell of less importance; the rest of a longer text is cut."""


def column_lines(cells: Sequence[str], role: Role, width: int) -> list[list[str]]:
    """Return the lines of each cell of a column.

    Names and places that differ remain different: where two short forms are equal, places lose
    their middle instead, and all are wrapped whole where that is not enough. Names of arguments,
    such as ``state['opt'][0]``, are always wrapped.

    Args:
        cells: Cells as text.
        role: Role of the column.
        width: Width of the column.
    """
    if all(cell_width(cell) <= width for cell in cells):
        return [[cell] for cell in cells]
    if role is Role.BAR:
        return [[bar] for bar in _shorter_bars(cells, width)]
    cut = _CUT.get(role)
    if cut is None:
        most = _MOST_LINES if role is Role.TEXT else None
        return [_most(wrapped(cell, width), most) for cell in cells]
    short = {cell: (last_parts if _is_place(cell) else cut)(cell, width) for cell in cells}
    if role is Role.PLACE and _are_alike(short):
        short = {cell: _middle_out(cell, width) for cell in cells}
    if role in (Role.NAME, Role.PLACE) and _are_alike(short):
        return [[*wrapped(cell, width)] for cell in cells]
    return [
        [*wrapped(cell, width)] if short[cell] != cell and _is_argument(cell, role) else [text]
        for cell in cells
        for text in (short[cell],)
    ]


def _shorter_bars(cells: Sequence[str], width: int) -> Iterator[str]:
    """Yield bars in the same proportions, the longest as wide as the column."""
    longest = max(map(cell_width, cells))
    for bar in cells:
        yield bar[: round(cell_width(bar) * width / longest)]


def _are_alike(short: Mapping[str, str]) -> bool:
    """Return whether two different cells have the same short form."""
    return len({*short.values()}) < len(short)


def _is_argument(text: str, role: Role) -> bool:
    """Return whether a text is a name of an argument, or words, whose first parts matter too."""
    if role is Role.NAME:
        return _XLA_NAME.fullmatch(text) is None and not _is_place(text)
    return "/" not in text and (role is Role.SCOPE or (role is Role.PLACE and " " in text))


def _is_place(text: str) -> bool:
    return _PLACE.search(text) is not None


def least_width(cells: Sequence[str], role: Role) -> int:
    """Return the width under which a column is not worth showing."""
    if role is Role.MEASURE:
        return max(map(cell_width, cells), default=0)
    if role is Role.PLACE or any(map(_is_place, cells)):
        cells = [cell.rpartition("/")[2] if "]" not in cell else cell for cell in cells]
    elif role is Role.SHAPE:
        cells = [_LAYOUT.sub("", cell) for cell in cells]
    least = max(map(cell_width, cells), default=0)
    if role is Role.SCOPE and any(_is_argument(cell, role) for cell in cells if cell):
        return min(least, _LEAST_ARGUMENT)
    return min(least, _LEAST.get(role, _LEAST_TEXT))


_LEAST: Mapping[Role, int] = {
    Role.NAME: 30,
    Role.PLACE: 28,
    Role.SCOPE: 20,
    Role.SHAPE: 24,
    Role.BAR: 10,
}
_LEAST_ARGUMENT = 28
_LEAST_TEXT = 20


def _most(lines: Iterator[str], most: int | None) -> list[str]:
    """Return the first lines, with dots where others follow; all lines for None."""
    kept = [*lines]
    if most is None or len(kept) <= most:
        return kept
    last = kept[most - 1]
    return [*kept[: most - 1], f"{last[: len(last) - len(DOTS)]}{DOTS}"]


def _end(text: str, width: int) -> str:
    """Return the end of a text after dots."""
    if cell_width(text) <= width:
        return text
    if not text.isascii():
        return shorten(text, width)
    return f"{DOTS}{text[len(text) - width + len(DOTS) :]}"


def _middle_out(text: str, width: int) -> str:
    """Return the first third of a text and its end, with dots between them."""
    if cell_width(text) <= width or not text.isascii():
        return text
    head = (width - len(DOTS)) // 3
    return f"{text[:head]}{DOTS}{text[len(text) - width + len(DOTS) + head :]}"


def last_parts(text: str, width: int) -> str:
    """Return the last parts of a path after dots, or the last part alone.

    >>> last_parts("/home/me/project/train.py:41", 24)
    '.../project/train.py:41'
    >>> last_parts("/home/me/project/train.py:41", 12)
    'train.py:41'
    """
    if cell_width(text) <= width:
        return text
    place = text.find("/", max(0, len(text) - width + len(DOTS)))
    last = text.rpartition("/")[2] or text
    return f"{DOTS}{text[place:]}" if place >= 0 else _end(last, width)


def _without_layouts(text: str, width: int) -> str:
    """Return a shape without layouts, and without its end if it is too long.

    >>> _without_layouts("(f32[128,64]{1,0:T(8,128)}, s32[])", 20)
    '(f32[128,64], s32[])'
    """
    bare = _LAYOUT.sub("", text)
    if cell_width(bare) <= width or not bare.isascii():
        return shorten(bare, width)
    return f"{bare[: width - len(DOTS)]}{DOTS}"


def with_short_paths(line: str, width: int) -> str:
    """Return a line whose longest paths are cut until it fits, as far as they make it fit.

    >>> with_short_paths("all-reduce m  /home/me/project/train.py:12 +1", 36)
    'all-reduce m  .../train.py:12 +1'
    """
    for path in sorted(_PATH.findall(line), key=len, reverse=True):
        excess = cell_width(line) - width
        if excess > 0:
            least = len(path.rpartition("/")[2])
            line = line.replace(path, last_parts(path, max(least, len(path) - excess)))
    return line


def _last_scopes(text: str, width: int) -> str:
    """Return the last scopes of a path; arguments in brackets after the last are cut first.

    >>> _last_scopes("jit(f)/embed/convert_element_type[new_dtype=bfloat16 weak_type=False]", 32)
    '...embed/convert_element_type'
    """
    bare = without_arguments(text) if cell_width(text) > width else text
    return last_parts(bare, width)


def without_arguments(path: str) -> str:
    """Return an operation path without the arguments in brackets that old jax prints after it.

    >>> without_arguments("jit(f)/while[cond_nconsts=0 body_nconsts=1]")
    'jit(f)/while'
    """
    return _ARGUMENTS.sub("", path)


_PATH = re.compile(r"\S*/\S+")
_ARGUMENTS = re.compile(r"(?<=\w)\[\w+=[^/]*\]$")
_CUT: Mapping[Role, Callable[[str, int], str]] = {
    Role.NAME: _end,
    Role.PLACE: last_parts,
    Role.SCOPE: _last_scopes,
    Role.SHAPE: _without_layouts,
}


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield a text in lines: broken at spaces, in long words after marks, else anywhere.

    Commands that fit in a line are words.

    >>> list(wrapped("convert_fusion.10.clone of main", 12))
    ['convert_', 'fusion.10.', 'clone of', 'main']
    """
    line = ""
    for part in _parts(text, width):
        if line and cell_width(line + part.rstrip()) > width:
            yield line.rstrip()
            line = ""
        line += part
    yield line.rstrip()


def _parts(text: str, width: int) -> Iterator[str]:
    """Yield the parts of a text between which it may be broken, none wider than a line."""
    for word in map(separated, _WORD.findall(joined(text, width))):
        if cell_width(word.rstrip()) <= width:
            yield word
            continue
        for part in _AFTER_MARK.findall(word):
            if cell_width(part) <= width:
                yield part
            else:
                yield from part


def widest_part(text: str) -> int:
    """Return the least width in which `wrapped` breaks a text at spaces and after marks alone.

    >>> widest_part("collectives.wire_bytes_per_device is new")
    12
    """
    parts = (part for word in _WORD.findall(text) for part in _AFTER_MARK.findall(word))
    return max((cell_width(part.rstrip()) for part in parts), default=0)


_WORD = re.compile(r"\S*\s*(?<=.)", re.DOTALL)
_AFTER_MARK = re.compile(r"[^._/\-,=\]]*[._/\-,=\]]|[^._/\-,=\]]+")
