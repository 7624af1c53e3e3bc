"""Reports: results as neutral tables, and one renderer for each output format."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

    from hlo_lens.report.render.table import Renderer, RenderOptions, Report


def _render(name: str, report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write a report by the renderer of a format, imported when it is first used."""
    module = import_module(f"hlo_lens.report.render.to_{name}")
    renderer: Renderer = getattr(module, f"render_{name}")
    renderer(report, out, options)


RENDERERS: Mapping[str, Renderer] = {
    "text": partial(_render, "text"),
    "json": partial(_render, "json"),
    "md": partial(_render, "markdown"),
    "csv": partial(_render, "csv"),
}
"""Output format to what writes it."""
