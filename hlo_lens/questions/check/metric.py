"""Metric: a path into the facts of a module, by field names (`ModuleFacts`), and its value.

    memory.temp_bytes                      a number
    memory.spaces[HBM].total_bytes         of the row of this name (or color)
    collectives.dynamic.all-reduce         an item of a mapping
    collectives.dynamic.*                  the sum over all items
    collectives.rows[kind=all-gather,axes=data]             number of rows
    collectives.rows[kind=all-gather].wire_bytes_per_device sum over rows

Short forms: ``memory.hbm.total`` for a space's ``total_bytes``; ``collectives.all-gather.count``
(in the text), ``.dynamic`` (in one run), ``.payload_bytes`` and ``.wire_bytes`` (of one run);
``collectives.wire_bytes``. ``HBM`` is the default memory space where none has that name, as XLA
gives it none on CPU and GPU. ``modules[2].`` in front chooses the module at that place alone.
A sum with a part that is not known is not known; it is never 0. Of branches of a conditional the
largest counts, so that counts and bytes of one run, and ``flops``, may be upper bounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.check.collective_sums import collective_sum, has_bounds, kind_of, wrong_axis
from hlo_lens.questions.check.steps import NoValueError, Step, Value, field_path, step_into
from hlo_lens.text.amount import Amount, Kind
from hlo_lens.text.errors import UsageError
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from hlo_lens.program.runs import SumBounds
    from hlo_lens.questions.snapshots.facts import ModuleFacts

_STEP = re.compile(r'(?:"([^"]*)"|([^.\[\]"]+))((?:\[[^\]]*\])*)(?:\.|$)')
_SELECTOR = re.compile(r"\[([^\]]*)\]")
_PREFIX = re.compile(r"^\$?\.?(?:modules\[(?:\*|(\d*))\]\.)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A path into the facts of a module.

    Attributes:
        text: As written.
        axis: Mesh axes of the collectives that count; None for all.
        steps: Its parts.
        place: Index of the module; None for every module.
    """

    text: str
    axis: str | None
    steps: tuple[Step, ...]
    place: int | None = None

    @classmethod
    def parse(cls, text: str, *, axis: str | None = None) -> Metric:
        """Return the metric of a text; raises UsageError if it is no path."""
        prefix = _PREFIX.match(text.strip())
        number = prefix[1] if prefix is not None else None
        rest = _PREFIX.sub("", text.strip())
        steps: list[Step] = []
        place = 0
        while place < len(rest):
            match = _STEP.match(rest, place)
            if match is None:
                break
            name = match[1] if match[1] is not None else match[2].strip()
            steps.append(Step(name, tuple(s.strip() for s in _SELECTOR.findall(match[3]))))
            place = match.end()
        if not steps or place < len(rest) or rest.endswith("."):
            raise UsageError(
                f"not a path into the report: {text!r}; write it like memory.temp_bytes or "
                "memory.spaces[HBM].total_bytes"
            )
        if axis is not None and steps[0].name != "collectives":
            raise UsageError(f"axis applies to metrics of collectives only, not to {text!r}")
        which = int(number) if number else None
        return cls(text=text.strip(), axis=axis, steps=tuple(steps), place=which)

    @property
    def root(self) -> str:
        """Field of `ModuleFacts` that the path begins with: ``memory``, ``collectives``, ..."""
        return self.steps[0].name

    @property
    def label(self) -> str:
        """The text, with the axis if there is one."""
        return self.text if self.axis is None else f"{self.text} ({self.axis})"

    def field_path(self, facts: ModuleFacts) -> str:
        """Return the path by the full names of fields, without prefix and selectors."""
        return field_path(facts, self.steps)

    @property
    def is_bytes(self) -> bool:
        """Whether it counts bytes, by its name."""
        last = self.steps[-1].name
        is_space = self.root == "memory" and last in ("total", "peak", "temp", "argument", "output")
        return "bytes" in last or is_space

    def value(self, facts: ModuleFacts) -> Value:
        """Return the value in the facts of a module."""
        try:
            if self._wrong_axis(facts):
                raise NoValueError(self._wrong_axis(facts))
            found = facts.collectives
            if self.axis is not None or kind_of(self.steps) or has_bounds(found, self.steps):
                return _bounded(collective_sum(found, self.steps, self.axis, self.text))
            number = self._number(facts)
            if self.root == "flops" and facts.flops_is_at_most:
                return Value(number=number, kind=Kind.AT_MOST, end=facts.flops_at_least or 0)
            return Value(number=number)
        except NoValueError as error:
            return Value(number=None, reason=str(error))

    def amount_text(self, value: Value) -> str:
        """Return a value as text, marked where it is no exact figure; empty for none."""
        if value.number is None:
            return ""
        if self.is_bytes:
            return Amount(round(value.number), value.kind).text(format_bytes)
        return str(Amount(value.number, value.kind))

    def _number(self, facts: ModuleFacts) -> float:
        """Return the number in the facts of a module; raises NoValueError."""
        found: list[object] = [facts]
        for place, step in enumerate(self.steps, start=1):
            path = self._path(place)
            found = [part for item in found for part in step_into(item, step, path)]
        return _sum(found, self.text)

    def _path(self, length: int) -> str:
        return ".".join(step.name for step in self.steps[:length])

    def _wrong_axis(self, facts: ModuleFacts) -> str:
        """Return that a selector names an axis that the mesh lacks; empty otherwise."""
        selectors = [part for step in self.steps for s in step.selectors for part in s.split(",")]
        axes = [s.partition("=")[2].strip() for s in selectors if s.partition("=")[0] == "axes"]
        wanted = [axis for text in axes for axis in text.split("+") if axis]
        found = facts.collectives
        if not wanted or found is None:
            return ""
        return wrong_axis(wanted, found, has_rows=bool(found.rows))


def _bounded(bounds: SumBounds) -> Value:
    if not bounds.is_at_most:
        return Value(number=bounds.most)
    return Value(number=bounds.most, kind=Kind.AT_MOST, end=bounds.least)


def _sum(found: list[object], text: str) -> float:
    """Return the sum of the numbers found; a list counts its rows."""
    total: float = 0
    for item in found:
        if item is None:
            raise NoValueError(f"{text} is not known")
        if isinstance(item, (int, float)):
            total += item
        elif isinstance(item, (list, tuple)):
            total += len(item)
        else:
            raise NoValueError(f"{text} is no number")
    return total
