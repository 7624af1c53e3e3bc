"""Rules: from a budget file (TOML), or in short on the command line.

    [defaults]
    threshold = "2%"              # against the baseline; not for rules with equals or absent
    min_change = "8MiB"           # smaller changes of byte counts never fail
    direction = "lower-is-better"

    [[budget]]
    module = "jit_train_step"     # regular expression that is found in the name; all if not given
    metric = "memory.spaces[HBM].total_bytes"
    max = "14.5GiB"
    threshold = "1%"

    [[budget]]
    metric = "collectives.all-gather.count"
    axis = "data"
    equals = 2                    # also min, max, absent = true
    informational = true          # shown, never fails

In short: ``memory.temp_bytes>+2%`` (grew by more than 2 %), ``memory.temp_bytes>4GiB``,
``collectives.static.all-gather>+0``, ``memory.total_bytes<-50%``; a module's name and a colon may
stand before it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hlo_lens.analysis.gate.amount import Amount
from hlo_lens.analysis.gate.metric import Metric
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LOWER, HIGHER, EITHER = "lower-is-better", "higher-is-better", "no-change"
DIRECTIONS = (LOWER, HIGHER, EITHER)
"""Which change is for the worse; ``no-change``: any."""

_LIMITS = {"max": ">", "min": "<", "equals": "!="}
_DEFAULT_KEYS = ("threshold", "min_change", "direction")
_RULE_KEYS = (
    *("module", "metric", "axis", "max", "min", "equals", "absent"),
    *("threshold", "min_change", "direction", "informational", "name"),
)
_SHORT = re.compile(
    r"(?:(?P<module>[^:<>=!\[\]]+):)?(?P<metric>[^<>=!]*(?:\[[^\]]*\][^<>=!]*)*?)\s*"
    r"(?P<op>>=|<=|==|!=|>|<)\s*(?P<sign>[+-]?)(?P<amount>[^+\-<>=!].*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """When a rule fails.

    Attributes:
        op: ``>``, ``<``, ``>=``, ``<=``, ``==`` or ``!=``.
        amount: What is compared with.
        is_change: Whether the change against the baseline is compared, not the value.
        least_change: Changes of a smaller amount do not fail.
        least_text: That amount as written.
    """

    op: str
    amount: Amount
    is_change: bool = False
    least_change: Fraction = Fraction(0)
    least_text: str = ""

    def holds(self, base: float | None, head: float) -> bool:
        """Return whether it holds, so that the rule fails; `base` is known if it is needed."""
        if not self.is_change:
            return _compare(self.op, Fraction(head), self.amount.number)
        return self._is_broken(base, head) and not self._is_small(base, head)

    def is_spared(self, base: float | None, head: float) -> bool:
        """Return whether it would hold if the change were not so small."""
        return self.is_change and self._is_broken(base, head) and self._is_small(base, head)

    def _is_small(self, base: float | None, head: float) -> bool:
        return abs(Fraction(head) - Fraction(base or 0)) < self.least_change

    def _is_broken(self, base: float | None, head: float) -> bool:
        change = Fraction(head) - Fraction(base or 0)
        limit = self.amount.number
        if self.amount.is_percent:
            limit *= abs(Fraction(base or 0))
        return _compare(self.op, change, limit)

    def __str__(self) -> str:
        if not self.is_change:
            return f"{self.op}{self.amount.text}"
        number = self.amount.number
        sign = "-" if number < 0 or (number == 0 and "<" in self.op) else "+"
        return f"{self.op}{sign}{self.amount.text.lstrip('+-')}"


def _compare(op: str, left: Fraction, right: Fraction) -> bool:
    return {
        ">": left > right,
        "<": left < right,
        ">=": left >= right,
        "<=": left <= right,
        "==": left == right,
        "!=": left != right,
    }[op]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule.

    Attributes:
        metric: What is looked at.
        fails: It fails if any of these holds.
        module: Modules whose names this is found in; None for all.
        is_informational: Whether it is only shown.
        direction: Which change is for the worse.
        place: Where it is written.
        name: What its author calls it; empty for nothing.
        is_optional: Whether a value that neither side knows is passed over.
    """

    metric: Metric
    fails: tuple[Condition, ...]
    module: re.Pattern[str] | None = None
    is_informational: bool = False
    direction: str = LOWER
    place: str = ""
    name: str = ""
    is_optional: bool = False


_ALWAYS = (
    "memory.total_bytes",
    "memory.spaces[*].temp_bytes",
    "memory.peak.bytes",
    "collectives.wire_bytes_per_device",
    "collectives.static.*",
    "collectives.dynamic.*",
)


def default_rules() -> tuple[Rule, ...]:
    """Return the rules for a baseline without a budget: nothing of these may grow at all."""
    zero = Condition(op=">", amount=Amount.parse("0%"), is_change=True)
    return tuple(
        Rule(metric=Metric.parse(text), fails=(zero,), place="no budget", is_optional=True)
        for text in _ALWAYS
    )


# ---- in short ----------------------------------------------------------------------------------


def short_rule(text: str) -> Rule:
    """Return the rule that a text such as ``memory.temp_bytes>+2%`` writes.

    Raises:
        UsageError: If it writes none.
    """
    match = _SHORT.fullmatch(text.strip())
    if match is None:
        message = (
            f"not a rule: {text!r}; write it like 'memory.temp_bytes>+2%' (grew by more than 2%), "
            "'memory.temp_bytes>4GiB' or 'collectives.static.all-gather>+0'"
        )
        raise UsageError(message)
    metric = Metric.parse(match["metric"])
    amount = Amount.parse(match["sign"] + match["amount"])
    is_change = bool(match["sign"])
    if amount.is_percent and not is_change:
        message = f"a share of what? {text!r}: write +{amount.text} for a change against the base"
        raise UsageError(message)
    _check_unit(metric, amount, text)
    condition = Condition(op=match["op"], amount=amount, is_change=is_change)
    module = match["module"]
    return Rule(
        metric=metric,
        fails=(condition,),
        module=None if module is None else _pattern(module.strip(), text),
        direction=HIGHER if match["op"] in ("<", "<=") else LOWER,
        place=text.strip(),
    )


def _check_unit(metric: Metric, amount: Amount, place: str) -> None:
    if amount.is_size and not metric.is_bytes:
        message = f"{place}: {amount.text} is a size, but {metric.text} does not count bytes"
        raise UsageError(message)


def _pattern(text: str, place: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        message = f"{place}: {text!r} is not a regular expression: {error}"
        raise UsageError(message) from error


# ---- a file ------------------------------------------------------------------------------------


def read_budget(text: str, path: str) -> tuple[Rule, ...]:
    """Return the rules of a budget file.

    Args:
        text: Its text.
        path: Its name, for messages.

    Raises:
        UsageError: If it is no TOML, has an unknown key or a value that makes no sense; with the
            place in the file.
    """
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        message = f"{path}: not TOML: {error}"
        raise UsageError(message) from error
    return tuple(_Reader(text, path).rules(data))


class _Reader:
    """Reads a budget file; says where something is wrong."""

    def __init__(self, text: str, path: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def rules(self, data: Mapping[str, object]) -> Iterator[Rule]:
        """Yield the rules."""
        for key in data:
            if key not in ("defaults", "budget"):
                raise self._unknown(key, ("defaults", "budget"), self._line(key, None))
        defaults, budget = data.get("defaults", {}), data.get("budget", [])
        if not isinstance(defaults, dict):
            raise self._fail("defaults is a table: [defaults]", self._line("defaults", None))
        if not isinstance(budget, list) or not all(isinstance(one, dict) for one in budget):
            message = "budget is a list of tables: [[budget]]"
            raise self._fail(message, self._line("budget", None))
        self._check(defaults, _DEFAULT_KEYS, "[defaults]", 0)
        if not budget:
            raise self._fail("there is no rule in it: no [[budget]]", None)
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
        """Return the 1-based line where a key of a table stands, as far as it is found."""
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
                module=None if module is None else _pattern(module, "module"),
                is_informational=_flag(table, "informational"),
                direction=_direction(table, defaults),
                place=where,
                name=_string(table, "name") or "",
            )
        except UsageError as error:
            raise self._fail(str(error), line) from error
        if not rule.fails:
            keys = "max, min, equals, absent or threshold"
            raise self._fail(f"the rule says nothing: give it {keys}", line)
        return rule


def _string(table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is None or isinstance(value, str):
        return value
    message = f"{key} is a text in quotes, not {value!r}"
    raise UsageError(message)


def _flag(table: Mapping[str, object], key: str) -> bool:
    value = table.get(key, False)
    if isinstance(value, bool):
        return value
    message = f"{key} is true or false, not {value!r}"
    raise UsageError(message)


def _direction(table: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    value = table.get("direction", defaults.get("direction", LOWER))
    if value in DIRECTIONS:
        return str(value)
    message = f"direction is one of {', '.join(DIRECTIONS)}, not {value!r}"
    raise UsageError(message)


def _conditions(
    metric: Metric, table: Mapping[str, object], defaults: Mapping[str, object]
) -> Iterator[Condition]:
    """Yield when a rule fails."""
    for key, op in _LIMITS.items():
        if key in table:
            amount = Amount.parse(table[key])
            if amount.is_percent:
                message = f"{key} is a number or a size; a share goes with threshold"
                raise UsageError(message)
            _check_unit(metric, amount, key)
            yield Condition(op=op, amount=amount)
    if _flag(table, "absent"):
        yield Condition(op="!=", amount=Amount.parse(0))
    threshold = table.get("threshold", defaults.get("threshold"))
    is_fixed = "equals" in table or _flag(table, "absent")
    if threshold is None or (is_fixed and "threshold" not in table):
        return  # a default has nothing to add to one allowed value
    amount = Amount.parse(threshold)
    if amount.number < 0:
        message = f"threshold is not negative: {threshold!r}; direction says which way is worse"
        raise UsageError(message)
    if amount.is_size and not metric.is_bytes and "threshold" not in table:
        return  # a default in bytes is about metrics in bytes
    _check_unit(metric, amount, "threshold")
    yield from _thresholds(
        amount, _least_change(metric, table, defaults), _direction(table, defaults)
    )


def _thresholds(amount: Amount, least: Amount, direction: str) -> Iterator[Condition]:
    """Yield the conditions of a threshold, for the directions that are for the worse."""
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
        less = Amount(
            number=-amount.number,
            is_percent=amount.is_percent,
            is_size=amount.is_size,
            text=f"-{amount.text}",
        )
        yield replace(condition, op="<", amount=less)


def _least_change(
    metric: Metric, table: Mapping[str, object], defaults: Mapping[str, object]
) -> Amount:
    """Return the change below which nothing fails; the default is about metrics in bytes."""
    if "min_change" in table:
        amount = Amount.parse(table["min_change"])
        _check_unit(metric, amount, "min_change")
    elif "min_change" in defaults and metric.is_bytes:
        amount = Amount.parse(defaults["min_change"])
    else:
        return Amount.parse(0)
    if amount.is_percent or amount.number < 0:
        message = f"min_change is an amount such as 8MiB, not {amount.text}"
        raise UsageError(message)
    return amount
