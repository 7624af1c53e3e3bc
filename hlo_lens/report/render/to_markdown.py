"""Report to Markdown, for a pull request or an issue."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from hlo_lens.report.render.markdown_cells import DEFAULT_ROWS, escape, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.report.render.table import RenderOptions, Report, Section, Table


def render_markdown(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write headings, facts as a list, and tables cut at `DEFAULT_ROWS` or the option."""
    if report.most_characters is not None:
        from hlo_lens.report.render.to_comment import comment_text

        out.write(comment_text(report, options.rows, report.most_characters))
        return
    rows = DEFAULT_ROWS if options.rows is None else options.rows
    blocks = [block for section in report.sections for block in _section(section, rows)]
    out.write("\n\n".join(blocks) + "\n")


def _section(section: Section, rows: int) -> Iterator[str]:
    yield f"## {escape(section.title)}"
    if section.facts:
        yield "\n".join(f"- **{escape(label)}**: {escape(text)}" for label, text in section.facts)
    if section.drawing:
        yield "\n".join(("```text", *section.drawing, "```"))
    for table in section.tables:
        if not table.is_data_only:
            yield from _table(table, rows)
    if section.notes:
        yield "\n".join(f"- {escape(note)}" for note in section.notes)


def _table(table: Table, rows: int) -> Iterator[str]:
    yield f"### {escape(table.title)}"
    lines = list(table_lines(table, rows))
    notes = len(table.notes)
    yield "\n".join(lines[: len(lines) - notes - (notes > 0)])
    if notes:
        yield "\n".join(lines[-notes:])
