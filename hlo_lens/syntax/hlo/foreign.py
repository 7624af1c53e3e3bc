"""Lines outside any computation that are plainly no HLO: those that a log has around a module.

A log holds modules between lines of its own. Such a line is passed over and counted; it is no gap,
for nothing of the module is lost with it. What might be a part of the module that is damaged stays
a gap: a line with anything that only HLO has (names with ``%``, shapes, attributes, rows of the
stack frame tables), and all lines after an instruction that stands in no computation, up to the
brace: they are a body whose first line is lost. A module without any computation has no lines of
others: all that was not read of it are gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.syntax.hlo.patterns import INSTRUCTION_LIKE, LINE_START
from hlo_lens.text.lazy_pattern import LazyPattern

if TYPE_CHECKING:
    from collections.abc import Iterator

_ATTRIBUTES = (
    "backend_config|body|branch_computations|calls|called_computations|channel_id|condition"
    "|control-predecessors|custom_call_target|dimensions|entry_computation_layout|frontend_attributes"
    "|input_output_alias|is_scheduled|known_trip_count|metadata|num_partitions|operand_layout\\w*"
    "|replica_count|replica_groups|sharding|slice_sizes|source_target_pairs|stack_frame_id|to_apply"
)
_TYPE = r"(?:pred|token|opaque|bf16|[suf]\d{1,3}|f8\w{1,20}|f4\w{1,10}|c64|c128)"
_SIGN = LazyPattern(
    rf"(?<![\w%.])%[A-Za-z_][\w.-]*+|(?<![\w.]){_TYPE}\[[\d,<=? ]*+(?:\]|\Z)"
    rf"|\b(?:{_ATTRIBUTES})=[{{\"%\d]"
    r"|\bis_scheduled=true|\breplica_groups=(?:\[|mesh)|\bto_apply=[\w%]"
    r"|\A\s*+(?:ENTRY|ROOT)\b|\A\s*+(?i:hlomodul)|\A\s*+\d++ (?:\"|\{[a-z_]++=)"
    r"|\A\s*+(?:FileNames|FunctionNames|FileLocations|StackFrames)\s*+\Z"
)
"""What a line of HLO has, whole or damaged."""

_PROSE = LazyPattern(
    r"\s*+(?:(?!(?:ENTRY|ROOT|HloModule)\b)"
    r"(?:[A-Za-z][a-z']*+ ++[A-Za-z][a-z']*+(?=[ ,.:;!?']|\Z)(?! *+(?:[=(]|-> ))"
    r"|[A-Za-z][A-Za-z ]*+:(?=\s|\Z))|\[[A-Za-z ]++\] |[(\[]?\d[\d.]*+[)\]:] )"
)
"""How sentences, labels and items of lists begin, and no line of HLO."""

_OTHER_IR = LazyPattern(
    r"\s*+(?:(?:%[\w:, ]++= )?\"?(?:stablehlo|mhlo|chlo|vhlo|sdy|func|arith|mpmd)\."
    r"|module @|return %|#\w++ = |#loc\b|(?:\w++:\w++\[[^\]\n]*+\] ?)++= |\{ lambda )"
)
"""How lines of MLIR and of JAX's own programs begin."""

_PLAIN_LINES = LazyPattern(
    r"(?:(?!\s*+(?:(?:ENTRY|ROOT|FileNames|FunctionNames|FileLocations|StackFrames)\b"
    r"|(?i:hlomodul)))"
    r"(?![ \t]*+\d++ \")[^\n%\[={}\0]*+\n)++"
)
"""Lines without a character that a sign needs, many at once."""

_LOOKED_AT = 1 << 12
"""How many characters of a line are looked at for a sign."""

_INDENT = 1 << 8
"""How far a line of others may be indented."""

_BODY = 1 << 9
"""How many characters after a brace are looked at for a sign."""


def is_foreign(line: str) -> bool:
    """Return whether a line that stands outside any computation is plainly no HLO."""
    if _OTHER_IR.match(line) is not None or _PROSE.match(line) is not None:
        return True
    return _SIGN.search(line) is None and "\0" not in line


def line_is_foreign(text: str, position: int, end: int) -> bool:
    """Return whether a line is plainly no HLO, of which a place and its end are given."""
    return begins_line(text, position) and is_foreign(
        text[position : min(end, position + _LOOKED_AT)]
    )


def begins_line(text: str, position: int) -> bool:
    """Return whether nothing but white space stands before a place in its line."""
    before = text[max(0, position - _INDENT) : position].rstrip(" \t")
    return before.endswith("\n") or (not before and position < _INDENT)


def follows_directly(text: str, position: int) -> bool:
    """Return whether a line that starts nothing stands at a place, below one that is not blank."""
    before = text[max(0, position - _INDENT) : position].rstrip(" \t")
    first = position - (len(text[max(0, position - _INDENT) : position]) - len(before))
    return (
        position < len(text)
        and text[position] != "\n"
        and not before[:-1].rstrip(" \t").endswith("\n")
        and LINE_START.match(text, first) is None
    )


def has_body(text: str, position: int, *, named: bool) -> bool:
    """Return whether instructions may follow on a brace; or nothing, where a name is before it."""
    if not named and INSTRUCTION_LIKE.match(text, position) is None:
        return False
    close = text.find("\n}", position, position + _BODY)
    body = text[position : position + _BODY if close < 0 else close]
    return _SIGN.search(body) is not None or not body.strip() or body[0] == "}"


class ForeignLines:
    """Tells lines of others from lines of HLO; knows which braces others have opened."""

    def __init__(self) -> None:
        self._open = 0

    def runs(
        self, text: str, position: int, end: int, *, headless: bool
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield start, end and whether it is foreign of each run of lines, in order.

        Args:
            text: The text.
            position: Where the first line begins.
            end: Where the last one ends.
            headless: Whether the first line is an instruction in no computation: what follows it
                directly is its own.
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
        """Return whether a line is foreign; a brace is that closes one of a foreign line."""
        if not is_foreign(line) or (not self._open and line.lstrip().startswith("}")):
            return False
        self._open = max(0, self._open + line.count("{") - line.count("}"))
        return True
