"""Groups, outlines and folded stacks of call trees, and places of functions."""

from __future__ import annotations

import pytest

from hlo_lens.call_trees.facts import (
    OTHERS,
    call_tree_by,
    call_tree_outline,
    communication_paths,
    folded_stacks,
)
from hlo_lens.call_trees.page import TitledTree, TreeView, outline_drawing
from hlo_lens.call_trees.tree import CallFrame, Places
from hlo_lens.text.errors import UsageError
from tests.call_trees.trees import TREE, chain, tree_of


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


XYZ = "  x\n    y\n      z\n      z\n"


def test_outline_shows_the_largest_and_counts_the_rest() -> None:
    outline = call_tree_outline(TREE, lines=3)
    assert [(line.node, line.depth, line.times, line.total) for line in outline] == [
        (0, 0, 1, 8),
        (1, 1, 1, 4),
        (2, 2, 1, 1),
        (3, 2, 1, 2),
        (OTHERS, 1, 3, 3),
    ]
    whole = list(call_tree_outline(TREE))
    assert sum(line.own for line in whole) == 8
    assert [line.times for line in whole] == [1, 1, 1, 1, 1, 1, 2]
    assert max(line.depth for line in call_tree_outline(TREE, depth=2)) == 1


def test_folded_stacks_merge_equal_stacks_and_escape_semicolons() -> None:
    tree = tree_of("main\n  a;b, x.py:3\n    g\n  a;b, x.py:3\n    g\n    h\n")
    assert folded_stacks(tree) == [
        "main 1",
        "main;a:b, x.py:3 2",
        "main;a:b, x.py:3;g 2",
        "main;a:b, x.py:3;h 1",
    ]
    assert folded_stacks(tree, depth=2) == ["main 1", "main;a:b, x.py:3 5"]


def test_thirty_thousand_levels() -> None:
    deep = chain(30_000)
    assert call_tree_by(deep).groups[0].total == 30_000
    titled = TitledTree(tree=deep, title="t", view=TreeView(lines=0))
    assert sum(1 for _ in outline_drawing(titled)) == 30_001
    assert communication_paths(deep).found == ()
    with pytest.raises(UsageError, match="--depth"):
        folded_stacks(deep)
    assert folded_stacks(deep, depth=2) == ["f, a.py:1 1", "f, a.py:1;f, a.py:1 29999"]


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
def test_files_are_relative_to_the_program(
    file: str | None, shown: str | None, package: str
) -> None:
    frame = CallFrame(function="f", file=file, line=1)
    others = (
        CallFrame(function="a", file="/home/me/p/x/a.py"),
        CallFrame(function="b", file="/home/me/p/b.py"),
    )
    places = Places((frame, *others))
    assert (places.file(frame), places.package(frame)) == (shown, package)
