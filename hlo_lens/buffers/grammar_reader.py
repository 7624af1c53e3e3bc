"""Whole buffer-side texts by the grammar alone: the reference of the scanners."""

from __future__ import annotations

import functools
import threading
from typing import Any

from lark import Lark, Token, Transformer, Tree

from hlo_lens.buffers import assignment_grammar, live_range_draft, patterns
from hlo_lens.buffers.assignment_draft import BufferDraft
from hlo_lens.buffers.lines import grammar_tree, optional_token
from hlo_lens.buffers.live_range_draft import LiveRangeDraft, spaced_number
from hlo_lens.grammar.parsers import build_parser
from hlo_lens.text.source import Source

GRAMMARS = (*assignment_grammar.GRAMMARS, "live_range", "buffer_dump")

NAMES = {**assignment_grammar.NAMES, **live_range_draft.NAMES}
"""Names of the terminals for users."""


def read_buffer_dump(source: Source) -> tuple[BufferDraft, LiveRangeDraft]:
    """Return the allocations, the used values and the live range of a text, by the grammar alone.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    parser, lines = _parser()
    with _ONE_AT_A_TIME:
        buffers, ranges = lines.begin(source)
        grammar_tree(parser, NAMES, source, "buffer_dump", 0, len(source.text))
    buffers.end()
    ranges.end()
    return buffers, ranges


_ONE_AT_A_TIME = threading.Lock()
"""Held while a text is parsed: the parser fills the model of one text at a time."""


@functools.cache
def _parser() -> tuple[Lark, _Lines]:
    """Return the parser of whole texts, and the transformer that is part of it."""
    lines = _Lines()
    parser = build_parser(*GRAMMARS, start="buffer_dump", transformer=lines, has_positions=True)
    return parser, lines


class _Lines(Transformer[Token, Any]):
    """Adds each line to the model as soon as it is parsed, so that no tree of the text is kept."""

    def __init__(self) -> None:
        super().__init__()
        self._places = assignment_grammar.Places(0)
        self.begin(Source(""))

    def begin(self, source: Source) -> tuple[BufferDraft, LiveRangeDraft]:
        """Begin with a new text, and return the parts that will be filled."""
        self.buffer_draft = BufferDraft(source)
        self.range_draft = LiveRangeDraft(source)
        return self.buffer_draft, self.range_draft

    def allocation_line(self, children: list[Any]) -> None:
        self.buffer_assignment(children)
        read = self._places.allocation(Tree("allocation_line", children))
        self.buffer_draft.add_allocation(read.cells, read.other)

    def assigned_value(self, children: list[Any]) -> None:
        cells = self._places.assigned_value(Tree("assigned_value", children))
        self.buffer_draft.add_assigned(cells, 0, 0)

    def reused_value(self, children: list[Any]) -> None:
        cells = self._places.reused_value(Tree("reused_value", children))
        self.buffer_draft.add_reused(cells, 0, 0)

    def buffer_assignment(self, _: list[Any]) -> None:
        if not self.buffer_draft.assignments:
            self.buffer_draft.begin_assignment(0, has_header=True)

    def total(self, children: list[Any]) -> None:
        self.buffer_draft.add_total_tree(Tree("total", children), 0)

    def used_value(self, children: list[Any]) -> None:
        self.buffer_draft.add_used(self._places.used_value(Tree("used_value", children)))

    def buffer_values(self, _: list[Any]) -> None:
        if not self.buffer_draft.values:
            self.buffer_draft.begin_values(0)
        self.buffer_draft.has_header = True

    def scheduled(self, children: list[Any]) -> None:
        self.range_draft.open(0)
        self.range_draft.add_scheduled(Tree("scheduled", children), 0)

    def buffer_live_range(self, children: list[Any]) -> None:
        self.range_draft.open(0)
        self.range_draft.add_range(Tree("buffer_live_range", children), 0)

    def peak_value(self, children: list[Any]) -> None:
        self.range_draft.add_peak(Tree("peak_value", children), 0)

    def peak(self, children: list[Any]) -> None:
        time = optional_token(Tree("peak", children), "TIME")
        self.range_draft.open(0).peak_moment = int(time or 0)

    def undetermined(self, _: list[Any]) -> None:
        self.range_draft.open(0).is_peak_undetermined = True

    def stack_node(self, children: list[Token]) -> None:
        text = self.range_draft.text
        start = text.index("\n", children[0].start_pos) + 1
        match = patterns.STACK_NODE.match(text, start)
        if match is not None:
            self.range_draft.add_node(match)

    def stack_trace(self, children: list[Any]) -> None:
        total = optional_token(Tree("stack_trace", children), "SPACED")
        self.range_draft.open(0).stack_trace_bytes = spaced_number(total)

    def live_range(self, children: list[Any]) -> None:
        tree: Tree[Token] = Tree("live_range", children)
        current = self.range_draft.open(0)
        if optional_token(tree, "NOT_AVAILABLE") is not None:
            current.is_available = False
            return
        current.schedule_end_time = int(optional_token(tree, "TIME") or 0)
        self.range_draft.sections.add("ranges")
