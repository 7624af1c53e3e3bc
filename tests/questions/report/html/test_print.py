"""Pages on paper: whole tables, no empty pages, the colours of paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.questions.report.html.pages import sample_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.questions.report.html.conftest import Opened

    Opener = Callable[..., Opened]

SAMPLE = "gpu/fsdp_transformer"
PAPER = 680
"""Width of A4 without its margins, in pixels of the style sheet."""


def test_no_table_is_cut_on_paper(open_page: Opener) -> None:
    opened = open_page(sample_page(SAMPLE), width=PAPER)
    page = opened.open()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_timeout(50)
    wide = page.evaluate(
        """() => [...document.querySelectorAll("table")]
             .filter((one) => one.offsetWidth > document.querySelector("main").clientWidth + 1)
             .map((one) => one.parentElement.getAttribute("aria-label"))"""
    )
    assert wide == []
    opened.assert_quiet()


def test_sums_are_printed_once_at_the_end_of_a_table(open_page: Opener) -> None:
    opened = open_page(sample_page(SAMPLE), width=PAPER)
    page = opened.open()
    opened.draw_all()
    sheets = page.pdf(format="A4")
    page.emulate_media(media="print")
    shown = page.locator("tfoot").evaluate_all(
        "all => all.map(one => getComputedStyle(one).display)"
    )
    assert shown
    assert set(shown) == {"table-row-group"}
    assert 2 <= sheets.count(b"/Type /Page\n") <= 20


def test_pictures_are_as_wide_as_the_paper(open_page: Opener) -> None:
    opened = open_page(sample_page(SAMPLE), width=1440)
    page = opened.open()
    opened.draw_all()
    page.get_by_role("button", name="Treemap", exact=True).click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = page.locator(".u-wrap, canvas.lanes, .rectangles > *").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().right)"
    )
    assert len(widths) > 5
    assert max(widths) <= PAPER + 3  # borders
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".u-wrap").evaluate("one => one.offsetWidth") > PAPER
    opened.assert_quiet()


def test_controls_are_not_printed(open_page: Opener) -> None:
    opened = open_page(sample_page(SAMPLE), width=PAPER)
    page = opened.open("#v=nothing")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("aside.card").is_hidden()
    shown = page.locator("button:visible").all_inner_texts()
    assert "copy" not in shown
    assert not [text for text in shown if "show" in text]


def test_the_first_sheet_holds_the_summary(open_page: Opener) -> None:
    opened = open_page(sample_page(SAMPLE), width=PAPER)
    page = opened.open()
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.view')).breakInside") == "auto"
    box = page.locator("#view-summary .facts").bounding_box()
    assert box is not None
    assert box["y"] < 400
