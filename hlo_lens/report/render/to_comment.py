"""Report to Markdown of a limited length, with tables folded: for a comment on a pull request.

Parts that do not fit are left out whole, and counted: first rows of tables, then tables, then
sections from the end on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.report.render.markdown_cells import DEFAULT_ROWS, escape, table_lines, unlinked
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.report.render.table import Report, Section, Table

_FEWER = (10, 5, 3, 1)
_LONGEST_FACT = 2_000
_LONGEST_TITLE = 300


def comment_text(report: Report, rows: int | None, most_characters: int) -> str:
    """Return a report as Markdown of at most so many characters.

    Args:
        report: The report.
        rows: Rows of each table; 0 for all; None for the default of Markdown.
        most_characters: Limit on the length, at least some hundred.
    """
    first = DEFAULT_ROWS if rows is None else rows
    for number in (first, *(n for n in _FEWER if not first or n < first)):
        text = _joined([_section(section, number) for section in report.sections])
        if len(text) <= most_characters:
            return text
    return _fitted(report.sections, most_characters)


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"


def _fitted(sections: Sequence[Section], most: int) -> str:
    """Return as many sections as fit, with one row of each table, then without tables."""
    parts: list[str] = []
    left = most - len(_left_out(len(sections))) - 4
    for place, section in enumerate(sections):
        kept = _as_far_as_it_fits(section, left - 2, first=not place)
        if kept is None:
            parts.append(_left_out(len(sections) - place))
            break
        parts.append(kept)
        left -= len(kept) + 2
    return _joined(parts)


def _as_far_as_it_fits(section: Section, most: int, *, first: bool) -> str | None:
    """Return a section with one row of each table; its first tables if not all of them fit.

    The first section, an overview, has more rows. None if not even the facts fit.
    """
    whole, bare = _section(section, _FEWER[0] if first else 1), _section(section, None)
    if len(whole) <= most:
        return whole
    if len(bare) > most:
        return None
    tables = [table for table in section.tables if not table.is_data_only]
    left = most - len(bare) - 2
    count = 0
    for table in tables:
        left -= len("\n".join(_folded(table, _FEWER[0]))) + 2
        if left < 0:
            break
        count += 1
    return _section(section, _FEWER[0], tables[:count], len(tables) - count) if count else bare


def _left_out(count: int) -> str:
    return f"*{plural(count, 'more section')} left out for length; -f json has all*"


def _section(
    section: Section,
    rows: int | None,
    kept: Sequence[Table] | None = None,
    left_out: int = 0,
) -> str:
    """Return a section.

    Args:
        section: The section.
        rows: Rows of each table; None for no tables.
        kept: Tables to show; None for all.
        left_out: Number of tables left out.
    """
    blocks = [f"## {_short(section.title, _LONGEST_TITLE)}"]
    if section.facts:
        facts = [f"- **{escape(k)}**: {_short(v, _LONGEST_FACT)}" for k, v in section.facts]
        blocks.append("\n".join(facts))
    tables = [table for table in section.tables if not table.is_data_only]
    if rows is None:
        if tables:
            blocks.append(_no_tables(len(tables)))
    else:
        blocks += ["\n".join(_folded(table, rows)) for table in (tables if kept is None else kept)]
        if left_out:
            blocks.append(_no_tables(left_out))
    if section.notes:
        blocks.append("\n".join(f"- {_short(note, _LONGEST_FACT)}" for note in section.notes))
    return "\n\n".join(blocks)


def _no_tables(count: int) -> str:
    return f"*{plural(count, 'table')} left out for length*"


def _short(text: str, most: int) -> str:
    """Return an escaped text, cut off if it is very long."""
    kept = text if len(text) <= most else f"{text[: most - 3]}..."
    return escape(" ".join(kept.split()))


def _folded(table: Table, rows: int) -> Iterator[str]:
    """Yield the lines of a folded table."""
    count = f" ({plural(table.row_count, 'row')})" if table.row_count else ""
    yield f"<details><summary>{_plain(table.title)}{count}</summary>"
    yield ""
    yield from table_lines(table, rows)
    yield ""
    yield "</details>"


def _plain(text: str) -> str:
    """Return text without meaning to HTML."""
    return unlinked(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
