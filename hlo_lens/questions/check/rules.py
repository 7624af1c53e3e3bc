"""Rules: conditions of failure on a metric, and their short form.

``memory.temp_bytes>+2%`` (grew by more than 2 %), ``memory.total_bytes>+0.5%,64KiB`` (by more than
0.5 %, and by 64 KiB or more), ``memory.temp_bytes>4GiB``, ``memory.total_bytes<-50%``,
``collectives.static.all-gather>+0``; a regular expression of module names and a colon may precede
it: ``jit_train:memory.temp_bytes>4GiB``.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hlo_lens.questions.check.metric import (
    ROOT,
    Metric,
    Value,
    counts_changes,
    finding_count,
    undecided_text,
)
from hlo_lens.questions.memory.statement import memory_amount, most_temp_bytes
from hlo_lens.text.errors import UsageError
from hlo_lens.text.patterns import NamePattern
from hlo_lens.text.units import Kind

if TYPE_CHECKING:
    from hlo_lens.program.summary import Coverage
    from hlo_lens.questions.memory.statement import MemoryStatement
    from hlo_lens.questions.snapshots.figures import ModuleFacts
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot


LOWER, HIGHER, EITHER = "lower-is-better", "higher-is-better", "no-change"
DIRECTIONS = (LOWER, HIGHER, EITHER)
"""Directions of improvement; with ``no-change`` any change is for the worse."""

_SHORT = re.compile(
    r"(?:(?P<module>[^:<>=!\[\]]+):)?(?P<metric>[^<>=!]*(?:\[[^\]]*\][^<>=!]*)*?)\s*"
    r"(?P<op>>=|<=|==|!=|>|<)\s*(?P<sign>[+-]?)(?P<amount>[^+\-<>=!].*)"
)

_AMOUNT = re.compile(r"([+-]?)(\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})\s*(%|[kKMGTPE]?i?[Bb]?)")
_PREFIXES = "KMGTPE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number and its unit: ``14.5GiB``, ``2%``, ``48``.

    Attributes:
        number: The number, in bytes for a size, as a fraction for percent.
        is_percent: Whether it is a fraction of another number.
        is_size: Whether it has a unit of bytes.
        text: As written.
    """

    number: Fraction
    is_percent: bool
    is_size: bool
    text: str

    @classmethod
    def parse(cls, value: object) -> Amount:
        """Return the amount of a number or text.

        ``KiB`` is 1024 and ``kB`` 1000, and so on; a letter alone (``G``) is a power of 1024.

        Raises:
            UsageError: If it is no amount.
        """
        message = f"not an amount: {value!r}; write it like 48, 14.5GiB or 2%"
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise UsageError(message)
        if not isinstance(value, str):
            if not math.isfinite(value):
                raise UsageError(message)
            number = Fraction(str(value))
            return cls(number=number, is_percent=False, is_size=False, text=str(value))
        match = _AMOUNT.fullmatch(value.strip().replace("_", ""))
        if match is None:
            raise UsageError(message)
        sign, digits, unit = match.groups()
        number = Fraction(digits) * (-1 if sign == "-" else 1)
        if unit == "%":
            return cls(number=number / 100, is_percent=True, is_size=False, text=value.strip())
        return cls(
            number=number * _scale(unit), is_percent=False, is_size=bool(unit), text=value.strip()
        )


NO_LEAST = Amount(number=Fraction(0), is_percent=False, is_size=False, text="")


def _scale(unit: str) -> int:
    """Return the bytes of a unit; 1 for none."""
    prefix = unit[:1].upper()
    if prefix not in _PREFIXES or not prefix:
        return 1
    is_decimal = unit[1:].lower() == "b"
    return int((1000 if is_decimal else 1024) ** (_PREFIXES.index(prefix) + 1))


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
        least = f",{self.least_text}" if self.least_change else ""
        return f"{self.op}{sign}{self.amount.text.lstrip('+-')}{least}"


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
    module: NamePattern | None = None
    is_informational: bool = False
    direction: str = LOWER
    place: str = ""
    name: str = ""
    is_optional: bool = False


_ALWAYS = (
    "memory.total_bytes>+0.1%,64KiB",
    "memory.spaces[default].temp_bytes>+0.1%,64KiB",
    "memory.peak.bytes>+0.1%,64KiB",
    "collectives.wire_bytes_per_device>+0.1%,64KiB",
    "collectives.static.*>+0",
    "collectives.dynamic.*>+0",
)


def default_rules() -> tuple[Rule, ...]:
    """Return the rules for a baseline without budget.

    No kind of collective may run more often; bytes may grow by the larger of 0.1 % and 64 KiB, so
    that a few bytes of padding or of a scalar do not fail.
    """
    return tuple(replace(short_rule(text), place="no budget", is_optional=True) for text in _ALWAYS)


def short_rule(text: str) -> Rule:
    """Return the rule of a text such as ``memory.temp_bytes>+2%``.

    Raises:
        UsageError: If it is no rule.
    """
    match = _SHORT.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"not a rule: {text!r}; write it like 'memory.temp_bytes>+2%' (grew by more than 2%), "
            "'memory.total_bytes>+0.5%,64KiB' (and by 64KiB or more), 'memory.temp_bytes>4GiB' or "
            "'collectives.static.all-gather>+0'"
        )
    metric = Metric.parse(match["metric"])
    limit, _, least_text = (part.strip() for part in match["amount"].partition(","))
    amount = Amount.parse(match["sign"] + limit)
    is_change = bool(match["sign"])
    if amount.is_percent and not is_change:
        raise UsageError(f"{text!r}: a percentage is a change: write +{amount.text}")
    check_unit(metric, amount, text)
    least = Amount.parse(least_text) if "," in match["amount"] else NO_LEAST
    if least is not NO_LEAST and (least.is_percent or not is_change or least.number < 0):
        raise UsageError(f"{text!r}: an amount after a comma is the least change, like +2%,8MiB")
    check_unit(metric, least, text)
    condition = Condition(
        op=match["op"],
        amount=amount,
        is_change=is_change,
        least_change=least.number,
        least_text=least.text,
    )
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


def module_pattern(text: str, place: str) -> NamePattern:
    """Return the pattern of module names; raises UsageError if it is no regular expression."""
    try:
        return NamePattern(text)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error


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


def rule_value(rule: Rule, module: ModuleSnapshot, partner: ModuleSnapshot | None = None) -> Value:
    """Return the value of a rule's metric, unknown if a snapshot lacks its present meaning.

    Args:
        rule: The rule.
        module: The module.
        partner: Its partner in the baseline, for counts of new findings.
    """
    base = partner if counts_changes(rule.metric.steps) else None
    outdated = _outdated(rule, module) or ("" if base is None else _outdated(rule, base))
    if outdated:
        return Value(number=None, reason=outdated)
    if rule.metric.root == ROOT:
        return finding_count(rule.metric.steps, module.facts, None if base is None else base.facts)
    return _marked(rule.metric.value(module.facts), rule, module.facts)


def _outdated(rule: Rule, module: ModuleSnapshot) -> str:
    """Return why the figure of a rule's metric is outdated in a snapshot; empty if it is not."""
    path = f"{rule.metric.field_path(module.facts)}." if module.outdated else ""
    outdated = next((name for name in module.outdated if path.startswith(f"{name}.")), None)
    if outdated is None:
        return ""
    return (
        f"the snapshot was saved by a version without {outdated}, or with another definition of "
        "it: save it again"
    )


def _marked(value: Value, rule: Rule, facts: ModuleFacts) -> Value:
    """Return a value, marked if it is a figure of memory that is an estimate or a bound."""
    memory, number = facts.memory, value.number
    if memory is None or number is None or rule.metric.root != "memory":
        return value
    path = rule.metric.field_path(facts)
    if not rule.metric.is_bytes or path.startswith("memory.memory_analysis"):
        return value
    if memory.source != "estimate" and path != "memory.temp_bytes":
        return value
    figure = path.rpartition(".")[2].removesuffix("_bytes")
    amount = memory_amount(memory, figure, int(number))
    end = most_temp_bytes(memory) if amount.kind is Kind.AT_LEAST else None
    return replace(value, kind=amount.kind, end=end)


def weakness(rule: Rule, facts: ModuleFacts) -> str:
    """Return why a known value cannot be relied on; empty if it can."""
    root = rule.metric.root
    if root == "coverage":
        return ""
    if root == "memory" and facts.memory is not None:
        return _memory_weakness(facts.memory, facts.coverage)
    gaps = "" if facts.coverage is None else facts.coverage.problem
    if gaps or root == ROOT:
        return gaps or undecided_text(rule.metric.steps, facts)
    if root != "collectives" or facts.collectives is None:
        return ""
    unknown = facts.collectives.unknown_opcodes
    names = ", ".join(sorted(unknown))
    return (
        f"opcodes named like collectives are not known, and not counted: {names}" if names else ""
    )


def _memory_weakness(memory: MemoryStatement, coverage: Coverage | None) -> str:
    if not memory.is_complete:
        return "the buffer texts are not complete"
    if memory.source == "estimate" and coverage is not None and coverage.problem:
        return coverage.problem
    return ""
