"""Pages in a real browser: no errors, no requests, and the numbers of the command line."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from hlo_lens.questions.report import report_on
from hlo_lens.text.units import format_bytes
from tests.cli.test_hostile_names import HLO
from tests.commands import output_of
from tests.questions.report.html.large import large_report
from tests.questions.report.html.pages import SMALL, page_of, sample_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.questions.report.html.conftest import Opened

    Opener = Callable[..., Opened]

SAMPLES = [
    f"{backend}/{program}"
    for backend in ("cpu", "gpu", "tpu")
    for program in ("fsdp_transformer", "shard_map_collectives", "tp_mlp", "wasteful")
]


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_view_of_a_sample_opens_quietly(open_page: Opener, sample: str) -> None:
    opened = open_page(sample_page(sample))
    page = opened.open()
    opened.draw_all()
    page.wait_for_timeout(50)
    assert page.locator("section.view[data-drawn]").count() >= 1
    assert page.locator(".failed").count() == 0
    opened.assert_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_screen(open_page: Opener, width: int, scheme: str) -> None:
    opened = open_page(sample_page(), width=width, scheme=scheme)
    page = opened.open()
    opened.draw_all()
    page.wait_for_timeout(50)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    opened.assert_quiet()


def test_a_page_is_printed_whole_and_light(open_page: Opener) -> None:
    opened = open_page(sample_page(), scheme="dark")
    page = opened.open()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("section.view[data-drawn]").count() == page.locator("section.view").count()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 251)"
    assert not page.locator("nav").is_visible()
    opened.assert_quiet()


def test_every_picture_has_a_table_and_a_name(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    assert page.locator("[role=img]:not([aria-label])").count() == 0
    page.locator("#view-memory details.numbers > summary").click()
    rows = page.locator("#view-memory details.numbers tbody tr")
    rows.first.wait_for(state="attached")  # rows are made when the browser reports the opening
    assert rows.count() > 20
    page.get_by_role("button", name="Treemap", exact=True).click()
    page.locator("#view-alive details.numbers > summary").click()
    rows = page.locator("#view-alive details.numbers tbody tr")
    rows.first.wait_for(state="attached")
    assert rows.count() > 5
    opened.assert_quiet()


def _live() -> list[dict[str, Any]]:
    made = json.loads(output_of(["memory", f"sample_dumps/{SMALL}", "-f", "json"]))
    found: list[dict[str, Any]] = made["modules"][0]["memory"]["peak"]["live"]
    return found


def _rows(opened: Opened) -> list[tuple[str, str]]:
    """Return name and size of the rows of the table of values."""
    cells = opened.page.locator("#view-alive .picture tbody tr").all()
    return [
        (row.locator("td").nth(2).inner_text(), row.locator("td").nth(0).inner_text())
        for row in cells
    ]


def test_a_click_on_the_peak_shows_the_values_of_the_command(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open("#t=0")
    opened.draw_all()
    peak, length = page.evaluate(
        """() => {
          const space = hloLens.module.views.memory.spaces[0];
          return [space.peak.position, space.length];
        }"""
    )
    plot = page.locator("#view-memory .u-over")
    box = plot.bounding_box()
    assert box is not None
    plot.click(position={"x": (peak + 0.5) / (length - 1) * box["width"], "y": 60})
    more = page.locator("#view-alive .picture > button")
    if more.count():
        more.click()
    assert page.evaluate("hloLens.selection.get('instant')") == peak
    expected = [(row["value"], format_bytes(row["size_bytes"])) for row in _live()]
    assert sorted(_rows(opened)) == sorted(expected)
    opened.assert_quiet()


@pytest.mark.parametrize(
    "options", [["--at", "10"], ["--space", "1"], ["--space", "1", "--at", "60"]]
)
def test_values_are_those_of_the_command_at_the_chosen_instant(
    open_page: Opener, options: list[str]
) -> None:
    made = json.loads(output_of(["memory", f"sample_dumps/{SMALL}", *options, "-f", "json"]))
    module = made["modules"][0]
    expected = [(row["value"], row["size_bytes"]) for row in module["instant"]["live"]]
    space, at = ("1" if "--space" in options else "0"), options[-1] if "--at" in options else None
    opened = open_page(sample_page())
    page = opened.open(f"#s={space}" + (f"&t={at}" if at else ""))
    opened.draw_all()
    more = page.locator("#view-alive .picture > button")
    if more.count():
        more.click()
    shown = [(name, format_bytes(size)) for name, size in expected]
    assert sorted(_rows(opened)) == sorted(shown)
    command = page.locator("#view-alive > .command code").inner_text()
    assert command.endswith(f" {' '.join(options)} -n 0")
    opened.assert_quiet()


def test_a_value_of_another_space_has_the_command_of_that_space(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open("#s=1&v=all-reduce.11%7B%7D")
    command = page.locator("aside.card .command code").last.inner_text()
    assert command.endswith(" --space 1 --at 'all-reduce.11{}'")
    arguments = [f"sample_dumps/{SMALL}", "--space", "1", "--at", "all-reduce.11{}", "-f", "json"]
    live = json.loads(output_of(["memory", *arguments]))["modules"][0]["instant"]["live"]
    (size,) = (row["size_bytes"] for row in live if row["value"] == "all-reduce.11{}")
    assert format_bytes(size) in page.locator("aside.card").inner_text()


def test_sizes_are_printed_as_in_the_text_report(open_page: Opener) -> None:
    opened = open_page(sample_page())
    opened.open()
    sizes = [0, 1023, 1024, (1 << 20) - 1, 1_500_000, 19 << 20, (1 << 40) - 1, 1 << 52]
    printed = opened.page.evaluate(f"{json.dumps(sizes)}.map(hloLens.formatBytes)")
    assert printed == [format_bytes(size) for size in sizes]


def test_search_leaves_what_has_the_words(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    page.get_by_placeholder("part of a name").fill("params['w_in']")
    expected = [
        (row["value"], format_bytes(row["size_bytes"]))
        for row in _live()
        if "params['w_in']" in f"{row['op_name']} {row['argument']}"
    ]
    assert expected
    assert sorted(_rows(opened)) == sorted(expected)


def test_a_selected_value_is_in_the_address_and_described(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    name, size = _rows(opened)[0]
    page.locator("#view-alive .picture button.name").first.click()
    fragment = page.evaluate("location.hash")
    assert name.replace("{", "%7B").replace("}", "%7D") in fragment
    again = open_page(sample_page())
    again.open(fragment)
    card = again.page.locator("aside.card")
    assert name in card.inner_text()
    assert size in card.inner_text()
    again.page.keyboard.press("Escape")
    assert not card.is_visible()


def test_dragging_on_the_picture_shows_a_part_of_the_schedule(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    page.locator("canvas.brush").scroll_into_view_if_needed()
    box = page.locator("canvas.brush").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=4)
    page.mouse.up()
    first, last = page.evaluate("document.querySelector('.chart').chart.range")
    length = page.evaluate("hloLens.module.views.memory.spaces[0].length")
    assert first == pytest.approx(0.25 * (length - 1), abs=2)
    assert last == pytest.approx(0.5 * (length - 1), abs=2)
    page.locator("#view-memory").get_by_role("button", name="all").click()
    assert page.evaluate("document.querySelector('.chart').chart.range") == [0, length - 1]


def test_arrow_keys_choose_an_instant(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open("#t=10")
    opened.draw_all()
    page.locator("#view-memory .plot").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate("location.hash").endswith("t=21")
    page.keyboard.press("p")
    assert "the peak" in page.locator("#view-memory .readout").inner_text()


@pytest.mark.parametrize("picture", ["Treemap", "Icicle", "Places in the heap"])
def test_pictures_select_a_value(open_page: Opener, picture: str) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    page.get_by_role("button", name=picture, exact=True).click()
    if picture == "Places in the heap":
        page.locator("canvas.heap").focus()
        page.keyboard.press("ArrowRight")
    else:
        page.locator("#view-alive button.box:not(.scope)").first.click()
    assert page.evaluate("hloLens.selection.get('value')")
    assert page.locator("aside.card").is_visible()
    opened.assert_quiet()


def test_rectangles_have_the_bytes_of_the_instant(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    page.get_by_role("button", name="Icicle", exact=True).click()
    total = page.evaluate("hloLens.module.views.memory.spaces[0].peak.bytes")
    text = page.locator("#view-alive .box").first.inner_text()
    assert format_bytes(total) in text


EVIL_NAMES = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "<b>bold</b>"]


def test_hostile_names_do_nothing(open_page: Opener) -> None:
    text = HLO
    for name in EVIL_NAMES:
        text = text.replace('op_name="', f'op_name="{name}', 1)
    opened = open_page(page_of(report_on(text)))
    dialogs: list[str] = []
    opened.page.on("dialog", lambda one: dialogs.append(one.message))
    page = opened.open()
    opened.draw_all()
    for picture in ("Treemap", "Icicle", "Table"):
        if page.get_by_role("button", name=picture, exact=True).count():
            page.get_by_role("button", name=picture, exact=True).click()
    assert page.locator("main img, main script, main b:text-is('bold')").count() == 0
    assert dialogs == []
    opened.assert_quiet()


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
    page.locator("#view-memory .plot").focus()
    page.keyboard.press("Shift+ArrowLeft")
    page.get_by_placeholder("part of a name").fill("fusion")
    page.locator("#view-alive tbody tr").first.wait_for()
    assert drawn - start < MOST_SECONDS
    assert time.perf_counter() - drawn < MOST_SECONDS
    opened.assert_quiet()


def test_folded_values_keep_their_bytes(open_page: Opener) -> None:
    opened = open_page(page_of(large_report(20_000)))
    page = opened.open("#t=9999")
    opened.draw_all()
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


def test_another_module_is_shown_when_it_is_chosen(open_page: Opener) -> None:
    opened = open_page(sample_page("cpu"))
    page = opened.open()
    titles = page.locator("select#module option").all_inner_texts()
    assert len(set(titles)) == len(titles) > 1
    other = page.evaluate("hloLens.made.modules[1].title")
    page.locator("select#module").select_option(other)
    assert page.locator("h1").inner_text() == other
    opened.draw_all()
    assert page.evaluate("hloLens.selection.get('module')") == other
    page.evaluate("hloLens.selection.set({ module: hloLens.made.modules[0].title })")
    assert page.locator("h1").inner_text() == page.evaluate("hloLens.made.modules[0].title")
    opened.draw_all()
    opened.assert_quiet()
