"""Keyboard, address and accessibility of pages."""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.commands import output_of
from tests.questions.report.html.pages import sample_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.questions.report.html.conftest import Drawer, Opener, Scheme


CARD = "aside.card"


def _focused(page: Page) -> str:
    """Return the text of the element that has the focus."""
    text: str = page.evaluate("document.activeElement.textContent")
    return text


@pytest.mark.parametrize(
    "names",
    ["#view-alive .picture tbody button.name", "#view-collectives .singles tbody button.name"],
)
def test_a_name_opens_the_card_and_escape_returns_to_it(drawn: Drawer, names: str) -> None:
    page = drawn(sample_page())
    name = page.locator(names).nth(2)
    text = name.inner_text()
    name.focus()
    page.keyboard.press("Enter")
    assert _focused(page) == text
    assert page.locator(CARD).evaluate("card => card.contains(document.activeElement)")
    page.keyboard.press("Escape")
    assert not page.locator(CARD).is_visible()
    assert _focused(page) == text
    assert page.locator("main").evaluate("main => main.contains(document.activeElement)")


def test_every_view_is_reached_by_links(drawn: Drawer) -> None:
    page = drawn(sample_page())
    links = page.locator("nav a")
    titles = page.locator("section.view h2").all_inner_texts()
    assert links.all_inner_texts() == titles
    for k, title in enumerate(titles):
        links.nth(k).focus()
        page.keyboard.press("Enter")
        assert _focused(page) == title


SAMPLE = "cpu/fsdp_transformer"


def test_an_address_opens_a_view(open_page: Opener) -> None:
    opened = open_page(sample_page(SAMPLE))
    opened.page.emulate_media(reduced_motion="reduce")
    page = opened.open("#w=sharding")
    page.wait_for_timeout(50)
    assert page.evaluate("document.activeElement.textContent") == "Sharding"
    box = page.locator("#view-sharding").bounding_box()
    assert box is not None
    assert abs(box["y"]) < 120
    page.locator("nav a").first.click()
    assert page.evaluate("location.hash") == "#w=memory"
    opened.assert_quiet()


PICTURES = ("Table", "Treemap", "Icicle", "Places in the heap")
AXE = "axe_playwright_python"
SCHEMES = ["light", pytest.param("dark", marks=pytest.mark.thorough)]
AXE_SAMPLE = "gpu/fsdp_transformer"
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


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_view_breaks_a_rule_of_axe(drawn: Drawer, axe: str, scheme: Scheme) -> None:
    page = drawn(sample_page(AXE_SAMPLE), "#v=nothing", scheme=scheme)
    page.evaluate(axe)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert _violations(page) == []
    for picture in PICTURES[1:]:
        page.get_by_role("button", name=picture, exact=True).click()
        page.wait_for_timeout(50)
        assert _violations(page, "#view-alive .picture") == []


CHECK = ("check", DIFF[1], "--baseline", DIFF[0], "--budget", "sample_dumps/hlo-lens.toml")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("command", [("diff", *DIFF), CHECK, ("ls", "sample_dumps/cpu")])
def test_other_pages_break_no_rule_of_axe(
    drawn: Drawer, axe: str, command: tuple[str, ...], scheme: Scheme
) -> None:
    page = drawn(output_of([*command, "-f", "html"]), scheme=scheme)
    page.evaluate(axe)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert _violations(page) == []
