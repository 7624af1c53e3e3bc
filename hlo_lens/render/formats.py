"""Reports: results as tables, and one renderer for each output format."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.render.table import Renderer, RenderOptions, Report


def render_as(name: str, report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write a report as ``text``, ``json``, ``markdown``, ``csv``, ``page`` or ``html``.

    ``page`` is an HTML file of its own, ``html`` a fragment for a notebook. The renderer is
    imported with its first use.
    """
    module = import_module(_HOMES.get(name, f"hlo_lens.render.to_{name}"))
    renderer: Renderer = getattr(module, f"render_{name}")
    renderer(report, out, options)


_HOMES = {"page": "hlo_lens.questions.report.html.document"}
"""Files of renderers outside of `hlo_lens.render`."""

RENDERERS: Mapping[str, Renderer] = {
    "text": partial(render_as, "text"),
    "json": partial(render_as, "json"),
    "md": partial(render_as, "markdown"),
    "csv": partial(render_as, "csv"),
    "html": partial(render_as, "page"),
    "sarif": partial(render_as, "sarif"),
}
"""Renderers by the name of the format on the command line."""

FORMATS = tuple(name for name in RENDERERS if name != "sarif")
"""Formats of every report; SARIF has findings only."""
