"""Memory-usage reports by the grammar: the reference and the fallback of the scanner."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, cast

from lark import Lark, Token, Tree

from hlo_lens.model.buffers.human_size import HumanSize
from hlo_lens.model.buffers.memory_usage_report import (
    AllocationRow,
    CountedShape,
    MemoryUsageReport,
    ReportRow,
)
from hlo_lens.syntax.buffers.assignment_grammar import NAMES as BUFFER_NAMES
from hlo_lens.syntax.buffers.assignment_grammar import Places
from hlo_lens.syntax.buffers.lines import Node, find_all, grammar_tree
from hlo_lens.syntax.buffers.memory_usage_draft import (
    ReportDraft,
    SpaceDraft,
    TableDraft,
    report_allocation,
)
from hlo_lens.syntax.grammar.files import build_parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.text.source import Source

GRAMMARS = ("hlo_tokens", "shape", "buffer_tokens", "buffer_assignment", "memory_usage_report")

NAMES: Mapping[str, str] = {
    **BUFFER_NAMES,
    "MEMORY_SPACE": "'Memory Space:'",
    "SPACE_NAME": "a name",
    "TOTAL_BYTES": "'Total bytes:'",
    "TABLE_HEAD": "'cumulative_size;'",
    "ALLOCATIONS_HEAD": "'cumulative_size;'",
    "DASHES": "a line of dashes",
    "PERCENT": "a share such as ( 17%)",
    "COUNT": "a count such as 2\N{MULTIPLICATION SIGN}",
    "REST": "'The rest'",
    "REST_VALUES": "'values are less than'",
    "REST_ALLOCATIONS": "'allocations are less than'",
    "REST_END": "'% of the total size and not shown.'",
    "TOTAL_USED": "'Total bytes used:'",
    "SORTED": "'Allocations sorted by size:'",
    "SORTED_WITH_VALUES": "'Allocations sorted by size with their values:'",
}
"""Names of the terminals for users."""


@functools.cache
def parser() -> Lark:
    """Return the parser of reports and their rows."""
    return build_parser(
        *GRAMMARS,
        start=["memory_usage_report", "row", "allocation_row", "short_allocation"],
        has_positions=True,
    )


def percent_of(text: str) -> int | None:
    """Return a share in percent; None for nan, the share of a total of 0."""
    match = re.search(r"\d+", text)
    return None if match is None else int(match[0])


def row_of(node: Node, text: str) -> ReportRow:
    """Return a row of a table."""
    total, percent, size, offset, count, *shapes = node.children
    return ReportRow(
        cumulative_size=HumanSize(str(total)),
        cumulative_percent=percent_of(str(percent)),
        size=HumanSize(str(size)),
        offset=int(str(offset)),
        used_by_n_values=int(str(count)),
        shapes=tuple(_shapes_of(shapes, text)),
    )


def _shapes_of(nodes: Sequence[object], text: str) -> Iterator[CountedShape]:
    for node in nodes:
        if not isinstance(node, Tree):
            continue
        count, shape = node.children
        meta = cast("Node", shape).meta
        number = 1 if count is None else int(str(count)[:-1])
        yield CountedShape(count=number, shape_text=text[meta.start_pos : meta.end_pos])


def hidden_of(node: Node, rule: str) -> tuple[int, int] | None:
    """Return the number of hidden rows, and the share below which rows are hidden."""
    for rest in find_all(node, rule):
        numbers = [int(c) for c in rest.children if isinstance(c, Token) and c.type == "NATURAL"]
        return numbers[0], numbers[1]
    return None


def allocation_row_of(tree: Node, source: Source, offset: int) -> AllocationRow:
    """Return a row of the list of allocations."""
    total, percent, remaining, allocation = tree.children
    read = Places(offset).allocation(cast("Node", allocation))
    return AllocationRow(
        cumulative_size=HumanSize(str(total)),
        cumulative_percent=percent_of(str(percent)),
        remaining=HumanSize(str(remaining)),
        allocation=report_allocation(source, read),
    )


def read_report(source: Source) -> MemoryUsageReport:
    """Return the report of a source, read by the grammar alone.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "memory_usage_report", 0, len(source.text))
    draft = ReportDraft(0)
    draft.spaces = [_space_of(node, source.text) for node in find_all(tree, "memory_space")]
    for node in find_all(tree, "by_allocation"):
        _, number, human, *_ = node.children
        draft.total = int(str(number)), HumanSize(str(human))
        draft.with_values = True
        for rows in find_all(node, "allocation_rows"):
            draft.rows = [allocation_row_of(r, source, 0) for r in find_all(rows, "allocation_row")]
            draft.hidden = hidden_of(rows, "rest_allocations")
        for usage in find_all(node, "allocation_table"):
            read = Places(0).allocation(cast("Node", usage.children[0]))
            tables = [_table_of(t, source.text) for t in find_all(usage, "table")]
            draft.usages.append((report_allocation(source, read), tables))
    return draft.done(source.path)


def _space_of(node: Node, text: str) -> SpaceDraft:
    tokens = {c.type: str(c) for c in node.children if isinstance(c, Token)}
    numbers = [int(c) for c in node.children if isinstance(c, Token) and c.type == "NATURAL"]
    return SpaceDraft(
        tokens["SPACE_NAME"].strip(),
        numbers[0],
        numbers[1],
        HumanSize(tokens["HUMAN_SIZE"]),
        [_table_of(table, text) for table in find_all(node, "table")],
    )


def _table_of(node: Node, text: str) -> TableDraft:
    rows = [row_of(row, text) for row in find_all(node, "row")]
    return TableDraft(rows, hidden_of(node, "rest_values"))
