"""Numbers as text, and figures that may be bounds."""

from __future__ import annotations

import pytest

from hlo_lens.text.units import (
    Amount,
    Kind,
    format_bytes,
    format_ratio,
)

KIB, MIB, GIB, EIB = 1 << 10, 1 << 20, 1 << 30, 1 << 60


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0B"),
        (1, "1B"),
        (1023, "1023B"),
        (1024, "1.0KiB"),
        (1536, "1.5KiB"),
        (MIB - 53, "1023.9KiB"),
        (MIB - 52, "1023.9KiB"),
        (MIB - 51, "1.00MiB"),
        (MIB - 1, "1.00MiB"),
        (1 - MIB, "-1.00MiB"),
        (MIB, "1.00MiB"),
        (5 * MIB // 2, "2.50MiB"),
        (GIB - 1, "1.00GiB"),
        (GIB, "1.00GiB"),
        (1 << 40, "1.00TiB"),
        (1 << 50, "1.00PiB"),
        (EIB, "1.00EiB"),
        ((1 << 63) - 1, "8.00EiB"),
        (1 << 80, "1.00YiB"),
        (1 << 100, "1048576.00YiB"),
        (-1, "-1B"),
        (-1024, "-1.0KiB"),
        (-3 * GIB, "-3.00GiB"),
    ],
)
def test_bytes_are_printed_with_a_unit(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0, "0%"),
        (0.25, "25%"),
        (0.12346, "12.35%"),
        (0.99999999, "99.99%"),
        (1, "100%"),
        (1.5, "150%"),
        (-0.5, "-50%"),
    ],
)
def test_ratio_below_one_is_never_100_percent(ratio: float, text: str) -> None:
    assert format_ratio(ratio) == text


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


@pytest.mark.parametrize(
    ("value", "is_near"), [(84, False), (85, True), (100, True), (115, True), (116, False)]
)
def test_an_estimate_is_near_a_limit_within_15_percent(value: int, is_near: bool) -> None:
    assert Amount(value, Kind.ESTIMATE).is_near(100) is is_near
    assert not Amount(value).is_near(100)
