"""Rules in short form and of budget files, and their amounts."""

from __future__ import annotations

import pytest

from hlo_lens.questions.check.rules import Quantity, default_rules, read_budget, short_rule
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
        ("memory.total_bytes>+0.5%,64KiB", 10 << 20, (10 << 20) + (64 << 10), True),
        ("memory.total_bytes>+0.5%,64KiB", 10 << 20, (10 << 20) + (64 << 10) - 1, False),
        ("memory.total_bytes>+0.5%, 64KiB", 100 << 20, (100 << 20) + (512 << 10), False),
        ("memory.total_bytes>+0.5%,64KiB", 100 << 20, (100 << 20) + (513 << 10), True),
        ("memory.total_bytes<-1%,1KiB", 100 << 10, 98 << 10, True),
        ("memory.total_bytes<-1%,4KiB", 100 << 10, 98 << 10, False),
        ("opcodes.add>+10%,2", 10, 12, True),
        ("opcodes.add>+0,2", 10, 11, False),
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


def test_without_rules_bytes_may_grow_by_the_larger_of_a_share_and_a_floor() -> None:
    conditions = {rule.metric.text: rule.fails[0] for rule in default_rules()}
    total = conditions["memory.total_bytes"]
    assert not total.holds(1 << 20, (1 << 20) + 4)
    assert not total.holds(1 << 30, (1 << 30) + (1 << 20))
    assert total.holds(1 << 30, (1 << 30) + (2 << 20))
    assert total.holds(1 << 20, (1 << 20) + (64 << 10))
    assert conditions["collectives.static.*"].holds(4, 5)
    assert not any("[*]" in text for text in conditions)


def test_a_short_rule_may_name_modules() -> None:
    rule = short_rule("jit_train.*:memory.peak.bytes>0")
    assert rule.module is not None
    assert (rule.module.text, rule.metric.text) == ("jit_train.*", "memory.peak.bytes")


@pytest.mark.parametrize(
    "text",
    ["", "memory", "memory.temp_bytes", ">1", "memory.temp_bytes>", "memory.temp_bytes>2%",
     "memory.temp_bytes>+x", "opcodes.add>1KiB", "memory.temp_bytes=>1", "(:memory.a>1",
     "memory.temp_bytes>4GiB,1KiB", "memory.temp_bytes>+2%,1%", "memory.temp_bytes>+2%,",
     "memory.temp_bytes>+2%,-1", "opcodes.add>+0,1KiB", "memory.temp_bytes>+2%,1,1"],
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
    assert float(Quantity.parse(text).number) == number


@pytest.mark.parametrize(
    "text", ["", "GiB", "1 2", "1x", "-", "nan", True, None, float("nan"), 10**400, []]
)
def test_other_texts_are_refused_as_amounts(text: object) -> None:
    with pytest.raises(UsageError, match="not an amount"):
        Quantity.parse(text)


# ---- budget files -------------------------------------------------------------------------------

BUDGET = """
[defaults]
threshold = "2%"
min_change = "8MiB"
direction = "lower-is-better"

[[budget]]
module = "jit_train_step.*"
metric = "memory.total_bytes"
max = "14.5GiB"
threshold = "1%"

[[budget]]
metric = "collectives.rows[axes=data]"
equals = 2

[[budget]]
metric = "collectives.wire_bytes"
max = "3GiB"
informational = true
"""


@pytest.mark.parametrize(
    ("threshold", "direction", "said"),
    [
        ("0%", "lower-is-better", [">+0%"]),
        ("0%", "higher-is-better", ["<-0%"]),
        ("2%", "higher-is-better", ["<-2%"]),
        ("2%", "no-change", [">+2%", "<-2%"]),
    ],
)
def test_a_threshold_has_conditions_for_its_direction(
    threshold: str, direction: str, said: list[str]
) -> None:
    text = f'''[[budget]]
metric = "memory.temp_bytes"
threshold = "{threshold}"
direction = "{direction}"'''
    (rule,) = read_budget(text, "b.toml")
    assert [str(c) for c in rule.fails] == said


def test_a_budget_is_read() -> None:
    first, second, third = read_budget(BUDGET, "b.toml")
    assert [str(c) for c in first.fails] == [">14.5GiB", ">+1%,8MiB"]
    assert first.fails[1].least.number == 8 << 20
    assert first.place == "b.toml:9"
    assert [str(c) for c in second.fails] == ["!=2"]
    assert (third.is_informational, [str(c) for c in third.fails]) == (
        True,
        [">3GiB", ">+2%,8MiB"],
    )


def test_the_default_minimum_in_bytes_is_not_applied_to_counts() -> None:
    text = '[defaults]\nmin_change = "8MiB"\n[[budget]]\nmetric = "opcodes.add"\nthreshold = "0%"'
    (rule,) = read_budget(text, "b.toml")
    assert rule.fails[0].holds(1, 2)


def test_settings_of_lint_alone_are_no_rule_and_no_mistake() -> None:
    assert read_budget('[lint]\nignore = ["M003"]\n', "b.toml") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[default]\n", "b.toml:1: unknown key 'default'; there is defaults, budget"),
        ("[defaults]\n\nthreshhold = 1", "b.toml:3: unknown key 'threshhold'"),
        (
            '[[budget]]\nmetric = "a"\nmax = 1\n[[budget]]\nmetric = "a"\nmx = 1',
            "b.toml:6: unknown",
        ),
        ('[[budget]]\nmetric = "a"', "b.toml:2: the rule has no condition"),
        ("[[budget]]\nmax = 1", "not a path"),
        ('[[budget]]\nmetric = "opcodes.add"\nmax = "1GiB"', "b.toml:2: max: 1GiB is a size"),
        ('[[budget]]\nmetric = "a"\nmax = "x"', "b.toml:2: not an amount: 'x'"),
        ('[[budget]]\nmetric = "a"\nmax = "2%"', "a percentage belongs to threshold"),
        ('[[budget]]\nmetric = "a"\nthreshold = "-2%"', "threshold is not negative"),
        ('[[budget]]\nmetric = "a"\nmax = 1\ndirection = "up"', "direction is one of"),
        ('[[budget]]\nmetric = "a"\nmax = 1\ninformational = 1', "informational is true or false"),
        ('[[budget]]\nmetric = "a"\nmax = 1\nmodule = "("', "not a regular expression"),
        ("[[budget]]\nmetric = 1\nmax = 1", "metric is a text in quotes"),
        ("budget = 1", "b.toml:1: budget is a list of tables"),
        ("defaults = 1", "b.toml:1: defaults is a table"),
        ("", "the file has no rule"),
        ("[lint]\n[defaults]\nthreshold = 1", "the file has no rule"),
        ("[[budget", "b.toml: not TOML:"),
    ],
)
def test_mistakes_are_shown_with_their_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_budget(text, "b.toml")
    assert message in str(caught.value)
