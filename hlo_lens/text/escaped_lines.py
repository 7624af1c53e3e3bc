r"""Messages in strings of JSON or Python and in cells of tables: ``\n`` and ``<br>`` are line ends.

Log collectors write messages as strings of JSON, Python prints exceptions with ``repr``, and issues
have messages in tables of Markdown. Such a line becomes its lines; lines and columns in messages
remain those of the file.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.text.log_words import has_log_words
from hlo_lens.text.source import replace_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.text.source import Source

_LONGEST_TEXT = 1 << 24
"""Characters of a text in which such lines are looked for."""

_LEAST = 2
"""Line ends that a string or cell has at least."""

_LINE = re.compile(r"[^\n]*(?:\\n|<br)[^\n]*")
_BREAK = re.compile(r"\\+n|<br[ ]*/?>")
_ESCAPE = re.compile(
    r"(?P<end>\\+n|`?<br[ ]*/?>`?|['`](?=[)\]}, |]{0,8}$))|(?P<gone>\\+r)"
    r"|\\+(?P<character>[\"'/t])|\\+u00(?P<code>[2-7][0-9a-fA-F])|(?P<quote>\")"
)
"""Line ends, escapes, and quotes that may delimit a string."""

_JSON = re.compile(r"\s*[\[{\"]|[^\n]{0,200}?\"\s*:\s*\"")


def without_escapes(source: Source) -> Source:
    """Return the text with the lines in strings and cells as lines; itself if it has none."""
    text = source.text
    if len(text) > _LONGEST_TEXT or ("\\n" not in text and "<br" not in text):
        return source
    if not has_log_words(text):
        return source
    spans = [span for line in _LINE.finditer(text) for span in _spans(line[0], line.start())]
    if not spans:
        return source
    added, lost = array("Q"), 0
    for start, end, replacement in spans:
        if replacement == "\n":
            added.append(start - lost)
        lost += end - start - len(replacement)
    text, cuts = replace_spans(spans, text, source.cuts)
    return replace(source, text=text, cuts=cuts, added=added)


def _spans(line: str, offset: int) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of a line to replace, and what replaces each."""
    if len(_BREAK.findall(line)) < _LEAST or not has_log_words(line):
        return
    is_json = "\\n" in line and _JSON.match(line) is not None
    for match in _ESCAPE.finditer(line):
        replacement = _replacement(match, is_json=is_json)
        if replacement != match[0]:
            yield offset + match.start(), offset + match.end(), replacement


def _replacement(match: re.Match[str], *, is_json: bool) -> str:
    kind = match.lastgroup
    if kind == "end" or (kind == "quote" and is_json):
        return "\n"
    if kind == "gone":
        return ""
    if kind == "code":
        return chr(int(match["code"], 16))
    return " " if match["character"] == "t" else match["character"] or match[0]
