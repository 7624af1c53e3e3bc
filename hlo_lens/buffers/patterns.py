"""Patterns of the statistics and peak buffers of a BufferAssignment in logs.

Every repetition is possessive (``*+``): a text that does not match costs one pass.
"""

from __future__ import annotations

import re

_END = r"(?:\n|\Z)"
_SMALL = r"\d{1,9}+"
_HUMAN = r"-?\d++(?:\.\d++)?+(?:[KMGTPE]i)?+B|-8E"

LOG_HEADER = re.compile(r"(BufferAssignment OOM Debugging\.)|BufferAssignment stats:|Peak buffers:")
"""Start of a block in a log. Group: title of an out-of-memory report."""

STAT = re.compile(
    r"[ \t]*+((?:parameter|constant|maybe_live_out|preallocated temp|total) allocation"
    rf"|(?:preallocated temp|total) fragmentation):[ \t]*+({_HUMAN})"
    rf"(?:[ \t]*+\(\s*+({_SMALL}\.\d{{1,9}}+|-?nan|-?inf)%\))?+{_END}"
)
"""Groups: name, size, percent."""

PEAK_FIELD = re.compile(
    r"[ \t]*+(?:(Buffer)[ \t]++(\d{1,9}+):|(Size):[ \t]*+(\S++)|(Operator):[ \t]*+([^\n]*+)"
    r"|(XLA Label):[ \t]*+([^\n]*+)|(Shape):[ \t]*+([^\n]*+)"
    rf"|(Entry Parameter Subshape):[ \t]*+([^\n]*+)|(={{5,}}+)()){_END}"
)
"""A line of a peak buffer. Groups, in pairs: field, value."""

REQUESTED = re.compile(
    r"[Oo]ut of memory (?:while trying to allocate|allocating) (\d{1,18}+) bytes"
    r"|[Ff]ailed to allocate request for \S++ \((\d{1,18}+)B\)"
)
"""The request that failed, in the line before the block."""

ESCAPED_BLOCK = re.compile(r"BufferAssignment (?:OOM Debugging\.|stats:)\\n[^\n]*")
"""A block inside a string of JSON or Python, on one line."""
