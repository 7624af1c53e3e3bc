"""Metrics of rules: paths into the facts of a module, their steps, and their values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.program.runs import SumBounds
from hlo_lens.questions.collectives.collective import COUNT, PAYLOAD, WIRE, run_sum
from hlo_lens.questions.findings.changes import module_finding_changes
from hlo_lens.questions.findings.registry import all_rules
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import Amount, Kind, format_bytes, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.collectives.collective import Collective, CollectiveTotals
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.snapshots.figures import ModuleFacts


ALL = "*"
_HBM = "HBM"
DEFAULT = "default"
"""Selector of the default memory space, whatever the backend calls it."""
_NAMES = frozenset({"name", "value", "number"})
"""Cells that identify a row: if no row has the name, the metric is not known, rather than 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Value of a metric.

    Attributes:
        number: The number; None where there is none.
        reason: Why there is none; empty where there is one.
        kind: Whether it is exact, a bound or an estimate.
        end: Other end of a bound: the least of an upper one, the most of a lower one.
    """

    number: float | None = None
    reason: str = ""
    kind: Kind = Kind.EXACT
    end: float | None = None


class NoValueError(Exception):
    """Reason why a metric has no value."""


@dataclass(frozen=True, slots=True)
class Step:
    """A name, and the selectors in brackets after it."""

    name: str
    selectors: tuple[str, ...]


class Rows(list[object]):
    """Rows of a list: a path that ends here counts them, a further step goes into each."""


def _parts_of(item: object) -> dict[str, object] | None:
    """Return fields and properties of a dataclass, or items of a mapping; None for others."""
    if isinstance(item, Mapping):
        return dict(item)
    if not is_dataclass(item):
        return None
    kind = type(item)
    properties = [name for name, part in vars(kind).items() if isinstance(part, property)]
    return {name: getattr(item, name) for name in (*(f.name for f in fields(item)), *properties)}


def step_into(item: object, step: Step, path: str) -> list[object]:
    """Return the values that a step finds; raises NoValueError if it finds none."""
    if isinstance(item, Rows):
        return [part for row in item for part in step_into(row, step, path)]
    parts = _parts_of(item)
    if parts is None:
        what = "is not known" if item is None else "has no parts"
        raise NoValueError(f"{path.rpartition('.')[0] or path} {what}")
    found = list(parts.values()) if step.name == ALL else _named(parts, step.name)
    if not found and step.name != ALL:
        raise NoValueError(_no_such(parts, step.name, path))
    for selector in step.selectors:
        found = _select(found, selector, path)
    return found


def field_path(item: object, steps: Sequence[Step]) -> str:
    """Return a path by the full names of fields: ``memory.spaces.total_bytes``.

    The rule writes ``memory.hbm.total``. Names below a part that is not known are kept as written.
    """
    names: list[str] = []
    for step in steps:
        first = next(iter(item), None) if isinstance(item, Rows) else item
        parts = _parts_of(first) or {}
        key = _key_of(parts, step.name)
        figure = _default_figure(parts, step.name)
        space = f"spaces.{figure}" if figure else "spaces" if _space_of(parts, step.name) else ""
        names.append(key or space or step.name)
        try:
            item = next(iter(step_into(first, step, "")), None)
        except NoValueError:
            item = None
    return ".".join(names)


def _key_of(parts: Mapping[str, object], name: str) -> str | None:
    """Return the full name of a part, with ``_bytes`` appended if need be; None for none."""
    keys = (name, f"{name}_bytes", f"{name}_bytes_per_device", f"{name}_per_device")
    return next((key for key in keys if key in parts), None)


def _named(parts: Mapping[str, object], name: str) -> list[object]:
    """Return the part of a name or short name, the memory space, or a figure of the default one."""
    key = _key_of(parts, name)
    if key is not None:
        return [parts[key]]
    figure = _default_figure(parts, name)
    if figure:
        return [(_parts_of(row) or {})[figure] for row in _space_of(parts, _HBM)]
    return _space_of(parts, name)


def _default_figure(parts: Mapping[str, object], name: str) -> str:
    """Return the name of a figure of bytes that only the default space has; empty for none."""
    if _key_of(parts, name) is not None or not name.endswith("_bytes"):
        return ""
    space = next(iter(_space_of(parts, _HBM)), None)
    return name if name in (_parts_of(space) or {}) else ""


def _space_of(parts: Mapping[str, object], name: str) -> list[object]:
    """Return the memory space of a name; empty for none."""
    spaces = parts.get("spaces")
    rows = list(spaces) if isinstance(spaces, tuple) else []
    named = [row for row in rows if _cell(row, "name").lower() == name.lower()]
    return (named or _default_space(rows, name))[:1]


def _cell(row: object, name: str) -> str:
    return str((_parts_of(row) or {}).get(name))


def _default_space(rows: Sequence[object], name: str) -> list[object]:
    """Return the default memory space for the names ``default`` and HBM.

    For HBM only if XLA calls no space so.
    """
    if name.lower() != DEFAULT and (
        name.upper() != _HBM or any(_cell(row, "name").upper() == _HBM for row in rows)
    ):
        return []
    return [row for row in rows if _cell(row, "color") == "0"]


def _no_such(parts: Mapping[str, object], name: str, path: str) -> str:
    near = get_close_matches(name, list(parts), n=3) or sorted(parts)[:6]
    return f"no figure is called {path}; known here: {', '.join(near)}"


def _select(found: list[object], selector: str, path: str) -> list[object]:
    """Return the rows of lists that a selector chooses."""
    listed: list[object] = []
    for item in found:
        if item is None:
            raise NoValueError(f"{path} is not known")
        if not isinstance(item, (list, tuple)):
            raise NoValueError(f"{path} is no list")
        rows = list(item)
        chosen = rows if selector in ("", ALL) else _chosen(rows, selector, path)
        if "=" in selector or selector in ("", ALL):
            listed.append(Rows(chosen))
        else:
            listed += chosen
    return listed


def _chosen(rows: list[object], selector: str, path: str) -> list[object]:
    """Return rows by name, color, place, or the values of their cells."""
    if "=" in selector:
        return _filtered(rows, selector, path)
    labels = [_labels(row) for row in rows]
    named = [row for row, known in zip(rows, labels, strict=True) if selector in known]
    named = named or _default_space(rows, selector)
    if len(named) == 1:
        return list(named)
    if selector.isdecimal() and not named:
        place = int(selector)
        if place < len(rows):
            return [rows[place]]
    names = [known[0] for known in labels if known]
    what = f"{len(named)} rows of {path} are" if named else f"no row of {path} is"
    there = f"; there is {', '.join(dict.fromkeys(names[:8]))}" if names else ""
    raise NoValueError(f"{what} called {selector!r}{there}")


def _labels(row: object) -> tuple[str, ...]:
    """Return name and color of a row."""
    parts = _parts_of(row) or {}
    return tuple(str(parts[key]) for key in ("name", "color") if parts.get(key) is not None)


def _filtered(rows: list[object], selector: str, path: str) -> list[object]:
    """Return rows whose cells have the given values: ``kind=all-gather,axes=data``."""
    chosen = known = [(row, _parts_of(row) or {}) for row in rows]
    for part in selector.split(","):
        key, _, wanted = (text.strip() for text in part.partition("="))
        if rows and not any(key in cells for _, cells in known):
            raise NoValueError(f"rows of {path} have no {key!r}")
        if key == "kind" and path == "collectives.rows" and wanted not in COLLECTIVE_KINDS:
            there = ", ".join(COLLECTIVE_KINDS)
            raise NoValueError(f"no kind is called {wanted!r}; there is {there}")
        if any(cells.get(key) is None for _, cells in chosen):
            raise NoValueError(f"{key} of some rows of {path} is not known")
        found = [(row, cells) for row, cells in chosen if _is_equal(cells[key], wanted)]
        if key in _NAMES and not found:
            raise NoValueError(f"no row of {path} has {key}={wanted}")
        chosen = found
    return [row for row, _ in chosen]


def _is_equal(value: object, wanted: str) -> bool:
    """Return whether a cell has a value as rules write it; axes in any order."""
    if isinstance(value, (list, tuple)):
        return sorted(map(_text, value)) == sorted(wanted.split("+") if wanted else ())
    return _text(value) == wanted


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_FIGURES = {
    "count": "static_count",
    "static": "static_count",
    "dynamic": COUNT,
    "payload_bytes": PAYLOAD,
    "wire_bytes": WIRE,
    "wire_bytes_per_device": WIRE,
}
"""Figures of a kind of collectives in rules, and the field of their rows."""


def kind_of(steps: Sequence[Step]) -> str | None:
    """Return the kind of a path such as ``collectives.all-gather.count``; None for other paths."""
    if len(steps) < 2 or steps[0].name != "collectives":
        return None
    return steps[1].name if steps[1].name in COLLECTIVE_KINDS else None


def has_bounds(found: CollectiveTotals | None, steps: Sequence[Step]) -> bool:
    """Return whether a path means a sum of one run, of which some part is an upper bound."""
    if found is None or not any(row.is_at_most for row in found.rows):
        return False
    names = [step.name for step in steps]
    if len(names) == _OF_ROWS and names[:2] == ["collectives", "rows"]:
        return bool(steps[1].selectors) and names[2] in (COUNT, PAYLOAD, WIRE)
    return names[0] == "collectives" and _kind_and_figure(names[1:])[1] in ("dynamic", "wire_bytes")


_OF_ROWS = 3
"""Steps of a path to a figure of selected collectives: ``collectives.rows[kind=...].figure``."""


def collective_sum(
    found: CollectiveTotals | None, steps: Sequence[Step], axis: str | None, text: str
) -> SumBounds:
    """Return the sum of a figure over the collectives of a path; raises NoValueError.

    Args:
        found: Collectives of the module.
        steps: The path.
        axis: Mesh axes of the collectives that count, joined by commas; None for all.
        text: The path as written, for messages.
    """
    if found is None:
        raise NoValueError("the collectives are not known: there is no HLO text")
    names = [step.name for step in steps[1:]]
    if len(steps) == _OF_ROWS and names[0] == "rows":
        chosen = _selected(step_into(found, steps[1], "collectives.rows"), found.rows)
        return _sum([*chosen], names[1])
    kind, figure = _kind_and_figure(names)
    if figure not in _FIGURES or kind not in (ALL, *COLLECTIVE_KINDS):
        choices = ", ".join(_FIGURES)
        raise NoValueError(f"{text} is not one of {choices} of a kind")
    rows: Sequence[Collective] = [row for row in found.rows if kind in (ALL, row.kind)]
    if names == ["rows"] and steps[1].selectors:
        rows = [*_selected(step_into(found, steps[1], "collectives.rows"), rows)]
    if axis is not None:
        rows = _along(rows, axis, found)
    return _sum(rows, _FIGURES[figure])


def _kind_and_figure(names: Sequence[str]) -> tuple[str, str]:
    """Return kind and figure named after ``collectives``; no figure if the path has none."""
    match names:
        case [] | ["rows"] | ["static"]:
            return ALL, "count"
        case ["wire_bytes"] | ["wire_bytes_per_device"]:
            return ALL, "wire_bytes"
        case ["static" | "dynamic" as figure, kind] | [kind, figure]:
            return kind, figure
        case [kind]:
            return kind, "count"
    return ALL, ""


def _selected(found: list[object], rows: Sequence[Collective]) -> Iterator[Collective]:
    """Yield the collectives that selectors have found."""
    chosen = {id(row) for item in found for row in (item if isinstance(item, Rows) else [item])}
    return (row for row in rows if id(row) in chosen)


def _along(rows: Sequence[Collective], axis: str, found: CollectiveTotals) -> Sequence[Collective]:
    """Return the rows along one or several axes; raises NoValueError if they are not known."""
    wanted = [name.strip() for name in axis.split(",")]
    if any(row.axes is None for row in rows):
        raise NoValueError("the mesh axes of some collectives are not known")
    wrong = wrong_axis(wanted, found, has_rows=bool(rows))
    if wrong:
        raise NoValueError(wrong)
    return [row for row in rows if sorted(row.axes or ()) == sorted(wanted)]


def wrong_axis(wanted: Sequence[str], found: CollectiveTotals, *, has_rows: bool) -> str:
    """Return a message on names that are not mesh axes; empty if all are or no axis is known."""
    meshes = found.meshes or ((found.mesh,) if found.mesh is not None else ())
    known = {name for mesh in meshes for name in mesh.axes}
    if known.issuperset(wanted) or not (has_rows or known):
        return ""
    there = ", ".join(sorted(known)) or "none"
    hints = {did_you_mean(name, sorted(known)): None for name in wanted if name not in known}
    return f"no mesh axis is called {','.join(wanted)!r}; there is {there}{''.join(hints)}"


def _sum(rows: Sequence[Collective], figure: str) -> SumBounds:
    if figure == "static_count":
        return SumBounds(len(rows), len(rows))
    bounds = run_sum(rows, figure)
    if bounds is None:
        unknown = next(row.kind for row in rows if getattr(row, figure) is None)
        raise NoValueError(f"{figure} of a {unknown} is not known")
    return bounds


ROOT = "findings"
_SEVERITIES = ("error", "warning", "info")
_CODE = re.compile(r"[A-Z]\d{0,3}")
_NEW = "new"
_CHANGES = (_NEW, "gone")
_SHOWN = 3


def counts_new(steps: Sequence[Step]) -> bool:
    """Return whether a metric counts findings that the baseline lacks."""
    return counts_changes(steps) and steps[-1].name == _NEW


def counts_changes(steps: Sequence[Step]) -> bool:
    """Return whether a metric counts findings of one side alone."""
    return steps[0].name == ROOT and steps[-1].name in _CHANGES


def undecided_text(steps: Sequence[Step], facts: ModuleFacts) -> str:
    """Return which rules that a metric counts are undecided, and why; empty if none is."""
    name = steps[1].name if len(steps) == 2 else ""
    codes = [one for one in facts.undecided if not _CODE.fullmatch(name) or one.startswith(name)]
    return f"{listed(codes, _SHOWN)} not decided: {facts.undecided[codes[0]]}" if codes else ""


def finding_count(
    steps: Sequence[Step], facts: ModuleFacts, base: ModuleFacts | None = None
) -> Value:
    """Return the number of findings that a metric counts.

    Args:
        steps: Its path: ``findings``, and what is counted.
        facts: The module.
        base: Its partner in the baseline, for ``findings.new`` and ``findings.gone``.
    """
    found = counted_findings(steps, facts, base)
    if found is not None:
        return Value(number=len(found))
    name = _name(steps)
    if facts.findings is None:
        return Value(number=None, reason="findings are not known: no HLO text")
    if name in _CHANGES:
        return Value(number=None, reason=f"findings.{name} needs a baseline with findings")
    names = "new, gone, all, error, warning, info, or a code such as M001"
    return Value(number=None, reason=f"findings has no {name!r}; there is {names}")


def counted_findings(
    steps: Sequence[Step], facts: ModuleFacts, base: ModuleFacts | None = None
) -> tuple[Finding, ...] | None:
    """Return the findings that a metric counts, most saving first; None if they are not known.

    Args:
        steps: Its path.
        facts: The module.
        base: Its partner in the baseline, for ``findings.new`` and ``findings.gone``.
    """
    name = _name(steps)
    if facts.findings is None:
        return None
    if name in _CHANGES:
        changes = None if base is None else module_finding_changes(base, facts)
        if changes is None:
            return None
        return changes.new if name == _NEW else changes.gone
    counted = tuple(one for one in facts.findings if not one.suppressed)
    if name in ("", "all"):
        return counted
    if name in _SEVERITIES:
        return tuple(one for one in counted if one.severity == name)
    if any(rule.code.startswith(name) for rule in all_rules()):
        return tuple(one for one in counted if one.code.startswith(name))
    return None


def new_among(
    found: tuple[Finding, ...], facts: ModuleFacts, base: ModuleFacts
) -> tuple[Finding, ...]:
    """Return those of some findings of a module that its partner in the baseline lacks."""
    changes = module_finding_changes(base, facts)
    new = set() if changes is None else {id(one) for one in changes.new}
    return tuple(one for one in found if id(one) in new)


def _name(steps: Sequence[Step]) -> str:
    """Return what a metric counts: the last step, if it has no selectors."""
    return steps[1].name if len(steps) == 2 and not steps[1].selectors else ""


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
        return _sum_of_numbers(found, self.text)

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


def _sum_of_numbers(found: list[object], text: str) -> float:
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
