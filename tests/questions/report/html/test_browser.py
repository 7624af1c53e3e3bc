"""Pages in a real browser: quiet, printable, safe, and with the numbers of the command line."""

from __future__ import annotations

import json
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from hlo_lens.questions.report import report_on
from hlo_lens.text.units import format_bytes
from tests.commands import output_of
from tests.corpus import CORPUS, SAMPLES, needs_corpus
from tests.questions.report.html.large import large_report
from tests.questions.report.html.pages import SMALL, page_of, sample_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.questions.report.html.conftest import Drawer, Opener


EVERY_SAMPLE = [
    f"{backend}/{program}"
    for backend in ("cpu", "gpu", "tpu")
    for program in ("fsdp_transformer", "shard_map_collectives", "tp_mlp", "wasteful")
]


@pytest.mark.parametrize("sample", EVERY_SAMPLE)
def test_every_view_of_a_sample_opens_quietly(drawn: Drawer, sample: str) -> None:
    page = drawn(sample_page(sample))
    assert page.locator("section.view[data-drawn]").count() >= 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_screen(drawn: Drawer, width: int, scheme: str) -> None:
    page = drawn(sample_page(), width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def _live() -> list[dict[str, Any]]:
    made = json.loads(output_of(["memory", f"sample_dumps/{SMALL}", "-f", "json"]))
    found: list[dict[str, Any]] = made["modules"][0]["memory"]["peak"]["live"]
    return found


def _rows(page: Page) -> list[tuple[str, str]]:
    """Return name and size of the rows of the table of values."""
    cells = page.locator("#view-alive .picture tbody tr").all()
    return [
        (row.locator("td").nth(2).inner_text(), row.locator("td").nth(0).inner_text())
        for row in cells
    ]


def test_a_click_on_the_peak_shows_the_values_of_the_command(drawn: Drawer) -> None:
    page = drawn(sample_page(), "#t=0")
    peak = page.evaluate("hloLens.module.views.memory.spaces[0].peak.position")
    plot = page.locator("#view-memory canvas.stack")
    x = page.evaluate("document.querySelector('#view-memory .chart').chart.x(%f)" % (peak + 0.5))
    plot.click(position={"x": x, "y": 60})
    more = page.locator("#view-alive .picture .listing > button")
    if more.count():
        more.click()
    assert page.evaluate("hloLens.selection.get('instant')") == peak
    expected = [(row["value"], format_bytes(row["size_bytes"])) for row in _live()]
    assert sorted(_rows(page)) == sorted(expected)


@pytest.mark.parametrize(
    "options", [["--at", "10"], ["--space", "1"], ["--space", "1", "--at", "60"]]
)
def test_values_are_those_of_the_command_at_the_chosen_instant(
    drawn: Drawer, options: list[str]
) -> None:
    made = json.loads(output_of(["memory", f"sample_dumps/{SMALL}", *options, "-f", "json"]))
    module = made["modules"][0]
    expected = [(row["value"], row["size_bytes"]) for row in module["instant"]["live"]]
    space, at = ("1" if "--space" in options else "0"), options[-1] if "--at" in options else None
    page = drawn(sample_page(), f"#s={space}" + (f"&t={at}" if at else ""))
    more = page.locator("#view-alive .picture .listing > button")
    if more.count():
        more.click()
    shown = [(name, format_bytes(size)) for name, size in expected]
    assert sorted(_rows(page)) == sorted(shown)
    command = page.locator("#view-alive .line .command code").inner_text()
    assert command.endswith(f" {' '.join(options)} -n 0")


def test_search_leaves_what_has_the_words(drawn: Drawer) -> None:
    page = drawn(sample_page())
    page.get_by_placeholder("part of a name").fill("params['w_in']")
    expected = [
        (row["value"], format_bytes(row["size_bytes"]))
        for row in _live()
        if "params['w_in']" in f"{row['op_name']} {row['argument']}"
    ]
    assert expected
    assert sorted(_rows(page)) == sorted(expected)


INSTRUCTIONS = 500_000
LARGEST_PAGE = 5_000_000
MOST_SECONDS = 3.0


def test_a_page_of_many_instructions_opens_and_answers_soon(open_page: Opener) -> None:
    text = page_of(large_report(INSTRUCTIONS))
    assert len(text) < LARGEST_PAGE
    opened = open_page(text)
    start = time.perf_counter()
    page = opened.open()
    opened.draw_all()
    page.locator("#view-alive tbody tr").first.wait_for()
    drawn = time.perf_counter()
    page.locator("#view-memory canvas.stack").focus()
    page.keyboard.press("Shift+ArrowLeft")
    page.get_by_placeholder("part of a name").fill("fusion")
    page.locator("#view-alive tbody tr").first.wait_for()
    assert drawn - start < MOST_SECONDS
    assert time.perf_counter() - drawn < MOST_SECONDS
    opened.assert_quiet()


def test_folded_values_keep_their_bytes(drawn: Drawer) -> None:
    page = drawn(page_of(large_report(20_000)), "#t=9999")
    sums = page.evaluate(
        """() => {
          const model = document.querySelector(".chart").chart.model;
          const alive = model.alive(model.placeOf(9999));
          const listed = [...alive.owned.values()].reduce((sum, one) => sum + one, 0);
          return [listed + alive.otherBytes, model.held[model.placeOf(9999)], alive.others];
        }"""
    )
    assert sums[0] == sums[1]
    assert sums[2] > 0
    assert " others, each under " in page.locator("#view-alive tfoot").inner_text()


NAMES = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "__proto__",
    "constructor",
    "hasOwnProperty/valueOf",
    "\u202egnp.exe",
    "\U0001f600",
    "x" * 10_000,
    "javascript:alert(3)",
    "'><svg onload=alert(4)>",
    "${alert(5)}",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of a sample whose operations, files, axes, module and instructions have such names."""
    folder = tmp_path_factory.mktemp("hostile") / "dump"
    shutil.copytree(SAMPLES / "tpu" / "tp_mlp", folder)
    for path in folder.glob("*.txt"):
        path.write_text(_renamed(path.read_text()), encoding="utf-8")
    return page_of(report_on(str(folder)))


def _renamed(text: str) -> str:
    names = iter(NAMES * (len(text) // 20))
    text = re.sub(r'(op_name="|^\d+ ")', lambda one: f"{one[1]}{next(names)}/", text, flags=re.M)
    text = text.replace('"data"', '"__proto__"').replace('"model"', '"</script><b>"')
    text = text.replace("HloModule jit_train_step", "HloModule __proto__")
    return re.sub(r"\bcopy-start\.12\b", "constructor", text)


def test_hostile_names_are_text_in_every_view(drawn: Drawer, hostile: str) -> None:
    page = drawn(hostile)
    for picture in ("Treemap", "Icicle", "Places in the heap", "Table"):
        page.get_by_role("button", name=picture, exact=True).click()
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.wait_for_timeout(50)
    assert page.locator("main :is(img, script, iframe, [onload], [onerror], [src])").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    text = page.locator("main").inner_text()
    assert "<img src=x onerror=alert(1)>" in text
    assert "[object Object]" not in text
    assert "function " not in text
    assert "\u202e" not in text


SAMPLE = "gpu/fsdp_transformer"
PAPER = 680
"""Width of A4 without its margins, in pixels of the style sheet."""


def test_paper_has_all_views_whole_and_light_and_no_controls(open_page: Opener) -> None:
    opened = open_page(sample_page(SAMPLE), width=PAPER, scheme="dark")
    page = opened.open("#v=nothing")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_timeout(50)
    wide = page.evaluate(
        """() => [...document.querySelectorAll("table")]
             .filter((one) => one.offsetWidth > document.querySelector("main").clientWidth + 1)
             .map((one) => one.parentElement.getAttribute("aria-label"))"""
    )
    assert wide == []
    assert page.locator("section.view[data-drawn]").count() == page.locator("section.view").count()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 251)"
    assert not page.locator("nav, aside.card").filter(visible=True).count()
    shown = page.locator("button:visible").all_inner_texts()
    assert not [text for text in shown if "show" in text or text == "copy"]
    assert page.evaluate("getComputedStyle(document.querySelector('.view')).breakInside") == "auto"
    box = page.locator("canvas.stack").bounding_box()
    assert box is not None
    assert box["y"] < 400  # on the first sheet
    opened.assert_quiet()


LARGE_MODEL = CORPUS / "dumps" / "tpu-v5p-4x4x4" / "transformer" / "8b_fsdp_tp_scan.tar.gz"
LARGEST_MODEL_PAGE = 700_000


@needs_corpus
def test_a_step_of_a_model_of_8_billion_weights_has_a_small_page(drawn: Drawer) -> None:
    text = page_of(report_on(str(LARGE_MODEL)))
    assert len(text) < LARGEST_MODEL_PAGE
    page = drawn(text)
    assert page.locator("section.view[data-drawn]").count() >= 7


def test_the_first_screen_has_verdict_bar_picture_limit_and_findings(drawn: Drawer) -> None:
    page = drawn(limited_page("2MiB"), width=1400)
    assert page.locator(".verdict").inner_text().startswith("does not fit: ")
    for part in (".bar", "canvas.stack", ".findings"):
        box = page.locator(f"#view-memory {part}").first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900
    picture = "document.querySelector('.chart').chart"
    assert page.evaluate(f"[{picture}.limit, {picture}.isLimitShown]") == [2 << 20, True]


def limited_page(limit: str) -> str:
    """Return the page of a sample for a device of some memory."""
    return output_of(["report", f"sample_dumps/{SMALL}", "--limit", limit, "-f", "html"])


def test_an_address_keeps_search_and_picture_and_goes_there(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open("#p=icicle&q.alive=w_in")
    page.wait_for_timeout(50)
    assert page.locator("#view-alive .icicle").count() == 1
    assert page.get_by_label("search values").input_value() == "w_in"
    box = page.locator("#view-alive").bounding_box()
    assert box is not None
    assert abs(box["y"]) < 120
    opened.assert_quiet()


def test_source_lines_are_links_where_a_template_is_given(drawn: Drawer) -> None:
    report = report_on(str(SAMPLES / SMALL))
    page = drawn(page_of(report, "https://host/{path}#L{line}"))
    link = page.locator("#view-alive a.source").first
    file, line = link.inner_text().split(":")
    href = link.get_attribute("href") or ""
    assert href.startswith("https://host/")
    assert href.endswith(f"{file}#L{line}")
    assert drawn(sample_page()).locator("a.source").count() == 0
