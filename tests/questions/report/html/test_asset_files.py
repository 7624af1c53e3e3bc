"""Scripts and styles in the package: vendored ones unchanged, ours without markup from data."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import hlo_lens.questions.report.html
from hlo_lens.questions.report.html.data import all_views
from hlo_lens.questions.report.html.document import manifest, notices, scripts, styles

ASSETS = Path(hlo_lens.questions.report.html.__file__).parent / "assets"
OWN = sorted((ASSETS / "scripts").rglob("*.js"))
VIEWS = sorted(path.stem for path in (ASSETS / "scripts" / "views").glob("*.js"))


def test_vendored_files_are_those_of_the_manifest() -> None:
    listed: dict[str, str] = {}
    for package in manifest():
        listed |= dict(package["sha256"])  # type: ignore[arg-type]
    vendored = ASSETS / "vendored"
    found = {
        path.relative_to(vendored).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in vendored.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert found == listed


def test_manifest_names_version_licence_and_source() -> None:
    for package in manifest():
        assert package["version"] in package["source"]
        assert package["licence"] in ("MIT", "ISC")
        assert f"{package['name']}-{package['version']}" in notices()


def test_no_text_ends_its_element() -> None:
    for text in (*scripts(), *styles()):
        assert not re.search(r"</(?:script|style)|<!--", text, re.IGNORECASE)
        assert "\r" not in text


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.relative_to(ASSETS)))
def test_own_scripts_make_no_markup_and_ask_no_network(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    forbidden = (
        "innerHTML outerHTML insertAdjacentHTML document.write eval( new Function DOMParser "
        "createContextualFragment srcdoc fetch( XMLHttpRequest WebSocket sendBeacon http: https:"
    )
    words = forbidden.replace("new Function", "new\tFunction").split(" ")
    assert [word for word in words if word.replace("\t", " ") in text] == []


def test_own_scripts_are_small_files() -> None:
    assert {path.name: n for path in OWN if (n := len(path.read_text().splitlines())) > 480} == {}


def test_a_view_has_a_script_and_a_file_of_data() -> None:
    assert sorted(view.name for view in all_views()) == VIEWS


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_exports_what_the_page_asks_for(name: str) -> None:
    text = (ASSETS / "scripts" / "views" / f"{name}.js").read_text(encoding="utf-8")
    assert "export const view = {" in text
    for key in (f'name: "{name}"', "title: ", "command: ", "howToRead: [", "render("):
        assert key in text


def test_views_have_different_places() -> None:
    orders = [view.order for view in all_views()]
    assert orders == sorted(set(orders))
