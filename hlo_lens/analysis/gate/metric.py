"""A metric: a path into a module's object in the report, and its value.

    memory.temp_bytes                      a number
    memory.spaces[HBM].total_bytes         of the row whose name (or color) this is
    collectives.dynamic.all-reduce         names may have dashes
    collectives.dynamic.*                  the sum over all
    collectives.rows[kind=all-gather,axes=data]             a list counts its rows
    collectives.rows[kind=all-gather].wire_bytes_per_device a number of each row: their sum

Short forms: ``memory.hbm.total`` for a space's ``total_bytes``; ``collectives.all-gather.count``
(in the text), ``.dynamic`` (in one run), ``.payload_bytes`` and ``.wire_bytes`` (of one run);
``collectives.wire_bytes``. ``HBM`` is the default memory space where none has that name, as XLA
gives it none on CPU and GPU. ``modules[2].`` in front means the module at that place alone.
A part that is not known makes the whole unknown; it is never 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.gate.steps import ALL, Rows, Step, Value, as_list, step_into
from hlo_lens.model.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STEP = re.compile(r'(?:"([^"]*)"|([^.\[\]"]+))((?:\[[^\]]*\])*)(?:\.|$)')
_SELECTOR = re.compile(r"\[([^\]]*)\]")
_PREFIX = re.compile(r"^\$?\.?(?:modules\[(?:\*|(\d*))\]\.)?")
_KIND_METRICS = {
    "count": "static_count",
    "static": "static_count",
    "dynamic": "dynamic_count",
    "payload_bytes": "payload_bytes",
    "wire_bytes": "wire_bytes_per_device",
    "wire_bytes_per_device": "wire_bytes_per_device",
}
"""Short forms of a collective kind's numbers, and the field of its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A path into the report.

    Attributes:
        text: As written.
        axis: Mesh axes of the collectives that count; None for all.
        steps: Its parts.
        place: Which module of the report it is of, from 0; None for every one.
    """

    text: str
    axis: str | None
    steps: tuple[Step, ...]
    place: int | None = None

    @classmethod
    def parse(cls, text: str, *, axis: str | None = None) -> Metric:
        """Return the metric that a text names; raises UsageError where it is no path."""
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
            message = (
                f"not a path into the report: {text!r}; write it like memory.temp_bytes or "
                "memory.spaces[HBM].total_bytes"
            )
            raise UsageError(message)
        if axis is not None and steps[0].name != "collectives":
            message = f"axis goes with metrics of collectives only, not with {text!r}"
            raise UsageError(message)
        which = int(number) if number else None
        return cls(text=text.strip(), axis=axis, steps=tuple(steps), place=which)

    @property
    def root(self) -> str:
        """Which object of the report it is in: ``memory``, ``collectives``, ..."""
        return self.steps[0].name

    @property
    def is_bytes(self) -> bool:
        """Whether it counts bytes, as its name says."""
        last = self.steps[-1].name
        is_space = self.root == "memory" and last in ("total", "peak", "temp", "argument", "output")
        return "bytes" in last or is_space

    def value(self, report: Mapping[str, object]) -> Value:
        """Return the value in a module's object."""
        kind = self._kind()
        unknown = self._unknown_axis(report)
        if unknown:
            return Value(number=None, reason=unknown)
        if self.axis is not None or kind is not None:
            return self._of_rows(report, kind)
        found: list[object] = [report]
        for place, step in enumerate(self.steps):
            listed: list[object] = []
            for item in found:
                part = step_into(item, step, self._path(place))
                if isinstance(part, Value):
                    return part
                listed += part
            found = listed
        return _sum(found, self.text)

    def _unknown_axis(self, report: Mapping[str, object]) -> str:
        """Return that a selector names an axis that no mesh has; empty where it is one."""
        selectors = [part for step in self.steps for s in step.selectors for part in s.split(",")]
        axes = [s.partition("=")[2].strip() for s in selectors if s.partition("=")[0] == "axes"]
        wanted = [axis for text in axes for axis in text.split("+") if axis]
        rows = _rows_of(report) if wanted else []
        return "" if isinstance(rows, Value) else _unknown_axis(wanted, rows, report)

    def _path(self, place: int) -> str:
        return ".".join(step.name for step in self.steps[: place + 1])

    def _kind(self) -> str | None:
        """Return the kind of collective that a short form is about."""
        if self.root != "collectives" or len(self.steps) < 2:
            return None
        name = self.steps[1].name
        return name if name in COLLECTIVE_KINDS else None

    def _of_rows(self, report: Mapping[str, object], kind: str | None) -> Value:
        """Return a number of the collectives of one kind, along one axis, or both."""
        names = [step.name for step in self.steps]
        if names[1:] == ["rows"] and self.steps[1].selectors:
            found = step_into(report.get("collectives"), self.steps[1], "collectives.rows")
            listed = found if isinstance(found, Value) else _flat(found)
            return self._sum_along(listed, "static_count", report)
        if kind is None and len(names) == 3 and names[1] in ("static", "dynamic"):
            kind, names = names[2], ["collectives", names[2], names[1]]
        elif kind is None and names[1:] in (["wire_bytes"], ["wire_bytes_per_device"]):
            names = ["collectives", ALL, "wire_bytes"]
        elif kind is None and names[1:] in ([], ["rows"], ["static"]):
            names = ["collectives", ALL, "count"]
        field = _KIND_METRICS.get(names[2] if len(names) == 3 else "count")
        is_kind = len(names) > 1 and names[1] in (ALL, *COLLECTIVE_KINDS)
        if field is None or len(names) > 3 or not is_kind:
            choices = ", ".join(_KIND_METRICS)
            return Value(number=None, reason=f"{self.text} is not one of {choices} of a kind")
        rows = _rows_of(report)
        if isinstance(rows, Value):
            return rows
        chosen = [row for row in rows if kind in (None, ALL) or row.get("kind") == kind]
        return self._sum_along(chosen, field, report)

    def _sum_along(
        self,
        rows: Sequence[Mapping[str, object]] | Value,
        field: str,
        report: Mapping[str, object],
    ) -> Value:
        """Return the sum of a field over those of some collectives that are along the axis."""
        along = rows if isinstance(rows, Value) else _along(rows, self.axis, report)
        return along if isinstance(along, Value) else _sum_of_rows(along, field)


def _flat(items: Sequence[object]) -> list[Mapping[str, object]]:
    """Return the rows in what a step with selectors leads to."""
    listed = [row for item in items for row in (item if isinstance(item, Rows) else [item])]
    return [row for row in listed if isinstance(row, dict)]


def _rows_of(report: Mapping[str, object]) -> list[Mapping[str, object]] | Value:
    collectives = report.get("collectives")
    rows = collectives.get("rows") if isinstance(collectives, dict) else None
    if not isinstance(rows, (list, tuple)):
        return Value(number=None, reason="the collectives are not known: there is no HLO text")
    return [row for row in rows if isinstance(row, dict)]


def _along(
    rows: Sequence[Mapping[str, object]], axis: str | None, report: Mapping[str, object]
) -> Sequence[Mapping[str, object]] | Value:
    """Return the rows along an axis, or several joined by commas; why not if that is not known."""
    if axis is None:
        return rows
    wanted = [name.strip() for name in axis.split(",")]
    if any(row.get("axes") is None for row in rows):
        return Value(number=None, reason="the mesh axes of some collectives are not known")
    unknown = _unknown_axis(wanted, rows, report)
    if unknown:
        return Value(number=None, reason=unknown)
    return [row for row in rows if sorted(map(str, as_list(row.get("axes")))) == sorted(wanted)]


def _unknown_axis(
    wanted: Sequence[str], rows: Sequence[object], report: Mapping[str, object]
) -> str:
    """Return that some of these are no mesh axes; empty where all are, or none is there to be."""
    collectives = report.get("collectives")
    mesh = collectives.get("mesh") if isinstance(collectives, dict) else None
    sizes = mesh.get("axes") if isinstance(mesh, dict) else None
    known = set(sizes) if isinstance(sizes, dict) else set()
    if known.issuperset(wanted) or not (rows or known):
        return ""
    there = ", ".join(sorted(known)) or "none"
    return f"no mesh axis is called {','.join(wanted)!r}; there is {there}"


def _sum_of_rows(rows: Sequence[Mapping[str, object]], field: str) -> Value:
    total = 0
    for row in rows:
        number, times = row.get(field), row.get("dynamic_count")
        is_of_run = field.endswith("bytes") or field.endswith("per_device")
        if number == 0 or (is_of_run and times == 0):
            continue
        if not isinstance(number, int) or (is_of_run and not isinstance(times, int)):
            return Value(number=None, reason=f"{field} of a {row.get('kind')} is not known")
        total += number * times if is_of_run and isinstance(times, int) else number
    return Value(number=total)


def _sum(found: list[object], text: str) -> Value:
    """Return the sum of what a path leads to; a list counts its rows."""
    total: float = 0
    for item in found:
        if item is None:
            return Value(number=None, reason=f"{text} is not known")
        if isinstance(item, (int, float)):
            total += item
        elif isinstance(item, (list, tuple)):
            total += len(item)
        else:
            return Value(number=None, reason=f"{text} is no number")
    return Value(number=total)
