"""The table of attribute forms has the attributes of the grammar."""

from __future__ import annotations

import re

from hlo_lens.grammar.files import grammar_text
from hlo_lens.hlo.attributes import FORMS, KNOWN

_TERMINAL = re.compile(r"^[A-Z_]+_IS\.3: (?:\"([\w-]+)=\"|/(\w*)\(\?:([\w|-]+)\)=/)$", re.MULTILINE)

PARSED = {"sharding", "replica_groups", "entry_computation_layout", "literal"}
"""Attributes whose values are parsed instead of matched."""


def test_grammar_and_table_have_the_same_attributes() -> None:
    names: set[str] = set()
    text = grammar_text("hlo_module")
    for name, prefix, endings in _TERMINAL.findall(text):
        names |= {name} if name else {prefix + ending for ending in endings.split("|")}
    assert len(_TERMINAL.findall(text)) == text.count("_IS.3: ")
    assert names == set(FORMS) | PARSED
    assert names <= KNOWN
