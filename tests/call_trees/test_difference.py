"""Differences of two call trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings, strategies as st

from hlo_lens.call_trees.facts import CallChange, call_tree_diff
from tests.call_trees.trees import tree_of

if TYPE_CHECKING:
    from hlo_lens.call_trees.tree import CallTree

BASE = tree_of("""
main, /a/m.py:1
  f, /a/m.py:10
    g, /a/m.py:20
  f, /a/m.py:10
  old, /a/m.py:30
    g, /a/m.py:20
""")
HEAD = tree_of("""
main, /a/m.py:1
  new, /a/m.py:40
    g, /a/m.py:20
    g, /a/m.py:20
  f, /a/m.py:10
    g, /a/m.py:20
""")


def rows(changes: tuple[CallChange, ...]) -> list[tuple[str, str, float, float]]:
    return [(c.status, c.path, c.base, c.head) for c in changes]


def test_added_removed_and_changed() -> None:
    diff = call_tree_diff(BASE, HEAD)
    assert rows(diff.changes) == [
        ("added", "main > new", 0, 3),
        ("removed", "main > old", 2, 0),
        ("changed", "main > f", 2, 1),
    ]
    assert diff.totals() == {"delta": sum(c.delta for c in diff.changes)} == {"delta": 0}


def test_function_that_moved_in_its_file_is_the_same() -> None:
    moved = tree_of("""
main, /a/m.py:4
  f, /a/m.py:13
    g, /a/m.py:23
  f, /a/m.py:13
  old, /a/m.py:33
    g, /a/m.py:23
""")
    assert not call_tree_diff(BASE, moved).changes


def test_trees_of_two_checkouts_compare() -> None:
    text = "\nmain, {0}/m.py:1\n  f, {0}/lib/x.py:2\n"
    base, head = tree_of(text.format("/home/a")), tree_of(text.format("/home/b/c"))
    assert not call_tree_diff(base, head).changes


TREES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["f, a.py:1", "g, a.py:2", "f, a.py:9", "h"])),
    min_size=1,
    max_size=10,
).map(lambda nodes: tree_of("\n".join(_indented(nodes))))


def _indented(nodes: list[tuple[int, str]]) -> list[str]:
    lines, before = [], -1
    for depth, label in nodes:
        before = min(depth, before + 1)
        lines.append("  " * before + label)
    return lines


@settings(max_examples=150, deadline=None)
@given(TREES, TREES)
def test_diff_mirrors_and_sums(base: CallTree, head: CallTree) -> None:
    assert not call_tree_diff(base, base).changes
    there, back = call_tree_diff(base, head), call_tree_diff(head, base)
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    mirrored = sorted((turned[c.status], c.path, c.head, c.base) for c in back.changes)
    assert sorted(rows(there.changes)) == mirrored
    assert sum(c.delta for c in there.changes) == head.total - base.total
