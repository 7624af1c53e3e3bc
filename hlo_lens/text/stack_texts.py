"""Texts of profilers that draw no branches: folded stacks, stacks of threads, and tables.

Folded stacks are those of Brendan Gregg's FlameGraph, `py-spy record -f raw` and torch.profiler's
export_stacks; stacks of threads those of `py-spy dump` and Python's faulthandler.
"""

from __future__ import annotations

import re
from itertools import islice

from hlo_lens.text.lazy_pattern import lazy_pattern

THREAD_LINE = lazy_pattern(
    r"^(?:Current thread|Thread) (?:0x)?[0-9A-Fa-f]+ "
    r"(?:\([a-z+]+\)(?:: \"[^\n]*\")?|(?:\[[^\]\n]*\] )?\(most recent call first\):)[ \t]*$",
    re.MULTILINE,
)
"""Head of the stack of a thread: by py-spy, or by faulthandler."""

_TABLE = lazy_pattern(
    r"^[ \t]*ncalls[ \t]+tottime[ \t]+percall[ \t]+cumtime[ \t]+percall[ \t]|"
    r"^[ \t]*Name[ \t]+Self C[PU]{2} %[ \t]|^[ \t]*Line #[ \t]+Hits[ \t]+Time[ \t]|"
    r"^Function[ \t]+(?:was called by|called)\.\.\.|^name[ \t]+ncall[ \t]+tsub[ \t]",
    re.MULTILINE,
)
"""Heading of a table of cProfile, torch.profiler, line_profiler or yappi."""

COMMENT = "#"
"""Beginning of lines between folded stacks that are none, as austin prints them."""

_LINES_TRIED = 64
_LONGEST_AMOUNT = 18
_BRANCH_LINE = lazy_pattern(
    r"(?:[ \t]|\|(?!-))*[|+`\\]-{1,4}[ \t]?[^\s|+`\\-][^\n]*$", re.MULTILINE
)
_TEXT_LINE = lazy_pattern(r"^[^\n]*\S[^\n]*$", re.MULTILINE)


def folded_stack(line: str) -> tuple[str, int] | None:
    """Return the stack of a line, functions separated by semicolons, and its amount."""
    stack, blank, amount = line.strip().rpartition(" ")
    is_number = amount.isdecimal() and amount.isascii() and len(amount) <= _LONGEST_AMOUNT
    return (stack.rstrip(), int(amount)) if blank and is_number else None


def is_folded(text: str) -> bool:
    """Whether the first lines of a text are folded stacks, one of them of two functions."""
    lines = [line[0] for line in islice(_TEXT_LINE.finditer(text), _LINES_TRIED)]
    lines = [line for line in lines if not line.startswith(COMMENT)]
    if not all(folded_stack(line) for line in lines):
        return False
    return any(";" in line for line in lines)


def has_threads(text: str) -> bool:
    """Whether a text has the stack of a thread."""
    return THREAD_LINE.search(text) is not None


def is_profile_table(text: str) -> bool:
    """Whether a text has a table of functions without their callers."""
    return _TABLE.search(text) is not None


def is_plain_tree(text: str) -> bool:
    """Whether at least two lines, and half of the first ones, have a branch in ASCII."""
    lines = [line[0] for line in islice(_TEXT_LINE.finditer(text), _LINES_TRIED)]
    branches = sum(_BRANCH_LINE.match(line) is not None for line in lines)
    return branches >= 2 and 2 * branches >= len(lines)
