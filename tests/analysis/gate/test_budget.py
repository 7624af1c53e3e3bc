"""Rules as users write them."""

from __future__ import annotations

import pytest

from hlo_lens.analysis.gate.amount import Amount
from hlo_lens.analysis.gate.budget import read_budget, short_rule
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
def test_an_amount_is_what_it_says(text: object, number: float) -> None:
    assert float(Amount.parse(text).number) == number


@pytest.mark.parametrize("text", ["", "GiB", "1 2", "1x", "-", "nan", True, None, float("nan"), []])
def test_what_is_no_amount_is_refused(text: object) -> None:
    with pytest.raises(UsageError, match="not an amount"):
        Amount.parse(text)


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
    assert (rule.module.pattern, rule.metric.text) == ("jit_train.*", "memory.peak.bytes")


@pytest.mark.parametrize(
    "text",
    ["", "memory", "memory.temp_bytes", ">1", "memory.temp_bytes>", "memory.temp_bytes>2%",
     "memory.temp_bytes>+x", "opcodes.add>1KiB", "memory.temp_bytes=>1", "(:memory.a>1"],
)  # fmt: skip
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        short_rule(text)


BUDGET = """
[defaults]
threshold = "2%"
min_change = "8MiB"
direction = "lower-is-better"

[[budget]]
module = "jit_train_step.*"
metric = "memory.hbm.total"
max = "14.5GiB"
threshold = "1%"

[[budget]]
metric = "collectives.all-gather.count"
axis = "data"
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
def test_thresholds_say_which_way_is_worse(threshold: str, direction: str, said: list[str]) -> None:
    text = f'''[[budget]]
metric = "memory.temp_bytes"
threshold = "{threshold}"
direction = "{direction}"'''
    (rule,) = read_budget(text, "b.toml")
    assert [str(c) for c in rule.fails] == said


def test_a_budget_is_read() -> None:
    first, second, third = read_budget(BUDGET, "b.toml")
    assert [str(c) for c in first.fails] == [">14.5GiB", ">+1%"]
    assert first.fails[1].least_change == 8 << 20
    assert first.place == "b.toml:9"
    assert (second.metric.axis, [str(c) for c in second.fails]) == ("data", ["!=2"])
    assert (third.is_informational, [str(c) for c in third.fails]) == (
        True,
        [">3GiB", ">+2%"],
    )


def test_a_change_below_the_minimum_never_fails() -> None:
    change = read_budget(BUDGET, "b.toml")[0].fails[1]
    assert not change.holds(1, 8 << 20)
    assert change.holds(1, 1 + (8 << 20))


def test_the_default_minimum_in_bytes_is_not_applied_to_counts() -> None:
    text = '[defaults]\nmin_change = "8MiB"\n[[budget]]\nmetric = "opcodes.add"\nthreshold = "0%"'
    (rule,) = read_budget(text, "b.toml")
    assert rule.fails[0].holds(1, 2)


@pytest.mark.parametrize(
    ("direction", "worse", "better"),
    [("lower-is-better", 103, 50), ("higher-is-better", 97, 200), ("no-change", 97, 102)],
)
def test_direction_says_which_way_is_worse(direction: str, worse: int, better: int) -> None:
    text = f'[[budget]]\nmetric = "opcodes.add"\nthreshold = "2%"\ndirection = "{direction}"'
    (rule,) = read_budget(text, "b.toml")
    assert any(condition.holds(100, worse) for condition in rule.fails)
    assert not any(condition.holds(100, better) for condition in rule.fails)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[default]\n", "b.toml:1: unknown key 'default'; there is defaults, budget"),
        ("[defaults]\n\nthreshhold = 1", "b.toml:3: unknown key 'threshhold'"),
        (
            '[[budget]]\nmetric = "a"\nmax = 1\n[[budget]]\nmetric = "a"\nmx = 1',
            "b.toml:6: unknown",
        ),
        ('[[budget]]\nmetric = "a"', "b.toml:2: the rule says nothing"),
        ("[[budget]]\nmax = 1", "not a path"),
        ('[[budget]]\nmetric = "opcodes.add"\nmax = "1GiB"', "b.toml:2: max: 1GiB is a size"),
        ('[[budget]]\nmetric = "a"\nmax = "x"', "b.toml:2: not an amount: 'x'"),
        ('[[budget]]\nmetric = "a"\nmax = "2%"', "a share goes with threshold"),
        ('[[budget]]\nmetric = "a"\nthreshold = "-2%"', "threshold is not negative"),
        ('[[budget]]\nmetric = "a"\nmax = 1\ndirection = "up"', "direction is one of"),
        ('[[budget]]\nmetric = "a"\nmax = 1\ninformational = 1', "informational is true or false"),
        ('[[budget]]\nmetric = "a"\nmax = 1\nmodule = "("', "is not a regular expression"),
        ("[[budget]]\nmetric = 1\nmax = 1", "metric is a text in quotes"),
        ("budget = 1", "b.toml:1: budget is a list of tables"),
        ("defaults = 1", "b.toml:1: defaults is a table"),
        ("", "there is no rule in it"),
        ("[[budget", "b.toml: not TOML:"),
    ],
)
def test_mistakes_are_shown_with_their_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_budget(text, "b.toml")
    assert message in str(caught.value)
