"""Rules of budget files."""

from __future__ import annotations

import pytest

from hlo_lens.questions.check.rules import read_budget
from hlo_lens.text.errors import UsageError

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
    assert (second.metric.axis, [str(c) for c in second.fails]) == ("data", ["!=2"])
    assert (third.is_informational, [str(c) for c in third.fails]) == (
        True,
        [">3GiB", ">+2%,8MiB"],
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
def test_direction_decides_which_change_fails(direction: str, worse: int, better: int) -> None:
    text = f'[[budget]]\nmetric = "opcodes.add"\nthreshold = "2%"\ndirection = "{direction}"'
    (rule,) = read_budget(text, "b.toml")
    assert any(condition.holds(100, worse) for condition in rule.fails)
    assert not any(condition.holds(100, better) for condition in rule.fails)


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
