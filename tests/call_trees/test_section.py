"""Drawing of a call tree."""

from __future__ import annotations

from hlo_lens.call_trees.difference import call_tree_diff
from hlo_lens.call_trees.drawn_trees import parse_call_trees
from hlo_lens.call_trees.grouping import call_tree_by
from hlo_lens.call_trees.outline import call_tree_outline
from hlo_lens.call_trees.repeats import subtree_shapes
from hlo_lens.call_trees.section import outline_drawing
from tests.call_trees.trees import tree_of


def test_drawing_reads_back_as_the_same_tree() -> None:
    tree = tree_of("""
main, a.py:1
  f, a.py:2
    g, a.py:3
    g, a.py:3
  f, a.py:2
    g, a.py:3
    g, a.py:3
  h, a.py:4
""")
    drawing = list(outline_drawing(call_tree_outline(tree, subtree_shapes(tree))))
    text = "\n".join(line[14:] for line in drawing[1:])
    assert "x2" in text
    assert sum(line.own for line in call_tree_outline(tree, subtree_shapes(tree)).lines) == 8
    (read,) = parse_call_trees(text).trees
    again = list(outline_drawing(call_tree_outline(read, subtree_shapes(read))))
    assert again == drawing
    assert read.total == tree.total == 8
    assert call_tree_by(read).groups[0].own == call_tree_by(tree).groups[0].own == 4
    assert not call_tree_diff(tree, read).changes
