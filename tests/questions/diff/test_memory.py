"""Memory changes as text and tables."""

from __future__ import annotations

import dataclasses

from hlo_lens.questions.diff.memory import MemoryDiff, memory_diff
from hlo_lens.questions.diff.page import memory_facts, statement_tables
from hlo_lens.questions.diff.pairs import Delta
from hlo_lens.questions.memory.statement import SpaceFacts
from tests.snapshots import FACTS, MEMORY, group, module, peak


def _diff(*, hbm: int = 0, flags: int = 0) -> MemoryDiff:
    """Return a diff in which HBM and sync flags grow."""
    sides = []
    for more_hbm, more_flags in ((0, 0), (hbm, flags)):
        spaces = (
            SpaceFacts(color=0, name="HBM", total_bytes=(1 << 20) + more_hbm),
            SpaceFacts(color=4, name="sync flags", total_bytes=512 + more_flags),
        )
        memory = dataclasses.replace(MEMORY, total_bytes=(1 << 20) + more_hbm, spaces=spaces)
        peaks = tuple(
            dataclasses.replace(
                peak(group(size_bytes=space.total_bytes)), color=space.color, name=space.name
            )
            for space in spaces
        )
        sides.append(module(facts=dataclasses.replace(FACTS, memory=memory), peaks=peaks))
    found = memory_diff(*sides)
    assert found is not None
    return found


def test_small_spaces_are_one_line_after_the_default_one() -> None:
    facts = list(memory_facts(_diff(hbm=1 << 19, flags=4)))
    assert facts == [
        ("memory", "total 1.00MiB -> 1.50MiB, +512.0KiB (+50%)"),
        ("peak", "1.00MiB -> 1.50MiB, +512.0KiB (+50%)"),
        ("small spaces", "sync flags 512B -> 516B, +4B (+0.78%)"),
    ]


def test_figures_of_small_spaces_are_in_data_only() -> None:
    text, data = statement_tables(_diff(hbm=1 << 19, flags=4))
    assert [row[0] for row in text.read_rows()] == ["total_bytes"]
    assert text.notes[-1] == "1 figure of small spaces not shown"
    assert "spaces[sync flags].total_bytes" in [row[0] for row in data.read_rows()]
    assert (text.is_text_only, data.is_data_only) == (True, True)


def test_the_total_of_the_default_space_is_shown_once() -> None:
    text, data = statement_tables(_diff(hbm=1 << 19))
    assert [row[0] for row in text.read_rows()] == ["total_bytes"]
    assert [row[0] for row in data.read_rows()] == ["total_bytes"]


def test_text_leaves_out_the_name_of_the_default_space_and_data_has_it() -> None:
    diff = _diff(hbm=1 << 19)
    metrics = {**diff.metrics, "spaces[HBM].peak_bytes": Delta(1, 2)}
    text, data = statement_tables(dataclasses.replace(diff, metrics=metrics))
    assert [row[0] for row in text.read_rows()][-1] == "peak_bytes"
    assert [row[0] for row in data.read_rows()][-1] == "spaces[HBM].peak_bytes"


def test_estimates_are_marked() -> None:
    diff = dataclasses.replace(_diff(hbm=1 << 19), base_source="estimate")
    assert ("memory", "total ~ 1.00MiB -> 1.50MiB, +512.0KiB (+50%)") in list(memory_facts(diff))
    text, _ = statement_tables(diff)
    assert text.title == "Memory of one device, base estimated"
