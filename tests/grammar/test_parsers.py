"""Lark's exceptions as ours."""

from __future__ import annotations

import pytest
from lark import Lark
from lark.exceptions import UnexpectedInput

from hlo_lens.grammar.parsers import parse_with, syntax_error
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source

WORDS = Lark(
    """
    start: (A | B | C | D | E)+ "." -> all
    A: "a"
    B: "b"
    C: "c"
    D: "d"
    E: "e"
    %ignore " "
    %ignore "\\n"
    """,
    parser="lalr",
)


def error_of(text: str, names: dict[str, str]) -> DumpSyntaxError:
    with pytest.raises(DumpSyntaxError) as caught:
        parse_with(WORDS, Source(text), names)
    return caught.value


def test_at_most_four_alternatives_are_named_the_authors_first() -> None:
    error = error_of("?", {"E": "an e", "D": "a d"})
    assert error.message == "expected an e, a d, 'a' or 'b', found '?'"


def test_the_end_is_after_the_last_word() -> None:
    error = error_of("a\nb \n", {})
    assert (error.line, error.column) == (2, 2)
    assert error.message.endswith("found the end")


def test_long_words_are_shortened() -> None:
    error = error_of("a " + "z" * 100, {})
    assert error.message.endswith(f"found '{'z' * 29}...'")
    assert error.column == 3


def test_the_place_may_be_in_a_larger_text() -> None:
    source = Source("first\n  a ?", "dump.txt")
    with pytest.raises(UnexpectedInput) as caught:
        WORDS.parse("a ?")
    error = syntax_error(caught.value, source, {}, offset=8, end=len(source.text))
    assert (error.path, error.line, error.column) == ("dump.txt", 2, 5)
