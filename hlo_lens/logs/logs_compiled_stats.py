"""Reader of printed results of ``memory_analysis()`` and ``cost_analysis()``.

A print is found by words that only these have; it reaches from the opening to the closing bracket
around them, and the grammar parses it.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from hlo_lens.buffers.lines import Node, find_all
from hlo_lens.grammar.parsers import build_parser, grammar_tree
from hlo_lens.logs.log import PrintedStats, PrintKind
from hlo_lens.logs.log_text import Found, span_gap
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lark import Lark

    from hlo_lens.text.source import Source

GRAMMARS = ("hlo_tokens", "compiled_stats")
NAMES: Mapping[str, str] = {"STAT": "a name such as temp_size_in_bytes", "OTHER": "None"}

_REACH = 1 << 16
"""Most characters of a print before a word of it."""

_DICT_START = re.compile(r"\{\s*['\"]")  # a brace of a shape index in a key has no quote after it
_DICT = re.compile(r"\{\s*(?:(?:'[^'\n]*'|\"[^\"\n]*\")\s*:\s*[^,{}\n]+(?:,\s*)?)+\}")
_MEMORY_START = "CompiledMemoryStats("
_MEMORY = re.compile(r"CompiledMemoryStats\([^()]*\)")
_SIZE = re.compile(r"[a-z_]+_(?:size|memory)_in_bytes")


@functools.cache
def parser() -> Lark:
    """Return the parser of a print."""
    return build_parser(*GRAMMARS, start=["compiled_stats"], has_placeholders=False)


def read_stats(source: Source, place: int) -> Found[PrintedStats] | None:
    """Return the print around an offset; None if there is none."""
    text = source.text
    start = text.rfind(_MEMORY_START, max(0, place - _REACH), place + len(_MEMORY_START))
    match = None if start < 0 else _MEMORY.match(text, start)
    if match is None or match.end() < place:
        starts = [
            one.start() for one in _DICT_START.finditer(text, max(0, place - _REACH), place + 1)
        ]
        match = _DICT.match(text, starts[-1]) if starts else None
    if match is None or match.end() < place:
        return None
    try:
        tree = grammar_tree(parser(), NAMES, source, "compiled_stats", *match.span())
    except DumpSyntaxError as error:
        gap = span_gap(source, match.start(), match.end(), error.message)
        return Found(None, match.start(), match.end(), [gap])
    values = tuple(_values(tree))
    kind = PrintKind.MEMORY if any(_SIZE.fullmatch(name) for name, _ in values) else PrintKind.COST
    return Found(PrintedStats(kind=kind, values=values), match.start(), match.end())


def _values(tree: Node) -> Iterator[tuple[str, int | float]]:
    """Yield the names and numbers of a print."""
    for dictionary in find_all(tree, "dict"):
        yield from _values(dictionary)
    for node in (*find_all(tree, "item"), *find_all(tree, "pair")):
        name, value = map(str, node.children)
        if _is_number(value):
            yield name.strip("'\""), _number(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdecimal() and len(text) < 64 else float(text)
