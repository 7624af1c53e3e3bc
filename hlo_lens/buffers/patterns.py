r"""The compiled regular expressions of the buffer-side scanners: shadows of the buffer grammars.

Every repetition is possessive (``*+``): a text that does not match costs one pass. Numbers have at
most 18 digits, so that all fit into 64 bits; longer ones go to the grammar.
"""

from __future__ import annotations

import re

NAME = r"[^\s{},:<>()@;]++"
INDEX = r"\{(?:\d{1,9}+(?:,\d{1,9}+)*+)?+\}"
NUMBER = r"\d{1,18}+"
SMALL = r"\d{1,9}+"
END = r"(?:\n|\Z)"

_ID = rf"<({NUMBER}) ({NAME})((?:{INDEX})?+)(?: \(phi\))?+(?: @{SMALL})?+>"
"""Groups: id, name, index (which may be empty)."""

VALUE_ID = re.compile(_ID)

ASSIGNED_VALUE = re.compile(
    rf" value: {_ID} \(size=({NUMBER}),offset=({NUMBER})\): ([^\s][^\n]*+){END}"
)
"""Groups: id, name, index, size, offset, shape."""

ALLOCATION = re.compile(
    rf"allocation ({NUMBER}): (?:(?:0x[0-9a-fA-F]++|\(nil\)), )?+size ({NUMBER})"
    rf"(?:, color ({SMALL}))?+(?:, page (-?{SMALL}))?+"
    rf"(?:, parameter ({SMALL})(?:, shape \|([^|\n]++)\|)?+ at ShapeIndex ({INDEX}))?+"
    rf"(?:, output shape is \|([^|\n]++)\|)?+"
    rf"(, constant)?+(, thread-local)?+(, maybe-live-out)?+(, preallocated-temp)?+:{END}"
)
"""An allocation line as XLA prints it.

Groups: number, size, colour, page, parameter, its shape, its index, output shape, four flags.
"""

_ITEM = (
    r"(?:[^\s,|{}:]|\|[^|\n]*+\||\{[^{}\n]*+\})"
    r"(?:[^,|{}:\n]|:(?![ \t]*+(?:\n|\Z))|\|[^|\n]*+\||\{[^{}\n]*+\})*+"
)
ALLOCATION_OF_ITEMS = re.compile(
    rf"allocation ({NUMBER}): (?:(?:0x[0-9a-fA-F]++|\(nil\)), )?+size ({NUMBER})"
    rf"((?:, {_ITEM})*+):{END}"
)
"""The same with any items in any order. Groups: number, size, items with a leading comma."""

ITEM = re.compile(rf", ({_ITEM})")

KNOWN_ITEM = re.compile(
    rf"color[ ]({SMALL})|page[ ](-?{SMALL})"
    rf"|parameter[ ]({SMALL})(?:[ ]at[ ]ShapeIndex[ ]({INDEX}))?+"
    rf"|shape[ ]\|([^|\n]++)\|[ ]at[ ]ShapeIndex[ ]({INDEX})"
    r"|output[ ]shape[ ]is[ ]\|([^|\n]++)\||(constant)|(thread-local)|(maybe-live-out)"
    r"|(preallocated-temp)"
)
"""Groups: colour, page, parameter, its index, parameter shape, its index, output shape, flags."""

ITEM_OF_GRAMMAR = re.compile(
    r"(?:color\s+\d+|page\s+-?\d+|constant|thread-local|maybe-live-out|preallocated-temp)\s*\Z"
    r"|parameter\s+\d|shape \||output shape is \|"
)
"""Items that only the grammar can decide on if `KNOWN_ITEM` does not match."""

REUSED = re.compile(rf" reused by buffers of a different color:{END}")
REUSED_VALUE = re.compile(rf"  value: {_ID} \(color=({SMALL})\){END}")
"""Groups: id, name, index, colour."""

TOTAL = re.compile(rf"Total bytes used: ({NUMBER}) \(([^()\n]++)\){END}")

_POSITION = rf"  {NAME}(?: {INDEX})?+\n"
_USE = rf"  {NAME}, operand {SMALL}(?: {INDEX})?+\n"
USED_VALUE = re.compile(
    rf"{_ID}\n positions:\n((?:{_POSITION})*+)"
    rf"(?: uses:\n(  \(none\)\n|(?:{_USE})*+)| uses are not initialized yet\.\n)"
    rf" from instruction:([^\n]*+){END}"
)
"""Groups: id, name, index, lines of positions, lines of uses, instruction."""

POSITION = re.compile(rf"({NAME})(?:\s*+({INDEX}))?+")
USE = re.compile(rf"({NAME})\s*+,\s*+operand\s++({SMALL})(?:\s*+({INDEX}))?+")

_LINES = 2048
SCHEDULED = re.compile(rf"(?:    {SMALL}:{NAME}\n){{1,{_LINES}}}+")
BUFFER_LIVE_RANGE = re.compile(rf"(?:    {NAME}{INDEX}:{SMALL}-{SMALL}\n){{1,{_LINES}}}+")
"""Many lines at once, which are split afterwards."""

PEAK_VALUE = re.compile(
    rf"    ({NAME}(?:{INDEX})?+): ({NUMBER}) bytes(?: \(cumulative: ({NUMBER}) bytes\))?+{END}"
)
"""Groups: name with index, bytes, sum."""

LIVE_RANGE = re.compile(rf"HloLiveRange \(max ({SMALL})\):{END}")
NOT_AVAILABLE = re.compile(rf"HloLiveRange not available[^\n]*+{END}")
SEQUENCE = re.compile(rf"  InstructionSequence:{END}")
RANGES = re.compile(rf"  BufferLiveRange:{END}")
PEAK = re.compile(rf"  Live ranges at ({SMALL}) \(peak\):{END}")
UNDETERMINED = re.compile(rf"  Peak memory could not be determined[^\n]*+{END}")
_SPACED = r"(?:\d{4,18}+|\d{1,3}+(?: \d{3}){0,5}+)"
_BAR = "[│|]"
_BRANCH = "[├└+`][─-]{2}"
"""As printed, and as `lines.source_of` writes it."""

STACK_TRACE = re.compile(rf"  Stack trace breakdown for peak usage: ({_SPACED}) bytes{END}")
STACK_NODE = re.compile(
    rf"  (?:((?:{_BAR}   |    )*+){_BRANCH} |  )([^\n]*) "
    rf"\((?:\d++\.\d|-?nan|-?inf)%, (?:total: )?+({_SPACED}) bytes"
    rf"(?:, current: ({_SPACED}) bytes)?+(?:, remaining: (-?{_SPACED}) bytes)?+\){END}"
)
"""Groups: lines and spaces before the branch, name, total, current, remaining."""

HUMAN = r"-?\d++(?:\.\d++)?+(?:[KMGTPE]i)?+B|-8E"

_PERCENT = rf"\( *+({SMALL}|-?nan|-?inf)%\)"
SHORT_ALLOCATION = re.compile(rf"allocation ({NUMBER}): size ({HUMAN})((?:, {_ITEM})*+):{END}")
"""Groups: number, size, the rest with its leading comma."""

MEMORY_SPACE = re.compile(
    rf"Memory Space: ([^\s(][^(\n]*?) *+\(color=({NUMBER})\)\n"
    rf"Total bytes: ({NUMBER}) \(({HUMAN})\){END}"
)
"""Groups: name, colour, bytes, the same for people."""

REPORT_TOTAL = re.compile(
    rf"Total bytes used: ({NUMBER}) \(({HUMAN})\)\n(?=\s*+Allocations sorted by size:)"
)
SORTED_WITH_VALUES = re.compile(rf"Allocations sorted by size with their values:{END}")
SORTED_HEAD = re.compile(
    rf"Allocations sorted by size:{END}"
    rf"|cumulative_size; total_size - cumulative_size; allocation\n-{{20,}}+{END}"
)
TABLE_HEAD = re.compile(
    r"[ \t]*+cumulative_size;\s*+size;\s*+offset;\s*+used_by_n_values;\s*+shapes_list\n"
    rf"[ \t]*+-{{20,}}+{END}"
)
REPORT_ROW = re.compile(
    rf"[ \t]*+({HUMAN}){_PERCENT}; *+({HUMAN}); *+({NUMBER}); *+({NUMBER}); ([^\s][^\n]*+){END}"
)
"""Groups: sum, percent, size, offset, number of values, shapes."""

ALLOCATION_ROW = re.compile(rf" *+({HUMAN}){_PERCENT}; *+({HUMAN}); (?=allocation )")
"""The text before the allocation. Groups: sum, percent, remaining bytes."""

REST = re.compile(
    rf"[ \t]*+The rest ({NUMBER}) (values|allocations) are less than ({SMALL})% of the total size"
    rf" and not shown\.{END}"
)
"""Groups: number of rows, kind of rows, percent."""

LOG_HEADER = re.compile(r"(BufferAssignment OOM Debugging\.)|BufferAssignment stats:|Peak buffers:")
"""Start of a block in a log. Group: title of an out-of-memory report."""

STAT = re.compile(
    r"[ \t]*+((?:parameter|constant|maybe_live_out|preallocated temp|total) allocation"
    rf"|(?:preallocated temp|total) fragmentation):[ \t]*+({HUMAN})"
    rf"(?:[ \t]*+\(\s*+({SMALL}\.\d{{1,9}}+|-?nan|-?inf)%\))?+{END}"
)
"""Groups: name, size, percent."""

PEAK_FIELD = re.compile(
    r"[ \t]*+(?:(Buffer)[ \t]++(\d{1,9}+):|(Size):[ \t]*+(\S++)|(Operator):[ \t]*+([^\n]*+)"
    r"|(XLA Label):[ \t]*+([^\n]*+)|(Shape):[ \t]*+([^\n]*+)"
    rf"|(Entry Parameter Subshape):[ \t]*+([^\n]*+)|(={{5,}}+)()){END}"
)
"""A line of a peak buffer. Groups, in pairs: field, value."""

REQUESTED = re.compile(
    r"[Oo]ut of memory (?:while trying to allocate|allocating) (\d{1,18}+) bytes"
    r"|[Ff]ailed to allocate request for \S++ \((\d{1,18}+)B\)"
)
"""The request that failed, in the line before the block."""

ESCAPED_BLOCK = re.compile(r"BufferAssignment (?:OOM Debugging\.|stats:)\\n[^\n]*")
"""A block inside a string of JSON or Python, on one line."""
