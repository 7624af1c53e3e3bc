"""The keyboard alone: names open the card and give the focus back, pictures have one stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.questions.report.html.pages import sample_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator, Page

    from tests.questions.report.html.conftest import Opened

    Opener = Callable[..., Opened]

CARD = "aside.card"


def _focused(page: Page) -> str:
    """Return the text of the element that has the focus."""
    text: str = page.evaluate("document.activeElement.textContent")
    return text


@pytest.mark.parametrize(
    "names",
    ["#view-alive .picture tbody button.name", "#view-collectives .singles tbody button.name"],
)
def test_a_name_opens_the_card_and_escape_returns_to_it(open_page: Opener, names: str) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
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
    opened.assert_quiet()


def test_a_click_of_a_pointer_leaves_the_focus(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    page.locator("#view-alive .picture tbody button.name").nth(1).click()
    assert page.locator(CARD).is_visible()
    assert not page.locator(CARD).evaluate("card => card.contains(document.activeElement)")


def test_a_sorted_table_keeps_the_focus_on_its_head(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    page.locator("#view-program").get_by_role("button", name="opcode").focus()
    page.keyboard.press("Enter")
    assert _focused(page).startswith("opcode ")


@pytest.mark.parametrize("picture", ["Treemap", "Icicle"])
def test_arrow_keys_go_through_rectangles(open_page: Opener, picture: str) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    page.get_by_role("button", name=picture, exact=True).click()
    boxes = page.locator("#view-alive .rectangles button")
    assert boxes.count() > 3
    stops = page.locator("#view-alive .rectangles button[tabindex='0']")
    assert stops.count() == 1
    stops.focus()
    before = page.evaluate("document.activeElement.title")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.title") != before
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.title") == before
    assert stops.count() == 1


def _shares(boxes: Locator) -> list[float]:
    """Return the widths of boxes as shares of their picture."""
    shares: list[float] = boxes.evaluate_all(
        "all => all.map(one => one.offsetWidth / one.parentElement.clientWidth)"
    )
    return shares


def test_a_group_of_the_icicle_fills_the_width_when_it_is_opened(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    page.get_by_role("button", name="Icicle", exact=True).click()
    scopes = page.locator("#view-alive button.scope")
    narrow = next(k for k, share in enumerate(_shares(scopes)) if share < 0.5)
    title = scopes.nth(narrow).get_attribute("title")
    scopes.nth(narrow).click()
    same = page.locator(f'#view-alive button.scope[title="{title}"]')
    assert _shares(same) == pytest.approx([1.0], abs=0.01)
    page.get_by_role("button", name="show all").click()
    assert _shares(same)[0] < 0.5
    opened.assert_quiet()


def test_every_view_is_reached_by_links(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    links = page.locator("nav a")
    titles = page.locator("section.view > h2").all_inner_texts()
    assert links.all_inner_texts() == titles
    for k, title in enumerate(titles):
        links.nth(k).focus()
        page.keyboard.press("Enter")
        assert _focused(page) == title
    opened.assert_quiet()
