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
from difflib import get_close_matches
from typing import TYPE_CHECKING

from hlo_lens.model.hlo_query import COLLECTIVE_KINDS
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STEP = re.compile(r'(?:"([^"]*)"|([^.\[\]"]+))((?:\[[^\]]*\])*)(?:\.|$)')
_SELECTOR = re.compile(r"\[([^\]]*)\]")
_PREFIX = re.compile(r"^\$?\.?(?:modules\[(?:\*|(\d*))\]\.)?")
_ALL = "*"
_HBM = "HBM"
_NAMES = frozenset({"name", "value", "number"})
"""Cells that say which row it is: none of that name is no number, not the number 0."""

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
class Value:
    """A metric's value.

    Attributes:
        number: The number; None where there is none.
        reason: Why there is none; empty where there is one.
    """

    number: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    selectors: tuple[str, ...]


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
    steps: tuple[_Step, ...]
    place: int | None = None

    @classmethod
    def parse(cls, text: str, *, axis: str | None = None) -> Metric:
        """Return the metric that a text names; raises UsageError where it is no path."""
        prefix = _PREFIX.match(text.strip())
        number = prefix[1] if prefix is not None else None
        rest = _PREFIX.sub("", text.strip())
        steps: list[_Step] = []
        place = 0
        while place < len(rest):
            match = _STEP.match(rest, place)
            if match is None:
                break
            name = match[1] if match[1] is not None else match[2].strip()
            steps.append(_Step(name, tuple(s.strip() for s in _SELECTOR.findall(match[3]))))
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
                part = _step(item, step, self._path(place))
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
        return "" if isinstance(rows, Value) or not rows else _unknown_axis(wanted, report)

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
            found = _step(report.get("collectives"), self.steps[1], "collectives.rows")
            listed = found if isinstance(found, Value) else _flat(found)
            return self._sum_along(listed, "static_count", report)
        if kind is None and len(names) == 3 and names[1] in ("static", "dynamic"):
            kind, names = names[2], ["collectives", names[2], names[1]]
        elif kind is None and names[1:] in (["wire_bytes"], ["wire_bytes_per_device"]):
            names = ["collectives", _ALL, "wire_bytes"]
        elif kind is None and names[1:] in ([], ["rows"], ["static"]):
            names = ["collectives", _ALL, "count"]
        field = _KIND_METRICS.get(names[2] if len(names) == 3 else "count")
        is_kind = len(names) > 1 and names[1] in (_ALL, *COLLECTIVE_KINDS)
        if field is None or len(names) > 3 or not is_kind:
            choices = ", ".join(_KIND_METRICS)
            return Value(number=None, reason=f"{self.text} is not one of {choices} of a kind")
        rows = _rows_of(report)
        if isinstance(rows, Value):
            return rows
        chosen = [row for row in rows if kind in (None, _ALL) or row.get("kind") == kind]
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
    listed = [row for item in items for row in (item if isinstance(item, _Rows) else [item])]
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
    unknown = _unknown_axis(wanted, report) if rows else ""
    if unknown:
        return Value(number=None, reason=unknown)
    return [row for row in rows if sorted(map(str, _as_list(row.get("axes")))) == sorted(wanted)]


def _unknown_axis(wanted: Sequence[str], report: Mapping[str, object]) -> str:
    """Return that some of these are no mesh axes; empty where all are."""
    collectives = report.get("collectives")
    mesh = collectives.get("mesh") if isinstance(collectives, dict) else None
    sizes = mesh.get("axes") if isinstance(mesh, dict) else None
    known = set(sizes) if isinstance(sizes, dict) else set()
    if known.issuperset(wanted):
        return ""
    there = ", ".join(sorted(known)) or "none"
    return f"no mesh axis is called {','.join(wanted)!r}; there is {there}"


def _as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


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


# ---- steps -------------------------------------------------------------------------------------


def _step(item: object, step: _Step, path: str) -> list[object] | Value:
    """Return what one step leads to, or why it leads nowhere."""
    if isinstance(item, _Rows):
        found_in_rows: list[object] = []
        for row in item:
            part = _step(row, step, path)
            if isinstance(part, Value):
                return part
            found_in_rows += part
        return found_in_rows
    if not isinstance(item, dict):
        what = "is not known" if item is None else "has no parts"
        return Value(number=None, reason=f"{path.rpartition('.')[0] or path} {what}")
    if step.name == _ALL:
        found: list[object] = list(item.values())
    else:
        named = _named(item, step.name)
        if named is None:
            return Value(number=None, reason=_no_such(item, step.name, path))
        found = [item[named]] if named in item else [_space(item, step.name)]
    for selector in step.selectors:
        selected = _select(found, selector, path)
        if isinstance(selected, Value):
            return selected
        found = selected
    return found


def _named(item: Mapping[str, object], name: str) -> str | None:
    """Return the key that a name means: itself, with ``_bytes``, or a memory space."""
    for key in (name, f"{name}_bytes", f"{name}_bytes_per_device", f"{name}_per_device"):
        if key in item:
            return key
    return name if _space(item, name) is not None else None


def _space(item: Mapping[str, object], name: str) -> Mapping[str, object] | None:
    """Return the memory space of a name, in whatever case."""
    listed = item.get("spaces")
    spaces = [space for space in _as_list(listed) if isinstance(space, dict)]
    named = [space for space in spaces if str(space.get("name")).lower() == name.lower()]
    return next(iter(named or _default_space(spaces, name)), None)


def _default_space(spaces: Sequence[object], name: str) -> list[dict[str, object]]:
    """Return the default memory space if it is meant: HBM, where XLA calls none so."""
    found = [space for space in spaces if isinstance(space, dict) and "color" in space]
    is_named = any(str(space.get("name")).upper() == _HBM for space in found)
    if name.upper() != _HBM or is_named:
        return []
    return [space for space in found if space["color"] == 0]


def _no_such(item: Mapping[str, object], name: str, path: str) -> str:
    near = get_close_matches(name, list(item), n=3) or sorted(item)[:6]
    return f"{path} is not in the report; there is {', '.join(near)}"


def _select(found: list[object], selector: str, path: str) -> list[object] | Value:
    """Return the rows of lists that a selector means."""
    listed: list[object] = []
    for item in found:
        if item is None:
            return Value(number=None, reason=f"{path} is not known")
        if not isinstance(item, (list, tuple)):
            return Value(number=None, reason=f"{path} is no list")
        rows = list(item)
        chosen = rows if selector in ("", _ALL) else _chosen(rows, selector, path)
        if isinstance(chosen, Value):
            return chosen
        if "=" in selector or selector in ("", _ALL):
            listed.append(_Rows(chosen))
        else:
            listed += chosen
    return listed


class _Rows(list[object]):
    """Rows of a list: their number if nothing is asked of each, else each of them."""


def _chosen(rows: list[object], selector: str, path: str) -> list[object] | Value:
    """Return rows by name, color, place, or the values of their cells."""
    if "=" in selector:
        return _filtered(rows, selector, path)
    named = [row for row in rows if isinstance(row, dict) and selector in _labels(row)]
    named = named or _default_space(rows, selector)
    if len(named) == 1:
        return list(named)
    if selector.isdecimal() and not named:
        place = int(selector)
        if place < len(rows):
            return [rows[place]]
    names = [str(row.get("name")) for row in rows if isinstance(row, dict) and row.get("name")]
    what = f"{len(named)} rows of {path} are" if named else f"no row of {path} is"
    there = f"; there is {', '.join(dict.fromkeys(names[:8]))}" if names else ""
    return Value(number=None, reason=f"{what} called {selector!r}{there}")


def _labels(row: Mapping[str, object]) -> tuple[str, ...]:
    labels = [str(row["name"])] if row.get("name") is not None else []
    return (*labels, *([str(row["color"])] if "color" in row else []))


def _filtered(rows: list[object], selector: str, path: str) -> list[object] | Value:
    """Return rows whose cells have the given values: ``kind=all-gather,axes=data``."""
    chosen = [row for row in rows if isinstance(row, dict)]
    for part in selector.split(","):
        key, _, wanted = (text.strip() for text in part.partition("="))
        if rows and not any(isinstance(row, dict) and key in row for row in rows):
            return Value(number=None, reason=f"rows of {path} have no {key!r}")
        if key == "kind" and path == "collectives.rows" and wanted not in COLLECTIVE_KINDS:
            there = ", ".join(COLLECTIVE_KINDS)
            return Value(number=None, reason=f"no kind is called {wanted!r}; there is {there}")
        if any(row.get(key) is None for row in chosen):
            return Value(number=None, reason=f"{key} of some rows of {path} is not known")
        found = [row for row in chosen if _is_said(row.get(key), wanted)]
        if key in _NAMES and not found:
            return Value(number=None, reason=f"no row of {path} has {key}={wanted}")
        chosen = found
    return list(chosen)


def _is_said(value: object, wanted: str) -> bool:
    """Return whether a cell has a value as rules write it; axes in whatever order."""
    if isinstance(value, (list, tuple)):
        return sorted(map(_text, value)) == sorted(wanted.split("+") if wanted else ())
    return _text(value) == wanted


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


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
