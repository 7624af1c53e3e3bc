"""Values at the peak are padded by a quarter of their memory or more.

What:
    A TPU stores arrays in tiles, such as 8 x 128 elements, and pads the two most minor dimensions
    up to whole tiles. At the peak, arrays of one shape are padded by a quarter of their memory or
    more; the evidence has the dimension that does not fill its tile.

Why it costs:
    The padding takes memory, and is read, written and sent with the array. The saving is the
    padding of these values; those computed from them change too, and XLA may choose another
    layout for the new shape.

Fix:
    Make the dimension a multiple of its tile (128 for the most minor one), or merge it with the
    next one: 16 heads of 8 elements as one dimension of 128. A dimension of size 1, or a few, is
    best kept away from the end of the shape.

Fine when:
    The array is small, or its shape is given by the model, as the size of a head is. It is an info
    below 5% of the peak, below 1 MiB, and where the dimension fills half a tile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import PEAK, ModuleRule
from hlo_lens.questions.findings.values import first_use
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory

_LEAST_PADDING = 0.25
"""Least share of padding in a value."""

_LEAST_SHARE = 0.001
"""Least share of the peak of the padding of a value."""

_WARNING_SHARE, _WARNING_BYTES = 0.05, 1 << 20
"""Least share of the peak, and least bytes, of the padding that is worth a warning.

Not of half a tile: 64 channels, or heads of 64, are the model's choice.
"""

_MOST_VALUES = 200
"""Limit on the values at the peak that are examined, largest first."""


def padded_value(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for the padded values at the peak of each shape."""
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if peak is None:
        return
    groups: dict[str, list[LiveValue]] = {}
    for one in peak.live[:_MOST_VALUES]:
        if "T(" not in one.shape or one.owned_bytes < _LEAST_SHARE * peak.total_bytes:
            continue
        if (one.padding_bytes or 0) >= _LEAST_PADDING * one.owned_bytes:
            groups.setdefault(one.shape, []).append(one)
    for text, values in groups.items():
        yield from _finding(known, peak, text, values)


def _finding(
    known: ModuleDump, peak: PeakMemory, text: str, values: Sequence[LiveValue]
) -> Iterator[Finding]:
    shape = Shape.parse(text)
    found = _short_dimension(shape)
    if found is None:
        return
    dimension, size, tile = found
    padding = sum(one.padding_bytes or 0 for one in values)
    least = max(_WARNING_BYTES, _WARNING_SHARE * peak.total_bytes)
    held = sum(one.owned_bytes for one in values)
    yield Finding(
        message=(
            f"{plural(len(values), 'value')} of shape {shape.to_text(layout=False)} "
            f"{'has' if len(values) == 1 else 'have'} {format_bytes(padding)} of padding in "
            f"{format_bytes(held)}: dimension {dimension} has {plural(size, 'element')} "
            f"in a tile of {tile}"
        ),
        fix=f"make dimension {dimension} a multiple of {tile}, or merge it with another one",
        **at(peak.origin_of(values[0]).place or first_use(known, values[0].parameter_number)),
        values=tuple(one.value for one in values),
        evidence=(f"{values[0].value} is {text}",),
        saves=Saves.up_to(padding),
        severity=None if padding >= least and 2 * size < tile else Severity.INFO,
    )


def _short_dimension(shape: Shape) -> tuple[int, int, int] | None:
    """Return the dimension that fills the least part of its tiles, its size, and the tile's."""
    layout = shape.layout
    if layout is None or not layout.tiles:
        return None
    tile = layout.tiles[0].dimensions
    fill: list[tuple[float, int, int, int]] = []
    for number, extent in zip(layout.minor_to_major, tile[::-1], strict=False):
        size = shape.dimensions[number]
        if size and extent is not None and extent > 1:
            fill.append((size / (-(-size // extent) * extent), number, size, extent))
    return min(fill)[1:] if fill else None


RULE = ModuleRule("M004", padded_value, PEAK)
