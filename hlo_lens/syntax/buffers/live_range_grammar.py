"""The parser of lines of live ranges, and the names of its terminals for users."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from hlo_lens.syntax.buffers.lines import NAMES as LINE_NAMES
from hlo_lens.syntax.grammar.files import build_parser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lark import Lark

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
        *GRAMMARS,
        start=["scheduled", "buffer_live_range", "peak_value"],
        has_positions=True,
    )
