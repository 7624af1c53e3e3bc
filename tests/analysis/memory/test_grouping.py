"""Bytes alive at one instant in groups, and as a tree of scopes."""

from __future__ import annotations

import pytest

from hlo_lens.analysis.memory.grouping import memory_by, memory_tree, split_op_name
from tests.analysis.memory.layouts import peak_of_program


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
    assert {name: size for name, size, _, _ in found.groups} == groups
    assert sum(groups.values()) == found.total_bytes == peak.total_bytes


def test_paths_keep_pytree_keys_whole() -> None:
    assert split_op_name("jit(f)/params['a/b']/add") == ("jit(f)", "params['a/b']", "add")


def test_tree_joins_scopes_that_do_not_fork() -> None:
    tree = memory_tree(memory_by(peak_of_program(), "op"))
    assert [(row["depth"], row["scope"], row["size_bytes"]) for row in tree.objects()] == [
        (0, "jit(f)/while/body/neg", 16),
        (0, "[parameters]", 8),
        (0, "[unattributed]", 8),
    ]
