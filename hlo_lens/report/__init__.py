"""Reports: results as neutral tables, and one renderer for each output format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.report.to_csv import render_csv
from hlo_lens.report.to_json import render_json
from hlo_lens.report.to_markdown import render_markdown
from hlo_lens.report.to_text import render_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.report.table import Renderer

RENDERERS: Mapping[str, Renderer] = {
    "text": render_text,
    "json": render_json,
    "md": render_markdown,
    "csv": render_csv,
}
"""Output format to what writes it."""
