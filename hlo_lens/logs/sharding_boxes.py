"""Reader of the boxes that `visualize_array_sharding` draws: which devices hold which part."""

from __future__ import annotations

import functools
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from lark import Token, Tree

from hlo_lens.grammar.parsers import build_parser, grammar_tree
from hlo_lens.logs.jax_values import BoxCell, ShardingBoxes
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lark import Lark

    from hlo_lens.buffers.lines import Node
    from hlo_lens.text.source import Source

_LONGEST = 1 << 22
"""Most characters of a drawing."""

_BOTTOM = re.compile(r"^[ \t]*└[^\n]*(?:\n|\Z)", re.MULTILINE)
_DEVICES = re.compile(r"(?P<word>[A-Za-z][\w ]*?) ?(?P<ids>\d{1,9}(?:,\d{1,9})*)")


@functools.cache
def parser() -> Lark:
    """Return the parser of the lines of a drawing, in which spaces count."""
    return build_parser("sharding_boxes", start="drawing")


def read_boxes(source: Source, place: int) -> tuple[ShardingBoxes, int] | None:
    """Return the drawing whose first line is at an offset, and its end; None if it is none."""
    text = source.text
    start = text.rfind("\n", 0, place) + 1
    bottom = _BOTTOM.search(text, start, start + _LONGEST)
    if bottom is None:
        return None
    try:
        tree = grammar_tree(parser(), {}, source, "drawing", start, bottom.end())
    except DumpSyntaxError:
        return None
    lines = [str(token).rstrip() for token in _tokens(tree)]
    cells = _cells([line[place - start :] for line in lines])
    if cells is None:
        return None
    words = {match["word"] for c in cells if (match := _DEVICES.fullmatch(c.text))}
    boxes = ShardingBoxes(
        rows=cells[-1].row + 1,
        columns=cells[-1].column + 1,
        cells=tuple(cells),
        platform=words.pop() if len(words) == 1 else "",
        label=_label(text, start),
        line=source.line_column(start)[0],
        lines=len(lines),
    )
    return boxes, bottom.end()


def _tokens(tree: Node) -> list[Token]:
    leaves = (child.children[0] if isinstance(child, Tree) else child for child in tree.children)
    return [leaf for leaf in leaves if isinstance(leaf, Token)]


def _cells(lines: Sequence[str]) -> list[BoxCell] | None:
    """Return the boxes, row by row; None if its lines do not form a grid."""
    walls = [k for k, character in enumerate(lines[0]) if character in "┌┬┐"]
    if any(len(line) != len(lines[0]) for line in lines):
        return None
    cells: list[BoxCell] = []
    texts = [""] * (len(walls) - 1)
    row = 0
    for line in lines[1:]:
        if any(line[wall] not in "│├┼┤└┴┘" for wall in walls):
            return None
        if line[0] == "│":
            for k, (left, right) in enumerate(pairwise(walls)):
                word = line[left + 1 : right].strip()  # long texts are broken over lines
                is_apart = word and texts[k] and (texts[k][-1].isalpha() or word[0].isalpha())
                texts[k] += " " * bool(is_apart) + word
            continue
        cells += [
            BoxCell(row=row, column=k, text=text, devices=_devices(text))
            for k, text in enumerate(texts)
        ]
        texts = [""] * len(texts)
        row += 1
    return cells


def _devices(text: str) -> tuple[int, ...] | None:
    """Return the device ids in a box, ascending; None if it has none, or not all."""
    match = _DEVICES.fullmatch(text)
    return None if match is None else tuple(sorted(map(int, match["ids"].split(","))))


def _label(text: str, start: int) -> str:
    """Return the last line of words before an offset, at most two lines above."""
    end = start
    for _ in range(2):
        begin = text.rfind("\n", 0, max(0, end - 1)) + 1
        words = text[begin:end].strip()
        if words:
            is_label = any(c.isalpha() for c in words) and not words.startswith("└")
            return words[:120] if is_label else ""
        end = begin
        if not end:
            break
    return ""
