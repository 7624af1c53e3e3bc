"""The HTML file: policy, styles, data, and scripts.

Own scripts are ES modules, which the browser loads: an import map in the file names each, without
``.js``, with its text as a ``data:`` address. The policy allows the import map and the statement
that starts the page by their hashes, ``data:`` for what they import, and no script that a script
puts into the page (Trusted Types).
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, TextIO
from urllib.parse import quote

from hlo_lens.questions.report.html_pages import page_of
from hlo_lens.text.errors import printable
from hlo_lens.text.source_files import Checkout
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

    from hlo_lens.render.table import RenderOptions, Report


_START = 'import "page";'
_CLASSIC = "text/javascript"
_PLAIN = " !$&'()*+,/:;=?@[]^`{|}~"
"""Characters that a ``data:`` address and a JSON string have as they are."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def assets() -> Traversable:
    """Return the folder of scripts and styles."""
    return files("hlo_lens.questions.report") / "assets"


@functools.cache
def scripts() -> tuple[tuple[str, str], ...]:
    """Return type and text of the page's scripts: vendored ones, the import map, the start."""
    imports = {
        name: f"data:text/javascript,{quote(text, safe=_PLAIN)}"
        for name, text in _modules(assets() / "scripts", "")
    }
    folder = assets() / "vendored"
    vendored = (
        (_CLASSIC, folder.joinpath(*name.split("/")).read_text(encoding="utf-8"))
        for package in manifest()
        for name in package["scripts"]
    )
    return (*vendored, ("importmap", json.dumps({"imports": imports})), ("module", _START))


@functools.cache
def style() -> str:
    """Return the style of the page in ASCII, which keeps its bytes in any encoding."""
    own = (assets() / "page.css").read_text(encoding="utf-8")
    return _NOT_ASCII.sub(lambda match: f"\\{ord(match[0]):06x}", own)


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


def _modules(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _modules(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".js"):
            yield f"{prefix}{entry.name.removesuffix('.js')}", entry.read_text(encoding="utf-8")


LARGEST_PLAIN = 1 << 20
LARGEST_PLAIN_VIEWS = 1 << 17
"""Characters of the largest JSON, and data of views, that are stored as they are."""

LARGEST_PLAIN_DATA = 450_000
"""Characters of all data beyond which the JSON is compressed below 1 MB too."""


def render_page(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write a report as one HTML file: its views, or its sections where it has none."""
    url = options.source_url
    made = {**page_of(report.subject, report, options), "source_url": url, "source_paths": {}}
    text = _compact(report.to_dict())
    if url is not None:
        is_web = url.startswith("http")
        made["source_paths"] = _checkout_paths(text + json.dumps(made), is_web=is_web)
    data = data_element("hlo-lens-data", text)
    views = data_element("hlo-lens-views", _compact(made), LARGEST_PLAIN_VIEWS)
    if len(data) + len(views) > LARGEST_PLAIN_DATA:
        data = data_element("hlo-lens-data", text, 0)
    title = printable(str(made.get("title") or report.kind))
    out.writelines(_parts(title, data + views))


_SOURCE_PATH = re.compile(r'"([^":\\]+\.\w+)(?=:\d)|"source_file": ?"([^"\\]+)"')


def _checkout_paths(text: str, *, is_web: bool) -> dict[str, str]:
    """Return the paths of source files in the checkout, by their paths in the dump.

    Links of the web get the path below its root, those of editors the whole one.
    """
    checkout = Checkout.here()
    files = sorted({one or other for one, other in _SOURCE_PATH.findall(text)})
    found = {file: path for file in files if (path := checkout.find(file)) is not None}
    return found if is_web else {file: str(checkout.root / path) for file, path in found.items()}


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
    own = [text for _, text in scripts()]
    sources = [f"script-src data: {' '.join(map(_hash, own))}"]
    sources += [f"style-src {_hash(style())}", "img-src data:", "base-uri 'none'"]
    sources += ["form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"]
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
    yield f"<style>{style()}</style>\n"
    yield "</head>\n<body>\n"
    yield (
        "<noscript>This page draws its data with scripts of its own, which are switched off "
        "here. The same numbers are printed by hlo-lens report.</noscript>\n"
    )
    yield '<main id="page"></main>\n'
    yield data
    yield from (f'<script type="{kind}">{text}</script>\n' for kind, text in scripts())
    yield f"<!--\nThis file contains, unchanged:\n\n{notices()}-->\n"
    yield "</body>\n</html>\n"


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
