"""Sizes of pages of large programs, and how soon they answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hlo_lens.questions.report import report_on
from tests.corpus import CORPUS, needs_corpus
from tests.questions.report.html.large import large_report
from tests.questions.report.html.pages import page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.questions.report.html.conftest import Opened

    Opener = Callable[..., Opened]

LARGE_MODEL = CORPUS / "dumps" / "tpu-v5p-4x4x4" / "transformer" / "8b_fsdp_tp_scan.tar.gz"
LARGEST_PAGE = 700_000
INSTANTS = 100_000
STEPS = 30
MOST_SECONDS = 3.0


@needs_corpus
def test_a_step_of_a_model_of_8_billion_weights_has_a_small_page(open_page: Opener) -> None:
    text = page_of(report_on(str(LARGE_MODEL)))
    assert len(text) < LARGEST_PAGE
    opened = open_page(text)
    page = opened.open()
    opened.draw_all()
    page.wait_for_timeout(50)
    assert page.locator("section.view[data-drawn]").count() >= 7
    assert page.locator(".failed").count() == 0
    opened.assert_quiet()


def test_many_instants_are_moved_through_smoothly(open_page: Opener) -> None:
    opened = open_page(page_of(large_report(INSTANTS)))
    page = opened.open()
    opened.draw_all()
    plot = page.locator("#view-memory .plot")
    plot.focus()
    start = time.perf_counter()
    for key in ("Shift+ArrowLeft", "+", "-"):
        for _ in range(STEPS):
            page.keyboard.press(key)
    assert time.perf_counter() - start < 2 * MOST_SECONDS
    box = page.locator("#view-memory .u-over").bounding_box()
    assert box is not None
    start = time.perf_counter()
    for k in range(STEPS):
        page.mouse.move(box["x"] + box["width"] * k / STEPS, box["y"] + 50)
    assert time.perf_counter() - start < MOST_SECONDS
    opened.assert_quiet()
