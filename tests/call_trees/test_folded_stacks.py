"""Folded stacks of a call tree."""

from __future__ import annotations

import pytest

from hlo_lens.call_trees.folded_stacks import folded_stacks
from hlo_lens.text.errors import UsageError
from tests.call_trees.trees import chain, tree_of


def test_folded_stacks_merge_equal_stacks_and_escape_semicolons() -> None:
    tree = tree_of("""
main
  a;b, x.py:3
    g
  a;b, x.py:3
    g
    h
""")
    assert list(folded_stacks(tree)) == [
        "main 1",
        "main;a:b, x.py:3 2",
        "main;a:b, x.py:3;g 2",
        "main;a:b, x.py:3;h 1",
    ]
    assert list(folded_stacks(tree, depth=2)) == ["main 1", "main;a:b, x.py:3 5"]


def test_folded_stacks_of_a_deep_tree_are_refused_unless_cut() -> None:
    deep = chain(100_000)
    with pytest.raises(UsageError, match="--depth"):
        folded_stacks(deep)
    assert list(folded_stacks(deep, depth=2)) == ["f, a.py:1 1", "f, a.py:1;f, a.py:1 99999"]
