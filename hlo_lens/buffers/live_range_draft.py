"""Live ranges of a text, filled line by line, and the grammar of their lines."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from lark import Lark, Token

from hlo_lens.buffers.lines import NAMES as LINE_NAMES, LineScan, Node
from hlo_lens.buffers.live_range import UNKNOWN, HloLiveRange, LiveRangeColumns
from hlo_lens.grammar.parsers import build_parser

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from hlo_lens.text.source import Source


GRAMMARS = ("hlo_tokens", "buffer_tokens", "live_range")

NAMES: Mapping[str, str] = {
    **LINE_NAMES,
    "TIME": "a number",
    "LIVE_RANGE": "'HloLiveRange'",
    "NOT_AVAILABLE": "'HloLiveRange not available'",
    "MAX": "'max'",
    "INSTRUCTION_SEQUENCE": "'InstructionSequence:'",
    "BUFFER_LIVE_RANGE": "'BufferLiveRange:'",
    "PEAK_AT": "'Live ranges at'",
    "PEAK": "'(peak):'",
    "UNDETERMINED": "'Peak memory could not be determined'",
    "BYTES": "'bytes'",
    "CUMULATIVE": "'cumulative'",
    "STACK_TRACE": "'Stack trace breakdown for peak usage:'",
    "STACK_NODE": "a line of the stack trace",
}
"""Names of the terminals for users."""


@functools.cache
def parser() -> Lark:
    """Return the parser of single lines."""
    return build_parser(
        *GRAMMARS, start=["scheduled", "buffer_live_range", "peak_value"], has_positions=True
    )


class LiveRangeDraft(LineScan):
    """The live ranges of a source, one of them being filled.

    Attributes:
        found: Live ranges so far.
        columns: Columns of the one being filled.
        current: The one being filled, or None.
        sections: Its sections found so far.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.found: list[HloLiveRange] = []
        self.columns = LiveRangeColumns(source)
        self.current: HloLiveRange | None = None
        self.sections: set[str] = set()

    def begin(self, start: int) -> HloLiveRange:
        """End the previous live range and begin a new one."""
        self.end()
        self.columns = LiveRangeColumns(self.source)
        self.sections = set()
        self.current = HloLiveRange(columns=self.columns, start=start)
        self.found.append(self.current)
        return self.current

    def open(self, position: int) -> HloLiveRange:
        """Return the live range being filled; one without its header if there is none."""
        return self.current or self.begin(position)

    def end(self) -> None:
        """End the live range: set its gaps, and whether it is complete."""
        current, self.current = self.current, None
        if current is None:
            return
        current.gaps = self.take_gaps()
        current.is_complete = not self.is_damaged and (
            not current.is_available or self._is_whole(current)
        )
        self.is_damaged = False

    def _is_whole(self, current: HloLiveRange) -> bool:
        """Return whether the parts of a live range agree on its length and sizes."""
        columns = current.columns
        if current.schedule_end_time != len(columns.scheduled_times):
            return False
        if "ranges" not in self.sections:
            return False
        if current.is_peak_undetermined:
            return True
        if current.peak_moment is None:
            return False
        if len(columns.peak_names) != len(current.live_at(current.peak_moment)):
            return False
        return _is_whole_tree(current)

    def add_node(self, match: re.Match[str]) -> None:
        """Add a line of the tree of values alive at the peak."""
        columns = self.columns
        columns.node_depths.append(0 if match[1] is None else max(1, len(match[1]) // 4))
        columns.node_names.append(match.start(2))
        columns.node_name_ends.append(match.end(2))
        columns.node_numbers.extend(spaced_number(match[group]) for group in (3, 4, 5))

    def add_scheduled(self, tree: Node, offset: int) -> None:
        """Add an instruction of the schedule, read by the grammar."""
        time, name = cast("list[Token]", tree.children)
        self.columns.scheduled_times.append(int(time))
        self.columns.scheduled_names.append(offset + (name.start_pos or 0))

    def add_range(self, tree: Node, offset: int) -> None:
        """Add the live range of a value, read by the grammar."""
        name, _, start, end = cast("list[Token]", tree.children)
        self.columns.range_names.append(offset + (name.start_pos or 0))
        self.columns.starts.append(int(start))
        self.columns.ends.append(int(end))

    def add_peak(self, tree: Node, offset: int) -> None:
        """Add a value alive at the peak, read by the grammar."""
        name = cast("Token", tree.children[0])
        index = cast("Node | None", tree.children[1])
        end = name.end_pos if index is None else index.meta.end_pos
        numbers = [c for c in tree.children if isinstance(c, Token) and c.type == "NATURAL"]
        columns = self.columns
        columns.peak_names.append(offset + (name.start_pos or 0))
        columns.peak_name_ends.append(offset + (end or 0))
        columns.peak_sizes.append(int(numbers[0]))
        columns.peak_sums.append(int(numbers[1]) if len(numbers) > 1 else UNKNOWN)


def _is_whole_tree(current: HloLiveRange) -> bool:
    """Return whether the tree is complete.

    No bytes remain after its last line, and the bytes of each node are its own and those of the
    nodes below it. Source: hlo_stack_trace.cc.
    """
    columns = current.columns
    if not columns.node_depths or current.stack_trace_bytes is None:
        return not columns.node_depths and not current.stack_trace_bytes
    if columns.node_numbers[-1] not in (0, UNKNOWN):
        return False
    below: dict[int, int] = {}  # depth to the bytes of nodes that belong to a node further up
    totals, own = columns.node_numbers[::3], columns.node_numbers[1::3]
    for depth, total, current_bytes in zip(
        reversed(columns.node_depths), reversed(totals), reversed(own), strict=True
    ):
        inside = below.pop(depth + 1, 0)
        if current_bytes != UNKNOWN and total != current_bytes + inside:
            return False
        below[depth] = below.get(depth, 0) + total
    return below == {0: current.stack_trace_bytes}


def spaced_number(text: str | None) -> int:
    """Return a number with spaces between thousands; UNKNOWN for None."""
    return UNKNOWN if text is None else int(text.replace(" ", ""))
