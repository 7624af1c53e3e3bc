"""Lark and the line rules made from the grammars read the same examples."""

from __future__ import annotations

import re

import pytest

from hlo_lens.grammar.files import grammar_text
from hlo_lens.grammar.parsers import build_parser
from hlo_lens.logs.messages import MessageRule

FILES = ("buffer_log", "compiled_stats", "compiler_warnings", "out_of_memory")


def examples(file: str) -> list[tuple[str, str]]:
    """Return the rules of a grammar file with the text before each that is an example of it."""
    found = re.findall(r"((?:^//\|.*\n)+)(\w+):", grammar_text(file), re.MULTILINE)
    return [(name, re.sub(r"^//\|", "", text, flags=re.MULTILINE)) for text, name in found]


@pytest.mark.parametrize("file", FILES)
def test_the_grammar_reads_the_examples_of_its_rules(file: str) -> None:
    rules = examples(file)
    parser = build_parser("hlo_tokens", file, start=[name for name, _ in rules])
    assert rules
    for name, text in rules:
        rule, position = MessageRule(name, file), 0
        while text[position:].strip():
            read = rule.read(text, position)
            assert read is not None, (name, text[position:])
            whole = text[position : read[1]].strip()
            assert parser.parse(whole, start=name).data == name
            position = read[1] + text.startswith("\n", read[1])
