"""Rules of axe-core on every view, in light and dark; a table for each picture."""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.commands import output_of
from tests.questions.report.html.pages import sample_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.questions.report.html.conftest import Opened, Scheme

    Opener = Callable[..., Opened]

PICTURES = ("Table", "Treemap", "Icicle", "Places in the heap")
AXE = "axe_playwright_python"
SAMPLE = "gpu/fsdp_transformer"
DIFF = ("sample_dumps/pairs/tpu/base.tar.xz", "sample_dumps/pairs/tpu/f32_upcast.tar.xz")


@pytest.fixture(scope="module")
def axe() -> str:
    """Return the script of axe-core."""
    if find_spec(AXE) is None:
        pytest.skip("axe-core is not installed (axe-playwright-python)")
    return resources.files(AXE).joinpath("axe.min.js").read_text(encoding="utf-8")


def _violations(page: Page, part: str = "body") -> list[str]:
    """Return the rules that a part of the page breaks, with the first element of each."""
    found: list[str] = page.evaluate(
        """async (part) => (await axe.run(part)).violations.map((one) =>
             `${one.impact} ${one.id}: ${one.nodes[0].html.slice(0, 200)}`)""",
        part,
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_breaks_a_rule_of_axe(open_page: Opener, axe: str, scheme: Scheme) -> None:
    opened = open_page(sample_page(SAMPLE), scheme=scheme)
    page = opened.open("#v=nothing")
    opened.draw_all()
    page.evaluate(axe)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert _violations(page) == []
    for picture in PICTURES[1:]:
        page.get_by_role("button", name=picture, exact=True).click()
        page.wait_for_timeout(50)
        assert _violations(page, "#view-alive .picture") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_diff_breaks_no_rule_of_axe(open_page: Opener, axe: str, scheme: Scheme) -> None:
    opened = open_page(output_of(["diff", *DIFF, "-f", "html"]), scheme=scheme)
    page = opened.open()
    opened.draw_all()
    page.wait_for_timeout(50)
    page.evaluate(axe)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert _violations(page) == []


def test_every_picture_has_a_table_beside_it(open_page: Opener) -> None:
    opened = open_page(sample_page(SAMPLE))
    page = opened.open()
    opened.draw_all()
    for picture in PICTURES[1:]:
        page.get_by_role("button", name=picture, exact=True).click()
        assert page.locator("#view-alive .picture details.numbers").count() == 1
    page.locator("#view-alive details.numbers > summary").click()
    rows = page.locator("#view-alive details.numbers tbody tr")
    rows.first.wait_for(state="attached")
    assert rows.count() > 20
    for place in ("#view-memory", "#view-collectives .block", "figure.tiles"):
        assert page.locator(f"{place} details.numbers").count() >= 1
    page.locator("figure.tiles details.numbers > summary").click()
    tiles = page.locator("figure.tiles tbody tr")
    tiles.first.wait_for(state="attached")
    assert tiles.count() == 8
    opened.assert_quiet()
