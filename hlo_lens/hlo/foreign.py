"""Foreign lines: lines of a log around a module, outside any computation.

A foreign line is skipped and counted. It is no gap, because no part of the module is lost with it.
A line that may be a damaged part of the module is a gap: a line with a sign of HLO (names with
``%``, shapes, attributes, rows of the stack frame tables), and all lines from an instruction
outside any computation to the next brace (a body without its first line). In a text without any
computation no line is foreign: all unread lines are gaps.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_lens.hlo.patterns import HLO_MODULE, INSTRUCTION_LIKE, LINE_START, MARKS, TABLE_TITLES
from hlo_lens.text.lazy_pattern import lazy_pattern

_HEADER = HLO_MODULE[:8]
"""The first word of a header whose end is cut off, in any case."""

_ATTRIBUTES = (
    "backend_config|body|branch_computations|calls|called_computations|channel_id|condition"
    "|control-predecessors|custom_call_target|dimensions|entry_computation_layout|frontend_attributes"
    "|input_output_alias|is_scheduled|known_trip_count|metadata|num_partitions|operand_layout\\w*"
    "|replica_count|replica_groups|sharding|slice_sizes|source_target_pairs|stack_frame_id|to_apply"
)
_TYPE = r"(?:pred|token|opaque|bf16|[suf]\d{1,3}|f8\w{1,20}|f4\w{1,10}|c64|c128)"
_SIGN = lazy_pattern(
    rf"(?<![\w%.])%[A-Za-z_][\w.-]*+|(?<![\w.]){_TYPE}\[[\d,<=? ]*+(?:\]|\Z)"
    rf"|\b(?:{_ATTRIBUTES})=[{{\"%\d]"
    r"|\bis_scheduled=true|\breplica_groups=(?:\[|mesh)|\bto_apply=[\w%]"
    rf"|\A\s*+(?:{MARKS}|(?i:{_HEADER}))|\A\s*+\d++ (?:\"|\{{[a-z_]++=)"
    rf"|\A\s*+(?:{TABLE_TITLES})\s*+\Z"
)
"""Signs of HLO in a line, whole or damaged."""

_PROSE = lazy_pattern(
    rf"\s*+(?:(?!{MARKS}|{HLO_MODULE})"
    r"(?:[A-Za-z][a-z']*+ ++[A-Za-z][a-z']*+(?=[ ,.:;!?']|\Z)(?! *+(?:[=(]|-> ))"
    r"|[A-Za-z][A-Za-z ]*+:(?=\s|\Z))|\[[A-Za-z ]++\] |[(\[]?\d[\d.]*+[)\]:] )"
)
"""Beginnings of sentences, labels and list items, with which no line of HLO begins."""

_OTHER_IR = lazy_pattern(
    r"\s*+(?:(?:%[\w:, ]++= )?\"?(?:stablehlo|mhlo|chlo|vhlo|sdy|func|arith|mpmd)\."
    r"|module @|return %|#\w++ = |#loc\b|(?:\w++:\w++\[[^\]\n]*+\] ?)++= |\{ lambda )"
)
"""Beginnings of lines of MLIR and of jaxprs."""

_PLAIN_LINES = lazy_pattern(
    rf"(?:(?!\s*+(?:{MARKS}|(?:{TABLE_TITLES})\b|(?i:{_HEADER})))"
    r"(?![ \t]*+\d++ \")[^\n%\[={}\0]*+\n)++"
)
"""Runs of lines without a character that a sign needs."""

_LOOKED_AT = 1 << 12
"""Characters of a line that are searched for a sign."""

_INDENT = 1 << 8
"""Largest indentation of a foreign line."""

_BODY = 1 << 9
"""Characters after a brace that are searched for a sign."""


def is_foreign(line: str) -> bool:
    """Return whether a line outside any computation is foreign."""
    if _OTHER_IR.match(line) is not None or _PROSE.match(line) is not None:
        return True
    return _SIGN.search(line) is None and "\0" not in line


def line_is_foreign(text: str, position: int, end: int) -> bool:
    """Return whether the line from an offset to its end is foreign."""
    return begins_line(text, position) and is_foreign(
        text[position : min(end, position + _LOOKED_AT)]
    )


def begins_line(text: str, position: int) -> bool:
    """Return whether only white space precedes an offset in its line."""
    before = text[max(0, position - _INDENT) : position].rstrip(" \t")
    return before.endswith("\n") or (not before and position < _INDENT)


def follows_directly(text: str, position: int) -> bool:
    """Return whether a line directly below another one begins no part of a module."""
    before = text[max(0, position - _INDENT) : position].rstrip(" \t")
    first = position - (len(text[max(0, position - _INDENT) : position]) - len(before))
    return (
        position < len(text)
        and text[position] != "\n"
        and not before[:-1].rstrip(" \t").endswith("\n")
        and LINE_START.match(text, first) is None
    )


def has_body(text: str, position: int, *, named: bool) -> bool:
    """Return whether instructions may follow a brace; a brace with a name may also be empty."""
    if not named and INSTRUCTION_LIKE.match(text, position) is None:
        return False
    close = text.find("\n}", position, position + _BODY)
    body = text[position : position + _BODY if close < 0 else close]
    return _SIGN.search(body) is not None or not body.strip() or body[0] == "}"


class ForeignLines:
    """Separates foreign lines from lines of HLO; counts the open braces of foreign lines."""

    def __init__(self) -> None:
        self._open = 0

    def runs(
        self, text: str, position: int, end: int, *, headless: bool
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield start, end and whether it is foreign of each run of lines, in order.

        Args:
            text: The text.
            position: Start of the first line.
            end: End of the last line.
            headless: Whether the first line is an instruction outside any computation; lines that
                follow it directly belong to its body.
        """
        start, kind = position, False
        while position < end:
            plain = None if headless else _PLAIN_LINES.match(text, position, end)
            if plain is not None:
                foreign, stop = True, plain.end()
            else:
                line_end = text.find("\n", position, end)
                stop = end if line_end < 0 else line_end + 1
                line = text[position : min(stop, position + _LOOKED_AT)]
                headless = headless and bool(line.strip())
                foreign = not headless and self._takes(line)
            if position > start and foreign != kind:
                yield start, position, kind
                start = position
            kind = foreign
            position = stop
        if position > start:
            yield start, position, kind

    def _takes(self, line: str) -> bool:
        """Return whether a line is foreign, or closes a brace of a foreign line."""
        if not is_foreign(line) or (not self._open and line.lstrip().startswith("}")):
            return False
        self._open = max(0, self._open + line.count("{") - line.count("}"))
        return True
