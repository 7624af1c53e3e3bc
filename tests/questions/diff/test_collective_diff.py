"""Changes of the collectives of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.diff.collectives import CollectiveDiff, collective_diff
from tests.snapshots import collective, module

if TYPE_CHECKING:
    from hlo_lens.questions.collectives.collective import Collective

LOOP = "jit(f)/while x48"


def _diff(base: list[Collective], head: list[Collective]) -> CollectiveDiff:
    found = collective_diff(module(collectives=tuple(base)), module(collectives=tuple(head)))
    assert found is not None
    return found


def _rows(base: list[Collective], head: list[Collective]) -> list[tuple[object, ...]]:
    return [(row.change, row.count, row.kind, row.details) for row in _diff(base, head).changed]


def test_order_lines_and_paths_are_no_change() -> None:
    base = [collective(), collective(kind="all-gather")]
    head = [collective(kind="all-gather", source_line=99), collective(op_name="jit(g)/psum")]
    assert _rows(base, head) == []


def test_equal_additions_are_one_row_with_their_number() -> None:
    added = collective(kind="all-gather")
    assert _rows([collective()], [collective(), added, added]) == [("added", 2, "all-gather", "")]


def test_a_collective_moved_into_a_loop_has_its_trip_count() -> None:
    inside = collective(loops=(LOOP,), dynamic_count=48, op_name="jit(f)/while/body/psum")
    diff = _diff([collective()], [inside])
    (row,) = diff.changed
    assert (row.change, row.is_worse) == ("moved", True)
    assert list(map(str, row.changes)) == ["into a loop: while x48", "times 1 -> 48"]
    assert row.delta_wire_bytes == 47 * 1536
    assert diff.dynamic_counts["all-reduce"].to_dict() == {"base": 1, "head": 48, "delta": 47}


def test_a_move_out_of_a_loop_mirrors_a_move_into_it() -> None:
    inside = collective(loops=(LOOP,), dynamic_count=48)
    (row,) = _diff([inside], [collective()]).changed
    assert (row.change, row.is_worse) == ("moved", False)
    assert str(row.changes[0]) == "out of a loop: while x48"


def test_another_trip_count_is_no_move() -> None:
    base = collective(loops=("jit(f)/while x2",), dynamic_count=2)
    head = collective(loops=("jit(f)/while x4",), dynamic_count=4)
    assert _rows([base], [head]) == [("changed", 1, "all-reduce", "times 2 -> 4")]


def test_a_newly_exposed_collective_is_a_change() -> None:
    rows = _rows([collective(overlap_instructions=1, covered_ratio=1.0)], [collective()])
    assert rows == [("changed", 1, "all-reduce", "exposed, was hidden")]


def test_a_larger_payload_of_another_type_is_one_change() -> None:
    head = collective(payload_bytes=2048, element_type="f32", wire_bytes_per_device=3072)
    details = "payload 1024 -> 2048, type bf16 -> f32"
    assert _rows([collective()], [head]) == [("changed", 1, "all-reduce", details)]


def test_an_axis_counts_by_its_devices_not_by_an_inferred_name() -> None:
    base = collective(axes=("axis_0",), axis_parts=("axis_0",), are_axes_named=False)
    assert _rows([base], [collective()]) == []
    other = collective(axes=("model",), axis_parts=("model",), devices="bb")
    assert _rows([collective()], [other]) == [("changed", 1, "all-reduce", "axis data -> model")]


def test_parameters_in_a_path_are_no_part_of_the_operation() -> None:
    base = collective(op_name="jit(f)/jit(g)/psum2[axes=('mp',)]")
    head = collective(op_name="jit(f)/jit(g)/psum2[axes=mp x=1]", payload_bytes=2048)
    assert [row[0] for row in _rows([base], [head])] == ["changed"]


def test_another_kind_is_one_removed_and_one_added() -> None:
    rows = _rows([collective()], [collective(kind="reduce-scatter")])
    assert sorted(rows) == [("added", 1, "reduce-scatter", ""), ("removed", 1, "all-reduce", "")]


def test_unknown_counts_give_unknown_sums() -> None:
    diff = _diff([collective()], [collective(dynamic_count=None)])
    assert diff.wire_bytes.to_dict() == {"base": 1536, "head": None, "delta": None}
    assert "delta_wire_bytes" not in diff.totals()


def test_a_loop_of_another_path_is_the_same_loop() -> None:
    base = collective(loops=("jit(f)/jit(main)/while x4",), dynamic_count=4)
    head = collective(loops=("jit(f)/while x4",), dynamic_count=4, op_name="jit(f)/while/psum")
    assert _rows([base], [head]) == []
