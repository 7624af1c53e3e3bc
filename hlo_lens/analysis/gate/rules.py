"""Rules: conditions of failure on a metric, and their short form.

``memory.temp_bytes>+2%`` (grew by more than 2 %), ``memory.temp_bytes>4GiB``,
``collectives.static.all-gather>+0``, ``memory.total_bytes<-50%``; a regular expression of module
names and a colon may precede it: ``jit_train:memory.temp_bytes>4GiB``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from hlo_lens.analysis.gate.amount import Amount
from hlo_lens.analysis.gate.metric import Metric
from hlo_lens.text.errors import UsageError

LOWER, HIGHER, EITHER = "lower-is-better", "higher-is-better", "no-change"
DIRECTIONS = (LOWER, HIGHER, EITHER)
"""Directions of improvement; with ``no-change`` any change is for the worse."""

_SHORT = re.compile(
    r"(?:(?P<module>[^:<>=!\[\]]+):)?(?P<metric>[^<>=!]*(?:\[[^\]]*\][^<>=!]*)*?)\s*"
    r"(?P<op>>=|<=|==|!=|>|<)\s*(?P<sign>[+-]?)(?P<amount>[^+\-<>=!].*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Condition of failure.

    Attributes:
        op: ``>``, ``<``, ``>=``, ``<=``, ``==`` or ``!=``.
        amount: Right side of the comparison.
        is_change: Whether the left side is the change against the baseline, not the value.
        least_change: Smaller changes do not fail.
        least_text: That amount as written.
    """

    op: str
    amount: Amount
    is_change: bool = False
    least_change: Fraction = Fraction(0)
    least_text: str = ""

    def holds(self, base: float | None, head: float) -> bool:
        """Return whether it holds, and the rule fails; a change needs a known `base`."""
        if not self.is_change:
            return _compare(self.op, Fraction(head), self.amount.number)
        return self._is_broken(base, head) and not self._is_small(base, head)

    def is_spared(self, base: float | None, head: float) -> bool:
        """Return whether it does not hold only because the change is below `least_change`."""
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
        metric: Its metric.
        fails: Conditions of failure, of which one suffices.
        module: Pattern to find in module names; None for all modules.
        is_informational: Whether it is only shown.
        direction: Direction of improvement, of `DIRECTIONS`.
        place: Place where it is written.
        name: Name given by its author; may be empty.
        is_optional: Whether a value that is known on neither side of one program is no failure.
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
    """Return the rules for a baseline without budget: none of these metrics may grow."""
    zero = Condition(op=">", amount=Amount.parse("0%"), is_change=True)
    return tuple(
        Rule(metric=Metric.parse(text), fails=(zero,), place="no budget", is_optional=True)
        for text in _ALWAYS
    )


def short_rule(text: str) -> Rule:
    """Return the rule of a text such as ``memory.temp_bytes>+2%``.

    Raises:
        UsageError: If it is no rule.
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
        message = f"{text!r}: a percentage is a change: write +{amount.text}"
        raise UsageError(message)
    check_unit(metric, amount, text)
    condition = Condition(op=match["op"], amount=amount, is_change=is_change)
    module = match["module"]
    return Rule(
        metric=metric,
        fails=(condition,),
        module=None if module is None else module_pattern(module.strip(), text),
        direction=HIGHER if match["op"] in ("<", "<=") else LOWER,
        place=text.strip(),
    )


def check_unit(metric: Metric, amount: Amount, place: str) -> None:
    """Raise UsageError for an amount in bytes of a metric that does not count bytes."""
    if amount.is_size and not metric.is_bytes:
        message = f"{place}: {amount.text} is a size, but {metric.text} does not count bytes"
        raise UsageError(message)


def module_pattern(text: str, place: str) -> re.Pattern[str]:
    """Return the pattern of module names; raises UsageError if it is no regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        message = f"{place}: {text!r} is not a regular expression: {error}"
        raise UsageError(message) from error
