"""Figures of the collectives of one kind, along one mesh axis, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.program.runs import SumBounds
from hlo_lens.questions.check.steps import ALL, NoValueError, Rows, Step, step_into
from hlo_lens.questions.collectives.sums import COUNT, PAYLOAD, WIRE, run_sum
from hlo_lens.text.nearest_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.snapshots.facts import CollectivesFacts
    from hlo_lens.questions.snapshots.rows import CollectiveFact

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


def has_bounds(found: CollectivesFacts | None, steps: Sequence[Step]) -> bool:
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
    found: CollectivesFacts | None, steps: Sequence[Step], axis: str | None, text: str
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
    rows: Sequence[CollectiveFact] = [row for row in found.rows if kind in (ALL, row.kind)]
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


def _selected(found: list[object], rows: Sequence[CollectiveFact]) -> Iterator[CollectiveFact]:
    """Yield the collectives that selectors have found."""
    chosen = {id(row) for item in found for row in (item if isinstance(item, Rows) else [item])}
    return (row for row in rows if id(row) in chosen)


def _along(
    rows: Sequence[CollectiveFact], axis: str, found: CollectivesFacts
) -> Sequence[CollectiveFact]:
    """Return the rows along one or several axes; raises NoValueError if they are not known."""
    wanted = [name.strip() for name in axis.split(",")]
    if any(row.axes is None for row in rows):
        raise NoValueError("the mesh axes of some collectives are not known")
    wrong = wrong_axis(wanted, found, has_rows=bool(rows))
    if wrong:
        raise NoValueError(wrong)
    return [row for row in rows if sorted(row.axes or ()) == sorted(wanted)]


def wrong_axis(wanted: Sequence[str], found: CollectivesFacts, *, has_rows: bool) -> str:
    """Return a message on names that are not mesh axes; empty if all are or no axis is known."""
    meshes = found.meshes or ((found.mesh,) if found.mesh is not None else ())
    known = {name for mesh in meshes for name in mesh.axes}
    if known.issuperset(wanted) or not (has_rows or known):
        return ""
    there = ", ".join(sorted(known)) or "none"
    hints = {did_you_mean(name, sorted(known)): None for name in wanted if name not in known}
    return f"no mesh axis is called {','.join(wanted)!r}; there is {there}{''.join(hints)}"


def _sum(rows: Sequence[CollectiveFact], figure: str) -> SumBounds:
    if figure == "static_count":
        return SumBounds(len(rows), len(rows))
    bounds = run_sum(rows, figure)
    if bounds is None:
        unknown = next(row.kind for row in rows if getattr(row, figure) is None)
        raise NoValueError(f"{figure} of a {unknown} is not known")
    return bounds
