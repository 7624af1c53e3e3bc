"""Report to JSON, one row on each line, and to CSV; the outer object of reports.

CSV has a block for each table, with its own header line and an empty line between. Each line begins
with the module (the section, unless the table has a column of this name) and the name of the table.
Rows are complete, numbers are in base units, empty means not known, lists are JSON.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from hlo_lens.render.result import row_objects, rows_of
from hlo_lens.render.table import Report, Section, Sections
from hlo_lens.text.errors import printable
from hlo_lens.text.rows import Rows
from hlo_lens.text.version import SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hlo_lens.render.result import Cell, Column
    from hlo_lens.render.table import RenderOptions


class Objects(Rows[Mapping[str, object]]):
    """JSON objects of any kinds; each is made anew at each access."""

    def __init__(self, makers: Iterable[Callable[[], Mapping[str, object]]]) -> None:
        made = tuple(makers)
        super().__init__(lambda place: made[place](), range(len(made)))


class RowObjects(Rows[Mapping[str, object]]):
    """JSON objects of the rows of a result, one for each record."""

    def __init__(self, columns: Sequence[Column], records: Sequence[object]) -> None:
        super().__init__(
            lambda place: row_objects(columns, rows_of((records[place],), columns))[0],
            range(len(records)),
        )


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _listed(value: object) -> list[object]:
    """Return a list of objects that are made on access, as `json` prints an empty one."""
    if isinstance(value, Rows):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be printed as JSON")


_encoded = json.JSONEncoder(check_circular=False, default=_listed).encode


def render_json(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write the report's data: full integers, keys in a fixed order, ASCII only."""
    out.writelines(_pieces(report.data, ""))
    out.write("\n")


def _pieces(value: object, indent: str) -> Iterator[str]:
    deeper = f"{indent}  "
    if isinstance(value, Mapping) and any(map(_is_long, value.values())):
        for position, (key, item) in enumerate(value.items()):
            yield f"{',' if position else '{'}\n{deeper}{_encoded(key)}: "
            yield from _pieces(item, deeper)
        yield f"\n{indent}}}"
    elif isinstance(value, Sequence) and _is_long(value):
        for position, item in enumerate(value):
            yield f"{',' if position else '['}\n{deeper}"
            # cells of a row are on one line
            yield from [_encoded(item)] if isinstance(value, RowObjects) else _pieces(item, deeper)
        yield f"\n{indent}]"
    else:
        yield _encoded(value)


def _is_long(value: object) -> bool:
    if type(value) in _SCALARS:
        return False
    if isinstance(value, Mapping):
        return len(value) > 1 or any(map(_is_long, value.values()))
    if isinstance(value, Rows):
        return len(value) > 0
    return isinstance(value, (list, tuple)) and any(isinstance(one, Mapping) for one in value)


_FORMULA = ("=", "+", "-", "@")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?%?")


def render_csv(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write the tables of a report with all rows and residual rows, without totals."""
    writer = csv.writer(out, lineterminator="\n")
    is_first = True
    for section in report.sections:
        for table in section.tables:
            if table.is_text_only:
                continue
            if not is_first:
                out.write("\n")
            is_first = False
            names = [column.name for column in table.columns]
            own = table.module_column
            module = names.index(own) if own in names else None
            places = [
                k for k, name in enumerate(names) if name not in table.text_only and k != module
            ]
            writer.writerow(("module", "table", *(names[k] for k in places)))
            for row in table.all_rows():
                first = _text(section.title if module is None else row[module])
                writer.writerow((first, table.name, *(_text(row[k]) for k in places)))


def _text(cell: Cell) -> str | int | float:
    if cell is None:
        return ""
    if isinstance(cell, (bool, tuple)):
        return json.dumps(cell)
    return _inert(printable(cell)) if isinstance(cell, str) else cell


def _inert(text: str) -> str:
    """Return a text that spreadsheets do not take for a formula: an apostrophe comes first.

    Source: OWASP, "CSV Injection".
    """
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulePage:
    """Text sections and JSON object of one module.

    Attributes:
        sections: Sections for people, and for CSV.
        make_object: Makes the JSON object, at each call anew.
    """

    sections: Sequence[Section]
    make_object: Callable[[], Mapping[str, object]]


def envelope(kind: str, **parts: object) -> dict[str, object]:
    """Return the JSON object of a report: schema version, kind, version of hlo-lens, its parts."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "tool_version": __version__,
        **parts,
    }


def report_of_pages(
    kind: str, pages: Iterable[ModulePage], order: Callable[[], Iterable[int]] | None = None
) -> Report:
    """Return the report made of the pages of some modules, in the order of JSON and CSV.

    `order` returns the positions of the pages in the order for people; None for the same one.
    """
    made = list(pages)
    first = None
    if order is not None and len(made) > 1:
        first = Sections(lambda: (section for k in order() for section in made[k].sections))
    return Report(
        kind=kind,
        sections=Sections(lambda: (section for page in made for section in page.sections)),
        data=envelope(kind, modules=Objects([page.make_object for page in made])),
        first_page=first,
    )
