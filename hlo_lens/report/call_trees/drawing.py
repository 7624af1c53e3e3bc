"""Drawing of a call tree with branches and the amounts of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.call_trees.grouping import BYTE_MEASURES
from hlo_lens.analysis.call_trees.outline import OTHERS
from hlo_lens.analysis.call_trees.source_files import Places
from hlo_lens.report.render.shorten import shorten
from hlo_lens.text.units import format_bytes, format_count, format_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.call_trees.outline import CallTreeOutline, OutlineLine

_WIDTH = 100
_LEAST = 30
_LEVELS = 16
"""Levels that are indented at most; deeper lines have the number of their level instead."""


def amount_text(amount: int, unknown: int, measure: str) -> str:
    """Return an amount in its unit, with ``x?`` for unknown parts."""
    text = format_bytes(amount) if measure in BYTE_MEASURES else format_count(amount)
    return f"{text} + {unknown} x?" if unknown else text


def outline_drawing(outline: CallTreeOutline) -> Iterator[str]:
    """Yield a heading, the lines of an outline, and its residuals."""
    tree = outline.tree
    places = Places(tree.frames)
    is_trace = tree.measure == "calls"
    whole = tree.total
    rows: list[tuple[str, str, str, str]] = []
    bars: list[str] = []
    for line in outline.lines:
        del bars[line.depth :]
        label = _label(outline, line, places)
        branch = "" if not line.depth else "└─ " if line.is_last else "├─ "
        rows.append(
            (
                amount_text(line.total, line.unknown, tree.measure),
                amount_text(line.own, 0, tree.measure) if line.node != OTHERS else "",
                format_ratio(line.total / whole) if whole else "",
                _joined("".join(bars[: _LEVELS + 1]), branch, label, line.depth),
            )
        )
        bars.append("" if not line.depth else "   " if line.is_last else "│  ")
    for name, amount in tree.residuals:
        share = format_ratio(amount / whole) if whole else ""
        rows.append((amount_text(amount, 0, tree.measure), "", share, name))
    columns = (0, 2, 3) if is_trace else (0, 1, 2, 3)
    heading = ("total", "own", "share", "function")
    lines = [heading, *rows]
    widths = [max(len(row[column]) for row in lines) for column in range(3)]
    for row in lines:
        numbers = "  ".join(f"{row[c]:>{widths[c]}}" for c in columns[:-1])
        room = max(_LEAST, _WIDTH - len(numbers) - 2)
        yield f"{numbers}  {_fitted(row[3], room)}"


def _label(outline: CallTreeOutline, line: OutlineLine, places: Places) -> str:
    if line.node == OTHERS:
        return f"[{format_count(line.times)} other{'' if line.times == 1 else 's'}]"
    text = places.text(outline.tree.frame(line.node))
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    times = line.times * (outline.tree.repeats(line.node) if outline.tree.measure == "calls" else 1)
    return f"{shown}  x{times}" if times > 1 else shown


def _joined(bars: str, branch: str, label: str, depth: int) -> str:
    """Return a line of the drawing; a deep one has the number of its level as indentation."""
    if depth <= _LEVELS:
        return f"{bars}{branch}{label}"
    return f"{bars}… level {depth + 1}: {label}"


def _fitted(text: str, room: int) -> str:
    """Return a line that fits: its branches and the end of its path are kept."""
    if len(text) <= room:
        return text
    start = len(text) - len(text.lstrip("│├└─ "))
    return text[:start] + shorten(text[start:], max(_LEAST, room - start))
