r"""Text that was copied from the source of a web page: entities such as ``&gt;``, and tags.

Entities become their characters and tags are cut, so that all lines remain those of the file.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.text.lazy_pattern import lazy_pattern
from hlo_lens.text.source import cut_spans, replace_spans

if TYPE_CHECKING:
    from hlo_lens.text.source import Source

_LONGEST_TEXT = 1 << 24
"""Characters of a text in which entities are looked for."""

_ENTITY = lazy_pattern(r"&(?:gt|lt|quot|apos|amp|nbsp|#\d{1,4}|#x[0-9a-fA-F]{1,4});")
_TAG = lazy_pattern(
    r"</?(?:pre|code|span|div|p|b|i|a|tt|td|tr|th|table|tbody|details|summary|html|body)"
    r"(?:\s[^<>\n]{0,400})?/?>|<br[ \t]*/?>(?=[ \t]*(?:\n|\Z))"
)
_EVIDENCE = re.compile(r"&(?:quot|gt|lt|#39|#x27|#34);")
"""Entities that stand for characters of messages and dumps."""


def without_html(source: Source) -> Source:
    """Return the text with the characters of its entities, without tags; itself if it has none."""
    text = source.text
    if len(text) > _LONGEST_TEXT or "&" not in text or _EVIDENCE.search(text) is None:
        return source
    text, cuts = cut_spans((match.span() for match in _TAG.finditer(text)), text, source.cuts)
    return _decoded(replace(source, text=text, cuts=cuts))


def _decoded(source: Source) -> Source:
    """Return the text with the characters of its entities; the rest of each is a cut."""
    spans = ((*match.span(), _character(match[0])) for match in _ENTITY.finditer(source.text))
    text, cuts = replace_spans(spans, source.text, source.cuts)
    return replace(source, text=text, cuts=cuts)


def _character(entity: str) -> str:
    import html

    character = html.unescape(entity).replace("\xa0", " ")
    return " " if character in "\r\n" else character
