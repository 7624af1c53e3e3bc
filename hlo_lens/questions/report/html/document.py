"""The HTML file: policy, styles, data, scripts."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from html import escape
from typing import TYPE_CHECKING, TextIO

from hlo_lens.questions.report.html.asset_files import notices, scripts, styles
from hlo_lens.questions.report.html.payload import Encoded, compact, encoded
from hlo_lens.questions.report.html.sections import page_of_sections
from hlo_lens.render.to_json import render_json
from hlo_lens.text.printable import printable
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.render.table import RenderOptions, Report

LARGEST_PLAIN_VIEWS = 1 << 17
"""Characters of the largest data of views that is stored as it is."""

LARGEST_PLAIN_DATA = 450_000
"""Characters of all data beyond which the JSON is compressed below 1 MB too."""

_MOST_COMPACTED = 4 << 20


def render_page(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write a report as one HTML file: its views, or its sections where it has none."""
    made = page_of_sections(report, options) if report.make_page is None else report.make_page()
    text = _printed_json(report, options)
    data, views = encoded(text), encoded(compact(made), largest_plain=LARGEST_PLAIN_VIEWS)
    if len(data.text) + len(views.text) > LARGEST_PLAIN_DATA:
        data = encoded(text, largest_plain=0)
    title = printable(str(made.get("title") or report.kind))
    out.writelines(_parts(title, data, views))


def _printed_json(report: Report, options: RenderOptions) -> str:
    """Return the JSON of a report, without indentation where that is quick to take away."""
    out = io.StringIO()
    render_json(report, out, options)
    text = out.getvalue().rstrip("\n")
    return compact(json.loads(text)) if len(text) <= _MOST_COMPACTED else text


def _parts(title: str, data: Encoded, views: Encoded) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
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
    yield _data_element("hlo-lens-data", data)
    yield _data_element("hlo-lens-views", views)
    yield from (f"<script>{text}</script>\n" for text in scripts())
    yield f"<!--\nThis file contains, unchanged:\n\n{notices()}-->\n"
    yield "</body>\n</html>\n"


def _data_element(name: str, data: Encoded) -> str:
    encoding = f' data-encoding="{data.encoding}"' if data.encoding else ""
    return f'<script type="application/json" id="{name}"{encoding}>{data.text}</script>\n'


def policy() -> str:
    """Return the Content-Security-Policy: our scripts and styles by hash, nothing else."""
    allowed = {"script-src": scripts(), "style-src": styles()}
    sources = (f"{key} {' '.join(map(_hash, texts))}" for key, texts in allowed.items())
    return "; ".join(
        ("default-src 'none'", *sources, "img-src data:", "base-uri 'none'", "form-action 'none'")
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
