"""One headless Chromium for all tests of pages; they skip where there is none."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest

Scheme: TypeAlias = Literal["light", "dark"]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page, Request

    Opener = Callable[..., "Opened"]
    Drawer = Callable[..., Page]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_OPTIONS = [
    *("--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]


def chromium() -> str | None:
    """Return the path of Chromium; None where there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def options() -> list[str]:
    """Return the options with which Chromium runs in tests."""
    return [*_OPTIONS]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a headless Chromium."""
    found = chromium()
    if found is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=options())
        yield started
        started.close()


class Opened:
    """A page in the browser, with what it printed and asked for.

    Attributes:
        page: The page.
        messages: Errors and warnings of its console, exceptions and dialogs.
        requests: Addresses that it asked for, but for its own.
    """

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.path = path
        self.messages: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(5_000)
        page.on("console", lambda one: self.messages.append(f"{one.type}: {one.text}"))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("dialog", lambda one: self.messages.append(one.message))
        page.on("request", self._asked)

    def _asked(self, request: Request) -> None:
        if request.url.partition("#")[0] != self.path.as_uri():
            self.requests.append(request.url)

    def open(self, fragment: str = "") -> Page:
        """Open the page at a place."""
        self.page.goto(self.path.as_uri() + fragment)
        self.page.wait_for_selector("main[data-ready]", timeout=20_000)
        return self.page

    def draw_all(self) -> None:
        """Draw every view, also those that are not on the screen."""
        self.page.evaluate("document.querySelectorAll('section.view').forEach(s => s.draw?.())")

    def assert_quiet(self) -> None:
        """Assert that there were no messages and no requests."""
        assert self.messages == []
        assert self.requests == []


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Return a function that opens the text of a page in a window of its own."""
    contexts: list[BrowserContext] = []

    def opener(
        text: str, *, width: int = 1280, scheme: Literal["light", "dark"] = "light"
    ) -> Opened:
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        return Opened(context.new_page(), path)

    yield opener
    for context in contexts:
        context.close()


@pytest.fixture
def drawn(open_page: Opener) -> Iterator[Drawer]:
    """Return a function that opens a page at a place and draws all of its views.

    No view fails, and at the end of the test there were no messages and no requests.
    """
    windows: list[Opened] = []

    def drawer(text: str, at: str = "", **window: Any) -> Page:
        opened = open_page(text, **window)
        windows.append(opened)
        page = opened.open(at)
        opened.draw_all()
        page.wait_for_timeout(50)
        assert page.locator(".failed").count() == 0
        return page

    yield drawer
    for opened in windows:
        opened.assert_quiet()
