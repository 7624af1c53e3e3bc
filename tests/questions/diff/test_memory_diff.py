"""Changes of memory: differences of two peaks, and their text and tables."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.memory import (
    FREE,
    MemoryDiff,
    PeakDiff,
    code_problem,
    memory_diff,
    peak_diff,
)
from hlo_lens.questions.diff.page import memory_facts
from hlo_lens.questions.diff.pairs import Delta
from hlo_lens.questions.memory.statement import SpaceFacts
from tests.snapshots import FACTS, MEMORY, group, module, peak

if TYPE_CHECKING:
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot


def _rows(diff: PeakDiff) -> list[tuple[str, int, str | None]]:
    return [(row.change, row.delta_bytes, row.shape) for row in diff.changed]


def test_groups_that_are_the_same_are_no_rows() -> None:
    diff = peak_diff(peak(group()), peak(group()))
    assert (diff.changed, diff.unchanged_groups, diff.delta_bytes) == ((), 1, 0)


def test_new_gone_and_grown_groups_sum_to_the_difference() -> None:
    base = peak(group(op_name="a"), group(op_name="b", values=2, size_bytes=200))
    head = peak(group(op_name="c", size_bytes=7), group(op_name="b", values=9, size_bytes=900))
    diff = peak_diff(base, head)
    assert _rows(diff) == [
        ("gone", -(4 << 20), "bf16[64,32768]"),
        ("grown", 700, "bf16[64,32768] x 2 -> bf16[64,32768] x 9"),
        ("new", 7, "bf16[64,32768]"),
    ]
    assert (
        sum(row.delta_bytes for row in diff.changed) == diff.delta_bytes == head.bytes - base.bytes
    )


def test_a_line_that_moved_is_the_same_group() -> None:
    assert not peak_diff(peak(group()), peak(group(source="moe.py:240"))).changed


def test_another_element_type_of_one_operation_is_one_row() -> None:
    head = group(shape="f32[64,32768]", size_bytes=8 << 20)
    rows = _rows(peak_diff(peak(group()), peak(head)))
    assert rows == [("grown", 4 << 20, "bf16[64,32768] -> f32[64,32768]")]


def test_a_space_of_one_side_is_compared_with_an_empty_one() -> None:
    assert _rows(peak_diff(None, peak(group()))) == [("new", 4 << 20, "bf16[64,32768]")]
    assert _rows(peak_diff(peak(group()), None)) == [("gone", -(4 << 20), "bf16[64,32768]")]


def test_the_peak_moves_with_the_operation_not_with_its_line() -> None:
    base = peak(group())
    assert not peak_diff(base, dataclasses.replace(base, source="moe.py:99")).has_moved
    assert peak_diff(base, dataclasses.replace(base, op_name="jit(f)/mul")).has_moved


def test_rows_include_other_allocated_bytes() -> None:
    rest = Delta(base=5, head=2)
    diff = peak_diff(peak(group()), peak(group(size_bytes=5 << 20)), rest=rest)
    assert [row[1:7] for row in diff.rows()] == [
        (1 << 20, 4 << 20, 5 << 20, "grown", "moe.py:212", "bf16[64,32768]"),
        (-3, 5, 2, "shrunk", None, None),
    ]
    assert [*diff.rows()][1][diff.place_of("op_name")] == FREE
    assert diff.row_count == 2
    assert diff.totals() == {"delta_bytes": (1 << 20) - 3}
    assert diff.delta_bytes == 1 << 20


def test_a_peak_and_a_sum_of_allocations_are_not_attributed() -> None:
    base, head = _module("buffer-assignment", 10), _module("buffer-assignment", 12)
    whole = dataclasses.replace(peak(group()), is_peak=False)
    diff = memory_diff(base, dataclasses.replace(head, peaks=(whole,)))
    assert diff is not None
    assert (diff.peaks, diff.unexplained) == ((), ("HBM",))


def _module(source: str, total: int) -> ModuleSnapshot:
    space = SpaceFacts(color=0, name="HBM", total_bytes=total)
    memory = dataclasses.replace(
        MEMORY, source=source, total_bytes=total, spaces=(space,), peak=None
    )
    return module(facts=dataclasses.replace(FACTS, memory=memory), peaks=(peak(group()),))


def test_an_estimate_is_not_compared_with_an_assignment_unless_forced() -> None:
    base, head = _module("estimate", 10), _module("buffer-assignment", 12)
    diff = memory_diff(base, head)
    assert diff is not None
    assert "the memory of the base is an estimate" in diff.problem
    assert diff.metrics["total_bytes"].to_dict() == {"base": 10, "head": 12, "delta": None}
    assert diff.peaks == ()
    forced = memory_diff(base, head, is_forced=True)
    assert forced is not None
    assert forced.metrics["total_bytes"].delta == 2


def test_spaces_of_a_few_bytes_come_last() -> None:
    flags = SpaceFacts(color=4, name="sync flags", total_bytes=512)
    vmem = SpaceFacts(color=6, name="VMEM", total_bytes=1 << 20)
    hbm = SpaceFacts(color=0, name="HBM", total_bytes=512)
    memory = dataclasses.replace(MEMORY, total_bytes=512, spaces=(hbm, flags, vmem))
    peaks = tuple(
        dataclasses.replace(
            peak(group(size_bytes=space.total_bytes)), color=space.color, name=space.name
        )
        for space in memory.spaces
    )
    side = module(facts=dataclasses.replace(FACTS, memory=memory), peaks=peaks)
    diff = memory_diff(side, side)
    assert diff is not None
    assert [one.space for one in diff.peaks] == ["HBM", "VMEM", "sync flags"]
    assert [one.space for one in diff.peaks if one.is_small] == ["sync flags"]


def test_totals_with_and_without_generated_code_are_not_compared() -> None:
    memory = dataclasses.replace(MEMORY, generated_code_bytes=50, total_bytes=250)
    base = module(facts=dataclasses.replace(FACTS, memory=MEMORY))
    head = module(facts=dataclasses.replace(FACTS, memory=memory))
    diff = memory_diff(base, head)
    assert diff is not None
    assert diff.metrics["total_bytes"].delta is None
    assert diff.metrics["spaces[HBM].total_bytes"].delta == 0
    assert "the total of the head has the generated code" in code_problem(base, head)
    assert code_problem(head, head) == ""


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


def test_small_spaces_are_not_listed() -> None:
    facts = list(memory_facts(_diff(hbm=1 << 19, flags=4)))
    assert facts == [("memory", "total 1.00MiB -> 1.50MiB, +512.0KiB (+50%)")]


def test_estimates_are_marked() -> None:
    diff = dataclasses.replace(_diff(hbm=1 << 19), base_source="estimate")
    assert ("memory", "total ~ 1.00MiB -> 1.50MiB, +512.0KiB (+50%)") in list(memory_facts(diff))
