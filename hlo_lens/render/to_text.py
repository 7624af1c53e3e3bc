"""Report to text for a terminal.

Lines fit the terminal's width. Where not all columns of a table fit, headings are broken at
underscores and texts take the least width of their role; then columns are left out, those first
that decide least, and a note counts them. Before one that decides is left out, reasons become as
narrow as their words. Names grow first into the room that remains. Rich is imported for colours
only.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, TextIO

from hlo_lens.render.result import Unit
from hlo_lens.render.table import (
    DOTS,
    LAST,
    CutTable,
    RenderOptions,
    Report,
    Role,
    Section,
    Table,
    cell_width,
    cut_table,
    keep_rank,
    main_text,
    role_of,
    shorten,
)
from hlo_lens.text.errors import printable, printable_lines
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.render.result import Column

    Line = tuple[str, str]
    """Style and text."""


_GAP = "  "
_NARROWEST_NAME = 16


@dataclass(slots=True, kw_only=True)
class FittedColumn:
    """A column as text in a width.

    Attributes:
        rank: Columns of low ranks are left out first.
        texts: Cells of all rows and of the tail.
        heading: Lines of the heading.
        widest: Width of the longest text.
        least: Width under which the column is not worth showing.
        worded: Least width of a reason whose lines break at any word; the least one of others.
        narrowest: Width where nothing else fits.
    """

    column: Column
    role: Role
    rank: int
    texts: tuple[str, ...]
    heading: tuple[str, ...]
    widest: int = field(init=False)
    least: int = field(init=False)
    worded: int = field(init=False)
    narrowest: int = field(init=False)
    width: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        head = max(map(len, self.heading))
        self.widest = max(head, *map(cell_width, self.texts), 0)
        self.least = self.worded = self.narrowest = max(head, least_width(self.texts, self.role))
        if self.role is Role.REASON:
            self.worded = min(self.least, max(head, *map(widest_part, self.texts), 0))
        if self.role is not Role.MEASURE:
            self.narrowest = min(self.worded, max(head, _NARROWEST_NAME))


def fitted_columns(cut: CutTable, width: int) -> list[FittedColumn]:
    """Return the columns of a table that fit a width."""
    rows = [*cut.rows, *cut.tail]
    columns = [
        FittedColumn(
            column=column,
            role=Role.REASON if column.name in cut.wrapped else role_of(column),
            rank=LAST if column.name in cut.kept else keep_rank(column),
            texts=tuple(row[place] for row in rows),
            heading=(column.name,),
        )
        for place, column in enumerate(cut.columns)
    ]
    if _room(columns, [column.widest for column in columns], width) < 0:
        whole = _kept(columns, width)
        folded = _kept([replace(c, heading=_folded_heading(c)) for c in columns], width)
        columns = folded if len(folded) > len(whole) else whole
    _set_widths(columns, width)
    return columns


def _folded_heading(column: FittedColumn) -> tuple[str, ...]:
    width = least_width(column.texts, column.role)
    lines: list[str] = []
    for word in column.column.name.split("_"):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f"_{word}"
        else:
            lines.append(word)
    return tuple(lines)


def _room(columns: Sequence[FittedColumn], widths: Sequence[int], width: int) -> int:
    """Return the room that columns of some widths leave; less than 0 where they do not fit."""
    return width - sum(widths) - len(_GAP) * (len(columns) - 1)


def _kept(columns: Sequence[FittedColumn], width: int) -> list[FittedColumn]:
    """Return the columns that fit, those that decide also if reasons have to be narrow for them.

    The first measure, the first name, and the column of labels are always kept.
    """
    label = main_text([column.column for column in columns])
    main = [label]
    for role in (Role.MEASURE, Role.NAME):
        main += [c.column for c in columns if role_of(c.column) is role][:1]
    kept = [*columns]
    while _room(kept, [column.least for column in kept], width) < 0:
        others = [column for column in kept if column.column not in main]
        if not others:
            break
        first = min(reversed(others), key=lambda column: column.rank)
        if first.rank == LAST and _room(kept, [column.worded for column in kept], width) >= 0:
            break
        kept.remove(first)
    return kept


_GROWTH = (
    {Role.NAME},
    {Role.REASON, Role.SCOPE, Role.TEXT},
    {Role.SHAPE},
    {Role.PLACE},
    {Role.BAR},
    {Role.MEASURE},
)
"""Roles in the order in which their columns take the room that is left, the narrowest first."""


def _set_widths(columns: Sequence[FittedColumn], width: int) -> None:
    room = 0
    for widths in zip(*((c.least, c.worded, c.narrowest) for c in columns), strict=True):
        for column, own in zip(columns, widths, strict=True):
            column.width = own
        room = _room(columns, widths, width)
        if room >= 0:
            break
    for roles in _GROWTH:
        growing = [column for column in columns if column.role in roles]
        while room > 0 and (short := [c for c in growing if c.width < c.widest]):
            min(short, key=lambda column: column.width).width += 1
            room -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLines:
    """A table as lines that fit a width, but for the columns that do not.

    Attributes:
        tail: Lines of the bracketed rows and the total.
    """

    headings: list[str]
    rows: list[str]
    tail: list[str]
    left_out: tuple[str, ...]


def table_lines(cut: CutTable, width: int) -> TableLines:
    """Return the lines of a table; lines are wider than the width only where one number is."""
    fitted = fitted_columns(cut, width)

    def joined(cells: Sequence[str]) -> str:
        parts = []
        for text, column in zip(cells, fitted, strict=True):
            blank = " " * (column.width - cell_width(text))
            parts.append(text + blank if column.column.unit is Unit.NONE else blank + text)
        return _GAP.join(parts).rstrip()

    def below(parts: Sequence[Sequence[str]]) -> list[str]:
        return [joined(cells) for cells in zip_longest(*parts, fillvalue="")]

    cells = (column_lines(column.texts, column.role, column.width) for column in fitted)
    rows = [below(lines) for lines in zip(*cells, strict=True)]
    shown = [column.column for column in fitted]
    return TableLines(
        headings=below([column.heading for column in fitted]),
        rows=[*chain.from_iterable(rows[: len(cut.rows)])],
        tail=[*chain.from_iterable(rows[len(cut.rows) :])],
        left_out=tuple(column.name for column in cut.columns if column not in shown),
    )


_LAYOUT = re.compile(r"(?<=\])\{[^{}]*\}")
_XLA_NAME = re.compile(r"[\w.\-]+(\{[\d,]*\})?")
_PLACE = re.compile(r"/[^/\[\]]*\.\w+:\d+( ~)?$")
"""Path with a line, such as the label of a group."""
_PATH = re.compile(r"\S*/\S+")
_ARGUMENTS = re.compile(r"(?<=\w)\[\w+=[^/]*\]$")

_MOST_LINES = 2
"""Lines of a wrapped cell of less importance; the rest of a longer text is cut."""

_LEAST: Mapping[Role, int] = {
    Role.NAME: 30,
    Role.PLACE: 28,
    Role.SCOPE: 20,
    Role.SHAPE: 24,
    Role.BAR: 10,
}
_LEAST_ARGUMENT = 28
_LEAST_TEXT = 20


def least_width(cells: Sequence[str], role: Role) -> int:
    """Return the width under which a column is not worth showing."""
    if role is Role.PLACE or (role is not Role.MEASURE and any(map(_PLACE.search, cells))):
        cells = [cell.rpartition("/")[2] if "]" not in cell else cell for cell in cells]
    elif role is Role.SHAPE:
        cells = [_LAYOUT.sub("", cell) for cell in cells]
    least = max(map(cell_width, cells), default=0)
    if role is Role.MEASURE:
        return least
    if role is Role.SCOPE and any(_is_argument(cell, role) for cell in cells if cell):
        return min(least, _LEAST_ARGUMENT)
    return min(least, _LEAST.get(role, _LEAST_TEXT))


def column_lines(cells: Sequence[str], role: Role, width: int) -> list[list[str]]:
    """Return the lines of each cell of a column in a width.

    Names and places that differ remain different: where two short forms are equal, places lose
    their middle instead, and all are wrapped whole where that is not enough. Names of arguments,
    such as ``state['opt'][0]``, are always wrapped.
    """
    if all(cell_width(cell) <= width for cell in cells):
        return [[cell] for cell in cells]
    match role:
        case Role.BAR:  # in the same proportions, the longest as wide as the column
            longest = max(map(cell_width, cells))
            return [[bar[: round(cell_width(bar) * width / longest)]] for bar in cells]
        case Role.TEXT:  # the first lines, with dots where others follow
            every = [[*wrapped(cell, width)] for cell in cells]
            last = _MOST_LINES - 1
            return [
                lines
                if len(lines) <= _MOST_LINES
                else [*lines[:last], f"{lines[last][: len(lines[last]) - len(DOTS)]}{DOTS}"]
                for lines in every
            ]
        case Role.REASON | Role.MEASURE:
            return [[*wrapped(cell, width)] for cell in cells]
    short = {cell: _cut(cell, role, width) for cell in cells}
    if role is Role.PLACE and len({*short.values()}) < len(short):
        short = {cell: shorten(cell, width, (width - len(DOTS)) // 3) for cell in cells}
    if role in (Role.NAME, Role.PLACE) and len({*short.values()}) < len(short):
        return [[*wrapped(cell, width)] for cell in cells]
    return [
        [*wrapped(cell, width)] if text != cell and _is_argument(cell, role) else [text]
        for cell in cells
        for text in (short[cell],)
    ]


def _is_argument(text: str, role: Role) -> bool:
    """Return whether a text is a name of an argument, or words, whose first parts matter too."""
    if role is Role.NAME:
        return _XLA_NAME.fullmatch(text) is None and _PLACE.search(text) is None
    return "/" not in text and (role is Role.SCOPE or (role is Role.PLACE and " " in text))


def _cut(text: str, role: Role, width: int) -> str:
    """Return a text in a width as its role asks: what decides remains.

    >>> _cut("jit(f)/embed/convert_element_type[new_dtype=bfloat16]", Role.SCOPE, 32)
    '...embed/convert_element_type'
    >>> _cut("(f32[128,64]{1,0:T(8,128)}, s32[])", Role.SHAPE, 20)
    '(f32[128,64], s32[])'
    """
    if cell_width(text) <= width and role is not Role.SHAPE:
        return text
    if role is Role.PLACE or _PLACE.search(text):
        return last_parts(text, width)
    if role is Role.SCOPE:
        return last_parts(without_arguments(text), width)
    if role is Role.SHAPE:
        return shorten(_LAYOUT.sub("", text), width, width - len(DOTS))
    return shorten(text, width, 0)


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
    return f"{DOTS}{text[place:]}" if place >= 0 else shorten(last, width, 0)


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


def without_arguments(path: str) -> str:
    """Return an operation path without the arguments in brackets that old jax prints after it.

    >>> without_arguments("jit(f)/while[cond_nconsts=0 body_nconsts=1]")
    'jit(f)/while'
    """
    return _ARGUMENTS.sub("", path)


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

_QUOTED = r"""'[^']*'|"[^"]*\""""
_VALUE = rf"(?:{_QUOTED}|[^\s,;()'\"])+(?<![.:])"
_OPTION = rf"--?[a-z][\w-]*(?:=(?:{_VALUE})| (?!-)(?:{_VALUE}))?"
_PROSE = r"[a-z]+(?![^\s,;:.()])(?! --?[a-z])"
_COMMAND = re.compile(
    rf"\bhlo-lens (?:help [a-z-]+|[a-z]+(?:-[a-z]+)*(?: (?:{_OPTION}|(?!{_PROSE}){_VALUE}))*)"
)
"""A command in a sentence.

It ends where prose goes on: before a word of lower-case letters alone that no option follows, after
the topic of ``help``, or at a mark. Values of options and quoted words belong to it.
"""

_MARK = re.compile(r"(?<=[=~]) (?=\d)")
"""Space between the mark of an amount and its number: ``<= 3``."""

_JOINT = "\ue000"
"""Stands for a space inside of a command; for private use, so that no text has it."""


def joined(text: str, most: int | None = None) -> str:
    """Return a text whose commands and amounts have no spaces, to be wrapped, for `separated`.

    `most`: characters of the longest command that is kept whole; None for any.
    """
    text = _MARK.sub(_JOINT, text)
    if "hlo-lens " not in text:
        return text

    def join(match: re.Match[str]) -> str:
        is_kept = most is None or len(match[0]) <= most
        return match[0].replace(" ", _JOINT) if is_kept else match[0]

    return _COMMAND.sub(join, text)


def separated(text: str) -> str:
    """Return a text of `joined` with its spaces.

    >>> joined("see hlo-lens show PATH -n 0, or hlo-lens ls DIR prints it").replace("\ue000", "_")
    'see hlo-lens_show_PATH_-n_0, or hlo-lens_ls_DIR prints it'
    >>> separated(joined("marks it (hlo-lens help blame)"))
    'marks it (hlo-lens help blame)'
    """
    return text.replace(_JOINT, " ")


DEFAULT_ROWS = 10
PIPE_WIDTH = 120
"""Columns where the output is not a terminal and COLUMNS is not set."""

_NARROWEST = 40
_SHORTEST = 16
_BOLD, _DIM, _PLAIN = "bold", "dim", ""


def render_text(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write facts and tables; tables are cut at `DEFAULT_ROWS` or the option."""
    width = max(_NARROWEST, options.width or shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)
    is_dumb = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    is_auto = options.color == "auto"
    is_colored = (not is_dumb and out.isatty()) if is_auto else options.color == "always"
    if is_colored:
        from rich.style import Style

        styles = {name: Style.parse(name) for name in (_BOLD, _DIM)}
    for position, section in enumerate(report.pages):
        for name, line in ((_PLAIN, ""), *_fitted(section, options.rows, width))[not position :]:
            text = printable_lines(printable(line))
            out.write(f"{styles[name].render(text) if is_colored and name and text else text}\n")


def _fitted(section: Section, rows: int | None, width: int) -> Iterable[Line]:
    """Return the lines of a section; of a first page with fewer rows until they are few enough.

    Then the last facts of its parts are left out, too, as far as that is needed.
    """
    if section.most_lines is None:
        return _section(section, rows, width)
    lines: list[Line] = []
    for fewer, left_out in _FEWER:
        shorter = replace(section, parts=tuple(_without(p, left_out) for p in section.parts))
        lines = [*_section(shorter, fewer, width)]
        if len(lines) <= section.most_lines:
            break
    return lines


def _without(section: Section, count: int) -> Section:
    if section.least_facts is None or not count:
        return section
    starts = [k for k, (label, _) in enumerate(section.facts) if label.strip() == label]
    ends = [k for k in starts[-count:] if k >= section.least_facts]
    return replace(section, facts=section.facts[: ends[0] if ends else None])


_FEWER = ((6, 0), (5, 0), (4, 0), (3, 0), (3, 1), (2, 1), (2, 2), (1, 2))
"""Rows of tables, and facts to leave out, that are tried until a page is short enough."""


def _section(section: Section, rows: int | None, width: int) -> Iterator[Line]:
    if section.title:
        yield from ((_BOLD, line) for line in _titled(section.title, section.command, width))
    label_width = max((len(label) for label, _ in section.facts), default=0)
    for label, text in section.facts:
        indent = " " * (len(text) - len(text.lstrip()))
        head = f"{label:<{label_width}}  " if label_width else ""
        yield from _wrapped(f"{head}{indent}", text.lstrip(), width)
    if section.drawing:
        yield _PLAIN, ""
        for line in section.drawing:
            cut = [shorten(line, width, width - len(DOTS))] if section.is_listing else None
            yield from ((_PLAIN, part) for part in cut or _drawn(line, width))
    for table in section.shown_tables if rows is not None or not section.is_short else ():
        if table.row_count or table.residual_rows or table.notes:
            if table.has_headings:
                yield _PLAIN, ""
            yield from _table(table, DEFAULT_ROWS if rows is None else rows, width)
    for note in section.notes:
        yield from _wrapped("", note, width)
    for part in section.parts:
        yield _PLAIN, ""
        yield from _section(part, rows, width)


def _wrapped(head: str, text: str, width: int) -> Iterator[Line]:
    """Yield a text after its head, with a hanging indent; a command at its end is never broken.

    A command that does not fit begins a line, and is whole on it, so that it can be copied.
    """
    space = max(_SHORTEST, width - len(head))
    match = _LAST_COMMAND.search(text) if len(text) > space else None
    if match is None:
        lines = _wrap(text, space) or [""]
    else:
        lines = [*_wrap(text[: match.start()], space), match[0]]
    for position, line in enumerate(lines):
        lead = head if position == 0 else " " * len(head)
        yield _PLAIN, f"{lead}{line}".rstrip()


_LAST_COMMAND = re.compile(r"(?:\A|(?<=: ))hlo-lens .*\Z", re.DOTALL)
"""Command that is a whole text, or its end after a colon."""

_wrap_words = partial(textwrap.wrap, break_on_hyphens=False, break_long_words=False)


def _wrap(text: str, width: int) -> list[str]:
    return [separated(line) for line in _wrap_words(joined(text), width)]


def _drawn(line: str, width: int) -> list[str]:
    """Return a line of a tree; the text at its end goes on below itself if it is too long."""
    line = with_short_paths(line, width)
    if cell_width(line) <= width:
        return [line]
    branch = line.rfind(_BRANCH)
    start = branch + len(_BRANCH) if branch >= 0 else len(line) - len(line.lstrip(_BARS))
    below = _NO_BAR.sub(" ", line[:start].replace("├", "│")) + _GAP
    head, gap, tail = line[start:].rpartition(_GAP)
    room = max(_SHORTEST, width - len(below))
    heads = [head] if start + cell_width(head) <= width else _wrap(head, room)
    lead, *rest = [*heads, tail] if gap else _wrap(tail, room)
    return [f"{line[:start]}{lead}", *(f"{below}{part}" for part in rest)]


_BRANCH = "─ "
_BARS = " │"
_NO_BAR = re.compile("[^│]")


def _table(table: Table, rows: int, width: int) -> Iterator[Line]:
    if table.title:
        yield from ((_BOLD, line) for line in _titled(table.title, table.command, width))
    cut = cut_table(table, rows)
    lines = table_lines(cut, width)
    if table.has_headings and (cut.rows or cut.tail):
        yield from ((_DIM, line) for line in lines.headings)
    yield from ((_PLAIN, line) for line in lines.rows)
    yield from ((_DIM, line) for line in lines.tail)
    notes = [*table.notes]
    if lines.left_out:
        count = plural(len(lines.left_out), "column")
        notes.append(f"{count} left out for width: {', '.join(lines.left_out)}")
    for note in notes:
        yield from _wrapped("", note, width)


def _titled(title: str, command: str, width: int) -> list[str]:
    lines = _wrap(title, width)
    if not command:
        return lines
    room = width - len(lines[-1]) - len(command)
    if room < len(_GAP):
        return [*lines, command]
    return [*lines[:-1], f"{lines[-1]}{' ' * room}{command}"]
