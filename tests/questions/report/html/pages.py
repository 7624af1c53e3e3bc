"""Pages of tests, and the data in them."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from functools import cache
from typing import Any

from hlo_lens.load.programs import modules_of
from hlo_lens.questions.report.page import report_modules
from hlo_lens.render.table import RENDERERS, RenderOptions, Report
from tests.corpus import SAMPLES

_DATA = re.compile(
    r'<script type="application/json" id="([\w-]+)"(?: data-encoding="([\w+]+)")?>(.*?)</script>',
    re.DOTALL,
)

SMALL = "tpu/tp_mlp"


@cache
def sample_page(name: str = SMALL) -> str:
    """Return the page of a sample."""
    return page_of(report_modules(modules_of(str(SAMPLES / name))))


def page_of(report: Report, source_url: str | None = None) -> str:
    """Return the page of a report, as the command line writes it."""
    out = io.StringIO()
    RENDERERS["html"](report, out, RenderOptions(source_url=source_url))
    return out.getvalue()


def data_of(page: str) -> dict[str, Any]:
    """Return the JSON objects in a page by the name of their element."""
    found: dict[str, Any] = {}
    for name, encoding, text in _DATA.findall(page):
        if encoding:
            found[name] = json.loads(gzip.decompress(base64.b64decode(text)))
        else:
            found[name] = json.loads(text)
    return found
