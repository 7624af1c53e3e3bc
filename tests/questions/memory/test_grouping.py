"""Bytes alive at one instant in groups, and as a tree of scopes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hlo_lens.questions.memory.grouping import MemoryBy, memory_by, memory_tree
from tests.questions.memory.layouts import peak_of_program


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("source", {"f.py:7": 16, "[parameters]": 8, "[unattributed]": 8}),
        ("opcode", {"negate": 16, "parameter": 8, "[unattributed]": 8}),
        ("category", {"temp": 24, "argument": 8}),
        ("param", {"0: params['a/b']": 8, "[not an argument]": 24}),
    ],
)
def test_groups_sum_to_the_peak(by: str, groups: dict[str, int]) -> None:
    peak = peak_of_program()
    found = memory_by(peak, by)
    assert {one.group: one.size_bytes for one in found.groups} == groups
    assert sum(groups.values()) == found.total_bytes == peak.total_bytes


def test_tree_joins_scopes_that_do_not_fork() -> None:
    tree = memory_tree(memory_by(peak_of_program(), "op"))
    assert [(row["depth"], row["scope"], row["size_bytes"]) for row in tree.objects()] == [
        (0, "jit(f)/while/body/neg", 16),
        (0, "[parameters]", 8),
        (0, "[unattributed]", 8),
    ]


def test_paths_keep_pytree_keys_whole() -> None:
    peak = peak_of_program()
    argument = next(one for one in memory_by(peak, "param").groups if one.group[0] == "0")
    paths = argument._replace(group="jit(f)/params['a/b']/add"), argument
    tree = memory_tree(MemoryBy(by="op", total_bytes=16, groups=paths))
    assert [one.scope for one in tree.scopes] == ["0: params['a/b']", "jit(f)/params['a/b']/add"]


@pytest.mark.parametrize("by", ["op", "source", "stack"])
def test_results_without_a_line_are_a_group_of_their_own(by: str) -> None:
    peak = peak_of_program()
    kept = tuple(
        one._replace(category="output") if one.category == "temp" else one for one in peak.live
    )
    found = memory_by(replace(peak, live=kept), by)
    sizes = {one.group: one.size_bytes for one in found.groups}
    assert sizes["[results]"] == 8
    assert "[unattributed]" not in sizes
    assert len(sizes) == 3, "results with a label keep it"
    assert not found.is_unattributed
    assert found.totals()["size_bytes"] == peak.total_bytes
