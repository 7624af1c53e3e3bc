"""Figures that may be bounds or estimates."""

from __future__ import annotations

import pytest

from hlo_lens.text.units import Amount, Kind, flops_text, format_bytes


@pytest.mark.parametrize(
    ("kind", "count", "size"),
    [
        (Kind.EXACT, "4,096", "4.0KiB"),
        (Kind.AT_MOST, "<= 4,096", "<= 4.0KiB"),
        (Kind.AT_LEAST, ">= 4,096", ">= 4.0KiB"),
        (Kind.ESTIMATE, "~ 4,096", "~ 4.0KiB"),
    ],
)
def test_the_mark_is_before_the_number(kind: Kind, count: str, size: str) -> None:
    assert str(Amount(4096, kind)) == count
    assert Amount(4096, kind).text(format_bytes) == size


def test_other_units_and_fractions() -> None:
    assert Amount(206_000_000_000, Kind.AT_MOST).text(flops_text) == "<= 206 GFLOP"
    assert Amount(0.25, Kind.ESTIMATE).text(format_bytes) == "~ 0.25"


@pytest.mark.parametrize(
    ("value", "is_near"), [(84, False), (85, True), (100, True), (115, True), (116, False)]
)
def test_an_estimate_is_near_a_limit_within_15_percent(value: int, is_near: bool) -> None:
    assert Amount(value, Kind.ESTIMATE).is_near(100) is is_near
    assert not Amount(value).is_near(100)
