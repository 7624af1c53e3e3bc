"""Numbers as text."""

from __future__ import annotations

import pytest

from hlo_lens.text.units import format_bytes, format_count, format_ratio, plural

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


@pytest.mark.parametrize(("count", "text"), [(0, "0"), (999, "999"), (-12345, "-12,345")])
def test_counts_have_thousands_separated(count: int, text: str) -> None:
    assert format_count(count) == text


def test_noun_takes_an_s_but_for_one() -> None:
    assert [plural(n, "gap") for n in (0, 1, 2)] == ["0 gaps", "1 gap", "2 gaps"]
