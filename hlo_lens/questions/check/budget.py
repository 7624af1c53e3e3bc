"""Budget files: rules in TOML.

[defaults]
threshold = "2%"              # against the baseline; not for rules with equals or absent
min_change = "8MiB"           # smaller changes of byte counts never fail
direction = "lower-is-better"

[[budget]]
module = "jit_train_step"     # regular expression to find in the name; all if not given
metric = "memory.spaces[HBM].total_bytes"
max = "14.5GiB"
threshold = "1%"

[[budget]]
metric = "collectives.all-gather.count"
axis = "data"
equals = 2                    # also min, max, absent = true
informational = true          # shown, never fails
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hlo_lens.questions.check.metric import Metric
from hlo_lens.questions.check.rules import (
    DIRECTIONS,
    EITHER,
    HIGHER,
    LOWER,
    NO_LEAST,
    Amount,
    Condition,
    Rule,
    check_unit,
    module_pattern,
)
from hlo_lens.text.errors import UsageError

_OTHERS = "lint"
"""Table of ``hlo-lens lint``, which is not read here; a file may have it alone."""

_LIMITS = {"max": ">", "min": "<", "equals": "!="}
_DEFAULT_KEYS = ("threshold", "min_change", "direction")
_RULE_KEYS = (
    *("module", "metric", "axis", "max", "min", "equals", "absent"),
    *("threshold", "min_change", "direction", "informational", "name"),
)


def read_budget(text: str, path: str) -> tuple[Rule, ...]:
    """Return the rules of a budget file; none of one that has settings of ``lint`` alone.

    Raises:
        UsageError: If it is no TOML, or has an unknown key or a wrong value; with the place in
            the file.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML, and of numbers too long for Python
        raise UsageError(f"{path}: not TOML: {error}") from error
    return tuple(_Reader(text, path).rules(data))


class _Reader:
    """Reader of a budget file; its errors have the place in the file."""

    def __init__(self, text: str, path: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def rules(self, data: Mapping[str, object]) -> Iterator[Rule]:
        """Yield the rules."""
        for key in data:
            if key not in ("defaults", "budget", _OTHERS):
                raise self._unknown(key, ("defaults", "budget"), self._line(key, None))
        defaults, budget = data.get("defaults", {}), data.get("budget", [])
        if not isinstance(defaults, dict):
            raise self._fail("defaults is a table: [defaults]", self._line("defaults", None))
        if not isinstance(budget, list) or not all(isinstance(one, dict) for one in budget):
            message = "budget is a list of tables: [[budget]]"
            raise self._fail(message, self._line("budget", None))
        self._check(defaults, _DEFAULT_KEYS, "[defaults]", 0)
        if not budget and [*data] != [_OTHERS]:
            raise self._fail("the file has no rule: no [[budget]]", None)
        for number, table in enumerate(budget):
            self._check(table, _RULE_KEYS, "[[budget]]", number)
            yield self._rule(table, defaults, number)

    def _check(
        self, table: Mapping[str, object], keys: Sequence[str], header: str, number: int
    ) -> None:
        for key in table:
            if key not in keys:
                raise self._unknown(key, keys, self._line(key, (header, number)))

    def _unknown(self, key: str, keys: Sequence[str], line: int | None) -> UsageError:
        return self._fail(f"unknown key {key!r}; there is {', '.join(keys)}", line)

    def _fail(self, message: str, line: int | None) -> UsageError:
        place = self._path if line is None else f"{self._path}:{line}"
        return UsageError(f"{place}: {message}")

    def _line(self, key: str, table: tuple[str, int] | None) -> int | None:
        """Return the 1-based line of a key of a table; None if it is not found."""
        pattern = re.compile(rf"""\s*(?:\[+\s*)?["']?{re.escape(key)}["']?\s*[.=\]]""")
        seen = -1
        for number, line in enumerate(self._lines, start=1):
            if table is not None and re.sub(r"\s", "", line).startswith(table[0]):
                seen += 1
            if (table is None or seen == table[1]) and pattern.match(line):
                return number
        return None

    def _rule(
        self, table: Mapping[str, object], defaults: Mapping[str, object], number: int
    ) -> Rule:
        place = ("[[budget]]", number)
        line = self._line("metric", place)
        where = self._path if line is None else f"{self._path}:{line}"
        try:
            metric = Metric.parse(_string(table, "metric") or "", axis=_string(table, "axis"))
            module = _string(table, "module")
            rule = Rule(
                metric=metric,
                fails=tuple(_conditions(metric, table, defaults)),
                module=None if module is None else module_pattern(module, "module"),
                is_informational=_flag(table, "informational"),
                direction=_direction(table, defaults),
                place=where,
                name=_string(table, "name") or "",
            )
        except UsageError as error:
            raise self._fail(str(error), line) from error
        if not rule.fails:
            keys = "max, min, equals, absent or threshold"
            raise self._fail(f"the rule has no condition: add {keys}", line)
        return rule


def _string(table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is None or isinstance(value, str):
        return value
    raise UsageError(f"{key} is a text in quotes, not {value!r}")


def _flag(table: Mapping[str, object], key: str) -> bool:
    value = table.get(key, False)
    if isinstance(value, bool):
        return value
    raise UsageError(f"{key} is true or false, not {value!r}")


def _direction(table: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    value = table.get("direction", defaults.get("direction", LOWER))
    if value in DIRECTIONS:
        return str(value)
    raise UsageError(f"direction is one of {', '.join(DIRECTIONS)}, not {value!r}")


def _conditions(
    metric: Metric, table: Mapping[str, object], defaults: Mapping[str, object]
) -> Iterator[Condition]:
    """Yield the conditions of failure of a rule."""
    for key, op in _LIMITS.items():
        if key in table:
            amount = Amount.parse(table[key])
            if amount.is_percent:
                raise UsageError(f"{key} is a number or a size; a percentage belongs to threshold")
            check_unit(metric, amount, key)
            yield Condition(op=op, amount=amount)
    if _flag(table, "absent"):
        yield Condition(op="!=", amount=Amount.parse(0))
    threshold = table.get("threshold", defaults.get("threshold"))
    is_fixed = "equals" in table or _flag(table, "absent")
    if threshold is None or (is_fixed and "threshold" not in table):
        return  # a default does not apply to a fixed value
    amount = Amount.parse(threshold)
    if amount.number < 0:
        message = f"threshold is not negative: {threshold!r}; direction decides what is worse"
        raise UsageError(message)
    if amount.is_size and not metric.is_bytes and "threshold" not in table:
        return  # a default in bytes applies to metrics in bytes only
    check_unit(metric, amount, "threshold")
    yield from _thresholds(
        amount, _least_change(metric, table, defaults), _direction(table, defaults)
    )


def _thresholds(amount: Amount, least: Amount, direction: str) -> Iterator[Condition]:
    """Yield the conditions of a threshold, for each direction that is worse."""
    condition = Condition(
        op=">",
        amount=amount,
        is_change=True,
        least_change=least.number,
        least_text=least.text,
    )
    if direction in (LOWER, EITHER):
        yield condition
    if direction in (HIGHER, EITHER):
        less = replace(amount, number=-amount.number, text=f"-{amount.text}")
        yield replace(condition, op="<", amount=less)


def _least_change(
    metric: Metric, table: Mapping[str, object], defaults: Mapping[str, object]
) -> Amount:
    """Return the change below which nothing fails; defaults apply to metrics in bytes only."""
    if "min_change" in table:
        amount = Amount.parse(table["min_change"])
        check_unit(metric, amount, "min_change")
    elif "min_change" in defaults and metric.is_bytes:
        amount = Amount.parse(defaults["min_change"])
    else:
        return NO_LEAST
    if amount.is_percent or amount.number < 0:
        raise UsageError(f"min_change is an amount such as 8MiB, not {amount.text}")
    return amount
