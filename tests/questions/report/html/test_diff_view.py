"""The view of changes: its figures equal those of ``hlo-lens diff``, and it opens quietly."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands import output_of
from tests.questions.report.html.pages import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.questions.report.html.conftest import Opened

    Opener = Callable[..., Opened]

PAIRS = [
    ("tpu", "doubled_buffer"),
    ("cpu", "f32_upcast"),
    ("gpu", "added_all_gather"),
]
FIRST = PAIRS[0]


EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
HLO = """HloModule m, is_scheduled=true

ENTRY main {
  %p = f32[1024] parameter(0)
  %a = f32[1024] add(%p, %p), metadata={op_name="EVIL" source_file="EVIL" source_line=1}
  ROOT %r = f32[1024] OPCODE(%a, %p), metadata={op_name="jit(f)/EVIL/mul"}, evil="EVIL"
}
""".replace("EVIL", EVIL)


@cache
def _page(backend: str, edit: str) -> str:
    folder = f"sample_dumps/pairs/{backend}"
    sides = [f"{folder}/base.tar.xz", f"{folder}/{edit}.tar.xz"]
    return output_of(["diff", *sides, "-f", "html"])


def _view(pair: tuple[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the data of the view, and the object of the module in the JSON."""
    data = data_of(_page(*pair))
    return (
        data["hlo-lens-views"]["modules"][0]["views"]["diff"],
        data["hlo-lens-data"]["modules"][0],
    )


def _printed(pair: tuple[str, str]) -> dict[str, Any]:
    folder = f"sample_dumps/pairs/{pair[0]}"
    made = output_of(["diff", f"{folder}/base.tar.xz", f"{folder}/{pair[1]}.tar.xz", "-f", "json"])
    found: dict[str, Any] = json.loads(made)["modules"][0]
    return found


@pytest.mark.parametrize("pair", PAIRS)
def test_the_page_has_the_json_of_the_command(pair: tuple[str, str]) -> None:
    assert _view(pair)[1] == _printed(pair)


@pytest.mark.parametrize("pair", PAIRS)
def test_peaks_are_those_of_the_command(pair: tuple[str, str]) -> None:
    view, module = _view(pair)
    peak = module["memory"]["peak.bytes"]
    for side in ("base", "head"):
        assert view["spaces"][0][side]["largest"] == peak[side]
        assert max(view["spaces"][0][side]["held"]) == peak[side]
        for groups in view["groups"].values():
            assert sum(groups[side]) + groups[f"others_{side}"] == peak[side]


@pytest.mark.parametrize("pair", PAIRS)
def test_lines_side_by_side_have_the_edits_of_the_command(pair: tuple[str, str]) -> None:
    view, module = _view(pair)
    lines = [line for one in view["computations"] for line in one["lines"]]
    assert view["computation_count"] == len(view["computations"])
    counts = dict.fromkeys(("added", "removed", "changed"), 0)
    for kind, _, _ in lines:
        if kind in counts:
            counts[kind] += 1
    program = module["program"]
    assert counts["changed"] == program["changed"]
    assert counts["added"] == program["added"] - program["left_out_head"]
    assert counts["removed"] == program["removed"] - program["left_out_base"]


def test_a_row_opens_its_texts(open_page: Opener) -> None:
    opened = open_page(_page(*FIRST))
    page = opened.open()
    opened.draw_all()
    page.wait_for_timeout(100)
    view = page.locator("#view-diff")
    view.get_by_label("search changes of the program").fill("bitcast")
    view.locator(".listing button.name").first.click()
    line = view.locator("tr.chosen-line")
    line.wait_for()
    assert "bitcast" in line.inner_text()
    marked = line.locator("mark").all_inner_texts()
    assert {"2048", "4096"} <= set(marked)
    opened.assert_quiet()


@pytest.mark.parametrize("pair", PAIRS)
def test_changes_are_drawn_with_their_signs(open_page: Opener, pair: tuple[str, str]) -> None:
    opened = open_page(_page(*pair), width=360, scheme="dark")
    page = opened.open()
    opened.draw_all()
    page.wait_for_timeout(100)
    view = page.locator("#view-diff")
    assert page.locator(".failed").count() == 0
    peak = _view(pair)[1]["memory"]["peak.bytes"]
    kind = "grown" if peak["delta"] > 0 else "shrunk" if peak["delta"] < 0 else "even"
    assert kind in (view.locator(".box.delta").first.get_attribute("class") or "")
    readout = view.locator(".readout").first.inner_text()
    assert "its peak" in readout
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    opened.assert_quiet()


def test_hostile_names_in_a_diff_do_nothing(open_page: Opener, tmp_path: Path) -> None:
    sides = []
    for opcode in ("multiply", "subtract"):
        path = tmp_path / f"{opcode}.after_optimizations.txt"
        path.write_text(HLO.replace("OPCODE", opcode), "utf-8")
        sides.append(str(path))
    opened = open_page(output_of(["diff", *sides, "-f", "html"]))
    dialogs: list[str] = []
    opened.page.on("dialog", lambda one: dialogs.append(one.message))
    page = opened.open()
    opened.draw_all()
    page.wait_for_timeout(100)
    page.locator(".side-by-side summary").first.click()
    page.locator(".side-by-side .texts").wait_for()
    assert EVIL in page.locator(".side-by-side").first.inner_text()
    assert page.locator("main img, main script").count() == 0
    assert dialogs == []
    opened.assert_quiet()
