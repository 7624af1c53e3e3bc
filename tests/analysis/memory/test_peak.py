"""Values alive at one instant."""

from __future__ import annotations

import pytest

from hlo_lens.analysis.memory.peak import SHARED, peak_memory
from tests.analysis.memory.layouts import layout, peak_of_program, program


def test_bytes_written_in_place_count_once() -> None:
    peak = peak_memory(layout())
    assert peak is not None
    assert (peak.position, peak.instruction, peak.total_bytes) == (3, "c", 172)
    at_two = peak_memory(layout(), at=2)
    assert at_two is not None
    assert at_two.total_bytes == 164
    assert at_two.shared_bytes == 40
    assert at_two.residual_rows()[0][:2] == (SHARED, -40)


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
    assert (rows["q{1}"]["opcode"], rows["q{1}"]["source"]) == ("exponential", "f.py:3")
    assert rows["p{}"]["op_name"] == "params['a/b']"
    assert rows["gone{}"]["opcode"] is None


def test_rows_have_no_makers_without_hlo_text() -> None:
    peak = peak_memory(program())
    assert peak is not None
    assert {row["opcode"] for row in peak.objects()} == {None}
