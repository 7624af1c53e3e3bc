"""Reader of drawn boxes: which devices hold which part (inverse of `report.sharding.boxes`).

A drawing is a grid of characters. Its walls are found first; a box is an area without a wall.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.model.logs.jax_values import BoxCell, ShardingBoxes
from hlo_lens.syntax.grammar.parsers import build_parser
from hlo_lens.syntax.logs.log_text import line_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lark import Lark

    from hlo_lens.text.source import Source

_MOST_LINES = 2000
_MOST_COLUMNS = 4000

_TOP = re.compile(r"[ \t]*(┌[─┬]+┐|\+-[-+]*\+)[ \t]*$")
_BOTTOM = re.compile(r"[ \t]*(└[─┴]+┘|\+-[-+]*\+)[ \t]*$")
_INSIDE = re.compile(r"[│|├+].*[│|┤+]$")
_HORIZONTAL = frozenset("─-┬┴┼├┤┌┐└┘+")
_VERTICAL = frozenset("│|├┤┬┴┼┌┐└┘+")

DEVICES = re.compile(
    r"(?P<word>[A-Za-z][\w ]*?) ?(?P<ids>\d{1,9}(?:,\d{1,9})*|\d{1,9}-\d{1,9})"
    r"(?P<empty>\(empty\))?"
)
"""Text of a box: ``GPU 0,1``, ``device 0-7``, ``device 3(empty)``."""

_NAMED = r"[A-Z][A-Z0-9_]*[ ]\d+(?:,\d+)*"
_COLORED_LINE = re.compile(rf"[ ]*{_NAMED}(?:[ ]+{_NAMED})*[ ]*$")
_COLORED_LABEL = re.compile(_NAMED)


@functools.cache
def parser() -> Lark:
    """Return the parser of the lines of a drawing, in which spaces count."""
    return build_parser("sharding_boxes", start="drawing")


def read_boxes(source: Source, place: int) -> tuple[ShardingBoxes, int] | None:
    """Return the drawing whose first line is at an offset, and its end; None if it is none."""
    start = source.text.rfind("\n", 0, place) + 1
    lines, end = _lines(source.text, start)
    if len(lines) < 3:
        return None
    boxes = boxes_of(lines)
    if boxes is None:
        return None
    line = source.line_column(start)[0]
    return replace(boxes, label=_label(source.text, start), line=line, lines=len(lines)), end


def _lines(text: str, start: int) -> tuple[list[str], int]:
    """Return the lines of a drawing without its indentation, and its end."""
    lines: list[str] = []
    position, left = start, 0
    while position < len(text) and len(lines) < _MOST_LINES:
        end = line_end(text, position)
        line = text[position : min(end, position + _MOST_COLUMNS)].rstrip()
        if not lines:
            top = _TOP.match(line)
            if top is None:
                return [], start
            left = top.start(1)
        elif _BOTTOM.match(line) is not None:
            lines.append(line[left:])
            return lines, min(len(text), end + 1)
        elif _INSIDE.match(line[left:]) is None or line[:left].strip():
            return [], start
        lines.append(line[left:])
        position = end + 1
    return [], start


def boxes_of(lines: Sequence[str]) -> ShardingBoxes | None:
    """Return the boxes of a drawing; None if its lines do not form a grid."""
    width = len(lines[0])
    if width < 3 or any(len(line) != width for line in lines):
        return None
    grid = _Grid(lines)
    rows, columns = grid.row_walls(), grid.column_walls()
    if rows is None or columns is None:
        return None
    cells = tuple(grid.cells(rows, columns))
    words = {word for cell in cells if (word := _word(cell.text))}
    return ShardingBoxes(
        rows=len(rows) - 1,
        columns=len(columns) - 1,
        cells=cells,
        platform=words.pop() if len(words) == 1 else "",
    )


@dataclass(slots=True)
class _Grid:
    """Characters of a drawing, by line and column."""

    lines: Sequence[str]

    def row_walls(self) -> list[int] | None:
        """Return the lines with a wall, including the first and the last."""
        last = len(self.lines) - 1
        found = [
            k
            for k, line in enumerate(self.lines)
            if k in (0, last) or (line[1] in _HORIZONTAL or "──" in line or "--" in line)
        ]
        return found if len(found) > 1 else None

    def column_walls(self) -> list[int] | None:
        """Return the columns with a wall, including the first and the last."""
        width = len(self.lines[0])
        found = {0, width - 1}
        for line in self.lines[1:-1]:
            found |= {k for k, character in enumerate(line) if character in "│|┼├┤"}
        for line in (self.lines[0], self.lines[-1]):
            found |= {k for k, character in enumerate(line) if character in "┬┴"}
        return sorted(found)

    def cells(self, rows: Sequence[int], columns: Sequence[int]) -> Iterator[BoxCell]:
        """Yield the boxes; grid cells without a wall between them form one box."""
        taken: set[tuple[int, int]] = set()
        for row in range(len(rows) - 1):
            for column in range(len(columns) - 1):
                if (row, column) in taken:
                    continue
                right, below = column, row
                while right + 2 < len(columns):
                    if self.lines[rows[row] + 1][columns[right + 1]] in _VERTICAL:
                        break
                    right += 1
                while below + 2 < len(rows):
                    if self.lines[rows[below + 1]][columns[column] + 1] in _HORIZONTAL:
                        break
                    below += 1
                taken |= {(r, c) for r in range(row, below + 1) for c in range(column, right + 1)}
                text = self._text(rows[row], rows[below + 1], columns[column], columns[right + 1])
                yield BoxCell(
                    row=row,
                    column=column,
                    row_span=below - row + 1,
                    column_span=right - column + 1,
                    text=text,
                    devices=_devices(text),
                )

    def _text(self, top: int, bottom: int, left: int, right: int) -> str:
        """Return the text of a box; long texts are broken over lines."""
        text = ""
        for line in self.lines[top + 1 : bottom]:
            word = line[left + 1 : right].strip(" │|─-")
            if word and text and (text[-1].isalpha() or word[0].isalpha()):
                text += " "
            text += word
        return text


def _word(text: str) -> str:
    match = DEVICES.fullmatch(text)
    return "" if match is None else match["word"]


def _devices(text: str) -> tuple[int, ...] | None:
    """Return the device ids in a box, ascending; None if it has none, or not all."""
    match = DEVICES.fullmatch(text)
    if match is None:
        return None
    ids = match["ids"]
    if "-" in ids:
        first, last = map(int, ids.split("-"))
        return tuple(range(first, last + 1)) if last - first < 1 << 20 else None
    return tuple(sorted(map(int, ids.split(","))))


def _label(text: str, start: int) -> str:
    """Return the last line of words before an offset, at most two lines above."""
    end = start
    for _ in range(2):
        begin = text.rfind("\n", 0, max(0, end - 1)) + 1
        words = text[begin:end].strip()
        if words:
            is_label = any(c.isalpha() for c in words) and not _BOTTOM.match(words)
            return words[:120] if is_label else ""
        end = begin
        if not end:
            break
    return ""


def read_colored(source: Source, start: int) -> tuple[ShardingBoxes, int] | None:
    """Return the coloured drawing that begins at a line, and its end; None if it is none.

    Colours were removed from the text before; the words, row by row, and blanks are left.
    """
    text, rows = source.text, list[list[str]]()
    position = end = start
    while position < len(text):
        stop = line_end(text, position)
        line = text[position:stop]
        if _COLORED_LINE.match(line):
            row = _COLORED_LABEL.findall(line)
            if any(word in other for word in row for other in rows):
                break
            rows.append(row)
            end = stop + 1
        elif line.strip() or not line:
            break
        elif rows:
            end = stop + 1
        position = stop + 1
    if not rows or len({len(row) for row in rows}) != 1:
        return None
    cells = tuple(
        BoxCell(row=r, column=c, text=word, devices=_devices(word))
        for r, row in enumerate(rows)
        for c, word in enumerate(row)
    )
    words = {_word(cell.text) for cell in cells}
    drawing = ShardingBoxes(
        rows=len(rows),
        columns=len(rows[0]),
        cells=cells,
        platform=words.pop() if len(words) == 1 else "",
        label=_label(text, start),
        line=source.line_column(start)[0],
        lines=text.count("\n", start, end),
        is_colored=True,
    )
    return drawing, end
