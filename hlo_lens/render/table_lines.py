"""Lines of a table in a width: which columns fit, their widths, headings and cells.

Where not all columns fit, headings are broken at underscores and texts take the least width of
their role; then columns are left out, those first that decide least. Before one that decides is
left out, reasons become as narrow as their words. Names grow first into the room that remains.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from hlo_lens.render.cell_lines import column_lines, least_width, widest_part
from hlo_lens.render.column_roles import LAST, Role, keep_rank, main_text, role_of
from hlo_lens.render.result import Unit
from hlo_lens.render.table import CutTable, cell_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.render.result import Column

_GAP = "  "
_NARROWEST_NAME = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLines:
    """A table as lines that fit a width.

    Attributes:
        headings: Lines of the headings.
        rows: Lines of each row.
        tail: Lines of the bracketed rows and the total.
        left_out: Names of the columns that do not fit.
    """

    headings: list[str]
    rows: list[str]
    tail: list[str]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedColumn:
    """A column that fits: its width, and the lines of its heading and of each cell."""

    column: Column
    width: int
    heading: tuple[str, ...]
    cells: list[list[str]]


@dataclass(frozen=True, slots=True)
class _Field:
    """A column as text: its place in the table, its cells, and the lines of its heading."""

    place: int
    name: str
    role: Role
    rank: int
    cells: tuple[str, ...]
    heading: tuple[str, ...]

    @property
    def headed(self) -> int:
        return max(map(len, self.heading))

    @property
    def widest(self) -> int:
        return max(self.headed, *map(cell_width, self.cells)) if self.cells else self.headed

    @property
    def least(self) -> int:
        return max(self.headed, least_width(self.cells, self.role))

    @property
    def worded(self) -> int:
        """Least width of a reason whose lines break at any word; the least one of others."""
        if self.role is not Role.REASON:
            return self.least
        return min(self.least, max((self.headed, *map(widest_part, self.cells))))

    @property
    def narrowest(self) -> int:
        """Width where nothing else fits."""
        if self.role is Role.MEASURE:
            return self.least
        return min(self.worded, max(self.headed, _NARROWEST_NAME))


def fitted_columns(cut: CutTable, width: int) -> list[FittedColumn]:
    """Return the columns of a table that fit a width, with the lines of their cells."""
    fields = _fields(cut)
    main = _main(cut.columns)
    if _room(fields, [field.widest for field in fields], width) < 0:
        whole = _kept(fields, main, width)
        folded = _kept([_folded(field) for field in fields], main, width)
        fields = folded if len(folded) > len(whole) else whole
    return [
        FittedColumn(
            column=cut.columns[field.place],
            width=space,
            heading=field.heading,
            cells=column_lines(field.cells, field.role, space),
        )
        for field, space in zip(fields, _widths(fields, width), strict=True)
    ]


def table_lines(cut: CutTable, width: int) -> TableLines:
    """Return the lines of a table; lines are wider than the width only where one number is."""
    fitted = fitted_columns(cut, width)

    def joined(cells: Sequence[str]) -> str:
        parts = []
        for text, field in zip(cells, fitted, strict=True):
            blank = " " * (field.width - cell_width(text))
            parts.append(text + blank if field.column.unit is Unit.NONE else blank + text)
        return _GAP.join(parts).rstrip()

    def below(parts: Sequence[Sequence[str]]) -> Iterator[str]:
        return map(joined, zip_longest(*parts, fillvalue=""))

    rows = [[*below(lines)] for lines in zip(*(one.cells for one in fitted), strict=True)]
    shown = {one.column for one in fitted}
    return TableLines(
        headings=[*below([one.heading for one in fitted])],
        rows=[*chain.from_iterable(rows[: len(cut.rows)])],
        tail=[*chain.from_iterable(rows[len(cut.rows) :])],
        left_out=tuple(column.name for column in cut.columns if column not in shown),
    )


def _fields(cut: CutTable) -> list[_Field]:
    rows = [*cut.rows, *cut.tail]
    return [
        _Field(
            place=place,
            name=column.name,
            role=Role.REASON if column.name in cut.wrapped else role_of(column),
            rank=LAST if column.name in cut.kept else keep_rank(column),
            cells=tuple(row[place] for row in rows),
            heading=(column.name,),
        )
        for place, column in enumerate(cut.columns)
    ]


def _room(fields: Sequence[_Field], widths: Sequence[int], width: int) -> int:
    """Return the room that columns of some widths leave; less than 0 where they do not fit."""
    return width - sum(widths) - len(_GAP) * (len(fields) - 1)


def _kept(fields: Sequence[_Field], main: set[int], width: int) -> list[_Field]:
    """Return the columns that fit, those that decide also if reasons have to be narrow for them.

    The main ones are always kept.
    """
    kept = [*fields]
    while _room(kept, [field.least for field in kept], width) < 0:
        others = [field for field in kept if field.place not in main]
        if not others:
            break
        first = min(others, key=lambda f: (f.rank, -f.place))
        if first.rank == LAST and _room(kept, [f.worded for f in kept], width) >= 0:
            break
        kept.remove(first)
    return kept


def _main(columns: Sequence[Column]) -> set[int]:
    """Return the places of the first measure, the first name, and the column of labels."""
    roles = [role_of(column) for column in columns]
    label = main_text(columns)
    return {
        *(roles.index(role) for role in (Role.MEASURE, Role.NAME) if role in roles),
        *(() if label is None else (columns.index(label),)),
    }


def _widths(fields: Sequence[_Field], width: int) -> list[int]:
    """Return the widths of columns, grown into the room there is in the order of `_GROWTH`."""
    for widths in (
        [field.least for field in fields],
        [field.worded for field in fields],
        [field.narrowest for field in fields],
    ):
        room = _room(fields, widths, width)
        if room >= 0:
            break
    for roles in _GROWTH:
        places = [k for k, field in enumerate(fields) if field.role in roles]
        room = _grown(fields, places, widths, room)
    return widths


_GROWTH = (
    {Role.NAME},
    {Role.REASON, Role.SCOPE, Role.TEXT},
    {Role.SHAPE},
    {Role.PLACE},
    {Role.BAR},
    {Role.MEASURE},
)
"""Roles in the order in which their columns take the room that is left."""


def _grown(fields: Sequence[_Field], places: list[int], widths: list[int], room: int) -> int:
    """Widen columns up to their widest, the narrowest first; return the room that remains."""
    while room > 0:
        short = [k for k in places if widths[k] < fields[k].widest]
        if not short:
            break
        place = min(short, key=lambda k: (widths[k], k))
        widths[place] += 1
        room -= 1
    return room


def _folded(field: _Field) -> _Field:
    """Return a column with its heading broken after underscores to the width of its cells."""
    width = least_width(field.cells, field.role)
    lines: list[str] = []
    for part in _WORD.findall(field.name):
        if lines and len(lines[-1]) + len(part) <= width:
            lines[-1] += part
        else:
            lines.append(part)
    return replace(field, heading=tuple(lines))


_WORD = re.compile(r"[^_]*_|[^_]+")
