"""Lines and labels of drawn call trees by the grammar alone: the reference of the scanner."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from lark import Lark, Token

from hlo_lens.buffers.lines import find_all
from hlo_lens.call_trees.call_tree import CallFrame
from hlo_lens.call_trees.tree_lines import (
    SECONDS,
    TREE_LINE,
    Label,
    TreeLine,
    tree_line,
    with_amount,
)
from hlo_lens.grammar.parsers import build_parser, grammar_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.text.source import Source

NAMES: Mapping[str, str] = {"BRANCHES": "a branch", "OTHER": "other text"}
"""Users' names of the terminals."""


@functools.cache
def parser() -> Lark:
    """Return the parser of call trees and of labels."""
    return build_parser(
        "call_tree",
        start=["call_trees", "label"],
        has_positions=True,
        has_placeholders=False,
    )


def lines_by_grammar(source: Source) -> Iterator[TreeLine]:
    """Yield the lines of trees, in order.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "call_trees", 0, len(source.text))
    for node in find_all(tree, "node"):
        branches, *rest = cast("list[Token]", node.children)
        label = "".join(rest)
        match = TREE_LINE.match(f"{branches}{label}")
        if match is not None:
            start = branches.start_pos or 0
            yield tree_line(match, start, start + len(branches) + len(label), label)


def label_by_grammar(text: str) -> Label:
    """Return function, place, repeats and seconds of a label."""
    text = text.strip()
    if not text:
        return Label(CallFrame(function=""))
    tree = parser().parse(text, start="label")
    tokens = {
        token.type.partition("_")[0]: str(token)
        for token in tree.scan_values(lambda value: isinstance(value, Token))
    }
    line, times = tokens.get("LINE"), tokens.get("TIMES")
    frame = CallFrame(
        function=tokens.get("FUNCTION", ""),
        file=tokens.get("FILE"),
        line=None if line is None else int(line.lstrip(":")),
    )
    repeats = 1 if times is None else int("".join(filter(str.isdecimal, times)))
    seconds = SECONDS.match(tokens["SECONDS"] + "?") if "SECONDS" in tokens else None
    label = Label(frame, repeats)
    return label if seconds is None else with_amount(label, seconds)
