"""Subtrees that occur more than once."""

from __future__ import annotations

from hlo_lens.call_trees.repeats import call_tree_repeats, subtree_shapes
from tests.call_trees.trees import tree_of


def test_equal_subtrees_are_found_below_different_callers() -> None:
    tree = tree_of("""
main
  a
    x
      y
      y
  b
    x
      y
      y
  x
    y
""")
    found = call_tree_repeats(tree, subtree_shapes(tree)).found
    assert [(row[0], row[1], row[3], row[5]) for row in found] == [(2, 3, "x", 3)]


def test_subtree_that_only_repeats_inside_a_repeated_one_is_left_out() -> None:
    tree = tree_of("""
main
  x
    y
      z
      z
  x
    y
      z
      z
""")
    found = call_tree_repeats(tree, subtree_shapes(tree)).found
    assert [(row[0], row[1], row[3]) for row in found] == [(2, 4, "x")]
