"""Amounts as users write them."""

from __future__ import annotations

import pytest

from hlo_lens.analysis.gate.amount import Amount
from hlo_lens.text.errors import UsageError


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("48", 48),
        ("14.5GiB", 14.5 * 2**30),
        ("1GB", 10**9),
        ("8k", 8192),
        ("0B", 0),
        ("2%", 0.02),
        (" 1_000 ", 1000),
        (7, 7),
        (2.5, 2.5),
    ],
)
def test_amounts_are_parsed_to_bytes_fractions_and_numbers(text: object, number: float) -> None:
    assert float(Amount.parse(text).number) == number


@pytest.mark.parametrize("text", ["", "GiB", "1 2", "1x", "-", "nan", True, None, float("nan"), []])
def test_other_texts_are_refused_as_amounts(text: object) -> None:
    with pytest.raises(UsageError, match="not an amount"):
        Amount.parse(text)
