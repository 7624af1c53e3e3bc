"""Text of an HloLiveRange to the model: a scanner, with the grammar's help.

The schedule and the ranges are cut many lines at once. The dump may stand alone (since April 2026),
after the allocations and used values of its module (before), or in a log.
"""

from __future__ import annotations

import functools
import re
from itertools import accumulate
from typing import TYPE_CHECKING, cast

from lark import Lark, Token

from hlo_lens.model.buffers.live_range import UNKNOWN, HloLiveRange, LiveRangeColumns
from hlo_lens.syntax.buffers import patterns
from hlo_lens.syntax.buffers.lines import NAMES as LINE_NAMES
from hlo_lens.syntax.buffers.lines import (
    LineScan,
    Node,
    find_all,
    first_found,
    grammar_tree,
    header_of_others,
    nothing_found,
    optional_token,
    scan_source,
    source_of,
)
from hlo_lens.syntax.grammar.files import grammar_text
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
"""What users call the terminals."""

_OTHERS = header_of_others(DumpKind.LIVE_RANGE)
_HEADER = re.compile(r"\n(?=HloLiveRange |  InstructionSequence:|\*\*\* (?:Begin|End) )")
"""Where, after text of another dump, a line begins that may be ours."""

_RESUME = re.compile(
    r"\n(?=[ \t]*+(?:HloLiveRange |InstructionSequence:|BufferLiveRange:|Live ranges at \d"
    r"|Stack trace breakdown|Peak memory could|\d++:\S|[^\s{}:]++(?:\{[\d,]*+\})?+:[ \t]?+\d"
    r"|[│├└|+`]|BufferAssignment:|Total bytes used|Used values:|HloModule |Memory Space: |\*\*\* )"
    r"|[^\n]* bytes\)(?:\n|\Z))"
)
"""Where reading can begin anew after text that could not be read."""

_LIKE = re.compile(
    r"[ \t]*+(?:(\d++[ \t]*+:)|([^\s:{]++[ \t]*+\{[^\n]*\}[ \t]*+:[ \t]*+\d++[ \t]*+-)"
    r"|([^\s:]++[ \t]*+:[ \t]*+\d++[ \t]++bytes)|(Live ranges at)|(Stack trace breakdown)"
    r"|(HloLiveRange|BufferLiveRange|InstructionSequence)(?=[ :]))"
)
"""What a line is meant to be."""

_EXPECTED = "a line of an HloLiveRange"


def parse_live_range(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> HloLiveRange:
    """Return the live range that a text prints: alone, after a BufferAssignment, or in a log.

    What could not be read is in its ``gaps``. Of several the first is returned, and a gap says
    where the second begins.

    Args:
        text: A ``-live-range.txt`` dump, or a ``-buffer-assignment.txt`` of before April 2026.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If it holds no live range, or, when strict, at the first gap.
    """
    scan = scan_live_ranges(source_of(text, path))
    if not scan.found:
        raise nothing_found(scan, "'HloLiveRange'")
    return first_found(scan, scan.found, "a second HloLiveRange", strict=strict, width=12)


def scan_live_ranges(source: Source) -> LiveRangeScan:
    """Return a finished scan: all live ranges that a source holds."""
    return scan_source(source, LiveRangeScan)


def parse_live_range_with_grammar(source: Source) -> HloLiveRange:
    """Return the live range of a source as the grammar alone reads it: the scanner's reference.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "live_range", 0, len(source.text))
    scan = LiveRangeScan(source)
    scan.begin(0)
    scan.add_tree(tree)
    return scan.found[0]


@functools.cache
def parser() -> Lark:
    """Return the parser of live ranges and their lines."""
    return Lark(
        grammar_text(*GRAMMARS),
        start=["live_range", "scheduled", "buffer_live_range", "peak_value"],
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=True,
    )


class LiveRangeScan(LineScan):
    """One pass over a source. Holds the live range that is being filled.

    Attributes:
        found: Live ranges so far.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.found: list[HloLiveRange] = []
        self._columns = LiveRangeColumns(source)
        self._current: HloLiveRange | None = None
        self._first_gap = 0
        self._sections: set[str] = set()

    def run(self) -> None:
        """Read the whole text."""
        super().run()
        self._end()

    # ---- live ranges ---------------------------------------------------------------------------

    def begin(self, start: int) -> HloLiveRange:
        """End the live range before and begin a new one."""
        self._end()
        self._columns = LiveRangeColumns(self.source)
        self._sections = set()
        self._current = HloLiveRange(columns=self._columns, start=start)
        self.found.append(self._current)
        return self._current

    def _open(self, position: int) -> HloLiveRange:
        """Return the live range being filled; one without its header if there is none."""
        return self._current or self.begin(position)

    def _end(self) -> None:
        current, self._current = self._current, None
        if current is None:
            return
        current.gaps = tuple(self.gaps[self._first_gap :])
        self._first_gap = len(self.gaps)
        current.is_complete = not self.is_damaged and (
            not current.is_available or self._is_whole(current)
        )
        self.is_damaged = False

    def _is_whole(self, current: HloLiveRange) -> bool:
        """Whether all is there that the parts of a live range say of one another."""
        columns = current.columns
        if current.schedule_end_time != len(columns.scheduled_times):
            return False
        if "ranges" not in self._sections:
            return False
        if current.is_peak_undetermined:
            return True
        if current.peak_moment is None:
            return False
        if len(columns.peak_names) != len(current.live_at(current.peak_moment)):
            return False
        return current.stack_trace_bytes is None or _is_whole_tree(current)

    # ---- lines ---------------------------------------------------------------------------------

    def _unit(self, position: int) -> int:
        """Read lines from one on that is not blank, and return where the text goes on."""
        end = self._many(position)
        if end == position:
            end = self._peak_line(position)
        if end == position:
            end = self._section(position)
        if end == position:
            end = self._irregular(position)
        if end == len(self.text) and self.text[-1] != "\n":
            current = self._current
            # The line that says that there is none has no line end.
            self.is_damaged = self.is_damaged or current is None or current.is_available
        return end

    def _many(self, position: int) -> int:
        """Read lines of the schedule or of ranges, many at once; return where they end."""
        text = self.text
        while (match := patterns.SCHEDULED.match(text, position)) is not None:
            self._open(position)
            self._add_scheduled(position, match.end())
            position = match.end()
        while (match := patterns.BUFFER_LIVE_RANGE.match(text, position)) is not None:
            self._open(position)
            self._add_ranges(position, match.end())
            position = match.end()
        return position

    def _add_scheduled(self, start: int, end: int) -> None:
        lines = self.text[start : end - 1].split("\n")
        times = [line.partition(":")[0] for line in lines]
        offsets = accumulate([len(line) + 1 for line in lines], initial=start)
        names = [o + len(time) + 1 for o, time in zip(offsets, times, strict=False)]
        self._columns.scheduled_times.extend(map(int, times))
        self._columns.scheduled_names.extend(names)

    def _add_ranges(self, start: int, end: int) -> None:
        lines = self.text[start : end - 1].split("\n")
        bounds = [line.rpartition(":")[2].partition("-") for line in lines]
        lengths = [len(line) + 1 for line in lines]
        lengths.pop()
        self._columns.range_names.extend(accumulate(lengths, initial=start + 4))
        self._columns.starts.extend([int(first) for first, _, _ in bounds])
        self._columns.ends.extend([int(last) for _, _, last in bounds])

    def _peak_line(self, position: int) -> int:
        """Read values alive at the peak, or lines of the tree; return where they end."""
        text, columns = self.text, self._columns
        while (match := patterns.PEAK_VALUE.match(text, position)) is not None:
            self._open(position)
            columns = self._columns
            columns.peak_names.append(match.start(1))
            columns.peak_name_ends.append(match.end(1))
            columns.peak_sizes.append(int(match[2]))
            columns.peak_sums.append(UNKNOWN if match[3] is None else int(match[3]))
            position = match.end()
        while (match := patterns.STACK_NODE.match(text, position)) is not None:
            self._open(position)
            self._add_node(match)
            position = match.end()
        return position

    def _add_node(self, match: re.Match[str]) -> None:
        columns = self._columns
        columns.node_depths.append(0 if match[1] is None else max(1, len(match[1]) // 4))
        columns.node_names.append(match.start(2))
        columns.node_name_ends.append(match.end(2))
        columns.node_numbers.extend(_spaced(match[group]) for group in (3, 4, 5))

    def _section(self, position: int) -> int:
        """Read a title; return where it ends, or the position if there is none."""
        text = self.text
        if (match := patterns.LIVE_RANGE.match(text, position)) is not None:
            self.begin(position).schedule_end_time = int(match[1])
        elif (match := patterns.NOT_AVAILABLE.match(text, position)) is not None:
            self.begin(position).is_available = False
        elif (match := patterns.SEQUENCE.match(text, position)) is not None:
            self._open(position)
        elif (match := patterns.RANGES.match(text, position)) is not None:
            self._open(position)
            self._sections.add("ranges")
        elif (match := patterns.PEAK.match(text, position)) is not None:
            self._open(position).peak_moment = int(match[1])
        elif (match := patterns.UNDETERMINED.match(text, position)) is not None:
            self._open(position).is_peak_undetermined = True
        elif (match := patterns.STACK_TRACE.match(text, position)) is not None:
            self._open(position).stack_trace_bytes = _spaced(match[1])
        return position if match is None else match.end()

    def _irregular(self, position: int) -> int:
        """Read a line that is not as XLA prints it, or leave text to other readers."""
        text = self.text
        if _OTHERS.match(text, position):
            self._end()
            if text.startswith("***", position):
                return self.next_line(position)
            return self.next_match(position, _HEADER)
        like = _LIKE.match(text, position)
        if like is None:
            return self.skip_junk(position, _RESUME, _EXPECTED)
        end = self.next_line(position)
        self._by_grammar(like.lastindex or 0, position, end)
        return end

    # ---- the grammar ---------------------------------------------------------------------------

    def _by_grammar(self, kind: int, position: int, end: int) -> None:
        """Have the grammar read a line that is not printed plainly."""
        readers: tuple[tuple[str, Callable[[Node, int], None]], ...] = (
            ("scheduled", self._add_scheduled_tree),
            ("buffer_live_range", self._add_range_tree),
            ("peak_value", self._add_peak_tree),
        )
        if kind > len(readers):
            titles = ("'Live ranges at N (peak):'", "a stack trace", "a title")
            self.refuse(position, end, f"expected {titles[kind - 1 - len(readers)]}")
            return
        rule, add = readers[kind - 1]
        tree = self.ask(parser(), NAMES, rule, position, end)
        if tree is not None:
            self._open(position)
            add(tree, position)

    def _add_scheduled_tree(self, tree: Node, offset: int) -> None:
        time, name = cast("list[Token]", tree.children)
        self._columns.scheduled_times.append(int(time))
        self._columns.scheduled_names.append(offset + (name.start_pos or 0))

    def _add_range_tree(self, tree: Node, offset: int) -> None:
        name, _, start, end = cast("list[Token]", tree.children)
        self._columns.range_names.append(offset + (name.start_pos or 0))
        self._columns.starts.append(int(start))
        self._columns.ends.append(int(end))

    def _add_peak_tree(self, tree: Node, offset: int) -> None:
        name = cast("Token", tree.children[0])
        index = cast("Node | None", tree.children[1])
        end = name.end_pos if index is None else index.meta.end_pos
        numbers = [c for c in tree.children if isinstance(c, Token) and c.type == "NATURAL"]
        columns = self._columns
        columns.peak_names.append(offset + (name.start_pos or 0))
        columns.peak_name_ends.append(offset + (end or 0))
        columns.peak_sizes.append(int(numbers[0]))
        columns.peak_sums.append(int(numbers[1]) if len(numbers) > 1 else UNKNOWN)

    def add_tree(self, tree: Node) -> None:
        """Add all that the tree of a whole live range holds."""
        current = self._open(0)
        if optional_token(tree, "NOT_AVAILABLE") is not None:
            current.is_available = False
            return
        current.schedule_end_time = int(optional_token(tree, "TIME") or 0)
        for section, rule, add in (
            ("sequence", "scheduled", self._add_scheduled_tree),
            ("ranges", "buffer_live_range", self._add_range_tree),
            ("peak", "peak_value", self._add_peak_tree),
        ):
            for node in find_all(tree, section):
                for line in find_all(node, rule):
                    add(line, 0)
        for peak in find_all(tree, "peak"):
            current.peak_moment = int(optional_token(peak, "TIME") or 0)
        current.is_peak_undetermined = any(find_all(tree, "undetermined"))
        for trace in find_all(tree, "stack_trace"):
            current.stack_trace_bytes = _spaced(optional_token(trace, "SPACED"))
            for node in find_all(trace, "stack_node"):
                self._add_node_tree(cast("Token", node.children[0]))

    def _add_node_tree(self, token: Token) -> None:
        start = self.text.index("\n", token.start_pos) + 1
        match = patterns.STACK_NODE.match(self.text, start)
        if match is not None:
            self._add_node(match)


def _is_whole_tree(current: HloLiveRange) -> bool:
    """Whether the tree goes down to its last line: nothing remains there."""
    columns = current.columns
    if not columns.node_depths:
        return not current.stack_trace_bytes
    return columns.node_numbers[-1] in (0, UNKNOWN)


def _spaced(text: str | None) -> int:
    """Return a number with a space between thousands; UNKNOWN for none."""
    return UNKNOWN if text is None else int(text.replace(" ", ""))
