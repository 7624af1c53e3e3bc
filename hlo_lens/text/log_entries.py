r"""Logs as collectors store them: each line an object of JSON, with the text as one of its values.

Docker writes ``{"log":"text\n","stream":"stderr","time":"..."}``, Google Cloud ``textPayload``,
others ``message``. The object around each text is cut, so that lines and columns remain.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.text.source import replace_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.text.source import Source

_ENTRY = re.compile(
    r"^[ \t]*\{[^\n]*?\"(?:log|message|msg|MESSAGE|textPayload|text|event|line|body)\"[ ]?:[ ]?"
    r"\"(?P<value>(?:[^\"\\\n]|\\.)*+)\"[^\n]*\}[ \t,]*$",
    re.MULTILINE,
)
_ESCAPE = re.compile(r"\\(?:(?P<character>[\"/t])|u00(?P<code>[2-7][0-9a-fA-F]))")
_LAST_END = re.compile(r"(?:\\[nr])+\Z")
_HEAD = 1 << 16
"""Characters of a text that decide whether its lines are entries."""

_LEAST = 3


def without_entries(source: Source) -> Source:
    """Return the text of the entries of a collector; the text itself if it has no entries."""
    head = source.text[:_HEAD]
    if '":' not in head and '" :' not in head:
        return source
    lines = sum(1 for line in head.split("\n") if line.strip())
    if max(_LEAST, lines // 2) > sum(1 for _ in _ENTRY.finditer(head)):
        return source
    text, cuts = replace_spans(_spans(source.text), source.text, source.cuts)
    return replace(source, text=text, cuts=cuts)


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the spans to replace, and what replaces each."""
    for entry in _ENTRY.finditer(text):
        start = entry.start("value")
        stop = start + len(_LAST_END.sub("", entry["value"]))
        yield entry.start(), start, ""
        for match in _ESCAPE.finditer(text, start, stop):
            code, character = match["code"], match["character"]
            plain = " " if character == "t" else character
            yield *match.span(), chr(int(code, 16)) if code else plain
        yield stop, entry.end(), ""
