"""Passes on deep call trees: none recurses."""

from __future__ import annotations

from hlo_lens.call_trees.communication_paths import communication_paths
from hlo_lens.call_trees.difference import call_tree_diff
from hlo_lens.call_trees.grouping import call_tree_by
from hlo_lens.call_trees.outline import call_tree_outline
from hlo_lens.call_trees.repeats import call_tree_repeats, subtree_shapes
from hlo_lens.call_trees.section import outline_drawing
from tests.call_trees.trees import chain


def test_all_passes_take_a_hundred_thousand_levels() -> None:
    deep = chain(100_000)
    shapes = subtree_shapes(deep)
    assert call_tree_by(deep).groups[0].total == 100_000
    assert call_tree_repeats(deep, shapes).found == ()
    outline = call_tree_outline(deep, shapes)
    assert len(outline.lines) == 100_000
    assert sum(1 for _ in outline_drawing(outline)) == 100_001
    assert communication_paths(deep).found == ()
    assert call_tree_diff(deep, chain(99_999)).totals() == {"delta": -1}
    assert len(deep.stack(99_999)) == 100_000
