"""Reports, sections and tables: the input of every renderer, whatever pass they come from."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from importlib import import_module
from itertools import compress, islice
from typing import Any, TextIO, TypeAlias

from hlo_lens.render.result import Column, Result, Row, Unit, format_cell


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions:
    """Options of the renderers.

    Attributes:
        rows: Rows of a table before the rest is cut, 0 for all; None for the format's own number.
        color: ``auto`` (on a terminal, unless NO_COLOR is set), ``always`` or ``never``.
        width: Columns of text output; None for those of the terminal.
        source_url: Template of links to source lines in HTML, with ``{path}`` and ``{line}``.
    """

    rows: int | None = None
    color: str = "auto"
    width: int | None = None
    source_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A complete table; renderers for people cut it.

    Attributes:
        read_rows: Yields all rows without residuals, from the start at each call.
        row_count: Number of these rows.
        residual_rows: Bracketed rows that make the others add up to the totals.
        totals: Column name to sum over rows and residuals.
        shown: Names of the columns that text and Markdown show, in this order.
        is_data_only: Whether only CSV has it, because the head of the report has the same.
        is_text_only: Whether CSV leaves it out, because another table has the same.
        read_shown: Yields the rows as people read them; None where they are those of `read_rows`.
        is_whole: Whether it is never cut.
        text_only: Names of the columns that CSV leaves out, texts made of other columns.
        module_column: Column with the module of each row; CSV puts it first.
        kept: Names of the columns that narrow text leaves out last, besides those of `keep_rank`.
        wrapped: Names of the columns whose words are wrapped whole where they are too wide.
        command: Command that shows more.
        most_rows: Rows that people see at most, whatever number they ask for; None for no limit.
        has_headings: Whether text prints the names of the columns, and a blank line above.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    read_rows: Callable[[], Iterable[Row]]
    row_count: int
    residual_rows: tuple[Row, ...] = ()
    totals: Mapping[str, float] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_data_only: bool = False
    is_text_only: bool = False
    is_whole: bool = False
    read_shown: Callable[[], Iterable[Row]] | None = None
    text_only: tuple[str, ...] = ()
    module_column: str = "module"
    kept: tuple[str, ...] = ()
    wrapped: tuple[str, ...] = ()
    command: str = ""
    most_rows: int | None = None
    has_headings: bool = True

    @classmethod
    def of(
        cls,
        result: Result,
        *,
        title: str,
        shown: Sequence[str] = (),
        notes: Sequence[str] = (),
        is_data_only: bool = False,
    ) -> Table:
        """Return the table of a result; its name is the result's kind."""
        return cls(
            name=result.KIND,
            title=title,
            columns=result.COLUMNS,
            read_rows=result.rows,
            row_count=result.row_count,
            residual_rows=result.residual_rows(),
            totals=result.totals(),
            shown=tuple(shown),
            notes=tuple(notes),
            is_data_only=is_data_only,
        )

    @property
    def shown_columns(self) -> tuple[Column, ...]:
        if not self.shown:
            return self.columns
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.shown)

    def all_rows(self) -> Iterator[Row]:
        yield from self.read_rows()
        yield from self.residual_rows


def filled(columns: Sequence[Column], rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Return the columns, of some, that have a value (not zero) in some row."""
    places = {column.name: place for place, column in enumerate(columns)}
    return [name for name in names if any(row[places[name]] for row in rows)]


def table_of(
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    shown: Sequence[str] = (),
    if_filled: Sequence[str] = (),
    totals: Mapping[str, float] | None = None,
    is_data_only: bool = False,
) -> Table:
    """Return a table of rows; people see `shown`, and of `if_filled` what some row has."""
    return Table(
        name=name,
        title=title,
        columns=tuple(columns),
        read_rows=lambda: rows,
        row_count=len(rows),
        totals=totals or {},
        shown=(*shown, *filled(columns, rows, if_filled)),
        is_data_only=is_data_only,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One subject of a report, such as a module.

    Attributes:
        facts: Label and text of each line at its head.
        drawing: Lines of a drawing after the facts, printed unchanged.
        is_listing: Whether the drawing is source text, whose long lines are cut and not folded.
        command: Command that shows more.
        parts: Sections under headings of their own, after all else; without title, lines alone.
        most_lines: Lines that text takes at most, whatever number of rows is asked for, as far as
            fewer rows of tables and fewer facts of parts make it so; None for no limit.
        least_facts: Facts that text has at least, however many lines that takes; None for all.
        is_short: Whether people see its tables only where a number of rows is asked for.
    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    drawing: tuple[str, ...] = ()
    is_listing: bool = False
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    command: str = ""
    parts: tuple[Section, ...] = ()
    most_lines: int | None = None
    least_facts: int | None = None
    is_short: bool = False

    @property
    def shown_tables(self) -> tuple[Table, ...]:
        return tuple(table for table in self.tables if not table.is_data_only)


class Sections(Sequence[Section]):
    """Sections that are made when first used, once, so that JSON output does not make them."""

    def __init__(self, make: Callable[[], Iterable[Section]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> tuple[Section, ...]:
        return tuple(self._make())

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, index: Any) -> Any:  # a section, or several for a slice
        return self._made[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Output of a command.

    Attributes:
        sections: For CSV, and for people where there is no first page.
        data: JSON object for scripts.
        first_page: Sections for people; None for those of CSV.
        most_characters: Limit on the length of its Markdown, with folded tables; None for no limit.
        subject: Subject of its page of HTML: modules, or compiles; None for a page of sections.
    """

    kind: str
    sections: Sequence[Section]
    data: Mapping[str, object]
    first_page: Sequence[Section] | None = None
    most_characters: int | None = None
    subject: object = None

    @property
    def pages(self) -> Sequence[Section]:
        return self.sections if self.first_page is None else self.first_page

    def __str__(self) -> str:
        return self._rendered("text")

    def __repr__(self) -> str:
        titles = ", ".join(section.title for section in self.pages)
        return f"<Report {self.kind} on {titles}>"

    def to_markdown(self) -> str:
        """Return the report as Markdown, for a pull request."""
        return self._rendered("markdown")

    def to_html(self) -> str:
        """Return the report as one HTML file that needs no network."""
        return self._rendered("page")

    def to_dict(self) -> dict[str, object]:
        """Return `data` as plain dictionaries, lists, text and numbers."""
        made: dict[str, object] = json.loads(self._rendered("json"))
        return made

    def _repr_html_(self) -> str:
        return self._rendered("html")

    def _rendered(self, name: str) -> str:
        out = io.StringIO()
        render_as(name, self, out, RenderOptions(color="never", width=_WIDTH))
        return out.getvalue()


_WIDTH = 100
"""Columns of a report as a string."""


Renderer: TypeAlias = Callable[[Report, TextIO, RenderOptions], None]

_HOMES = {
    "csv": "hlo_lens.render.to_json",
    "page": "hlo_lens.questions.report.html_pages",
    "sarif": "hlo_lens.questions.findings.sarif",
}
"""Files of renderers that have no file of their own name in `hlo_lens.render`."""


def render_as(name: str, report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write a report as ``text``, ``json``, ``markdown``, ``csv``, ``page``, ``html`` or ``sarif``.

    ``page`` is an HTML file of its own, ``html`` a fragment for a notebook. The renderer is
    imported with its first use.
    """
    module = import_module(_HOMES.get(name, f"hlo_lens.render.to_{name}"))
    renderer: Renderer = getattr(module, f"render_{name}")
    renderer(report, out, options)


RENDERERS: Mapping[str, Renderer] = {
    "text": partial(render_as, "text"),
    "json": partial(render_as, "json"),
    "md": partial(render_as, "markdown"),
    "csv": partial(render_as, "csv"),
    "html": partial(render_as, "page"),
    "sarif": partial(render_as, "sarif"),
}
"""Renderers by the name of the format on the command line."""

FORMATS = tuple(name for name in RENDERERS if name != "sarif")
"""Formats of every report; SARIF has findings only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTable:
    """The rows of a table that people see, as text; `tail` has bracketed rows and the total."""

    columns: tuple[Column, ...]
    rows: list[tuple[str, ...]]
    tail: list[tuple[str, ...]]
    kept: tuple[str, ...] = ()
    wrapped: tuple[str, ...] = ()


def cut_table(table: Table, rows: int) -> CutTable:
    """Return the first rows of a table as text, the rest as one row that counts it, and the total.

    0 rows are all; a rest of one row is shown too. Columns in which all are empty are left out.
    """
    if table.most_rows is not None:
        rows = min(rows or table.most_rows, table.most_rows)
    columns = table.shown_columns
    places = [table.columns.index(column) for column in columns]
    is_whole = table.is_whole or not rows or table.row_count == rows + 1
    limit = table.row_count if is_whole else rows
    shown = list(islice(iter((table.read_shown or table.read_rows)()), limit))
    rest = table.row_count - len(shown)
    tail: list[Row] = []
    if rest > 0:
        sums = {}
        for name, total in table.totals.items():
            place = [column.name for column in table.columns].index(name)
            counted = (row[place] for row in (*shown, *table.residual_rows))
            sums[name] = total - sum(cell for cell in counted if isinstance(cell, int))
        tail.append(_labelled(table, f"[{rest} other{'' if rest == 1 else 's'}]", sums))
    tail.extend(table.residual_rows)
    if table.totals and table.has_headings and len(shown) + len(tail) > 1:
        tail.append(_labelled(table, "total", table.totals))

    def as_text(row: Row) -> tuple[str, ...]:
        return tuple(format_cell(row[k], table.columns[k].unit) for k in places)

    cells = [as_text(row) for row in (*shown, *tail)]
    filled = [any(column) for column in zip(*cells, strict=True)] or [True] * len(places)
    cells = [tuple(compress(row, filled)) for row in cells]
    return CutTable(
        columns=tuple(compress(columns, filled)),
        rows=cells[: len(shown)],
        tail=cells[len(shown) :],
        kept=table.kept,
        wrapped=table.wrapped,
    )


def _labelled(table: Table, label: str, sums: Mapping[str, float]) -> Row:
    home = (main_text(table.shown_columns) or table.shown_columns[0]).name
    return tuple(label if c.name == home else sums.get(c.name) for c in table.columns)


class Role(Enum):
    """Kind of content of a column, which decides how its cells shrink."""

    NAME = "name"
    """Name that commands take: whole, or cut to an end that no other cell has."""
    PLACE = "place"
    """File, with or without line: folders in front are cut first."""
    SCOPE = "scope"
    """Path of scopes, such as op_name: scopes in front are cut first."""
    SHAPE = "shape"
    """Shape: layouts are removed first, then its end."""
    REASON = "reason"
    """Reason, flag or limit: wrapped whole."""
    TEXT = "text"
    """Other words: wrapped in few lines."""
    BAR = "bar"
    """Bar of a chart: all bars are drawn shorter."""
    MEASURE = "measure"
    """Number: never cut."""


_ROLES: Mapping[Role, str] = {
    Role.NAME: (
        "name value module instruction output aliased_with loop function argument group "
        "from_name to_name array example_instruction started_by computation"
    ),
    Role.PLACE: (
        "source source_file place file where base_source head_source model_place "
        "caller_place function_place example path base_line head_line stack"
    ),
    Role.SCOPE: "op_name scope",
    Role.REASON: (
        "reason fails_if flag remedy message problem differs status metric spec sharding warning "
        "base_spec head_spec how used_for"
    ),
    Role.BAR: "bar",
    Role.SHAPE: "shape global_shape device_shape base_shape head_shape shapes type",
}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names.split()}

_LEFT_OUT_FIRST = (
    "start end offset allocation layout tile column",
    "loop_path element_type devices dimension category opcode stages files number static",
    "index payload_bytes kind values global_bytes replication_factor padded_size_bytes",
)
"""Columns that are left out before all others, by group."""

_KEPT = "status metric head fails_if reason axis times edit level what verdict mark"
"""Columns besides names that are left out last."""

LAST = 8
"""Rank of the columns that are left out last."""

_RANKS: Mapping[Role, int] = {
    Role.SHAPE: 3,
    Role.TEXT: 4,
    Role.REASON: 4,
    Role.MEASURE: 5,
    Role.PLACE: 6,
    Role.BAR: 6,
    Role.SCOPE: 7,
    Role.NAME: LAST,
}
"""Ranks of the other columns by their roles."""


def role_of(column: Column) -> Role:
    """Return the role of a column, by its name and unit."""
    if column.unit is not Unit.NONE:
        return Role.MEASURE
    return _ROLE_OF.get(column.name, Role.TEXT)


def main_text(columns: Sequence[Column]) -> Column | None:
    """Return the column for labels of bracketed rows: the first text, a late one beside names."""
    texts = [column for column in columns if column.unit is Unit.NONE]
    if any(role_of(column) is Role.NAME for column in texts):
        texts = [column for column in texts if keep_rank(column) >= len(_LEFT_OUT_FIRST)]
    return next(iter(texts), None)


def keep_rank(column: Column) -> int:
    """Return the rank of a column: those of the lowest rank are left out first."""
    for rank, names in enumerate(_LEFT_OUT_FIRST):
        if column.name in names.split():
            return rank
    return LAST if column.name in _KEPT.split() else _RANKS[role_of(column)]


DOTS = "..."
_PLACE = re.compile(r"\.\w+:\d+$")


def cell_width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, width: int, head: int | None = None) -> str:
    """Return a text of at most this width: some first characters, dots, and its end.

    `head` is the number of first characters; None for a third, of a path for none.

    >>> shorten("jit(step)/transpose(jvp(attention))/dot_general", 30)
    'jit(step)...tion))/dot_general'
    >>> shorten("/home/me/project/train.py:41", 15)
    '...train.py:41'
    """
    if cell_width(text) <= width:
        return text
    keep = width - len(DOTS)
    if keep < 2:
        return text[:width]
    if not text.isascii():
        from rich.cells import set_cell_size

        return f"{set_cell_size(text, keep)}{DOTS}"
    if head is None:
        head = 0 if text.startswith("/") or _PLACE.search(text) else keep // 3
    return f"{text[:head]}{DOTS}{text[len(text) - (keep - head) :]}"
