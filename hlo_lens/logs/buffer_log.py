"""Reader of buffer statistics and peak buffers in a log.

Lines outside the blocks are no gaps. Blocks are small, so they are read line by line; the grammar
is their definition (``reader="grammar"``).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lark import Lark, Token

from hlo_lens.buffers import patterns
from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.buffers.lines import (
    BLANK,
    NAMES as LINE_NAMES,
    LineScan,
    Node,
    find_all,
    nothing_found,
    optional_token,
    scan_source,
    source_of,
)
from hlo_lens.grammar.parsers import build_parser, grammar_tree
from hlo_lens.grammar.reader_choice import ReaderName, uses_grammar
from hlo_lens.hlo.text import unescape
from hlo_lens.logs.log import BufferLog, BufferLogEntry, BufferStats, PeakBuffer
from hlo_lens.logs.log_text import read_metadata
from hlo_lens.text.source import Source

GRAMMARS = ("hlo_tokens", "buffer_tokens", "buffer_log")

NAMES: Mapping[str, str] = {
    **LINE_NAMES,
    "OOM_DEBUGGING": "'BufferAssignment OOM Debugging.'",
    "STATS": "'BufferAssignment stats:'",
    "STAT_NAME": "a name such as 'total allocation'",
    "STAT_PERCENT": "a share such as (4.37%)",
    "PEAK_BUFFERS": "'Peak buffers:'",
    "BUFFER": "'Buffer'",
    "SIZE_IS": "'Size:'",
    "OPERATOR": "'Operator:'",
    "LABEL": "'XLA Label:'",
    "SHAPE": "'Shape:'",
    "PARAMETER_SUBSHAPE": "'Entry Parameter Subshape:'",
    "RULE": "'======'",
}
"""Names of the terminals in error messages."""

_ALLOCATIONS = ("parameter", "constant", "maybe_live_out", "preallocated temp", "total")
_STATS: Mapping[str, str] = {
    **{f"{words} allocation": words.replace(" ", "_") for words in _ALLOCATIONS},
    "preallocated temp fragmentation": "preallocated_temp_fragmentation",
    "total fragmentation": "total_fragmentation",
}
"""Words of the log to the attribute of BufferStats."""

_FIELDS = ("Buffer ", "Size:", "Operator:", "XLA Label:", "Shape:", "Entry Parameter", "====")
_LONGEST_FIELD = 100

_BEFORE = 2000
"""Characters before a block in which the failed request is looked for."""

_INTERRUPTED = 3
"""Most foreign lines inside a block."""

_METADATA = re.compile(r"\s*[a-z_]+=")
_WRAPPED = 40
"""Most lines over which an op_name is wrapped."""


def parse_buffer_log(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> BufferLog:
    """Return all blocks of buffer statistics in a log, in the order of the text.

    Args:
        text: A log, or the text of an exception.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone: the text is one block and nothing else, and
            its first error is raised.

    Raises:
        DumpSyntaxError: If there is no such block, or, when strict, at the first gap.
    """
    source = source_of(text, path)
    if uses_grammar(reader):
        return _parse_with_grammar(source)
    scan = scan_source(source, LogScan)
    if not scan.found:
        raise nothing_found(scan, "'BufferAssignment stats:' or 'Peak buffers:'")
    if strict and scan.gaps:
        raise scan.gaps[0].as_error()
    return BufferLog(
        entries=tuple(scan.found), gaps=tuple(scan.gaps), path=path, spans=tuple(scan.spans)
    )


def _parse_with_grammar(source: Source) -> BufferLog:
    """Return the one block in a source, read by the grammar alone.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "buffer_log", 0, len(source.text))
    draft = _Draft(is_oom=optional_token(tree, "OOM_DEBUGGING") is not None)
    for stats in find_all(tree, "stats"):
        draft.stats = {}
        for stat in find_all(stats, "stat"):
            name, size, percent = stat.children
            draft.add_stat(str(name), str(size), str(percent or "").strip("(%) ") or None)
    for peak in find_all(tree, "peak_buffers"):
        draft.has_peak = True
        draft.buffers = [_buffer_of(node) for node in find_all(peak, "peak_buffer")]
    return BufferLog(
        entries=(draft.done(1, None),), path=source.path, spans=((0, len(source.text)),)
    )


@functools.cache
def parser() -> Lark:
    """Return the parser of one block."""
    return build_parser(*GRAMMARS, start=["buffer_log"], has_positions=True)


def _buffer_of(node: Node) -> _Buffer:
    tokens = [c for c in node.children if isinstance(c, Token)]
    fields = {c.type: str(c).partition(":")[2].strip() for c in tokens}
    shape = fields.get("SHAPE")
    return _Buffer(
        number=int(str(optional_token(node, "NATURAL"))),
        size=str(optional_token(node, "HUMAN_SIZE")),
        operator=fields.get("OPERATOR"),
        label=fields.get("LABEL"),
        shape=fields.get("PARAMETER_SUBSHAPE") if shape is None else shape,
        is_parameter="PARAMETER_SUBSHAPE" in fields,
        is_closed="RULE" in fields,
    )


@dataclass(slots=True)
class _Buffer:
    """A peak buffer that is being read."""

    number: int
    size: str | None = None
    operator: str | None = None
    label: str | None = None
    shape: str | None = None
    is_parameter: bool = False
    is_closed: bool = False

    def done(self) -> PeakBuffer | None:
        """Return the buffer; None if its size is missing."""
        if self.size is None:
            return None
        operator = None if self.operator is None else self.operator.replace("\n", "")
        return PeakBuffer(
            number=self.number,
            size=HumanSize(self.size),
            operator=None if operator is None else read_metadata(f"{{{operator}}}"),
            label=self.label,
            shape_text=self.shape,
            is_entry_parameter=self.is_parameter,
        )

    def add(self, name: str, value: str) -> None:
        if name == "Size":
            self.size = value
        elif name == "Operator":
            self.operator = value
        elif name == "XLA Label":
            self.label = value
        elif name.startswith("="):
            self.is_closed = True
        else:
            self.shape = value
            self.is_parameter = name != "Shape"


@dataclass(slots=True)
class _Draft:
    """A block that is being read."""

    is_oom: bool = False
    stats: dict[str, HumanSize | float] | None = None
    has_peak: bool = False
    buffers: list[_Buffer] = field(default_factory=list)

    def add_stat(self, name: str, size: str, percent: str | None) -> None:
        if self.stats is None:
            self.stats = {}
        key = _STATS[" ".join(name.split())]
        self.stats[key] = HumanSize(size)
        is_share = f"{key}_percent" in BufferStats.__dataclass_fields__
        if is_share and percent is not None and percent[-1].isdecimal():  # a total of 0 gives nan
            self.stats[f"{key}_percent"] = float(percent)

    def done(self, line: int, requested: int | None) -> BufferLogEntry:
        found = [buffer.done() for buffer in self.buffers]
        whole = self.stats is not None and "total" in self.stats
        whole = whole and all(b is not None and b.shape_text is not None for b in found)
        whole = whole and all(buffer.is_closed for buffer in self.buffers)
        return BufferLogEntry(
            is_oom=self.is_oom,
            requested_bytes=requested,
            stats=None if self.stats is None else BufferStats(**self.stats),  # type: ignore[arg-type] # sizes and shares by name
            peak_buffers=tuple(b for b in found if b is not None),
            line=line,
            is_complete=whole and (self.has_peak or not self.is_oom),
        )


class LogScan(LineScan):
    """Scanner of a log.

    Attributes:
        found: Blocks read so far.
        spans: Start and end of each.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.found: list[BufferLogEntry] = []
        self.spans: list[tuple[int, int]] = []
        self._draft = _Draft()

    def run(self) -> None:
        """Read all blocks of the text."""
        position = 0
        while (match := patterns.LOG_HEADER.search(self.text, position)) is not None:
            escaped = patterns.ESCAPED_BLOCK.match(self.text, match.start())
            if escaped is not None:
                self._escaped(escaped)
                position = escaped.end()
            else:
                position = self._block(match, position)
            self.spans.append((match.start(), position))

    def _escaped(self, match: re.Match[str]) -> None:
        """Read a block inside a string of JSON or Python, on one line."""
        inner = LogScan(Source(unescape(match[0]), self.source.path))
        inner.run()
        line, column = self.source.line_column(match.start())
        requested = self._requested(match.start(), 0)
        for entry in inner.found:
            asked = entry.requested_bytes or requested
            self.found.append(replace(entry, line=line, requested_bytes=asked))
        self.gaps += [replace(gap, line=line, column=column) for gap in inner.gaps]

    def _requested(self, start: int, least: int) -> int | None:
        """Return the bytes of the failed request that the text before a block names."""
        found = None
        for match in patterns.REQUESTED.finditer(self.text, max(least, start - _BEFORE), start):
            found = int(match[1] or match[2])
        return found

    def _block(self, header: re.Match[str], least: int) -> int:
        """Read one block; return where it ends."""
        self._draft = _Draft(is_oom=header[1] is not None)
        if header[1] is None:
            self._title(header[0])
        start, position = header.start(), self.next_line(header.end() - 1)
        while True:
            end = self._line(position)
            if end == position:
                end = self._interruption(position)
            if end == position:
                break
            position = end
        line = self.source.line_column(start)[0]
        entry = self._draft.done(line, self._requested(start, least))
        if self._is_torn(position):
            self.add_gap(position, len(self.text), "the last line is cut off")
            entry = replace(entry, is_complete=False)
        self.found.append(entry)
        return max(position, header.end())

    def _is_torn(self, position: int) -> bool:
        """Whether the rest of the text is a part of a line of the block."""
        blank = BLANK.match(self.text, position)
        start = position if blank is None else blank.end()
        rest = self.text[start : start + _LONGEST_FIELD].strip()
        if not rest or self.line_end(start) < len(self.text):
            return False
        return any(word.startswith(rest) or rest.startswith(word) for word in (*_STATS, *_FIELDS))

    def _title(self, title: str) -> None:
        if title.startswith("Peak"):
            self._draft.has_peak = True
        else:
            self._draft.stats = {}

    def _line(self, position: int) -> int:
        """Read a line of the block; return its end, or the position if it is no such line."""
        text, draft = self.text, self._draft
        if (match := patterns.STAT.match(text, position)) is not None and not draft.has_peak:
            draft.add_stat(match[1], match[2], match[3])
            return match.end()
        if (match := BLANK.match(text, position)) is not None:
            follows = patterns.PEAK_FIELD.match(text, match.end())
            return match.end() if follows is not None and draft.has_peak else position
        header = patterns.LOG_HEADER.match(text, position)
        if header is not None and header[1] is None:
            return self._next_title(header, position)
        return self._peak_field(position) if draft.has_peak else position

    def _next_title(self, header: re.Match[str], position: int) -> int:
        """Read the title of the next part of this block; the title of a new block ends this one."""
        is_peak = header[0].startswith("Peak")
        if self._draft.has_peak or (not is_peak and self._draft.stats is not None):
            return position
        self._title(header[0])
        return self.next_line(header.end() - 1)

    def _peak_field(self, position: int) -> int:
        match = patterns.PEAK_FIELD.match(self.text, position)
        if match is None:
            return position
        name, value = (g for g in match.groups() if g is not None)
        end = match.end()
        buffers = self._draft.buffers
        if name == "Buffer":
            buffers.append(_Buffer(number=int(value)))
        elif not buffers:
            return position
        else:
            if name == "Operator":
                end = self._wrapped_end(match.start(6), end)
                value = self.text[match.start(6) : end]
            buffers[-1].add(name, value.strip())
        return end

    def _wrapped_end(self, start: int, end: int) -> int:
        """Return the end of an op_name that a terminal has wrapped over lines."""
        last = end
        for _ in range(_WRAPPED):
            if patterns.PEAK_FIELD.match(self.text, last) is not None:
                return last
            is_open = self.text.count('"', start, last) % 2
            if last >= len(self.text) or not (is_open or _METADATA.match(self.text, last)):
                break
            last = self.next_line(last)
        return end

    def _interruption(self, position: int) -> int:
        """Note a gap for foreign lines if the block continues after them; return their end."""
        end = position
        goes_on = (patterns.PEAK_FIELD if self._draft.has_peak else patterns.STAT).match
        for _ in range(_INTERRUPTED):
            if end >= len(self.text) or patterns.LOG_HEADER.match(self.text, end) is not None:
                break
            end = self.next_line(end)
            if goes_on(self.text, end) is not None:
                lines = self.text.count("\n", position, end)
                message = "expected a line of the statistics or of a peak buffer"
                self.add_gap(position, self.line_end(position), message, lines)
                return end
        return position
