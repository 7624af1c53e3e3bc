"""Drawing of the devices that hold each part of a value, as boxes of characters.

Sizes are those of ``jax.debug.visualize_array_sharding`` without colour (jax/_src/debugging.py,
visualize_sharding, of jax 0.10.2), which draws 1-D and 2-D values in equal tiles: ten lines for the
height of the value, its width by the ratio of its sides, two and a half columns for each line. The
same rule draws the cases that jax refuses: uneven and empty tiles, and values of more dimensions,
whose last two dimensions are drawn once for each tile of the others.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.questions.sharding.device_slices import Bounds, DeviceSlice, DeviceSlices

BASE_HEIGHT = 10
MOST_ROWS = 16
MOST_SHEETS = 8
"""Limit of rows of boxes, and of drawings of two dimensions; the rest is only counted."""

_COLUMNS_PER_LINE = 2.5
_NARROWEST, _WIDEST = 9, 80
_LISTED = 8


def draw_boxes(slices: DeviceSlices, *, label: str = "device", width: int = 80) -> tuple[str, ...]:
    """Return the lines of a drawing.

    Args:
        slices: Slice of each device.
        label: Word before the device ids.
        width: Columns of the drawing; to fit, labels are shortened, then columns of boxes cut.
    """
    lines: list[str] = []
    outer = slices.tile_counts[:-2]
    sheets = list(product(*map(range, outer)))
    for sheet in sheets[:MOST_SHEETS]:
        parts = [part for part in slices.slices if part.tile[: len(outer)] == sheet]
        if outer:
            lines += [*([""] if lines else []), _sheet_text(slices, parts[0].bounds[: len(outer)])]
        lines += _sheet(slices, parts, label, width)
    if len(sheets) > MOST_SHEETS:
        lines += ["", f"and {plural(len(sheets) - MOST_SHEETS, 'more sheet')}"]
    return tuple(lines)


def _sheet_text(slices: DeviceSlices, bounds: Bounds) -> str:
    """Return the ranges of a sheet in the outer dimensions: ``[0:4, :, :]``."""
    pairs = zip(bounds, slices.tile_counts, strict=False)
    words = [f"{start}:{end}" if count > 1 else ":" for (start, end), count in pairs]
    return f"[{', '.join([*words, ':', ':'])}]"


def _sheet(
    slices: DeviceSlices, parts: Sequence[DeviceSlice], label: str, width: int
) -> Iterator[str]:
    rank = min(2, len(slices.tile_counts))
    holders: dict[tuple[int, int], list[DeviceSlice]] = {}
    for part in parts:
        row, column = (0, 0, *part.tile[len(part.tile) - rank :])[-2:]
        holders.setdefault((row, column), []).append(part)
    rows = max(row for row, _ in holders) + 1
    columns = max(column for _, column in holders) + 1
    sizes = [size or 0 for size in slices.shape.dimensions[-rank:]] if rank else []
    labels = {place: _label(held, label) for place, held in holders.items()}
    bounds = {place: held[0].bounds[-rank:] if rank else () for place, held in holders.items()}
    widths = [_width(column, sizes, bounds, labels, rows) for column in range(columns)]
    longest = [max(len(labels[row, k]) for row in range(rows)) for k in range(columns)]
    widths = _narrowed(widths, longest, width - columns - 1)
    shown = _columns_that_fit(widths, width)
    if shown < columns:
        labels = {place: text.rpartition(" ")[2] for place, text in labels.items()}
        widths = [max(len(labels[row, k]) for row in range(rows)) + 2 for k in range(columns)]
        shown = _columns_that_fit(widths, width)
    heights = [_height(row, sizes, bounds) for row in range(rows)]
    yield from _drawn(labels, widths[:shown], heights[:MOST_ROWS])
    if rows > MOST_ROWS:
        yield f"and {plural(rows - MOST_ROWS, 'more row')}"
    if columns > shown:
        yield f"and {plural(columns - shown, 'more column')}"


def _label(held: Sequence[DeviceSlice], label: str) -> str:
    """Return the word and the ids of devices, long lists shortened."""
    ids = sorted(part.device for part in held if part.device is not None)
    if not ids:
        return f"every {label}"
    if len(ids) <= _LISTED:
        text = ",".join(map(str, ids))
    elif ids == list(range(ids[0], ids[-1] + 1)):
        text = f"{ids[0]}-{ids[-1]}"
    else:
        text = f"{ids[0]},{ids[1]},...,{ids[-1]}({len(ids)})"
    empty = "(empty)" if held[0].is_empty else ""
    return f"{label} {text}{empty}"


def _width(
    column: int,
    sizes: Sequence[int],
    bounds: Mapping[tuple[int, int], Bounds],
    labels: Mapping[tuple[int, int], str],
    rows: int,
) -> int:
    """Return the columns inside a column of boxes."""
    longest = max(len(labels[row, column]) for row in range(rows))
    if not sizes:
        return max(_NARROWEST - 2, longest)
    start, end = bounds[0, column][-1]
    ratio = (sizes[1] if len(sizes) == 2 else 1) / max(sizes[0], 1)
    base = int(BASE_HEIGHT * ratio)
    wanted = int((end - start) / max(sizes[-1], 1) * base * _COLUMNS_PER_LINE)
    return max(min(max(wanted, _NARROWEST), _WIDEST) - 2, longest)


def _height(row: int, sizes: Sequence[int], bounds: Mapping[tuple[int, int], Bounds]) -> int:
    """Return the lines inside a row of boxes."""
    if len(sizes) < 2:
        return 1
    start, end = bounds[row, 0][0]
    return max(int((end - start) / max(sizes[0], 1) * BASE_HEIGHT) - 2, 0) + 1


def _columns_that_fit(widths: Sequence[int], width: int) -> int:
    """Return the number of columns of boxes that fit, at least one."""
    room, count = width - 1, 0
    while count < len(widths) and room > widths[count]:
        room -= widths[count] + 1
        count += 1
    return max(1, count)


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths that fit if possible, none below its minimum; the widest shrink first."""
    limit = max(widths)
    while limit > 1 and sum(widths) > room:
        limit -= 1
        widths = [max(low, min(w, limit)) for w, low in zip(widths, least, strict=True)]
    return list(widths)


def _drawn(
    labels: Mapping[tuple[int, int], str], widths: Sequence[int], heights: Sequence[int]
) -> Iterator[str]:
    bars = ["─" * width for width in widths]
    yield f"┌{'┬'.join(bars)}┐"
    for row, height in enumerate(heights):
        if row:
            yield f"├{'┼'.join(bars)}┤"
        middle = (height - 1) // 2
        for line in range(height):
            cells = [
                f"{labels[row, column] if line == middle else '':^{width}}"[:width]
                for column, width in enumerate(widths)
            ]
            yield f"│{'│'.join(cells)}│"
    yield f"└{'┴'.join(bars)}┘"
