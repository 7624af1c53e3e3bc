"""Bytes alive at one instant as a tree of scopes."""

from __future__ import annotations

from hlo_lens.analysis.memory.grouping import memory_by
from hlo_lens.analysis.memory.op_tree import memory_tree
from tests.analysis.memory.layouts import peak_of_program


def test_tree_joins_scopes_that_do_not_fork() -> None:
    tree = memory_tree(memory_by(peak_of_program(), "op"))
    assert [(row["depth"], row["scope"], row["size_bytes"]) for row in tree.objects()] == [
        (0, "jit(f)", 16),
        (1, "exp", 8),
        (1, "while/body/neg", 8),
        (0, "[parameters]", 8),
        (0, "[unattributed]", 8),
    ]
