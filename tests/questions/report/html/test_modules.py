"""Pages on folders: the modules with views, and the table of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.questions.report import html_pages as pages
from tests.commands import output_of
from tests.questions.report.html.pages import data_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.questions.report.html.conftest import Drawer, Opener

TEXT = """HloModule jit_f{k}, is_scheduled=true

ENTRY main {{
  p = f32[{size}] parameter(0)
  a = f32[{size}] negate(p)
  ROOT b = f32[{size}] add(a, p)
}}
"""


def _page(folder: Path, count: int) -> str:
    for k in range(count):
        file = folder / f"module_{k:04}.jit_f{k}.cpu_after_optimizations.txt"
        file.write_text(TEXT.format(k=k, size=1024 * (1 + k)), "utf-8")
    return output_of(["report", str(folder), "-f", "html"])


def _views(page: str) -> dict[str, Any]:
    found: dict[str, Any] = data_of(page)["hlo-lens-views"]
    return found


def test_the_largest_modules_have_views_and_the_others_a_command(tmp_path: Path) -> None:
    views = _views(_page(tmp_path, 30))
    assert [one["title"] for one in views["modules"]] == [f"jit_f{29 - k}" for k in range(24)]
    (section,) = views["sections"]
    (table,) = section["tables"]
    assert [row[0] for row in table["rows"]] == [f"jit_f{28 - k}" for k in range(29)]
    assert section["opens"] == [f"jit_f{28 - k}" for k in range(23)] + [None] * 6
    (note,) = section["notes"]
    command = f"hlo-lens report {tmp_path} --module module_0005.jit_f5 -f html -o page.html"
    assert note == f"6 modules without views in this file; a page of the first: {command}"
    assert data_of(_page(tmp_path, 30))["hlo-lens-data"]["modules"][5]["name"].endswith("jit_f5")


def test_views_are_of_a_limited_number_of_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_INSTRUCTIONS", 10)
    views = _views(_page(tmp_path, 6))
    assert [one["title"] for one in views["modules"]] == ["jit_f5", "jit_f4", "jit_f3", "jit_f2"]


def test_a_row_opens_its_module(open_page: Opener, tmp_path: Path) -> None:
    opened = open_page(_page(tmp_path, 4))
    page = opened.open()
    page.get_by_role("link", name="jit_f1", exact=True).click()
    assert page.locator("h1").inner_text() == "jit_f1"
    assert page.evaluate("hloLens.selection.get('module')") == "jit_f1"
    opened.draw_all()
    opened.assert_quiet()


def test_a_listing_has_all_rows_equal_ones_once_and_opens_their_views(
    open_page: Opener, tmp_path: Path
) -> None:
    for process in ("host0", "host1"):
        (tmp_path / process).mkdir()
        _page(tmp_path / process, 3)
    opened = open_page(output_of(["ls", str(tmp_path), "-f", "html"]))
    page = opened.open()
    rows = page.locator("#view-section0 tbody tr")
    names = page.locator("#view-section0 tbody a").all_inner_texts()
    assert names == ["jit_f2", "jit_f1", "jit_f0"]
    assert "host0 and 1 equal one" in rows.first.inner_text()
    page.get_by_role("link", name="jit_f1").click()
    page.locator("#view-memory canvas.stack").wait_for()
    assert page.locator("h1").inner_text().startswith("jit_f1")
    assert rows.count() == 0
    opened.draw_all()
    page.get_by_role("button", name="all modules").click()
    assert rows.count() == 3
    opened.assert_quiet()


def test_long_names_of_modules_fit_a_small_screen(drawn: Drawer, tmp_path: Path) -> None:
    for k in range(2):
        file = tmp_path / f"module_{k:04}.{'x' * 80}{k}.cpu_after_optimizations.txt"
        file.write_text(TEXT.format(k="x" * 80 + str(k), size=1024), "utf-8")
    page = drawn(output_of(["report", str(tmp_path), "-f", "html"]), width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
