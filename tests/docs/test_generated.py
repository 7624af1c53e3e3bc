"""Blocks that are made from the code are current; ``make docs`` rewrites them."""

from __future__ import annotations

import ast

import pytest

from hlo_lens.questions.findings.rule import all_rules
from tests.corpus import ROOT, WRITE
from tests.docs.documents import TOPICS, blocks, has_block, rewrite
from tests.docs.generated import GENERATORS, rooms, rules


@pytest.mark.parametrize("info", GENERATORS)
def test_block_is_current(info: str) -> None:
    text = GENERATORS[info]()
    (topic,) = [t for t in TOPICS if has_block(t, info)]
    if WRITE:
        rewrite(topic, lambda b: text if b.info == info else b.text)
    assert [b.text for b in blocks(topic) if b.info == info] == [text]


def test_words_of_rules_are_not_broken() -> None:
    words = {*rules().split()}
    for rule in all_rules():
        for text in rule.text.parts.values():
            assert {*text.split()} <= words, rule.code


def test_every_package_has_a_line_in_the_map() -> None:
    lines = rooms()
    for package in (ROOT / "hlo_lens").rglob("__init__.py"):
        name = package.parent.relative_to(ROOT / "hlo_lens").as_posix()
        if name != ".":
            docstring = ast.get_docstring(ast.parse(package.read_text("utf-8"))) or ""
            assert len(docstring.split()) > 2, name
            assert f"{name}/ " in lines
