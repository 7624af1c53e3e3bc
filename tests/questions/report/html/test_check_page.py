"""Pages of ``check``, and of ``diff`` with snapshots: verdicts, figures, and views."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hlo_lens.text.units import format_bytes
from tests.commands import output_of
from tests.questions.report.html.pages import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.questions.report.html.conftest import Opened

    Opener = Callable[..., Opened]

BASE, HEAD = (f"sample_dumps/pairs/tpu/{name}.tar.xz" for name in ("base", "f32_upcast"))
RULES = ["--budget", "sample_dumps/hlo-lens.toml"]


def _page(*arguments: str) -> str:
    return output_of([*arguments, "-f", "html"])


def _module(page: str) -> dict[str, Any]:
    found: dict[str, Any] = data_of(page)["hlo-lens-views"]["modules"][0]
    return found


@pytest.fixture
def snapshots(tmp_path: Path) -> list[str]:
    """Return the paths of snapshots of both sides."""
    paths = [str(tmp_path / name) for name in ("base.json", "head.json")]
    for side, path in zip((BASE, HEAD), paths, strict=True):
        output_of(["save", side, "-o", path])
    return paths


def test_check_has_verdicts_then_all_views(open_page: Opener) -> None:
    page = _page("check", HEAD, "--baseline", BASE, *RULES)
    data = data_of(page)
    printed = json.loads(output_of(["check", HEAD, "--baseline", BASE, *RULES, "-f", "json"]))
    assert data["hlo-lens-data"] == printed
    assert list(_module(page)["views"])[:3] == ["summary", "diff", "memory"]
    opened = open_page(page)
    shown = opened.open()
    opened.draw_all()
    shown.wait_for_timeout(100)
    assert shown.locator(".failed").count() == 0
    first = shown.locator("section.view").first
    assert "hlo-lens check: failed" in first.inner_text()
    command = first.locator(".command code").first.inner_text()
    assert command == f"hlo-lens check {HEAD} --baseline {BASE} {' '.join(RULES)}"
    statuses = first.locator("span.status").all_inner_texts()
    assert statuses == ["fail", "fail (informational)", "pass", "pass"]
    opened.assert_quiet()


def test_check_has_the_objects_of_report_and_diff() -> None:
    module = _module(_page("check", HEAD, "--baseline", BASE, *RULES))
    report = json.loads(output_of(["report", HEAD, "-f", "json"]))["modules"][0]
    changes = json.loads(output_of(["diff", BASE, HEAD, "-f", "json"]))["modules"][0]
    assert module["objects"]["report"] == report
    assert module["objects"]["diff"] == changes
    assert module["pair"] == f"{BASE} {HEAD}"


def test_check_without_a_baseline_has_no_changes() -> None:
    views = _module(_page("check", HEAD, "--fail-on", "memory.total_bytes>1GiB"))["views"]
    assert "memory" in views
    assert "diff" not in views


def test_check_of_a_snapshot_has_its_verdicts(open_page: Opener, snapshots: list[str]) -> None:
    opened = open_page(_page("check", snapshots[1], "--baseline", snapshots[0]))
    assert "memory.total_bytes" in opened.open().locator("section.view").first.inner_text()
    opened.assert_quiet()


@pytest.mark.parametrize("kept", [(0,), (1,), (0, 1)])
def test_diff_with_snapshots_draws_their_figures(
    open_page: Opener, snapshots: list[str], kept: tuple[int, ...]
) -> None:
    sides = [snapshots[k] if k in kept else side for k, side in enumerate((BASE, HEAD))]
    page = _page("diff", *sides)
    view = _module(page)["views"]["diff"]
    assert view["snapshots"] == [("base", "head")[k] for k in kept]
    memory = data_of(page)["hlo-lens-data"]["modules"][0]["memory"]
    for groups in view["groups"].values():
        for side in ("base", "head"):
            assert sum(groups[side]) + groups[f"others_{side}"] == memory["peak.bytes"][side]
    opened = open_page(page)
    shown = opened.open()
    opened.draw_all()
    shown.wait_for_timeout(100)
    assert shown.locator(".failed").count() == 0
    text = shown.locator("#view-diff").inner_text()
    assert "snapshot" in text
    for side in ("base", "head"):
        assert format_bytes(memory["total_bytes"][side]) in text
    assert shown.locator("#view-diff .box.delta").count() > 3
    opened.assert_quiet()


def test_figures_are_pairs_of_bars_with_the_numbers_of_the_command(open_page: Opener) -> None:
    opened = open_page(_page("diff", BASE, HEAD))
    page = opened.open()
    opened.draw_all()
    changes = json.loads(output_of(["diff", BASE, HEAD, "-f", "json"]))["modules"][0]
    rows = {
        cells[0]: cells[1:3]
        for row in page.locator("table.pairs").first.locator("tbody tr").all()
        for cells in ([cell.inner_text() for cell in row.locator("td").all()],)
    }
    memory = changes["memory"]
    for label, key in (
        ("must fit", "total_bytes"),
        ("peak", "peak.bytes"),
        ("temporaries", "temp_bytes"),
    ):
        assert rows[label] == [format_bytes(memory[key][side]) for side in ("base", "head")]
    wire = changes["wire_bytes_per_device"]
    assert rows["on the wire in one run"] == [format_bytes(wire[s]) for s in ("base", "head")]
    widths = page.evaluate(
        "[...document.querySelectorAll('table.pairs .pair')].slice(0, 2)"
        ".map(one => [...one.children].map(bar => parseFloat(bar.style.width)))"
    )
    total = memory["total_bytes"]
    assert widths[0][0] / widths[0][1] == pytest.approx(total["base"] / total["head"], rel=0.01)
