r"""Text that was copied from the source of a web page: entities such as ``&gt;``, and tags.

Entities become their characters and tags are cut, so that all lines remain those of the file.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.text.source import Cuts, cut_spans

if TYPE_CHECKING:
    from hlo_lens.text.source import Source

_LONGEST_TEXT = 1 << 24
"""Characters of a text in which entities are looked for."""

_ENTITY = re.compile(r"&(?:gt|lt|quot|apos|amp|nbsp|#\d{1,4}|#x[0-9a-fA-F]{1,4});")
_TAG = re.compile(
    r"</?(?:pre|code|span|div|p|b|i|a|br|tt|td|tr|th|table|tbody|details|summary|html|body)"
    r"(?:\s[^<>\n]{0,400})?/?>"
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
    text, earlier = source.text, list(zip(source.cuts.offsets, source.cuts.lengths, strict=True))
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    done = lost = at = 0
    for match in _ENTITY.finditer(text):
        while at < len(earlier) and earlier[at][0] <= match.start():
            places.append((earlier[at][0] - lost, earlier[at][1]))
            at += 1
        character = html.unescape(match[0]).replace("\xa0", " ")
        character = " " if character in "\r\n" else character
        parts += (text[done : match.start()], character)
        lost += len(match[0]) - len(character)
        places.append((match.end() - lost, len(match[0]) - len(character)))
        done = match.end()
    parts.append(text[done:])
    cuts = Cuts()
    for offset, length in (*places, *((one - lost, length) for one, length in earlier[at:])):
        cuts.add(offset, length)
    return replace(source, text="".join(parts), cuts=cuts)
