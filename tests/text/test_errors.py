"""Errors: fields, exit codes, and printed form."""

from __future__ import annotations

import pytest

from hlo_lens.text import errors as errors
from hlo_lens.text.errors import DumpSyntaxError, Gap, show_excerpt, show_gaps
from hlo_lens.text.source import Source, Span


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("UsageError", 2),
        ("UnknownNameError", 2),
        ("UnreadableError", 3),
        ("MissingDumpError", 3),
        ("DumpSyntaxError", 4),
        ("DumpMismatchError", 4),
        ("BrokenInstallError", 70),
    ],
)
def test_exit_codes_are_those_of_the_house(name: str, code: int) -> None:
    assert getattr(errors, name).exit_code == code


# ---- one error ----------------------------------------------------------------------------------


def test_error_is_shown_as_file_line_column_message_and_excerpt() -> None:
    source = Source("first\n  add.3{}:x-9\n", "module_0001.jit_f.live-range.txt")
    start = source.text.index("x-9")
    error = DumpSyntaxError.at(source, Span(start, start + 1), "expected a number, found 'x'")
    assert str(error) == (
        "module_0001.jit_f.live-range.txt:2:11: error: expected a number, found 'x'\n"
        "      add.3{}:x-9\n"
        "              ^"
    )
    assert (error.path, error.line, error.column) == ("module_0001.jit_f.live-range.txt", 2, 11)
    assert error.message == "expected a number, found 'x'"


def test_message_holds_nothing_that_a_terminal_does_not_show() -> None:
    error = DumpSyntaxError("found '\0\x1b[31m\u202e'")
    assert error.message == r"found '\x00\x1b[31m\u202e'"
    assert error.message in str(error)


# ---- gaps ---------------------------------------------------------------------------------------


def test_gap_is_shown_like_the_error_that_it_becomes() -> None:
    gap = Gap(path="f", line=3, column=5, message="expected x", excerpt="    abcde\n        ^")
    error = gap.as_error()
    assert str(gap) == str(error) == "f:3:5: error: expected x\n    abcde\n        ^"
    assert (error.path, error.line, error.column) == ("f", 3, 5)
    assert (error.message, error.excerpt) == (gap.message, gap.excerpt)


@pytest.mark.parametrize(
    ("count", "shown", "rest"), [(0, 0, ""), (20, 20, ""), (23, 20, "[3 more]")]
)
def test_first_gaps_are_shown_and_the_rest_is_counted(count: int, shown: int, rest: str) -> None:
    gaps = [Gap(path="f", line=k + 1, column=1, message="expected x") for k in range(count)]
    lines = show_gaps(gaps).splitlines()
    assert sum(": error: " in line for line in lines) == shown
    assert [line for line in lines if ": error: " not in line] == [rest] * bool(rest)


# ---- excerpts -----------------------------------------------------------------------------------


def shown(text: str, start: int, end: int) -> list[str]:
    """Return the lines of an excerpt, without the indentation of four."""
    lines = show_excerpt(Source(text), Span(start, end)).split("\n")
    assert all(line.startswith("    ") for line in lines)
    return [line[4:] for line in lines]


@pytest.mark.parametrize(
    ("text", "start", "end", "line", "carets"),
    [
        ("abcdef", 2, 4, "abcdef", "  ^^"),
        ("abcdef", 0, 6, "abcdef", "^^^^^^"),
        ("abcdef", 6, 6, "abcdef", "      ^"),
        ("abcdef", 6, 9, "abcdef", "      ^"),
        ("ab\ncdef\ngh", 4, 6, "cdef", " ^^"),
        ("ab\ncdef\ngh", 5, 9, "cdef", "  ^^"),
        ("ab\n\ncd", 3, 4, "", "^"),
        ("", 0, 0, "", "^"),
        ("\tab", 1, 2, " ab", " ^"),
        ("a\0b", 2, 3, "a\N{REPLACEMENT CHARACTER}b", "  ^"),
    ],
)
def test_carets_stand_under_the_span_to_the_end_of_its_line(
    text: str, start: int, end: int, line: str, carets: str
) -> None:
    assert shown(text, start, end) == [line, carets]
