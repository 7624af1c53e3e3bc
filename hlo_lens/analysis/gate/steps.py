"""One step of a path into the report: by name, and by what selects rows of a list."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from hlo_lens.model.hlo.opcodes import COLLECTIVE_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALL = "*"
_HBM = "HBM"
_NAMES = frozenset({"name", "value", "number"})
"""Cells that say which row it is: none of that name is no number, not the number 0."""


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
class Step:
    """A name, and what stands in brackets after it."""

    name: str
    selectors: tuple[str, ...]


def step_into(item: object, step: Step, path: str) -> list[object] | Value:
    """Return what one step leads to, or why it leads nowhere."""
    if isinstance(item, Rows):
        found_in_rows: list[object] = []
        for row in item:
            part = step_into(row, step, path)
            if isinstance(part, Value):
                return part
            found_in_rows += part
        return found_in_rows
    if not isinstance(item, dict):
        what = "is not known" if item is None else "has no parts"
        return Value(number=None, reason=f"{path.rpartition('.')[0] or path} {what}")
    if step.name == ALL:
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
    spaces = [space for space in as_list(listed) if isinstance(space, dict)]
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
        chosen = rows if selector in ("", ALL) else _chosen(rows, selector, path)
        if isinstance(chosen, Value):
            return chosen
        if "=" in selector or selector in ("", ALL):
            listed.append(Rows(chosen))
        else:
            listed += chosen
    return listed


class Rows(list[object]):
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


def as_list(value: object) -> Sequence[object]:
    """Return a value if it is a list, else an empty one."""
    return value if isinstance(value, (list, tuple)) else ()
