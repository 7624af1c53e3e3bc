"""Call trees: sums, groups, repeats, outline, folded stacks; all without recursion."""

from __future__ import annotations

import pytest

from hlo_lens.analysis.call_trees.communication_paths import communication_paths
from hlo_lens.analysis.call_trees.difference import call_tree_diff
from hlo_lens.analysis.call_trees.folded_stacks import folded_stacks
from hlo_lens.analysis.call_trees.grouping import call_tree_by
from hlo_lens.analysis.call_trees.outline import OTHERS, call_tree_outline
from hlo_lens.analysis.call_trees.repeats import call_tree_repeats, subtree_shapes
from hlo_lens.analysis.call_trees.source_files import Places
from hlo_lens.model.call_tree import CallFrame
from hlo_lens.report.call_trees.drawing import outline_drawing
from hlo_lens.syntax.call_trees.drawn_trees import parse_call_trees
from hlo_lens.text.errors import UsageError
from tests.analysis.call_trees.trees import chain, tree_of

TREE = tree_of("""
main, /w/train.py:1
  f, /w/lib/a.py:1
    g, /w/lib/a.py:9
    f, /w/lib/a.py:1
      g, /w/lib/a.py:9
  f, /w/lib/a.py:1
  h, /w/site-packages/numpy/core/x.py:3
  h, /w/site-packages/numpy/core/x.py:3
""")


def test_recursion_counts_once_in_the_amount_with_all_below() -> None:
    rows = {row[5]: row[:5] for row in call_tree_by(TREE).rows()}
    assert rows["f"] == (3, 5, 5 / 8, 3, 1)
    assert rows["g"] == (2, 2, 2 / 8, 2, 1)
    assert rows["main"] == (1, 8, 1.0, 1, 0)


def test_groups_of_files_and_packages_sum_to_the_tree() -> None:
    for by in ("function", "file", "package"):
        found = call_tree_by(TREE, by)
        assert sum(group.own for group in found.groups) == 8
        assert found.totals() == {"own": 8, "nodes": 8}
    packages = {g.package: (g.own, g.total) for g in call_tree_by(TREE, "package").groups}
    assert packages == {"lib": (5, 5), "numpy/core": (2, 2), ".": (1, 8)}
    files = [g.file for g in call_tree_by(TREE, "file", sort="total").groups]
    assert files == ["train.py", "lib/a.py", "numpy/core/x.py"]


@pytest.mark.parametrize(
    ("file", "shown", "package"),
    [
        ("/home/me/p/x/a.py", "x/a.py", "x"),
        ("/home/me/p/train.py", "train.py", "."),
        ("/v/lib/python3.11/site-packages/torch/nn/m.py", "torch/nn/m.py", "torch/nn"),
        ("/usr/lib/python3.11/threading.py", "python/threading.py", "python"),
        ("<frozen importlib._bootstrap>", "python/importlib._bootstrap", "python"),
        ("<string>", "<string>", "<string>"),
        (None, None, "[no file]"),
    ],
)
def test_files_are_told_relative_to_the_program(
    file: str | None, shown: str | None, package: str
) -> None:
    frame = CallFrame(function="f", file=file, line=1)
    others = (
        CallFrame(function="a", file="/home/me/p/x/a.py"),
        CallFrame(function="b", file="/home/me/p/b.py"),
    )
    places = Places((frame, *others))
    assert (places.file(frame), places.package(frame)) == (shown, package)


def test_equal_subtrees_are_found_wherever_they_are() -> None:
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
