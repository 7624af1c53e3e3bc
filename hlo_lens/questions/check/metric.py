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
from hlo_lens.questions.findings.findings import module_finding_changes
from hlo_lens.questions.findings.rule import all_rules
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import Amount, Kind, format_bytes, listed

if TYPE_CHECKING:
    from hlo_lens.questions.collectives.collective import CollectiveTotals
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.snapshots.figures import ModuleFacts

ALL = "*"
DEFAULT = "default"
"""Selector of the default memory space, whatever the backend calls it."""

ROOT = "findings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Value of a metric, or the reason why there is none.

    `kind` is whether it is exact, a bound or an estimate; `end` the other end of a bound: the least
    of an upper one, the most of a lower one.
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


_STEP = re.compile(r"([^.\[\]]+)((?:\[[^\]]*\])*)(?:\.|$)")
_SELECTOR = re.compile(r"\[([^\]]*)\]")
_PREFIX = re.compile(r"^\$?\.?(?:modules\[\*?\]\.)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A path into the facts of a module, as written, and its parts."""

    text: str
    steps: tuple[Step, ...]

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Return the metric of a text; raises UsageError if it is no path."""
        rest = _PREFIX.sub("", text.strip())
        steps: list[Step] = []
        place = 0
        while place < len(rest) and (match := _STEP.match(rest, place)) is not None:
            selectors = tuple(one.strip() for one in _SELECTOR.findall(match[2]))
            steps.append(Step(match[1].strip(), selectors))
            place = match.end()
        if not steps or place < len(rest) or rest.endswith("."):
            raise UsageError(
                f"not a path into the report: {text!r}; write it like memory.temp_bytes or "
                "memory.spaces[HBM].total_bytes"
            )
        return cls(text=text.strip(), steps=tuple(steps))

    @property
    def root(self) -> str:
        """Field of `ModuleFacts` that the path begins with: ``memory``, ``collectives``, ..."""
        return self.steps[0].name

    @property
    def figure(self) -> str:
        """Name of the figure that it ends with, without its unit: ``temp``."""
        return self.steps[-1].name.lower().removesuffix("_bytes")

    @property
    def is_of_module(self) -> bool:
        """Whether it is a figure of the whole statement of memory: ``memory.temp_bytes``."""
        return self.root == "memory" and len(self.steps) == 2

    @property
    def is_bytes(self) -> bool:
        last = self.steps[-1].name
        is_space = self.root == "memory" and last in ("total", "peak", "temp", "argument", "output")
        return "bytes" in last or is_space

    @property
    def counts_changes(self) -> bool:
        return self.root == ROOT and self.steps[-1].name in _CHANGES

    def value(self, facts: ModuleFacts) -> Value:
        try:
            bounds = _collective_sum(self, facts.collectives)
            if bounds is not None and bounds.is_at_most:
                return Value(number=bounds.most, kind=Kind.AT_MOST, end=bounds.least)
            number = self._number(facts) if bounds is None else bounds.most
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
        items: list[object] = [facts]
        for place, step in enumerate(self.steps, start=1):
            path = ".".join(one.name for one in self.steps[:place])
            items = [part for item in items for part in _step_into(item, step, path)]
        total: float = 0
        for item in items:
            if item is None:
                raise NoValueError(f"{self.text} is not known{missing_text(self.root)}")
            if not isinstance(item, (int, float, list, tuple)):
                raise NoValueError(f"{self.text} is no number")
            total += len(item) if isinstance(item, (list, tuple)) else item
        return total


_WRITES = 'XLA writes it with XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"'
_MISSING = {
    "memory": "there is no buffer assignment and no scheduled HLO text",
    **dict.fromkeys(("collectives", "findings", "flops"), "there is no HLO text"),
}


def missing_text(root: str) -> str:
    """Return what a figure is read from, and what writes it; empty for others."""
    return f": {_MISSING[root]}; {_WRITES}" if root in _MISSING else ""


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
    if isinstance(item, _Rows):
        return [part for row in item for part in _step_into(row, step, path)]
    parts = _parts_of(item)
    if parts is None:
        what = "is not known" if item is None else "has no parts"
        missing = missing_text(path.partition(".")[0]) if item is None else ""
        raise NoValueError(f"{path.rpartition('.')[0] or path} {what}{missing}")
    values = list(parts.values()) if step.name == ALL else _resolved(parts, step.name)
    if not values and step.name != ALL:
        near = get_close_matches(step.name, list(parts), n=3) or sorted(parts)[:6]
        raise NoValueError(f"no figure is called {path}; known here: {', '.join(near)}")
    for selector in step.selectors:
        values = [_selected(value, selector, path) for value in values]
    return values


def _resolved(parts: Mapping[str, object], name: str) -> list[object]:
    """Return the value of a part, none for a name that is not there.

    ``_bytes`` may be left out; figures of bytes that only the default memory space has are parts.
    """
    for key in (name, f"{name}_bytes", f"{name}_bytes_per_device", f"{name}_per_device"):
        if key in parts:
            return [parts[key]]
    spaces = parts.get("spaces")
    rows = spaces if isinstance(spaces, tuple) and name.endswith("_bytes") else ()
    cells = [_parts_of(row) or {} for row in _called(rows, DEFAULT)]
    return [one[name] for one in cells if name in one]


def _called(rows: Sequence[object], label: str) -> list[object]:
    """Return the rows of a name or color.

    The default memory space is also called ``default``, and HBM if XLA calls no space so.
    """
    cells = [_parts_of(row) or {} for row in rows]
    labels = [
        [str(one[key]) for key in ("name", "color") if one.get(key) is not None] for one in cells
    ]
    named = [row for row, own in zip(rows, labels, strict=True) if label in own]
    if named or label.upper() not in (DEFAULT.upper(), _HBM):
        return named
    return [row for row, own in zip(rows, labels, strict=True) if own[1:] == ["0"]]


def _selected(item: object, selector: str, path: str) -> object:
    if item is None:
        raise NoValueError(f"{path} is not known")
    if not isinstance(item, (list, tuple)):
        raise NoValueError(f"{path} is no list")
    if selector in ("", ALL):
        return _Rows(item)
    if "=" in selector:
        return _Rows(_filtered(list(item), selector, path))
    named = _called(item, selector)
    if len(named) == 1:
        return named[0]
    if not named and re.fullmatch(r"\d{1,9}", selector) and int(selector) < len(item):
        return item[int(selector)]
    names = [str(cells["name"]) for cells in map(_parts_of, item) if cells and cells.get("name")]
    what = f"{len(named)} rows of {path} are" if named else f"no row of {path} is"
    there = f"; there is {', '.join(dict.fromkeys(names[:8]))}" if names else ""
    raise NoValueError(f"{what} called {selector!r}{there}")


def _filtered(rows: list[object], selector: str, path: str) -> list[object]:
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
    if isinstance(value, (list, tuple)):
        return sorted(map(str, value)) == sorted(wanted.split("+") if wanted else ())
    return (str(value).lower() if isinstance(value, bool) else str(value)) == wanted


_FIGURES = {
    "count": "",
    "static": "",
    "dynamic": COUNT,
    "payload_bytes": PAYLOAD,
    "wire_bytes": WIRE,
    "wire_bytes_per_device": WIRE,
}
"""Figures of a kind in rules, and the field of the collectives; empty for their number."""


def _collective_sum(metric: Metric, facts: CollectiveTotals | None) -> SumBounds | None:
    """Return the sum of a figure over collectives; None for a path that is read plainly.

    Collectives are summed for a kind, and where some part is an upper bound.
    """
    if metric.root != "collectives":
        return None
    if facts is not None:
        _check_axes(metric, facts)
    found = _kind_and_figure(metric)
    if found is None:
        return None
    if facts is None:
        raise NoValueError(f"the collectives are not known{missing_text('collectives')}")
    kind, figure = found
    if metric.steps[1].name != kind and not any(row.is_at_most for row in facts.rows):
        return None
    chosen: list[object] = [*facts.rows]
    if metric.steps[1].name == "rows":
        (selected,) = _step_into(facts, metric.steps[1], "collectives.rows")
        chosen = selected if isinstance(selected, _Rows) else [selected]
    wanted = {id(row) for row in chosen}
    rows = [row for row in facts.rows if kind in (ALL, row.kind) and id(row) in wanted]
    if not figure:
        return SumBounds(len(rows), len(rows))
    bounds = run_sum(rows, figure)
    if bounds is None:
        unknown = next(row.kind for row in rows if getattr(row, figure) is None)
        raise NoValueError(f"{figure} of a {unknown} is not known")
    return bounds


def _kind_and_figure(metric: Metric) -> tuple[str, str] | None:
    """Return the kind, and the field of the collectives to sum; None for other paths."""
    match [step.name for step in metric.steps[1:]]:
        case [kind, *rest] if kind in COLLECTIVE_KINDS:
            name = ".".join(rest) or "count"
            if name not in _FIGURES:
                choices = ", ".join(_FIGURES)
                raise NoValueError(f"{metric.text} is not one of {choices} of a kind")
            return kind, _FIGURES[name]
        case ["dynamic", kind] if kind in (ALL, *COLLECTIVE_KINDS):
            return kind, COUNT
        case ["wire_bytes" | "wire_bytes_per_device"]:
            return ALL, WIRE
        case ["rows", figure] if figure in (COUNT, PAYLOAD, WIRE) and metric.steps[1].selectors:
            return ALL, figure
    return None


def _check_axes(metric: Metric, facts: CollectiveTotals) -> None:
    """Raise NoValueError if a selector names an axis that the mesh lacks."""
    selectors = [part for step in metric.steps for s in step.selectors for part in s.split(",")]
    texts = [s.partition("=")[2].strip() for s in selectors if s.partition("=")[0] == "axes"]
    wanted = [axis for text in texts for axis in text.split("+") if axis]
    meshes = facts.meshes or ((facts.mesh,) if facts.mesh is not None else ())
    axes = {name for mesh in meshes for name in mesh.axes}
    if not axes.issuperset(wanted) and (facts.rows or axes):
        there = ", ".join(sorted(axes)) or "none"
        hints = {did_you_mean(name, sorted(axes)): None for name in wanted if name not in axes}
        name = ",".join(wanted)
        raise NoValueError(f"no mesh axis is called {name!r}; there is {there}{''.join(hints)}")


_SEVERITIES = ("error", "warning", "info")
_CODE = re.compile(r"[A-Z]\d{0,3}")
_CHANGES = ("new", "gone")
_SHOWN = 3


def undecided_text(metric: Metric, facts: ModuleFacts) -> str:
    """Return which rules that a metric counts are undecided, and why; empty if none is."""
    name = metric.steps[1].name if len(metric.steps) == 2 else ""
    codes = [one for one in facts.undecided if not _CODE.fullmatch(name) or one.startswith(name)]
    return f"{listed(codes, _SHOWN)} not decided: {facts.undecided[codes[0]]}" if codes else ""


def finding_count(metric: Metric, facts: ModuleFacts, base: ModuleFacts | None = None) -> Value:
    """Return the number of findings that a metric counts (`counted_findings`)."""
    counted = counted_findings(metric, facts, base)
    return Value(reason=counted) if isinstance(counted, str) else Value(number=len(counted))


def counted_findings(
    metric: Metric, facts: ModuleFacts, base: ModuleFacts | None = None
) -> tuple[Finding, ...] | str:
    """Return the findings that a metric counts, gravest first, or why they are not known.

    Those of ``findings.new`` and ``findings.gone`` need the partner in the baseline.
    """
    is_plain = len(metric.steps) == 2 and not metric.steps[1].selectors
    name = metric.steps[1].name if is_plain else ""
    if facts.findings is None:
        return f"findings are not known{missing_text('findings')}"
    if name in _CHANGES:
        changes = None if base is None else module_finding_changes(base, facts)
        if changes is None:
            return f"findings.{name} needs a baseline with findings"
        return changes.new if name == "new" else changes.gone
    counted = tuple(one for one in facts.findings if not one.suppressed)
    if name in ("", "all"):
        return counted
    if name in _SEVERITIES:
        return tuple(one for one in counted if one.severity == name)
    if any(rule.code.startswith(name) for rule in all_rules()):
        return tuple(one for one in counted if one.code.startswith(name))
    names = "new, gone, all, error, warning, info, or a code such as M001"
    return f"findings has no {name!r}; there is {names}"
