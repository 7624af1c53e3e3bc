"""What makes the difference of two peaks."""

from __future__ import annotations

from hlo_lens.analysis.diff.memory_diff import PeakDiff, memory_diff, peak_diff
from tests.compare.facts import REPORT, group, module, peak


def _rows(diff: PeakDiff) -> list[tuple[str, int, str]]:
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


def test_other_scopes_around_an_operation_are_no_change() -> None:
    base = group(op_name="jit(f)/while/body/closed_call/dot_general")
    head = group(op_name="jit(f)/while/body/eval_jaxpr/dot_general", source="moe.py:213")
    assert not peak_diff(peak(base), peak(head)).changed


def test_lines_of_one_operation_are_matched_in_their_order() -> None:
    base = [group(source="moe.py:10", size_bytes=10), group(source="moe.py:20", size_bytes=20)]
    head = [group(source="moe.py:23", size_bytes=20), group(source="moe.py:13", size_bytes=10)]
    assert not peak_diff(peak(*base), peak(*head)).changed


def test_another_element_type_of_one_operation_stands_in_one_row() -> None:
    head = group(shape="f32[64,32768]", size_bytes=8 << 20)
    rows = _rows(peak_diff(peak(group()), peak(head)))
    assert rows == [("grown", 4 << 20, "bf16[64,32768] -> f32[64,32768]")]


def test_a_space_of_one_side_alone_is_compared_with_nothing() -> None:
    assert _rows(peak_diff(None, peak(group()))) == [("new", 4 << 20, "bf16[64,32768]")]
    assert _rows(peak_diff(peak(group()), None)) == [("gone", -(4 << 20), "bf16[64,32768]")]


def test_the_peak_moves_with_the_operation_not_with_its_line() -> None:
    import dataclasses

    base = peak(group())
    assert not peak_diff(base, dataclasses.replace(base, source="moe.py:99")).has_moved
    assert peak_diff(base, dataclasses.replace(base, op_name="jit(f)/mul")).has_moved


def _memory(source: str, total: int) -> dict[str, object]:
    space = {"color": 0, "name": "HBM", "total_bytes": total, "peak_bytes": None}
    return {"source": source, "total_bytes": total, "spaces": [space], "peak": None}


def _module(source: str, total: int) -> object:
    return module(report={**REPORT, "memory": _memory(source, total)}, peaks=(peak(group()),))


def test_an_estimate_is_not_compared_with_an_assignment_unless_forced() -> None:
    base, head = _module("estimate", 10), _module("buffer-assignment", 12)
    diff = memory_diff(base, head)  # type: ignore[arg-type] # modules
    assert diff is not None
    assert "the memory of the base is an estimate" in diff.problem
    assert diff.metrics["total_bytes"].to_dict() == {"base": 10, "head": 12, "delta": None}
    assert diff.peaks == ()
    forced = memory_diff(base, head, is_forced=True)  # type: ignore[arg-type] # modules
    assert forced is not None
    assert forced.metrics["total_bytes"].delta == 2


def test_what_is_not_known_has_no_difference() -> None:
    diff = memory_diff(module(), _module("estimate", 12))  # type: ignore[arg-type] # modules
    assert diff is not None
    assert diff.metrics["total_bytes"].to_dict() == {"base": None, "head": 12, "delta": None}
    assert "the memory of the base is not known" in diff.problem
