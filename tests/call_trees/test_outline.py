"""Largest nodes of a call tree."""

from __future__ import annotations

from hlo_lens.call_trees.outline import OTHERS, call_tree_outline
from hlo_lens.call_trees.repeats import subtree_shapes
from tests.call_trees.trees import TREE


def test_outline_shows_the_largest_and_counts_the_rest() -> None:
    outline = call_tree_outline(TREE, subtree_shapes(TREE), lines=3)
    assert [(line.node, line.depth, line.times, line.total) for line in outline.lines] == [
        (0, 0, 1, 8),
        (1, 1, 1, 4),
        (2, 2, 1, 1),
        (3, 2, 1, 2),
        (OTHERS, 1, 3, 3),
    ]


def test_outline_of_all_nodes_has_the_whole_tree() -> None:
    outline = call_tree_outline(TREE, subtree_shapes(TREE))
    assert sum(line.own for line in outline.lines) == 8
    assert [line.times for line in outline.lines] == [1, 1, 1, 1, 1, 1, 2]
    assert (
        max(line.depth for line in call_tree_outline(TREE, subtree_shapes(TREE), depth=2).lines)
        == 1
    )
