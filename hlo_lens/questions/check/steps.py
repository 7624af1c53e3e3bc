"""One step of a path into typed facts: a field by name, and selectors of rows in brackets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.text.amount import Kind

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
