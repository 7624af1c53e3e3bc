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
from hlo_lens.questions.findings.rule import all_rules
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import Amount, Kind, format_bytes, listed

if TYPE_CHECKING:
    from hlo_lens.questions.collectives.collective import Collective, CollectiveTotals
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.snapshots.figures import ModuleFacts

ALL = "*"
DEFAULT = "default"
"""Selector of the default memory space, whatever the backend calls it."""

ROOT = "findings"


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
        while place < len(rest) and (match := _STEP.match(rest, place)) is not None:
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

    @property
    def is_bytes(self) -> bool:
        """Whether it counts bytes, by its name."""
        last = self.steps[-1].name
        is_space = self.root == "memory" and last in ("total", "peak", "temp", "argument", "output")
        return "bytes" in last or is_space

    @property
    def counts_changes(self) -> bool:
        """Whether it counts findings of one side alone."""
        return self.root == ROOT and self.steps[-1].name in _CHANGES

    @property
    def counts_new(self) -> bool:
        """Whether it counts findings that the baseline lacks."""
        return self.counts_changes and self.steps[-1].name == _NEW

    def field_path(self, facts: ModuleFacts) -> str:
        """Return the path by the full names of fields: ``memory.spaces.total_bytes``.

        The rule writes ``memory.hbm.total``. Names below a part that is not known are kept as
        written.
        """
        names: list[str] = []
        item: object = facts
        for step in self.steps:
            first = next(iter(item), None) if isinstance(item, _Rows) else item
            names.append(_resolved(_parts_of(first) or {}, step.name)[0])
            try:
                item = next(iter(_step_into(first, step, "")), None)
            except NoValueError:
                item = None
        return ".".join(names)

    def value(self, facts: ModuleFacts) -> Value:
        """Return the value in the facts of a module."""
        try:
            bounds = _collective_sum(self, facts.collectives)
            if bounds is not None and bounds.is_at_most:
                return Value(number=bounds.most, kind=Kind.AT_MOST, end=bounds.least)
            if bounds is not None:
                return Value(number=bounds.most)
            number = self._number(facts)
        except NoValueError as error:
            return Value(reason=str(error))
        if self.root == "flops" and facts.flops_is_at_most:
            return Value(number=number, kind=Kind.AT_MOST, end=facts.flops_at_least or 0)
        return Value(number=number)

    def amount_text(self, value: Value) -> str:
        """Return a value as text, marked where it is no exact figure; empty for none."""
        if value.number is None:
            return ""
        if self.is_bytes:
            return Amount(round(value.number), value.kind).text(format_bytes)
        return str(Amount(value.number, value.kind))

    def _number(self, facts: ModuleFacts) -> float:
        """Return the sum of the numbers that the path leads to; a list counts its rows."""
        items: list[object] = [facts]
        for place, step in enumerate(self.steps, start=1):
            path = ".".join(one.name for one in self.steps[:place])
            items = [part for item in items for part in _step_into(item, step, path)]
        total: float = 0
        for item in items:
            if item is None:
                raise NoValueError(f"{self.text} is not known{missing_text(self.root)}")
            if isinstance(item, (int, float)):
                total += item
            elif isinstance(item, (list, tuple)):
                total += len(item)
            else:
                raise NoValueError(f"{self.text} is no number")
        return total


_WRITES = 'XLA writes it with XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"'
_MISSING = {
    "memory": "there is no buffer assignment and no scheduled HLO text",
    **dict.fromkeys(("collectives", "findings", "flops"), "there is no HLO text"),
}


def missing_text(root: str) -> str:
    """Return what a figure is read from, and what writes it; empty for others."""
    return f": {_MISSING[root]}; {_WRITES}" if root in _MISSING else ""


# ---- steps --------------------------------------------------------------------------------------

_HBM = "HBM"
_NAMES = frozenset({"name", "value", "number"})
"""Cells that identify a row: if no row has the name, the metric is not known, rather than 0."""


class _Rows(list[object]):
    """Rows of a list: a path that ends here counts them, a further step goes into each."""


def _parts_of(item: object) -> dict[str, object] | None:
    """Return fields and properties of a dataclass, or items of a mapping; None for others."""
    if isinstance(item, Mapping):
        return dict(item)
    if not is_dataclass(item):
        return None
    properties = [name for name, part in vars(type(item)).items() if isinstance(part, property)]
    return {name: getattr(item, name) for name in (*(f.name for f in fields(item)), *properties)}


def _step_into(item: object, step: Step, path: str) -> list[object]:
    """Return the values that a step leads to; raises NoValueError if there are none."""
    if isinstance(item, _Rows):
        return [part for row in item for part in _step_into(row, step, path)]
    parts = _parts_of(item)
    if parts is None:
        what = "is not known" if item is None else "has no parts"
        missing = missing_text(path.partition(".")[0]) if item is None else ""
        raise NoValueError(f"{path.rpartition('.')[0] or path} {what}{missing}")
    if step.name == ALL:
        values = list(parts.values())
    else:
        values = _resolved(parts, step.name)[1]
        if not values:
            near = get_close_matches(step.name, list(parts), n=3) or sorted(parts)[:6]
            raise NoValueError(f"no figure is called {path}; known here: {', '.join(near)}")
    for selector in step.selectors:
        values = _select(values, selector, path)
    return values


def _resolved(parts: Mapping[str, object], name: str) -> tuple[str, list[object]]:
    """Return the full name of a part and its value, none for a name that is not there.

    ``_bytes`` may be left out; a memory space is a part by its name, and so are the figures of
    bytes that only the default space has.
    """
    for key in (name, f"{name}_bytes", f"{name}_bytes_per_device", f"{name}_per_device"):
        if key in parts:
            return key, [parts[key]]
    for row in _space_of(parts, _HBM) if name.endswith("_bytes") else ():
        if name in (cells := _parts_of(row) or {}):
            return f"spaces.{name}", [cells[name]]
    spaces = _space_of(parts, name)
    return "spaces" if spaces else name, spaces


def _space_of(parts: Mapping[str, object], name: str) -> list[object]:
    """Return the memory space of a name; empty for none."""
    spaces = parts.get("spaces")
    rows = list(spaces) if isinstance(spaces, tuple) else []
    named = [row for row in rows if _cell(row, "name").lower() == name.lower()]
    return (named or _default_space(rows, name))[:1]


def _default_space(rows: Sequence[object], name: str) -> list[object]:
    """Return the default memory space for the names ``default`` and HBM.

    For HBM only if XLA calls no space so.
    """
    has_hbm = any(_cell(row, "name").upper() == _HBM for row in rows)
    if name.lower() != DEFAULT and (name.upper() != _HBM or has_hbm):
        return []
    return [row for row in rows if _cell(row, "color") == "0"]


def _cell(row: object, name: str) -> str:
    return str((_parts_of(row) or {}).get(name))


def _select(values: list[object], selector: str, path: str) -> list[object]:
    """Return the rows of lists that a selector chooses."""
    selected: list[object] = []
    for item in values:
        if item is None:
            raise NoValueError(f"{path} is not known")
        if not isinstance(item, (list, tuple)):
            raise NoValueError(f"{path} is no list")
        if selector in ("", ALL):
            selected.append(_Rows(item))
        elif "=" in selector:
            selected.append(_Rows(_filtered(list(item), selector, path)))
        else:
            selected.append(_called(list(item), selector, path))
    return selected


def _called(rows: list[object], selector: str, path: str) -> object:
    """Return the row of a name, color or place."""
    labels = []
    for row in rows:
        cells = _parts_of(row) or {}
        labels.append([str(cells[key]) for key in ("name", "color") if cells.get(key) is not None])
    named = [row for row, own in zip(rows, labels, strict=True) if selector in own]
    named = named or _default_space(rows, selector)
    if len(named) == 1:
        return named[0]
    if not named and re.fullmatch(r"\d{1,9}", selector) and int(selector) < len(rows):
        return rows[int(selector)]
    names = [own[0] for own in labels if own]
    what = f"{len(named)} rows of {path} are" if named else f"no row of {path} is"
    there = f"; there is {', '.join(dict.fromkeys(names[:8]))}" if names else ""
    raise NoValueError(f"{what} called {selector!r}{there}")


def _filtered(rows: list[object], selector: str, path: str) -> list[object]:
    """Return rows whose cells have the given values: ``kind=all-gather,axes=data``."""
    chosen = every = [(row, _parts_of(row) or {}) for row in rows]
    for part in selector.split(","):
        key, _, wanted = (text.strip() for text in part.partition("="))
        if rows and not any(key in cells for _, cells in every):
            raise NoValueError(f"rows of {path} have no {key!r}")
        if key == "kind" and path == "collectives.rows" and wanted not in COLLECTIVE_KINDS:
            there = ", ".join(COLLECTIVE_KINDS)
            raise NoValueError(f"no kind is called {wanted!r}; there is {there}")
        if any(cells.get(key) is None for _, cells in chosen):
            raise NoValueError(f"{key} of some rows of {path} is not known")
        chosen = [(row, cells) for row, cells in chosen if _is_equal(cells[key], wanted)]
        if key in _NAMES and not chosen:
            raise NoValueError(f"no row of {path} has {key}={wanted}")
    return [row for row, _ in chosen]


def _is_equal(value: object, wanted: str) -> bool:
    """Return whether a cell has a value as rules write it; axes in any order."""
    if isinstance(value, (list, tuple)):
        return sorted(map(str, value)) == sorted(wanted.split("+") if wanted else ())
    return (str(value).lower() if isinstance(value, bool) else str(value)) == wanted


# ---- collectives --------------------------------------------------------------------------------

_FIGURES = {
    "count": "static_count",
    "static": "static_count",
    "dynamic": COUNT,
    "payload_bytes": PAYLOAD,
    "wire_bytes": WIRE,
    "wire_bytes_per_device": WIRE,
}
"""Figures of a kind of collectives in rules, and the field of their rows."""


def _collective_sum(metric: Metric, facts: CollectiveTotals | None) -> SumBounds | None:
    """Return the sum of a figure over collectives; None for a path that `Metric` reads plainly.

    Collectives are summed for a kind, along an axis, and where some part is an upper bound.
    """
    if facts is not None:
        _check_axes(metric, facts)
    if metric.root != "collectives":
        return None
    steps = metric.steps[1:]
    kind, figure = _kind_and_figure([step.name for step in steps])
    first = steps[0].name if steps else ""
    is_of_rows = first == "rows" and bool(steps[0].selectors)
    if metric.axis is None and first not in COLLECTIVE_KINDS:
        sums = (COUNT, PAYLOAD, WIRE) if is_of_rows else ("dynamic", "wire_bytes")
        is_sum = figure in sums and (is_of_rows or first != "rows")
        if not is_sum or facts is None or not any(row.is_at_most for row in facts.rows):
            return None
    if facts is None:
        raise NoValueError(f"the collectives are not known{missing_text('collectives')}")
    field = figure if is_of_rows and figure in _FIGURES.values() else _FIGURES.get(figure)
    if field is None or kind not in (ALL, *COLLECTIVE_KINDS):
        choices = ", ".join(_FIGURES)
        raise NoValueError(f"{metric.text} is not one of {choices} of a kind")
    rows = _counted_rows(metric, facts, kind)
    if field == "static_count":
        return SumBounds(len(rows), len(rows))
    bounds = run_sum(rows, field)
    if bounds is None:
        unknown = next(row.kind for row in rows if getattr(row, field) is None)
        raise NoValueError(f"{field} of a {unknown} is not known")
    return bounds


def _counted_rows(metric: Metric, facts: CollectiveTotals, kind: str) -> list[Collective]:
    """Return the collectives of a kind that the selectors and the axis of a metric choose."""
    rows = [row for row in facts.rows if kind in (ALL, row.kind)]
    step = metric.steps[1] if len(metric.steps) > 1 else Step("", ())
    if step.name == "rows" and step.selectors:
        chosen: set[int] = set()
        for item in _step_into(facts, step, "collectives.rows"):
            chosen |= {id(row) for row in (item if isinstance(item, _Rows) else [item])}
        rows = [row for row in rows if id(row) in chosen]
    if metric.axis is None:
        return rows
    wanted = [name.strip() for name in metric.axis.split(",")]
    if any(row.axes is None for row in rows):
        raise NoValueError("the mesh axes of some collectives are not known")
    _check_mesh(wanted, facts, has_rows=bool(rows))
    return [row for row in rows if sorted(row.axes or ()) == sorted(wanted)]


def _kind_and_figure(names: Sequence[str]) -> tuple[str, str]:
    """Return kind and figure named after ``collectives``; no figure if the path has none."""
    match names:
        case [] | ["rows"] | ["static"]:
            return ALL, "count"
        case ["wire_bytes"] | ["wire_bytes_per_device"]:
            return ALL, "wire_bytes"
        case ["rows", figure]:
            return ALL, figure
        case ["static" | "dynamic" as figure, kind] | [kind, figure]:
            return kind, figure
        case [kind]:
            return kind, "count"
    return ALL, ""


def _check_axes(metric: Metric, facts: CollectiveTotals) -> None:
    """Raise NoValueError if a selector names an axis that the mesh lacks."""
    selectors = [part for step in metric.steps for s in step.selectors for part in s.split(",")]
    axes = [s.partition("=")[2].strip() for s in selectors if s.partition("=")[0] == "axes"]
    wanted = [axis for text in axes for axis in text.split("+") if axis]
    _check_mesh(wanted, facts, has_rows=bool(facts.rows))


def _check_mesh(wanted: Sequence[str], facts: CollectiveTotals, *, has_rows: bool) -> None:
    """Raise NoValueError for names that are no mesh axes, where there are collectives or axes."""
    meshes = facts.meshes or ((facts.mesh,) if facts.mesh is not None else ())
    axes = {name for mesh in meshes for name in mesh.axes}
    if wanted and not axes.issuperset(wanted) and (has_rows or axes):
        there = ", ".join(sorted(axes)) or "none"
        hints = {did_you_mean(name, sorted(axes)): None for name in wanted if name not in axes}
        name = ",".join(wanted)
        raise NoValueError(f"no mesh axis is called {name!r}; there is {there}{''.join(hints)}")


# ---- findings -----------------------------------------------------------------------------------

_SEVERITIES = ("error", "warning", "info")
_CODE = re.compile(r"[A-Z]\d{0,3}")
_NEW = "new"
_CHANGES = (_NEW, "gone")
_SHOWN = 3


def undecided_text(metric: Metric, facts: ModuleFacts) -> str:
    """Return which rules that a metric counts are undecided, and why; empty if none is."""
    name = metric.steps[1].name if len(metric.steps) == 2 else ""
    codes = [one for one in facts.undecided if not _CODE.fullmatch(name) or one.startswith(name)]
    return f"{listed(codes, _SHOWN)} not decided: {facts.undecided[codes[0]]}" if codes else ""


def finding_count(metric: Metric, facts: ModuleFacts, base: ModuleFacts | None = None) -> Value:
    """Return the number of findings that a metric counts.

    Args:
        metric: The metric.
        facts: The module.
        base: Its partner in the baseline, for ``findings.new`` and ``findings.gone``.
    """
    counted = counted_findings(metric, facts, base)
    if counted is not None:
        return Value(number=len(counted))
    name = _counted_name(metric)
    if facts.findings is None:
        return Value(reason=f"findings are not known{missing_text('findings')}")
    if name in _CHANGES:
        return Value(reason=f"findings.{name} needs a baseline with findings")
    names = "new, gone, all, error, warning, info, or a code such as M001"
    return Value(reason=f"findings has no {name!r}; there is {names}")


def counted_findings(
    metric: Metric, facts: ModuleFacts, base: ModuleFacts | None = None
) -> tuple[Finding, ...] | None:
    """Return the findings that a metric counts, gravest first; None if they are not known.

    Args:
        metric: The metric.
        facts: The module.
        base: Its partner in the baseline, for ``findings.new`` and ``findings.gone``.
    """
    name = _counted_name(metric)
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


def _counted_name(metric: Metric) -> str:
    """Return what a metric counts: the last step, if it has no selectors."""
    is_plain = len(metric.steps) == 2 and not metric.steps[1].selectors
    return metric.steps[1].name if is_plain else ""
