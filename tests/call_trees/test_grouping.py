"""Nodes of a call tree in groups."""

from __future__ import annotations

from hlo_lens.call_trees.grouping import call_tree_by
from tests.call_trees.trees import TREE


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
