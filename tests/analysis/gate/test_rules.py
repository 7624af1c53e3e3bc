"""Rules in short form, and their amounts."""

from __future__ import annotations

import pytest

from hlo_lens.analysis.gate.rules import Amount, short_rule
from hlo_lens.text.errors import UsageError


@pytest.mark.parametrize(
    ("rule", "base", "head", "fails"),
    [
        ("memory.temp_bytes>+2%", 100, 102, False),
        ("memory.temp_bytes>+2%", 100, 103, True),
        ("memory.temp_bytes>+2%", 0, 1, True),
        ("memory.temp_bytes > +1KiB", 100, 1124, False),
        ("memory.temp_bytes>+1KiB", 100, 1125, True),
        ("memory.temp_bytes<-10%", 100, 89, True),
        ("memory.temp_bytes<-10%", 100, 90, False),
        ("memory.temp_bytes>1KiB", None, 1025, True),
        ("memory.temp_bytes>=1KiB", None, 1024, True),
        ("collectives.static.all-gather>+0", 1, 2, True),
        ("collectives.static.all-gather>+0", 2, 2, False),
        ("collectives.rows[kind=all-gather,axes=data]!=2", None, 3, True),
        ("jit_train.*:memory.peak.bytes>0", None, 1, True),
    ],
)
def test_a_short_rule_fails_when_it_holds(
    rule: str, base: float | None, head: float, fails: bool
) -> None:
    (condition,) = short_rule(rule).fails
    assert condition.holds(base, head) is fails


def test_a_short_rule_may_name_modules() -> None:
    rule = short_rule("jit_train.*:memory.peak.bytes>0")
    assert rule.module is not None
    assert (rule.module.text, rule.metric.text) == ("jit_train.*", "memory.peak.bytes")


@pytest.mark.parametrize(
    "text",
    ["", "memory", "memory.temp_bytes", ">1", "memory.temp_bytes>", "memory.temp_bytes>2%",
     "memory.temp_bytes>+x", "opcodes.add>1KiB", "memory.temp_bytes=>1", "(:memory.a>1"],
)  # fmt: skip
def test_texts_that_are_no_rules_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        short_rule(text)


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
