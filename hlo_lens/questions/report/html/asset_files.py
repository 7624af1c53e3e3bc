"""Files of the page's scripts and styles: our own, and those of others, unchanged."""

from __future__ import annotations

import functools
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from hlo_lens.questions.report.html.bundle import bundled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_START = "page.js"
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def assets() -> Traversable:
    """Return the folder of scripts and styles."""
    return files("hlo_lens.questions.report.html") / "assets"


@functools.cache
def scripts() -> tuple[str, ...]:
    """Return the texts of the page's scripts: vendored ones, then our own as one."""
    modules = dict(_modules(assets() / "scripts", ""))
    views = tuple(name for name in modules if name.startswith("views/"))
    return (*_vendored("scripts"), _ascii(bundled(modules, _START, added=views), "\\u{:04x}"))


@functools.cache
def styles() -> tuple[str, ...]:
    """Return the texts of the page's styles: vendored ones, then our own."""
    own = (assets() / "page.css").read_text(encoding="utf-8")
    return (*_vendored("styles"), _ascii(own, "\\{:06x}"))


def _ascii(text: str, escape: str) -> str:
    """Return a text with escapes: a page must keep its bytes in any encoding of the output."""
    return _NOT_ASCII.sub(lambda match: escape.format(ord(match[0])), text)


def notices() -> str:
    """Return names, versions and licence texts of the vendored packages."""
    folder = assets() / "vendored"
    parts = []
    for one in manifest():
        name = f"{one['name']}-{one['version']}"
        licence = (folder / name / "LICENSE").read_text(encoding="utf-8")
        parts.append(f"{name}, {one['licence']}, {one['source']}\n{licence}")
    return "\n".join(parts)


def manifest() -> list[dict[str, str]]:
    """Return the vendored packages: name, version, licence, source, files, checksums."""
    text = (assets() / "vendored" / "manifest.json").read_text(encoding="utf-8")
    packages: list[dict[str, str]] = json.loads(text)["packages"]
    return packages


def _vendored(key: str) -> Iterator[str]:
    folder = assets() / "vendored"
    for package in manifest():
        for name in package[key]:
            yield folder.joinpath(*name.split("/")).read_text(encoding="utf-8")


def _modules(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of the modules in a folder, sorted by name."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _modules(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".js"):
            yield f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")
