r"""Outputs of a Jupyter notebook as one text, at the lines of the file where they are.

A notebook is JSON; each output has its text as one string or as a string for each line. Coloured
output has its colours only in its HTML form, which is then read, with the colours as the escapes
of a terminal. Source: nbformat's JSON schema, versions 3 and 4.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.text.source import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.text.source import Source

_HEAD = re.compile(r"\s*\{")
_OUTPUTS = "outputs"
_SIGNS = ('"nbformat"', f'"{_OUTPUTS}"')
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_TAG = re.compile(r"<(/?)[A-Za-z][^<>]*>")
_COLOR = re.compile(r"<span[^<>]*background-color[^<>]*>")
_ESCAPE = "\x1b[7m"

_PLAIN, _HTML = "text/plain", "text/html"
_KEYS = (_PLAIN, _HTML, "text", "traceback")


class _Text(NamedTuple):
    """A string of an output: number of the output, key, text, and offset in the file."""

    output: int
    key: str
    text: str
    offset: int


def notebook_outputs(source: Source) -> Source | None:
    """Return the outputs of a notebook as a text; None if the source is no notebook.

    Every string begins at its line of the file, or later if the texts before it have more lines
    than the file.
    """
    text = source.text
    if _HEAD.match(text) is None or not all(sign in text for sign in _SIGNS):
        return None
    try:
        return clean("".join(_placed(text, _chosen(list(_texts(text))))), source.path)
    except ValueError:  # a string with an escape that JSON does not have
        return None


def _placed(file: str, texts: Iterable[_Text]) -> Iterator[str]:
    """Yield the texts, and line ends before each up to its line of the file."""
    line = at_line = at = 0
    output, ends = -1, True
    for one in texts:
        at_line += file.count("\n", at, one.offset)
        at = one.offset
        if one.output != output and not ends:
            yield "\n"
            line += 1
        if at_line > line:
            yield "\n" * (at_line - line)
            line = at_line
        yield one.text
        line += one.text.count("\n")
        output, ends = one.output, one.text.endswith("\n")


def _chosen(texts: Sequence[_Text]) -> Iterator[_Text]:
    """Yield one form of each output: HTML where it alone has colours or is alone, else plain."""
    keys: dict[int, set[str]] = {}
    colored = set()
    for one in texts:
        keys.setdefault(one.output, set()).add(one.key)
        if one.key == _HTML and _COLOR.search(one.text):
            colored.add(one.output)
    for one in texts:
        has_plain = _PLAIN in keys[one.output]
        if one.key == _HTML:
            if one.output in colored or not has_plain:
                yield one._replace(text=_without_tags(one.text))
        elif one.key != _PLAIN or one.output not in colored:
            yield one


def _without_tags(text: str) -> str:
    """Return the text of HTML; spans with a background are colours of a terminal."""
    import html

    return html.unescape(_TAG.sub("", _COLOR.sub(_ESCAPE, text)))


def _texts(text: str) -> Iterator[_Text]:
    """Yield the strings of outputs, in file order.

    An element of an array has the key of the array.
    """
    opened: list[tuple[str, str]] = []
    key = last = ""
    output = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            output += token == "{" and key == _OUTPUTS
            opened.append((token, key))
            key = "" if token == "{" else key
        elif token in "}]":
            key = opened.pop()[1] if opened else ""
        elif token == ":":
            key = last
        elif token == ",":
            key = "" if opened and opened[-1][0] == "{" else key
        elif token[0] == '"' and not key:
            last = json.loads(token, strict=False)
        elif token[0] == '"' and key in _KEYS and any(name == _OUTPUTS for _, name in opened):
            words = json.loads(token, strict=False).encode("utf-8", "backslashreplace").decode()
            yield _Text(output, key, words, match.start())
