"""Output of each format."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hlo_lens.render.result import Column, Unit
from hlo_lens.render.table import RenderOptions, Report, Section
from hlo_lens.render.to_text import render_text
from tests.render.tables import COLUMNS, rendered, table

if TYPE_CHECKING:
    from collections.abc import Sequence

LONG = "a_name_of_more_than_forty_characters_in_all.1"
ROWS = ((3 << 20, LONG, 12), (None, "x|y", 1234))


def test_text_aligns_numbers_right_and_keeps_the_ends_of_names() -> None:
    assert rendered("text", table(ROWS), width=50).splitlines() == [
        "jit_f",
        "program  3 instructions",
        "",
        "Sizes",
        "size_bytes  name                             count",
        "   3.00MiB  ...an_forty_characters_in_all.1     12",
        "            x|y                              1,234",
        "   3.00MiB  total                            1,246",
    ]


@pytest.mark.parametrize("width", [40, 57, 80, 200])
def test_text_fits_the_width(width: int) -> None:
    lines = rendered("text", table(ROWS), width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert (LONG in "\n".join(lines)) == (width >= 80)


COMMAND = """hlo-lens what-if /runs/dump --shard "state['w']=P('data', None)" --donate state"""


@pytest.mark.parametrize("width", [40, 80, 100])
def test_commands_are_whole_on_a_line(width: int) -> None:
    words = "the findings of a module with most saving first"
    section = Section(
        title="t",
        facts=(("findings", f"{words}: {COMMAND}"), ("  try", COMMAND)),
        notes=(f"{words}: {COMMAND}",),
    )
    out = io.StringIO()
    render_text(Report(kind="x", sections=(section,), data={}), out, RenderOptions(width=width))
    lines = out.getvalue().splitlines()
    assert lines.count(f"{' ' * 10}{COMMAND}") == 1
    assert lines.count(f"  try     {COMMAND}") == 1
    assert lines[-1] == COMMAND
    assert max(len(line) for line in lines if COMMAND not in line) <= width


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _text_on_a_terminal() -> str:
    out = _Terminal()
    report = Report(kind="report", sections=(Section(title="jit_f"),), data={})
    render_text(report, out, RenderOptions())
    return out.getvalue()


def test_colour_is_for_terminals_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert _text_on_a_terminal() == "\x1b[1mjit_f\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert _text_on_a_terminal() == "jit_f\n"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert _text_on_a_terminal() == "jit_f\n"


def _blocks(text: str) -> list[Sequence[Sequence[str]]]:
    return [list(csv.reader(io.StringIO(block))) for block in text.split("\n\n")]


def test_csv_has_all_rows_in_base_units_and_no_total() -> None:
    text = rendered("csv", table(ROWS, residual_rows=((5, "[rest]", 6),)), table(ROWS), rows=1)
    first, second = _blocks(text)
    assert first == [
        ["module", "table", "size_bytes", "name", "count"],
        ["jit_f", "sizes", str(3 << 20), LONG, "12"],
        ["jit_f", "sizes", "", "x|y", "1234"],
        ["jit_f", "sizes", "5", "[rest]", "6"],
    ]
    assert len(second) == 3


def test_a_column_of_modules_takes_the_place_of_the_section_in_csv() -> None:
    column = Column("module", Unit.NONE, "name of the module")
    listed = replace(table(ROWS), columns=(COLUMNS[0], column, COLUMNS[2]))
    header, first = _blocks(rendered("csv", listed))[0][:2]
    assert header == ["module", "table", "size_bytes", "count"]
    assert first == [str(ROWS[0][1]), "sizes", str(ROWS[0][0]), str(ROWS[0][2])]


def test_markdown_escapes_special_characters() -> None:
    lines = rendered("md", table(ROWS), rows=1).splitlines()
    assert lines[:8] == [
        "## jit_f",
        "",
        "- **program**: 3 instructions",
        "",
        "### Sizes",
        "",
        "| size_bytes | name | count |",
        "| ---: | --- | ---: |",
    ]
    assert lines[9] == "|  | x\\|y | 1,234 |"


def test_plain_text_does_not_import_rich() -> None:
    code = (
        "import sys; from tests.render.tables import rendered, table; "
        "rendered('text', table(((1, 'a', 1),))); print('rich' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize(
    ("most", "rows", "findings"), [(22, 6, 3), (20, 3, 3), (18, 3, 2), (16, 2, 1), (9, 1, 1)]
)
def test_a_long_page_keeps_rows_before_its_last_facts_and_its_first(
    most: int, rows: int, findings: int
) -> None:
    facts = []
    for number in range(3):
        facts += [(f"M00{number} info", "a finding"), ("  fix", "mend it")]
    parts = (
        Section(title="3 to consider", facts=tuple(facts), least_facts=2),
        Section(title="Memory", tables=(table(tuple((64 - k, f"v.{k}", 1) for k in range(6))),)),
    )
    page = Section(title="jit_f", facts=(("", "1 device"),), parts=parts, most_lines=most)
    report = Report(kind="report", sections=(page,), data={})
    for asked in (None, 50):
        out = io.StringIO()
        render_text(report, out, RenderOptions(rows=asked))
        lines = out.getvalue().splitlines()
        assert sum("v." in line for line in lines) == rows
        assert sum("fix" in line for line in lines) == findings


def test_parts_have_headings_of_a_lower_level_and_continued_facts_are_below() -> None:
    part = Section(
        title="1 to fix", command="hlo-lens lint f", facts=(("M001", "a finding"), ("  fix", "it"))
    )
    page = Section(title="jit_f", facts=(("", "1 device"),), parts=(part,))
    report = Report(kind="report", sections=(page,), data={})
    assert report.to_markdown().split("\n\n") == [
        "## jit_f",
        "- 1 device",
        "### 1 to fix",
        "- **M001**: a finding\n  - **fix**: it",
        "`hlo-lens lint f`\n",
    ]
    assert str(report).splitlines() == [
        "jit_f",
        "1 device",
        "",
        f"1 to fix{'hlo-lens lint f':>92}",
        "M001   a finding",
        "  fix  it",
    ]


def test_long_line_of_a_tree_goes_on_below_itself() -> None:
    drawing = (
        "main  2 instructions",
        "├─ while  x8",
        "│     all-gather fsdp  4 each trip, 144.00MiB on the wire  gpt.py:36 +3",
        "1.0KiB  │  ├─ LayerNorm.__call__of_a_module, normalization.py:523",
        "1.0KiB  │  └─ LayerNorm.__call__of_a_module, normalization.py:523",
    )
    report = Report(kind="x", sections=(Section(title="t", drawing=drawing),), data={})
    out = io.StringIO()
    render_text(report, out, RenderOptions(width=60))
    assert out.getvalue().splitlines()[2:] == [
        "main  2 instructions",
        "├─ while  x8",
        "│     all-gather fsdp  4 each trip, 144.00MiB on the wire",
        "│       gpt.py:36 +3",
        "1.0KiB  │  ├─ LayerNorm.__call__of_a_module,",
        "        │  │    normalization.py:523",
        "1.0KiB  │  └─ LayerNorm.__call__of_a_module,",
        "        │       normalization.py:523",
    ]
