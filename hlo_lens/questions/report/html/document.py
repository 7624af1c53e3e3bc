"""The HTML file: policy, styles, data, and the scripts joined to one.

Own scripts are ES modules, each put in a function of its own. A module may use these forms only,
each at the start of a line; others are refused: ``import { a, b as c } from "./file.js";`` and
``export function``, ``export class``, ``export const``. Modules come after those that they import;
circles are refused.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import io
import json
import posixpath
import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, TextIO

from hlo_lens.questions.report.html.pages import page_of
from hlo_lens.render.to_json import render_json
from hlo_lens.text.errors import printable
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

    from hlo_lens.render.table import RenderOptions, Report


_IMPORT = re.compile(r'^import \{([^{}]*)\} from "(\.[\w./-]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) ([A-Za-z_$][\w$]*))", re.M)
_OTHER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def bundled(modules: Mapping[str, str], start: str, *, added: tuple[str, ...] = ()) -> str:
    """Return modules as one script without imports.

    Args:
        modules: Name, such as ``views/memory.js``, to text.
        start: Module that runs last.
        added: Modules that run before it although none imports them.

    Raises:
        ValueError: If a module has another form of import or export, imports one that is not
            there, or itself through others.
    """
    names = [name for first in (*added, start) for name in _ordered(modules, first, ())]
    parts = [_wrapped(name, modules[name]) for name in dict.fromkeys(names)]
    return "".join(('"use strict";\nconst modules = {};\n', *parts))


def _ordered(modules: Mapping[str, str], name: str, above: tuple[str, ...]) -> Iterator[str]:
    """Yield the modules that one imports, then itself."""
    if name in above:
        raise ValueError(f"modules import each other: {' > '.join((*above, name))}")
    if name not in modules:
        raise ValueError(f"{above[-1] if above else 'the page'} imports {name}, which is no module")
    for match in _IMPORT.finditer(modules[name]):
        yield from _ordered(modules, _resolved(name, match[2]), (*above, name))
    yield name


def _resolved(importer: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))


def _wrapped(name: str, text: str) -> str:
    """Return a module as a function that is called at once and stores its exports."""
    exports = ", ".join(match[1] for match in _EXPORT.finditer(text))

    def taken(match: re.Match[str]) -> str:
        names = match[1].strip().rstrip(",").replace(" as ", ": ")
        return f'const {{ {names} }} = modules["{_resolved(name, match[2])}"];'

    body = _EXPORT.sub("", _IMPORT.sub(taken, text))
    other = _OTHER.search(body)
    if other is not None:
        raise ValueError(f"{name}: not a form that is joined: {other[0]}")
    return f'(() => {{ // {name}\n{body}modules["{name}"] = {{ {exports} }};\n}})();\n'


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


LARGEST_PLAIN = 1 << 20
LARGEST_PLAIN_VIEWS = 1 << 17
"""Characters of the largest JSON, and data of views, that are stored as they are."""

LARGEST_PLAIN_DATA = 450_000
"""Characters of all data beyond which the JSON is compressed below 1 MB too."""

_MOST_COMPACTED = 4 << 20


def render_page(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write a report as one HTML file: its views, or its sections where it has none."""
    made = page_of(report.subject, report, options)
    printed = io.StringIO()
    render_json(report, printed, options)
    text = printed.getvalue().rstrip("\n")
    if len(text) <= _MOST_COMPACTED:  # indentation is taken away where that is quick
        text = _compact(json.loads(text))
    data = data_element("hlo-lens-data", text)
    views = data_element("hlo-lens-views", _compact(made), LARGEST_PLAIN_VIEWS)
    if len(data) + len(views) > LARGEST_PLAIN_DATA:
        data = data_element("hlo-lens-data", text, 0)
    title = printable(str(made.get("title") or report.kind))
    out.writelines(_parts(title, data + views))


def _compact(data: Mapping[str, object]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True)


def data_element(name: str, text: str, largest_plain: int = LARGEST_PLAIN) -> str:
    """Return the script element of a JSON text, compressed if it is longer than `largest_plain`.

    ``<`` is escaped, so that no string ends the element or begins a comment.
    """
    encoding, stored = "", text.replace("<", "\\u003c")
    if len(stored) > largest_plain:
        encoding = ' data-encoding="gzip+base64"'
        packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
        stored = base64.b64encode(packed).decode()
    return f'<script type="application/json" id="{name}"{encoding}>{stored}</script>\n'


def _parts(title: str, data: str) -> Iterator[str]:
    allowed = {"script-src": scripts(), "style-src": styles()}  # our own by hash, nothing else
    sources = [f"{key} {' '.join(map(_hash, texts))}" for key, texts in allowed.items()]
    sources += ["img-src data:", "base-uri 'none'", "form-action 'none'"]
    policy = "; ".join(("default-src 'none'", *sources))
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield f'<meta name="generator" content="hlo-lens {__version__}">\n'
    yield '<meta name="referrer" content="no-referrer">\n'
    shown = escape(title).encode("ascii", "xmlcharrefreplace").decode()
    yield f"<title>{shown} - hlo-lens</title>\n"
    yield '<link rel="icon" href="data:,">\n'
    yield from (f"<style>{text}</style>\n" for text in styles())
    yield "</head>\n<body>\n"
    yield (
        "<noscript>This page draws its data with scripts of its own, which are switched off "
        "here. The same numbers are printed by hlo-lens report.</noscript>\n"
    )
    yield '<main id="page"></main>\n'
    yield data
    yield from (f"<script>{text}</script>\n" for text in scripts())
    yield f"<!--\nThis file contains, unchanged:\n\n{notices()}-->\n"
    yield "</body>\n</html>\n"


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
