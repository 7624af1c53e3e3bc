"""Memory held at one instant."""

from __future__ import annotations

import dataclasses

import pytest

import hlo_lens
from hlo_lens.questions.memory.peak import SHARED, peak_memory
from tests.questions.memory.layouts import layout, peak_of_program, program, value


def test_bytes_written_in_place_count_once() -> None:
    peak = peak_memory(layout())
    assert peak is not None
    assert (peak.position, peak.instruction) == (2, "b")
    assert (peak.total_bytes, peak.temp_bytes) == (172, 64)
    assert peak.shared_bytes == 40
    assert peak.residual_rows()[0][:2] == (SHARED, -40)


@pytest.mark.parametrize("at", range(5))
def test_arguments_and_outputs_are_held_at_every_instant(at: int) -> None:
    instant = peak_memory(layout(), at=at)
    assert instant is not None
    held = {live.value: live for live in instant.live if live.category != "temp"}
    assert {name: (one.size_bytes, one.category) for name, one in held.items()} == {
        "p{}": (100, "argument"),
        "c{}": (8, "output"),
    }
    assert {(one.start, one.end) for one in held.values()} == {(0, 4)}


def test_an_allocation_is_named_by_its_argument_or_result() -> None:
    laid = layout()
    both = (*laid.values, value("b2", 0, 0, 90, 3, 4), value("t", 2, 0, 8, 0, 2))
    peak = peak_memory(dataclasses.replace(laid, values=both))
    assert peak is not None
    assert [one.value for one in peak.live if one.category != "temp"] == ["p{}", "c{}"]


def test_without_temporaries_no_instant_is_the_peak() -> None:
    laid = layout()
    kept = tuple(one for one in laid.allocations if one.category != "temp")
    values = tuple(one for one in laid.values if one.allocation in (0, 2))
    peak = peak_memory(dataclasses.replace(laid, allocations=kept, values=values))
    assert peak is not None
    assert (peak.total_bytes, peak.position, peak.instruction, peak.is_peak) == (
        108,
        None,
        None,
        True,
    )
    instant = peak_memory(dataclasses.replace(laid, allocations=kept, values=values), at=1)
    assert instant is not None
    assert (instant.total_bytes, instant.instruction, instant.is_peak) == (108, "a", False)


@pytest.mark.parametrize("at", range(5))
def test_rows_and_residuals_sum_to_the_occupied_bytes(at: int) -> None:
    peak = peak_memory(layout(), at=at)
    assert peak is not None
    rows = [*peak.rows(), *peak.residual_rows()]
    assert sum(row[1] for row in rows if isinstance(row[1], int)) == peak.total_bytes
    assert sum(live.owned_bytes for live in peak.live) == peak.total_bytes


def test_without_a_schedule_there_is_no_peak() -> None:
    assert peak_memory(layout(schedule=None)) is None


def test_rows_have_the_maker_of_each_value() -> None:
    rows = {row["value"]: row for row in peak_of_program().objects()}
    assert (rows["q{1}"]["opcode"], rows["q{1}"]["source"]) == ("negate", "f.py:7")
    assert [rows[k]["origin_basis"] for k in ("q{1}", "y{}")] == ["loop body", "own"]
    assert [rows["p{}"][k] for k in ("op_name", "argument")] == ["params['a/b']"] * 2
    assert rows["gone{}"]["opcode"] is None


def test_rows_have_no_makers_without_hlo_text() -> None:
    peak = peak_memory(program())
    assert peak is not None
    assert {row["opcode"] for row in peak.objects()} == {None}


def test_tables_of_tuples_are_not_counted_among_temporaries() -> None:
    laid = layout()
    table = value("t", 1, 40, 24, 1, 3)._replace(shape_text="(f32[2]{0}, s32[])")
    peak = peak_memory(dataclasses.replace(laid, values=(*laid.values, table)), at=1)
    assert peak is not None
    assert (peak.temp_bytes, [one.value for one in peak.live]) == (40, ["p{}", "a{}", "c{}"])


LIBRARY = """HloModule m, is_scheduled=true

FileNames
1 "train.py"
2 "/v/site-packages/flax/linen/linear.py"

FunctionNames
1 "step"
2 "dense"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=9 end_line=9 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY %main (p: f32[2]) -> f32[2] {
  %p = f32[2] parameter(0)
  ROOT %y = f32[2] negate(%p), metadata={op_name="jit(f)/neg" stack_frame_id=2}
}
"""


def test_rows_have_the_line_of_the_user_and_that_of_the_library() -> None:
    peak = peak_memory(program(), module=hlo_lens.parse_hlo(LIBRARY))
    assert peak is not None
    rows = {row["value"]: row for row in peak.objects()}
    assert [rows["y{}"][k] for k in ("source", "library_source")] == [
        "train.py:3",
        "/v/site-packages/flax/linen/linear.py:9",
    ]
    assert rows["p{}"]["library_source"] is None
