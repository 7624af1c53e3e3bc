"""Markdown for a pull request: folded tables, limited length, whole parts."""

from __future__ import annotations

from functools import partial

import pytest

from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Report, Section, Table
from hlo_lens.render.to_markdown import comment_text

COLUMNS = (
    Column("name", Unit.NONE, "a name"),
    Column("delta_bytes", Unit.BYTES_DELTA, "a difference"),
)


def _rows(count: int) -> list[Row]:
    return [(f"row | {k} " + "x" * 80, 1024) for k in range(count)]


def _section(number: int, rows: int) -> Section:
    table = Table(
        name="t",
        title="A table <of> bytes",
        columns=COLUMNS,
        read_rows=partial(_rows, rows),
        row_count=rows,
        totals={"delta_bytes": 1024 * rows},
        notes=("a note",),
    )
    return Section(title=f"module_{number}", facts=(("memory", "+1.0KiB"),), tables=(table, table))


def _report(sections: int, rows: int) -> Report:
    listed = tuple(_section(number, rows) for number in range(sections))
    return Report(kind="diff", sections=listed, data={}, most_characters=65_000)


def _is_whole(text: str) -> bool:
    return text.count("<details>") == text.count("</details>") == text.count("<summary>")


def test_tables_are_folded_and_their_titles_escaped() -> None:
    text = comment_text(_report(1, 2), 20, 65_000)
    assert "<details><summary>A table &lt;of&gt; bytes (2 rows)</summary>\n\n| name |" in text
    assert "row \\| 0" in text
    assert "| total | +2.0KiB |" in text


@pytest.mark.parametrize(
    ("sections", "rows", "most"),
    [(1, 10_000, 65_000), (500, 50, 65_000), (3, 50, 1_000), (40, 3, 2_000), (1, 5, 300)],
)
def test_length_is_limited_and_parts_are_whole(sections: int, rows: int, most: int) -> None:
    text = comment_text(_report(sections, rows), 20, most)
    assert len(text) <= most
    assert _is_whole(text)
    assert "## module" in text


def test_first_tables_of_a_long_section_are_kept() -> None:
    section = _section(0, 3)
    many = Section(title="check", tables=section.tables * 500)
    text = comment_text(Report(kind="check", sections=(many,), data={}), 20, 20_000)
    assert len(text) <= 20_000
    assert _is_whole(text)
    shown = text.count("<details>")
    assert shown > 20
    assert f"*{1000 - shown} tables left out for length*" in text


def test_names_and_numbers_are_not_linked() -> None:
    fact = ("@alice", "see #12, a@b, x#3, @bob/team and &lt;")
    text = comment_text(
        Report(kind="diff", sections=(Section(title="m", facts=(fact,)),), data={}), 20, 65_000
    )
    assert "**@&#8203;alice**" in text
    assert "see #&#8203;12, a@b, x#3, @&#8203;bob/team and \\&lt;" in text


def test_a_long_fact_is_shortened() -> None:
    section = Section(title="m" * 1000, facts=(("names", "n" * 100_000),))
    text = comment_text(Report(kind="diff", sections=(section,), data={}), 20, 65_000)
    assert len(text) < 4_000
