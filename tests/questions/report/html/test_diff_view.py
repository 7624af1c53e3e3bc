"""Pages of diff and check: figures equal those of the commands, and they open quietly."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from hlo_lens.text.units import format_bytes
from tests.commands import output_of
from tests.questions.report.html.pages import data_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.questions.report.html.conftest import Drawer


PAIRS = [("tpu", "doubled_buffer"), ("cpu", "f32_upcast"), ("gpu", "added_all_gather")]
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


def test_hostile_names_in_a_diff_do_nothing(drawn: Drawer, tmp_path: Path) -> None:
    sides = []
    for opcode in ("multiply", "subtract"):
        path = tmp_path / f"{opcode}.after_optimizations.txt"
        path.write_text(HLO.replace("OPCODE", opcode), "utf-8")
        sides.append(str(path))
    page = drawn(output_of(["diff", *sides, "-f", "html"]))
    page.locator(".side-by-side summary").first.click()
    page.locator(".side-by-side .texts").wait_for()
    assert EVIL in page.locator(".side-by-side").first.inner_text()
    assert page.locator("main img, main script").count() == 0


BASE, HEAD = (f"sample_dumps/pairs/tpu/{name}.tar.xz" for name in ("base", "f32_upcast"))
RULES = ["--budget", "sample_dumps/hlo-lens.toml"]


def _page_of(*arguments: str) -> str:
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


def test_check_has_verdicts_then_all_views(drawn: Drawer) -> None:
    page = _page_of("check", HEAD, "--baseline", BASE, *RULES)
    data = data_of(page)
    printed = json.loads(output_of(["check", HEAD, "--baseline", BASE, *RULES, "-f", "json"]))
    assert data["hlo-lens-data"] == printed
    assert list(_module(page)["views"])[:3] == ["memory", "diff", "alive"]
    shown = drawn(page)
    first = shown.locator("section.view").first
    assert "hlo-lens check: failed" in first.inner_text()
    command = first.locator(".command code").first.inner_text()
    assert command == f"hlo-lens check {HEAD} --baseline {BASE} {' '.join(RULES)}"
    statuses = first.locator("span.status").all_inner_texts()
    assert statuses == ["fail", "fail (informational)", "pass", "pass"]


def test_check_has_the_objects_of_report_and_diff() -> None:
    module = _module(_page_of("check", HEAD, "--baseline", BASE, *RULES))
    report = json.loads(output_of(["report", HEAD, "-f", "json"]))["modules"][0]
    changes = json.loads(output_of(["diff", BASE, HEAD, "-f", "json"]))["modules"][0]
    assert module["objects"]["report"] == report
    assert module["objects"]["diff"] == changes
    assert module["pair"] == f"{BASE} {HEAD}"


def test_check_of_a_snapshot_has_its_verdicts(drawn: Drawer, snapshots: list[str]) -> None:
    page = drawn(_page_of("check", snapshots[1], "--baseline", snapshots[0]))
    assert "memory.total_bytes" in page.locator("section.view").first.inner_text()


@pytest.mark.parametrize("kept", [(0,), (0, 1)])
def test_diff_with_snapshots_has_their_figures(
    drawn: Drawer, snapshots: list[str], kept: tuple[int, ...]
) -> None:
    sides = [snapshots[k] if k in kept else side for k, side in enumerate((BASE, HEAD))]
    page = _page_of("diff", *sides)
    view = _module(page)["views"]["diff"]
    assert view["note"].startswith("A snapshot has figures alone.")
    memory = data_of(page)["hlo-lens-data"]["modules"][0]["memory"]
    shown = drawn(page)
    text = shown.locator("#view-diff").inner_text()
    assert "snapshot" in text
    for side in ("base", "head"):
        assert format_bytes(memory["total_bytes"][side]) in text


def test_the_first_screen_of_a_diff_has_picture_and_causes(drawn: Drawer) -> None:
    page = drawn(_page_of("diff", BASE, HEAD), width=1400)
    changes = json.loads(output_of(["diff", BASE, HEAD, "-f", "json"]))["modules"][0]
    box = page.locator("svg.overlay").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 900
    total = changes["memory"]["total_bytes"]
    sizes = " -> ".join(format_bytes(total[side]) for side in ("base", "head"))
    assert sizes in page.locator(".verdict").inner_text()
    causes = page.locator(".causes li").all_inner_texts()
    assert len(causes) == len(changes["causes"]) > 0
    assert changes["causes"][0]["what"] in causes[0]
    assert page.locator("svg.overlay polyline").count() == 2
    page.get_by_role("group", name="sides").get_by_role("button", name="base").click()
    assert page.locator("svg.overlay polyline").get_attribute("class") == "of-base"
