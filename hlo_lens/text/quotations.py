"""Marks of a quotation or comment before every line of a text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.text.source import cut_spans

if TYPE_CHECKING:
    from hlo_lens.text.source import Source

_MARKS = re.compile(r"[ \t]*(?:(?:>[ ]?)+|#+[ ]?|//+[ ]?|--[ ]|;+[ ]?)")
"""Marks of mail and Markdown (``> > ``), and of comments."""


def without_quotation(source: Source) -> Source | None:
    """Return a text without the marks before its lines; None if any line has other ones or none."""
    text = source.text
    first = _MARKS.match(text, len(text) - len(text.lstrip("\n")))
    if first is None:
        return None
    mark = first[0].rstrip()
    spans: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        if line.startswith(first[0]):
            spans.append((start, start + len(first[0])))
        elif line.strip() == mark.strip():
            spans.append((start, start + len(line)))
        elif line.strip():
            return None
        start += len(line) + 1
    found, cuts = cut_spans(spans, text, source.cuts)
    return replace(source, text=found, cuts=cuts)
