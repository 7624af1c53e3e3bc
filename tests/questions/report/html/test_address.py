"""The address of a page: what is selected is in it, and the Back button returns to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.questions.report.html.pages import sample_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.questions.report.html.conftest import Opened

    Opener = Callable[..., Opened]

SAMPLE = "cpu/fsdp_transformer"


def test_back_returns_to_what_was_selected_before(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    names = page.locator("#view-alive .picture tbody button.name")
    first, second = names.nth(0).inner_text(), names.nth(1).inner_text()
    names.nth(0).click()
    page.wait_for_timeout(1100)  # choices within a second are one entry of the history
    names.nth(1).click()
    assert page.locator("aside.card h2").inner_text() == second
    page.go_back()
    assert page.locator("aside.card h2").inner_text() == first
    assert page.locator("#view-alive tr.chosen").inner_text().count(first) == 1
    page.go_back()
    assert not page.locator("aside.card").is_visible()
    page.go_forward()
    assert page.locator("aside.card h2").inner_text() == first
    opened.assert_quiet()


def test_steps_of_arrow_keys_are_one_entry_of_the_history(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open()
    opened.draw_all()
    before = page.evaluate("history.length")
    page.locator("#view-memory .plot").focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("history.length") == before + 1


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
    assert page.evaluate("location.hash") == "#w=summary"
    opened.assert_quiet()


def test_an_address_of_nothing_that_is_there_does_nothing(open_page: Opener) -> None:
    opened = open_page(sample_page())
    page = opened.open("#w=constructor&v=__proto__&i=x&t=99999999&s=77&m=other&x=%F0%9F%98%80")
    opened.draw_all()
    assert "not among those" in page.locator("aside.card").inner_text()
    assert page.locator(".failed").count() == 0
    opened.assert_quiet()


def test_an_instruction_marks_its_value_in_all_pictures(open_page: Opener) -> None:
    opened = open_page(sample_page())
    opened.open()
    opened.draw_all()
    page = opened.page
    value = page.locator("#view-alive .picture tbody button.name").first.inner_text()
    maker = value.partition("{")[0]
    page.evaluate("name => hloLens.selection.set({ instruction: name })", maker)
    marked = page.evaluate("document.querySelector('.chart').chart.marked[2]")
    assert marked.startswith(f"{maker}{{")
    assert page.locator("#view-alive tr.chosen").count() == 1
    assert maker in page.locator("#view-program tr.chosen").inner_text()
    assert "holds " in page.locator("aside.card").inner_text()


def test_a_selected_value_of_the_tail_is_listed(open_page: Opener) -> None:
    opened = open_page(sample_page(SAMPLE))
    page = opened.open()
    opened.draw_all()
    rows = page.locator("#view-alive .picture tbody tr")
    listed = rows.count()
    last = page.evaluate(
        """() => {
          const { model } = document.querySelector(".chart").chart;
          const { size } = model.values;
          return model.name(model.alive(model.peakPlace).values.sort((a, b) =>
            size[a] - size[b] || (model.name(a) < model.name(b) ? 1 : -1))[0]);
        }"""
    )
    total = page.locator("#view-alive tfoot tr").last.inner_text()
    page.evaluate("name => hloLens.selection.set({ value: name })", last)
    assert rows.count() == listed + 1
    assert last in page.locator("#view-alive tr.chosen").inner_text()
    assert page.locator("#view-alive tfoot tr").last.inner_text() == total


def test_arguments_of_a_finding_are_selected_as_values(open_page: Opener) -> None:
    opened = open_page(sample_page("cpu/wasteful"))
    page = opened.open()
    opened.draw_all()
    finding = page.locator(".finding", has_text="M001").first
    finding.locator("button.name").first.click()
    argument = finding.locator("button.name").first.inner_text()
    assert argument in page.locator("aside.card").inner_text()
    assert "param" in page.locator("aside.card h2").inner_text()
    opened.assert_quiet()
