"""Commands in sentences are whole on one line."""

from __future__ import annotations

import io

import pytest

from hlo_lens.render.table import RenderOptions, Report, Section
from hlo_lens.render.text_table import joined, separated, wrapped
from hlo_lens.render.to_text import render_text

SENTENCES = (
    ("it is inferred for some of these (hlo-lens help blame)", "hlo-lens help blame"),
    ("texts may differ; hlo-lens diff compares programs, and may find no change", "hlo-lens diff"),
    (
        "of each of them: hlo-lens memory PATH --module NAME, or -n 0 for all",
        "hlo-lens memory PATH --module NAME",
    ),
    (
        "save less (an estimate: hlo-lens what-if DIR --donate PLACE)",
        "hlo-lens what-if DIR --donate PLACE",
    ),
    ("as with hlo-lens lint dump --select M003 and the same", "hlo-lens lint dump --select M003"),
    (
        """then hlo-lens what-if 'my dump' --shard "w=P(None, 'm')"; once more""",
        """hlo-lens what-if 'my dump' --shard "w=P(None, 'm')\"""",
    ),
    ("the page of hlo-lens report. The rest is elsewhere", "hlo-lens report"),
)


def _lines(text: str, width: int) -> list[str]:
    out = io.StringIO()
    report = Report(kind="f", sections=(Section(title="t", notes=(text,)),), data={})
    render_text(report, out, RenderOptions(width=width))
    return out.getvalue().splitlines()[1:]


@pytest.mark.parametrize(("text", "command"), SENTENCES)
@pytest.mark.parametrize("width", [50, 60, 70, 80])
def test_no_line_ends_inside_of_a_command(text: str, command: str, width: int) -> None:
    lines = _lines(text, width)
    assert " ".join(lines) == text
    assert any(command in line for line in lines)
    assert all(len(line) <= width or command in line for line in lines)


@pytest.mark.parametrize(("text", "command"), SENTENCES)
def test_words_after_a_command_are_no_part_of_it(text: str, command: str) -> None:
    parts = joined(text).split(" ")
    assert separated(" ".join(parts)) == text
    (found,) = [separated(part) for part in parts if "hlo-lens" in part]
    assert found.strip("(),;.") == command


def test_a_cell_breaks_only_commands_that_are_wider_than_it() -> None:
    text = "the program ended early; hlo-lens report LOG prints the reason"
    assert "hlo-lens report LOG" in [*wrapped(text, 20)]
    assert max(len(line) for line in wrapped(text, 14)) <= 14
