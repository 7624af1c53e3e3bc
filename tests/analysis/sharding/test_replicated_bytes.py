"""Values held by several devices, and savings by mesh axis."""

from __future__ import annotations

from tests.analysis.sharding.programs import AFTER, BEFORE, results_of


def test_only_axes_that_divide_a_dimension_save() -> None:
    found = results_of(AFTER, BEFORE).replicated
    savings = [(s.value.value.name, s.axis, s.dimensions, s.saved_bytes) for s in found.savings]
    assert ("x", "model", (1,), 6 * 64 * 4 * 3 // 4) in savings  # 6 rows have no 4 equal parts
    assert ("x", "data", (0, 1), 6 * 64 * 4 // 2) in savings
    assert [s for s in savings if s[0] == "w"] == [("w", "data", (0, 1), 8 * 16 * 4 // 2)]


def test_longest_dimension_is_named_first() -> None:
    found = results_of(AFTER, BEFORE).replicated
    assert {s.dimension for s in found.savings if s.value.value.name == "x"} == {1}


def test_savings_by_axis() -> None:
    found = results_of(AFTER, BEFORE).replicated
    model, data = found.by_axis.axes
    assert data[0] == "data"
    assert model == ("model", 1, 1536, 1152)  # x, of which the output is the updated one
