"""Changes of collectives, and of texts made by hand: spellings, donations, retraces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.diff.collectives import CollectiveDiff, collective_diff
from tests.snapshots import collective, module

if TYPE_CHECKING:
    from pathlib import Path

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


def test_another_trip_count_is_no_move() -> None:
    base = collective(loops=("jit(f)/while x2",), dynamic_count=2)
    head = collective(loops=("jit(f)/while x4",), dynamic_count=4)
    assert _rows([base], [head]) == [("changed", 1, "all-reduce", "times 2 -> 4")]


def test_a_newly_exposed_collective_is_a_change() -> None:
    rows = _rows([collective(overlap_instructions=1, covered_ratio=1.0)], [collective()])
    assert rows == [("changed", 1, "all-reduce", "exposed, was hidden")]


def test_a_larger_payload_of_another_type_is_one_change() -> None:
    head = collective(payload_bytes=2048, element_type="f32", wire_bytes_per_device=3072)
    details = "payload 1.0KiB -> 2.0KiB, type bf16 -> f32"
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


GROUPS = "{{0,1,2,3},{4,5,6,7}}"
ATTRIBUTES = (
    "channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=add, "
    'metadata={op_name="jit(f)/psum" source_file="/a/f.py" source_line=3}'
)
SYNC = f"  ROOT r = f32[1024]{{0}} all-reduce(p), {ATTRIBUTES}"
STARTED = (
    f"  s = f32[1024]{{0}} all-reduce-start(p), {ATTRIBUTES}\n"
    "  ROOT r = f32[1024]{0} all-reduce-done(s)"
)
WRAPPED = (
    "  s = ((f32[1024]{0}), f32[1024]{0}, u32[]) async-start(p), calls=wrapped\n"
    "  ROOT r = f32[1024]{0} async-done(s), calls=wrapped"
)
WRAPPER = f"""wrapped {{
  q = f32[1024]{{0}} parameter(0)
  ROOT w = f32[1024]{{0}} all-reduce(q), {ATTRIBUTES.replace("channel_id=1", "channel_id=9")}
}}
"""


def _module(body: str, computations: str = "") -> str:
    return f"""HloModule jit_f, is_scheduled=true, num_partitions=8

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

{computations}
ENTRY main {{
  p = f32[1024]{{0}} parameter(0)
{body}
}}
"""


SPELLINGS = {
    "a start and a done": _module(STARTED),
    "a wrapped computation": _module(WRAPPED, WRAPPER),
    "an iota of devices": _module(SYNC.replace(GROUPS, "[2,4]<=[8]")),
}


def _collectives(base: str, head: str) -> list[tuple[str, str]]:
    (module,) = hlo_lens.diff(base, head, only=("collectives",)).modules
    assert module.collectives is not None
    rows = module.collectives.changed
    return [(row.change, row.details) for row in rows]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_one_collective_are_no_change(spelling: str) -> None:
    assert _collectives(_module(SYNC), SPELLINGS[spelling]) == []
    assert _collectives(SPELLINGS[spelling], _module(SYNC)) == []


def test_pairs_of_source_and_target_are_a_set() -> None:
    line = "  ROOT c = f32[8]{0} collective-permute(p), channel_id=1, source_target_pairs="
    base = _module(line + "{{0,1},{1,0}}").replace("ROOT r", "r")
    assert _collectives(base, base.replace("{{0,1},{1,0}}", "{{1,0},{0,1}}")) == []
    assert _collectives(base, base.replace("{{0,1},{1,0}}", "{{1,2},{0,1}}")) != []


def test_other_devices_in_groups_of_one_size_are_a_change() -> None:
    head = _module(SYNC.replace(GROUPS, "{{0,2,4,6},{1,3,5,7}}"))
    assert [change for change, _ in _collectives(_module(SYNC), head)] == ["changed"]


def test_a_retrace_on_one_side_leaves_the_equal_programs_paired(tmp_path: Path) -> None:
    for side, bodies in (("base", ("negate", "abs")), ("head", ("abs",))):
        (tmp_path / side).mkdir()
        for number, opcode in enumerate(bodies):
            file = tmp_path / side / f"module_{number:04}.jit_f.cpu_after_optimizations.txt"
            file.write_text(_module(f"  ROOT r = f32[1024]{{0}} {opcode}(p)"))
    found = hlo_lens.diff(tmp_path / "base", tmp_path / "head")
    assert found.places == ((1, 0),)
    assert (len(found.removed), len(found.added)) == (1, 0)
    assert found.modules[0].identical
