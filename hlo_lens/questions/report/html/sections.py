"""Sections of a report, for the page: facts, tables and notes as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.render.result import Unit
from hlo_lens.render.table import RenderOptions, cut_table
from hlo_lens.text.printable import printable
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.render.table import Report, Section, Table

_ROWS = 20
"""Rows of a table where the user asks for no number."""


def page_of_sections(report: Report, options: RenderOptions) -> Mapping[str, object]:
    """Return the data of a page that has the sections of a report and no other view."""
    rows = _ROWS if options.rows is None else options.rows
    sections = [section_object(section, rows) for section in report.pages]
    title = report.pages[0].title if report.pages else report.kind
    return page_object(report.kind, title, modules=[], sections=sections, strings=[])


def page_object(
    kind: str,
    title: str,
    *,
    modules: list[Mapping[str, object]],
    sections: list[Mapping[str, object]],
    strings: list[str],
) -> Mapping[str, object]:
    """Return the data of a page, as `page.js` reads it.

    Args:
        kind: Kind of the report.
        title: Title of the page.
        modules: Title, role and views of each module.
        sections: Sections on all modules, or on none.
        strings: Strings that views refer to by number.
    """
    return {
        "kind": kind,
        "title": title,
        "tool_version": __version__,
        "modules": modules,
        "sections": sections,
        "strings": strings,
    }


def section_object(
    section: Section, rows: int, *, is_leading: bool = False, command: str = ""
) -> Mapping[str, object]:
    """Return a section: title, facts, drawing, tables, notes.

    Args:
        section: The section.
        rows: Rows of its tables.
        is_leading: Whether it precedes the views.
        command: Command that prints it; empty for none.
    """
    return {
        "command": command,
        "is_leading": is_leading,
        "title": printable(section.title),
        "facts": [[label, printable(text)] for label, text in section.facts],
        "drawing": list(section.drawing),
        "tables": [table_object(table, rows) for table in section.shown_tables(rows)],
        "notes": [printable(note) for note in section.notes],
    }


def table_object(table: Table, rows: int) -> Mapping[str, object]:
    """Return a table with its first rows as text."""
    cut = cut_table(table, rows)
    return {
        "title": printable(table.title),
        "columns": [[one.name, one.meaning, one.unit is not Unit.NONE] for one in cut.columns],
        "rows": cut.rows,
        "tail": cut.tail,
        "notes": [printable(note) for note in table.notes],
        "command": table.command,
    }
