"""Line rules: regular expressions made from a grammar, and Lark on the same rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.grammar import files, lines
from hlo_lens.grammar.lines import LineParser, LineRule, terminal
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CACHES = (files.grammar_text, lines.definitions, lines.terminal, lines.space)

GRAMMAR = r"""
// Notes that are no notes for a line: //| is at the start of a line.
//|  box 3: <a{1,0}> red, size 4
//|  box 3: <a>, deep (x (y)), big
box: _BOX NUMBER ":" "<" NAME [index] ">" [COLOR] ("," _word)*
_word: _SIZE SIZE | DEEP
    | _DEPTH nested
index: "{" [NUMBER ("," NUMBER)*] "}"
//~ /\([^\n,]*\)/
nested: "(" (NAME | nested)* ")"
//|
//|  - a{1}
line: "-" NAME [index]
list: line*
//? /plain \w/
plain: NAME NAME

_BOX: "box"
_SIZE: "size"
_DEPTH: "deep"
DEEP: "big"
COLOR: "red" | "green"  // one of two
SIZE: NUMBER
NUMBER: /\d{1,9}+(?!\d)/
NAME: /[a-z]+/
SLASH: /\/[*]?/i
PAIR: NUMBER ("x" NUMBER)+
WHITESPACE: /[ \n]+/
%ignore WHITESPACE
"""


@pytest.fixture(autouse=True)
def _grammar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "boxes.lark").write_text(GRAMMAR)
    monkeypatch.setattr(files, "grammar_folder", lambda: tmp_path)
    for cached in CACHES:
        cached.cache_clear()
    yield
    for cached in CACHES:
        cached.cache_clear()


def parts(rule: LineRule, text: str) -> dict[str, str]:
    """Return the texts of the groups of a line that are there."""
    match = rule.match(text, 0)
    assert match is not None
    spans = LineParser("boxes", rules=[rule], names={}).spans(rule, Source(text), 0, len(text))
    assert match.regs[1:] == spans[1:]
    return {n: text[slice(*spans[k])] for n, k in rule.groups.items() if spans[k][0] >= 0}


def test_each_named_terminal_outside_repetitions_has_a_group() -> None:
    rule = LineRule("box", "boxes")
    assert list(rule.groups) == ["NUMBER", "NAME", "index", "COLOR"]
    assert parts(rule, "  box 3: <a{1,0}> green, size 4, deep (p (q))\n") == {
        "NUMBER": "3",
        "NAME": "a",
        "index": "{1,0}",
        "COLOR": "green",
    }
    assert parts(rule, "  box 3: <a>") == {"NUMBER": "3", "NAME": "a"}


@pytest.mark.parametrize("text", [" box 3: <a>\n", "  box 3:<a>\n", "  box 3: <a> \n", "  box x"])
def test_only_the_layout_of_the_examples_matches(text: str) -> None:
    assert LineRule("box", "boxes").match(text, 0) is None


def test_lark_reads_another_layout_or_names_the_error() -> None:
    rule = LineRule("box", "boxes")
    parser = LineParser("boxes", rules=[rule], names={"NUMBER": "a number"})
    text = "head box   3:<a  {1}>"
    spans = parser.spans(rule, Source(text), 5, len(text))
    assert [text[slice(*span)] for span in spans] == ["box   3:<a  {1}>", "3", "a", "{1}", ""]
    with pytest.raises(DumpSyntaxError, match="expected a number, found 'x'") as caught:
        parser.spans(rule, Source("head box x"), 5, 10)
    assert caught.value.column == 10


def test_items_of_a_list_are_read_by_pattern_or_by_lark() -> None:
    rule = LineRule("line", "boxes", is_line=False)
    parser = LineParser("boxes", rules=[], names={})
    for text in ("\n  - a{1}\n  - b", "- a {1} -b"):
        items = parser.items("list", rule, text)
        assert [text[slice(*name)] for _, name, _ in items] == ["a", "b"]


def test_a_rule_is_known_by_its_first_token_or_its_sign() -> None:
    assert LineRule("box", "boxes").begins.match("   boxes")
    plain = LineRule("plain", "boxes")
    assert plain.begins.match("plain a")
    assert not plain.begins.match("other a")


def test_many_lines_match_at_once() -> None:
    block = LineRule("line", "boxes").block
    match = block.match("\n  - a\n\n  - b\n\n  = c\n")
    assert match is not None
    assert match[0] == "\n  - a\n\n  - b\n"


def test_terminals_are_regular_expressions() -> None:
    assert terminal("COLOR", "boxes") == "(?:red|green)"
    assert terminal("SLASH", "boxes") == "(?i:/[*]?)"
    assert terminal("SIZE", "boxes") == r"\d{1,9}+(?!\d)"
    assert terminal("PAIR", "boxes") == r"(?:\d{1,9}+(?!\d))(?:x(?:\d{1,9}+(?!\d)))+"


def test_a_recursive_rule_without_a_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "boxes.lark").write_text(GRAMMAR.replace("//~", "// "))
    for cached in CACHES:
        cached.cache_clear()
    with pytest.raises(ValueError, match="nested is recursive"):
        LineRule("box", "boxes").match("", 0)
