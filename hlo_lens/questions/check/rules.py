"""Rules: conditions of failure on a metric, and their short form.

``memory.temp_bytes>+2%`` (grew by more than 2 %), ``memory.total_bytes>+0.5%,64KiB`` (by more than
0.5 %, and by 64 KiB or more), ``memory.temp_bytes>4GiB``, ``memory.total_bytes<-50%``,
``collectives.static.all-gather>+0``; a regular expression of module names and a colon may precede
it: ``jit_train:memory.temp_bytes>4GiB``.
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hlo_lens.questions.check.metric import ROOT, Metric, Value, finding_count, undecided_text
from hlo_lens.questions.memory.statement import memory_amount, most_temp_bytes
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import NamePattern
from hlo_lens.text.units import Kind

if TYPE_CHECKING:
    from hlo_lens.questions.snapshots.figures import ModuleFacts
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot


LOWER, HIGHER, EITHER = "lower-is-better", "higher-is-better", "no-change"
DIRECTIONS = (LOWER, HIGHER, EITHER)

_SHORT = re.compile(
    r"(?:(?P<module>[^:<>=!\[\]]+):)?(?P<metric>[^<>=!]*(?:\[[^\]]*\][^<>=!]*)*?)\s*"
    r"(?P<op>>=|<=|==|!=|>|<)\s*(?P<sign>[+-]?)(?P<amount>[^+\-<>=!].*)"
)

_FITS = re.compile(r"(.+:)?memory\.fits")
"""The rule that fails for a program that does not fit into the memory of its device."""

_QUANTITY = re.compile(r"([+-]?)(\d{1,40}(?:\.\d{1,40})?|\.\d{1,40})\s*(%|[kKMGTPE]?i?[Bb]?)")
_PREFIXES = "KMGTPE"


_TOO_LARGE = 1e300
"""Numbers from which a budget is refused: no figure comes near."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit, as written: ``14.5GiB``, ``2%``, ``48``.

    The number is in bytes for a size (unit ``B``), a fraction for ``%``.
    """

    number: Fraction
    unit: str = ""
    text: str = ""

    @classmethod
    def parse(cls, value: object) -> Quantity:
        """Return the quantity of a number or text.

        ``KiB`` is 1024 and ``kB`` 1000, and so on; a letter alone (``G``) is a power of 1024.

        Raises:
            UsageError: If it is none.
        """
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if abs(value) < _TOO_LARGE:  # false for a NaN
                return cls(Fraction(str(value)), text=str(value))
            raise UsageError("not an amount: a number that no figure comes near")
        match = _QUANTITY.fullmatch(value.strip().replace("_", "")) if type(value) is str else None
        if match is None or not isinstance(value, str):
            raise UsageError(f"not an amount: {value!r}; write it like 48, 14.5GiB or 2%")
        sign, digits, unit = match.groups()
        number = Fraction(digits) * (-1 if sign == "-" else 1)
        if unit == "%":
            return cls(number / 100, "%", value.strip())
        scale, prefix = 1, unit[:1].upper()
        if prefix and prefix in _PREFIXES:
            is_decimal = unit[1:].lower() == "b"
            scale = int((1000 if is_decimal else 1024) ** (_PREFIXES.index(prefix) + 1))
        return cls(number * scale, "B" if unit else "", value.strip())

    @property
    def is_percent(self) -> bool:
        return self.unit == "%"

    def check_unit(self, metric: Metric, place: str) -> None:
        """Raise UsageError for a size, if a metric does not count bytes."""
        if self.unit == "B" and not metric.is_bytes:
            message = f"{place}: {self.text} is a size, but {metric.text} does not count bytes"
            raise UsageError(message)


NO_LEAST = Quantity(Fraction(0))

_COMPARE = {
    **{">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le},
    **{"==": operator.eq, "!=": operator.ne},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Condition of failure, on a value or its change; changes smaller than `least` do not fail."""

    op: str
    amount: Quantity
    is_change: bool = False
    least: Quantity = NO_LEAST

    def holds(self, base: float | None, head: float) -> bool:
        """Return whether it holds, and the rule fails; a change needs a known `base`."""
        limit, change = self.amount.number, Fraction(head)
        if self.is_change:
            before = Fraction(base or 0)
            limit *= abs(before) if self.amount.is_percent else 1
            change -= before
        is_large = not self.is_change or abs(change) >= self.least.number
        return is_large and bool(_COMPARE[self.op](change, limit))

    def __str__(self) -> str:
        if not self.is_change:
            return f"{self.op}{self.amount.text}"
        number = self.amount.number
        sign = "-" if number < 0 or (number == 0 and "<" in self.op) else "+"
        least = f",{self.least.text}" if self.least.number else ""
        return f"{self.op}{sign}{self.amount.text.lstrip('+-')}{least}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: it fails if one of its conditions holds.

    `module` is a pattern to find in names of modules, None for all; `place` is where it is written.
    An optional rule does not fail for a value that is known on neither side of one program.
    """

    metric: Metric
    fails: tuple[Condition, ...]
    module: NamePattern | None = None
    is_informational: bool = False
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
    fits = _FITS.fullmatch(text.strip())
    match = _SHORT.fullmatch(f"{fits[1] or ''}memory.excess_bytes>0" if fits else text.strip())
    if match is None:
        raise UsageError(
            f"not a rule: {text!r}; write it like 'memory.temp_bytes>+2%' (grew by more than 2%), "
            "'memory.total_bytes>+0.5%,64KiB' (and by 64KiB or more), 'memory.temp_bytes>4GiB' or "
            "'collectives.static.all-gather>+0'"
        )
    metric = Metric.parse(match["metric"])
    limit, comma, least_text = (part.strip() for part in match["amount"].partition(","))
    amount, is_change = Quantity.parse(match["sign"] + limit), bool(match["sign"])
    if amount.is_percent and not is_change:
        raise UsageError(f"{text!r}: a percentage is a change: write +{amount.text}")
    least = Quantity.parse(least_text) if comma else NO_LEAST
    if comma and (least.is_percent or not is_change or least.number < 0):
        raise UsageError(f"{text!r}: an amount after a comma is the least change, like +2%,8MiB")
    for quantity in (amount, least):
        quantity.check_unit(metric, text)
    module = match["module"]
    return Rule(
        metric=metric,
        fails=(Condition(op=match["op"], amount=amount, is_change=is_change, least=least),),
        module=None if module is None else _module_pattern(module.strip(), text),
        place=text.strip(),
    )


def _module_pattern(text: str, place: str) -> NamePattern:
    try:
        return NamePattern(text)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error


_OTHERS = "lint"
"""Table of ``hlo-lens lint``, which is not read here; a file may have it alone."""

_LIMITS = {"max": ">", "min": "<", "equals": "!="}
_DEFAULT_KEYS = ("threshold", "min_change", "direction")
_TEXTS, _SWITCHES = ("metric", "module", "name"), ("absent", "informational")
_RULE_KEYS = (*_TEXTS, *_LIMITS, *_SWITCHES, *_DEFAULT_KEYS)


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
    return tuple(_Budget(path, text.splitlines()).rules(data))


@dataclass
class _Budget:
    """A budget file; its errors have the place in the file."""

    path: str
    lines: list[str]

    def rules(self, data: Mapping[str, object]) -> Iterator[Rule]:
        self._check_keys(data, ("defaults", "budget", _OTHERS), None)
        defaults, budget = data.get("defaults", {}), data.get("budget", [])
        if not isinstance(defaults, dict):
            raise self._error("defaults is a table: [defaults]", self._line("defaults", None))
        if not isinstance(budget, list) or not all(isinstance(one, dict) for one in budget):
            message = "budget is a list of tables: [[budget]]"
            raise self._error(message, self._line("budget", None))
        self._check_keys(defaults, _DEFAULT_KEYS, ("[defaults]", 0))
        if not budget and [*data] != [_OTHERS]:
            raise self._error("the file has no rule: no [[budget]]", None)
        for number, table in enumerate(budget):
            self._check_keys(table, _RULE_KEYS, ("[[budget]]", number))
            line = self._line("metric", ("[[budget]]", number))
            try:
                rule = _rule_of(table, defaults)
            except UsageError as error:
                raise self._error(str(error), line) from error
            yield replace(rule, place=self._place(line))

    def _check_keys(
        self, table: Mapping[str, object], keys: Sequence[str], where: tuple[str, int] | None
    ) -> None:
        for key in table:
            if key not in keys:
                there = ", ".join(one for one in keys if one != _OTHERS)
                raise self._error(f"unknown key {key!r}; there is {there}", self._line(key, where))

    def _place(self, line: int | None) -> str:
        return self.path if line is None else f"{self.path}:{line}"

    def _error(self, message: str, line: int | None) -> UsageError:
        return UsageError(f"{self._place(line)}: {message}")

    def _line(self, key: str, table: tuple[str, int] | None) -> int | None:
        pattern = re.compile(rf"""\s*(?:\[+\s*)?["']?{re.escape(key)}["']?\s*[.=\]]""")
        seen = -1
        for number, line in enumerate(self.lines, start=1):
            if table is not None and re.sub(r"\s", "", line).startswith(table[0]):
                seen += 1
            if (table is None or seen == table[1]) and pattern.match(line):
                return number
        return None


def _rule_of(table: Mapping[str, object], defaults: Mapping[str, object]) -> Rule:
    for key in _TEXTS:
        if not isinstance(value := table.get(key, ""), str):
            raise UsageError(f"{key} is a text in quotes, not {value!r}")
    for key in _SWITCHES:
        if not isinstance(value := table.get(key, False), bool):
            raise UsageError(f"{key} is true or false, not {value!r}")
    text = {key: value for key, value in table.items() if isinstance(value, str)}
    metric = Metric.parse(text.get("metric", ""))
    fails = tuple(_conditions(metric, table, defaults))
    if not fails:
        keys = "max, min, equals, absent or threshold"
        raise UsageError(f"the rule has no condition: add {keys}")
    return Rule(
        metric=metric,
        fails=fails,
        module=_module_pattern(text["module"], "module") if "module" in text else None,
        is_informational=bool(table.get("informational")),
        name=text.get("name", ""),
    )


def _conditions(
    metric: Metric, table: Mapping[str, object], defaults: Mapping[str, object]
) -> Iterator[Condition]:
    for key, op in _LIMITS.items():
        if key in table:
            amount = Quantity.parse(table[key])
            if amount.is_percent:
                raise UsageError(f"{key} is a number or a size; a percentage belongs to threshold")
            amount.check_unit(metric, key)
            yield Condition(op=op, amount=amount)
    if table.get("absent"):
        yield Condition(op="!=", amount=Quantity.parse(0))
    yield from _thresholds(metric, table, defaults)


def _thresholds(
    metric: Metric, table: Mapping[str, object], defaults: Mapping[str, object]
) -> Iterator[Condition]:
    direction = table.get("direction", defaults.get("direction", LOWER))
    if direction not in DIRECTIONS:
        raise UsageError(f"direction is one of {', '.join(DIRECTIONS)}, not {direction!r}")
    threshold = table.get("threshold", defaults.get("threshold"))
    is_fixed = "equals" in table or table.get("absent")
    if threshold is None or (is_fixed and "threshold" not in table):
        return  # a default does not apply to a fixed value
    amount = Quantity.parse(threshold)
    if amount.number < 0:
        message = f"threshold is not negative: {threshold!r}; direction decides what is worse"
        raise UsageError(message)
    if amount.unit == "B" and not metric.is_bytes and "threshold" not in table:
        return  # a default in bytes applies to metrics in bytes only
    amount.check_unit(metric, "threshold")
    least = NO_LEAST
    if "min_change" in table or ("min_change" in defaults and metric.is_bytes):
        least = Quantity.parse(table.get("min_change", defaults.get("min_change")))
        least.check_unit(metric, "min_change")
        if least.is_percent or least.number < 0:
            raise UsageError(f"min_change is an amount such as 8MiB, not {least.text}")
    if direction in (LOWER, EITHER):
        yield Condition(op=">", amount=amount, is_change=True, least=least)
    if direction in (HIGHER, EITHER):
        less = replace(amount, number=-amount.number, text=f"-{amount.text}")
        yield Condition(op="<", amount=less, is_change=True, least=least)


def rule_value(rule: Rule, module: ModuleSnapshot, partner: ModuleSnapshot | None = None) -> Value:
    """Return the value of a rule's metric."""
    metric, facts = rule.metric, module.facts
    if metric.root == ROOT:
        base = partner if metric.counts_changes else None
        return finding_count(metric, facts, None if base is None else base.facts)
    value, memory = metric.value(facts), facts.memory
    if memory is None or value.number is None or metric.root != "memory" or not metric.is_bytes:
        return value
    is_temp = metric.is_of_module and metric.figure == "temp"
    is_own = metric.steps[1].name != "memory_analysis"  # of JAX
    if not is_own or (memory.source != "estimate" and not is_temp):
        return value
    amount = memory_amount(memory, metric.figure, int(value.number))
    end = most_temp_bytes(memory) if amount.kind is Kind.AT_LEAST else None
    return replace(value, kind=amount.kind, end=end)


def weakness(rule: Rule, facts: ModuleFacts) -> str:
    """Return why a known value cannot be relied on; empty if it can."""
    root = rule.metric.root
    gaps = "" if facts.coverage is None else facts.coverage.problem
    if root == "coverage":
        return ""
    if root == "memory" and facts.memory is not None:
        if not facts.memory.is_complete:
            return "the buffer texts are not complete"
        return gaps if facts.memory.source == "estimate" else ""
    if gaps or root == ROOT:
        return gaps or undecided_text(rule.metric, facts)
    unknown = () if facts.collectives is None else sorted(facts.collectives.unknown_opcodes)
    if root != "collectives" or not unknown:
        return ""
    return f"opcodes named like collectives are not known, and not counted: {', '.join(unknown)}"
