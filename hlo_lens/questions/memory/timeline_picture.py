"""Picture of memory over the schedule as SVG: bytes held, stacked by role, with loops and the peak.

The colours are those of the page (`hlo_lens/questions/report/html/assets/page.css`).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from hlo_lens.questions.memory.role_names import ROLES
from hlo_lens.text.printable import printable
from hlo_lens.text.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.questions.memory.loop_bands import LoopBand
    from hlo_lens.questions.memory.role_series import RoleSeries

COLORS = {
    "weights": "#5b9bd0",
    "optimizer state": "#c79ac0",
    "caches": "#8f8fd6",
    "inputs": "#58b08b",
    "constants": "#c9c9bf",
    "outputs": "#9cc46b",
    "gathered weights": "#9fd0ef",
    "gradients": "#e0845c",
    "saved activations": "#edb54a",
    "temporaries": "#b9c2c6",
    "other": "#9aa0a3",
}
"""Colour of each role."""

_WIDTH, _HEIGHT = 900, 250
_LEFT, _TOP, _ROW, _COLUMN = 74, 44, 16, 280
_COLUMNS = 800
"""Columns of pixels of the picture."""


@dataclass(frozen=True, kw_only=True)
class TimelinePicture:
    """Memory of one module over its schedule, to be drawn.

    Attributes:
        name: Name of the module.
        space: Name of the memory space.
        series: Bytes of each role.
        bands: Loops.
    """

    name: str
    space: str
    series: RoleSeries
    bands: Sequence[LoopBand] = ()

    @cached_property
    def layers(self) -> list[tuple[str, list[int]]]:
        """Roles with their bytes at each instant, in the order in which they are stacked."""
        return [(role, self.series.series(role)) for role in ROLES if role in self.series.changes]

    @cached_property
    def held(self) -> list[int]:
        """Bytes held at each instant."""
        columns = [bytes_of for _, bytes_of in self.layers]
        return [sum(one) for one in zip(*columns, strict=True)] or [0] * self.series.length

    @property
    def peak(self) -> int:
        """Instant of the most bytes."""
        return max(range(len(self.held)), key=self.held.__getitem__)

    @property
    def title(self) -> str:
        """Name, memory space, and the peak."""
        most = format_bytes(self.held[self.peak])
        return f"{printable(self.name)}, {self.space}: peak {most} at instant {self.peak}"

    @cached_property
    def instants(self) -> list[int]:
        """Instants that are drawn: of each column of pixels the largest and the smallest."""
        length = len(self.held)
        if length <= 2 * _COLUMNS:
            return list(range(length))
        found: set[int] = {0, length - 1}
        for column in range(_COLUMNS):
            part = range(column * length // _COLUMNS, (column + 1) * length // _COLUMNS)
            found |= {max(part, key=self.held.__getitem__), min(part, key=self.held.__getitem__)}
        return sorted(found)

    def stacks(self) -> Iterator[tuple[str, list[int], list[int]]]:
        """Yield role, lower and upper edge of each layer at the drawn instants."""
        low = [0] * len(self.instants)
        for role, series in self.layers:
            high = [
                bottom + series[instant] for bottom, instant in zip(low, self.instants, strict=True)
            ]
            yield role, low, high
            low = high

    @property
    def tick_step(self) -> int:
        """Bytes between marks of the vertical axis."""
        return tick_step(self.held[self.peak])

    def label_places(self, has_room: Callable[[LabelPlace], bool]) -> Iterator[LabelPlace]:
        """Yield for each layer the longest part that is high and has room for its name.

        Args:
            has_room: Returns whether the name of a layer fits into a part of it.
        """
        for role, low, high in self.stacks():
            sizes = [top - bottom for bottom, top in zip(low, high, strict=True)]
            for share in _LABEL_SHARES:
                run = _longest_run([size >= share * max(sizes) > 0 for size in sizes])
                middle = run.start + len(run) // 2
                place = LabelPlace(
                    role=role,
                    start=self.instants[run.start] if run else 0,
                    end=self.instants[run.stop - 1] if run else 0,
                    middle_bytes=low[middle] + sizes[middle] // 2 if run else 0,
                    least_bytes=min((sizes[k] for k in run), default=0),
                )
                if has_room(place):
                    yield place
                    break


_LABEL_SHARES = (0.8, 0.5, 0.25)
"""Parts of the largest height of a layer that its part with the name has at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPlace:
    """Place for the name of a layer in it.

    Attributes:
        role: The layer.
        start: First instant.
        end: Last instant.
        middle_bytes: Height of its middle.
        least_bytes: Its least height between these instants.
    """

    role: str
    start: int
    end: int
    middle_bytes: int
    least_bytes: int


def tick_step(most: int) -> int:
    """Return the least power of two of which at most six make some bytes.

    >>> tick_step(5 << 20), tick_step(7 << 20)
    (1048576, 2097152)
    """
    step = 1
    while most / step > 6:
        step *= 2
    return step


def _longest_run(marks: Sequence[bool]) -> range:
    """Return the places of the longest part of which all are marked.

    >>> _longest_run([True, False, True, True])
    range(2, 4)
    """
    best = range(0)
    first = 0
    for place, is_marked in enumerate((*marks, False)):
        if not is_marked:
            if place - first > len(best):
                best = range(first, place)
            first = place + 1
    return best


def timeline_svg(pictures: Sequence[TimelinePicture]) -> str:
    """Return pictures, one below the other, as one SVG."""
    parts: list[str] = []
    top = 0
    for picture in pictures:
        panel = _Panel(picture)
        parts.append(f'<g transform="translate(0 {top})">\n{"".join(panel.parts())}</g>\n')
        top += panel.height
    size = f'width="{_WIDTH}" height="{top}" viewBox="0 0 {_WIDTH} {top}"'
    label = escape("; ".join(picture.title for picture in pictures))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}" '
        'font-family="system-ui, sans-serif" font-size="11" style="max-width: 100%">\n'
        f'<rect width="{_WIDTH}" height="{top}" fill="#fdfdfb"/>\n{"".join(parts)}</svg>\n'
    )


def timeline_image(pictures: Sequence[TimelinePicture]) -> str:
    """Return pictures as an element of HTML for notebooks.

    An image: of SVG in the output of a notebook that is not trusted, JupyterLab keeps only the text
    (its sanitizer, version 4.6.6, has no tag ``svg``, and does not restrict sources of images).
    """
    data = base64.b64encode(timeline_svg(pictures).encode()).decode()
    label = escape("; ".join(picture.title for picture in pictures))
    return (
        f'<img alt="{label}" style="max-width: 100%" width="{_WIDTH}" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


class _Panel:
    """One picture with its title, axes and key."""

    def __init__(self, picture: TimelinePicture) -> None:
        self._picture = picture
        self._most = max(picture.held, default=0) or 1
        self._last = max(1, len(picture.held))
        self._key_rows = -(-len(picture.layers) // 3)

    @property
    def height(self) -> int:
        """Height in pixels."""
        return _TOP + _HEIGHT + 34 + self._key_rows * _ROW + 12

    def parts(self) -> Iterator[str]:
        """Yield the elements."""
        yield _text(12, 18, self._picture.title, 'font-size="13" font-weight="600"')
        yield from self._axes()
        for role, low, high in self._picture.stacks():
            yield (
                f'<path d="{self._outline(low, high)}" fill="{COLORS[role]}" stroke="#fdfdfb" '
                f'stroke-width="0.6"><title>{role}: {ROLES[role]}</title></path>\n'
            )
        yield from self._loops()
        yield from self._labels()
        x = self._x(self._picture.peak)
        line = f"M{x:.1f} {_TOP}V{_TOP + _HEIGHT}"
        yield f'<path d="{line}" stroke="#1d2326" stroke-dasharray="4 3"/>\n'
        side = ("end", -5) if x > _WIDTH - 120 else ("start", 5)
        text = f"peak {format_bytes(self._most)}"
        anchor = f'text-anchor="{side[0]}" font-weight="600"'
        yield _text(x + side[1], _TOP + 11, text, anchor)
        yield from self._key()

    def _x(self, instant: int) -> float:
        return _LEFT + instant / self._last * (_WIDTH - _LEFT - 12)

    def _y(self, size: int) -> float:
        return _TOP + _HEIGHT * (1 - size / (self._most * 1.06))

    def _outline(self, low: Sequence[int], high: Sequence[int]) -> str:
        """Return the path around a layer: steps to the right along its top, back along its base."""
        instants = [*self._picture.instants, self._last]
        ends = zip(high, instants[1:], strict=True)
        starts = zip(reversed(low), reversed(instants[:-1]), strict=True)
        steps = [f"V{self._y(size):.1f}H{self._x(at):.1f}" for size, at in (*ends, *starts)]
        start = f"M{self._x(instants[0]):.1f} {self._y(low[0]):.1f}"
        return f"{start}{''.join(_without_repeats(steps))}Z"

    def _labels(self) -> Iterator[str]:
        """Yield the names of the layers in which there is room for them."""
        for place in self._picture.label_places(self._has_room):
            x = (self._x(place.start) + self._x(place.end + 1)) / 2
            yield _text(x, self._y(place.middle_bytes) + 4, place.role, 'text-anchor="middle"')

    def _has_room(self, place: LabelPlace) -> bool:
        width = self._x(place.end + 1) - self._x(place.start)
        height = self._y(0) - self._y(place.least_bytes)
        return height >= _ROW and width >= 7 * len(place.role) + 8

    def _axes(self) -> Iterator[str]:
        for size in range(0, round(self._most * 1.06) + 1, tick_step(self._most)):
            y = self._y(size)
            yield f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - 12}" stroke="#e6e8e3"/>\n'
            yield _text(_LEFT - 6, y + 4, format_bytes(size), 'text-anchor="end" fill="#5c676d"')
        for part in range(5):
            instant = (len(self._picture.held) - 1) * part // 4
            anchor = ("start", "middle", "middle", "middle", "end")[part]
            yield _text(
                self._x(instant),
                _TOP + _HEIGHT + 15,
                format_count(instant),
                f'text-anchor="{anchor}" fill="#5c676d"',
            )

    def _loops(self) -> Iterator[str]:
        for band in self._picture.bands:
            if band.depth:
                continue
            x, end = self._x(band.start), self._x(band.end)
            trips = "?" if band.trip_count is None else str(band.trip_count)
            yield (
                f'<rect x="{x:.1f}" y="{_TOP}" width="{end - x:.1f}" height="{_HEIGHT}" '
                'fill="#283c46" fill-opacity="0.06"/>\n'
                f'<path d="M{x:.1f} {_TOP}v-4H{end:.1f}v4" fill="none" stroke="#5c676d"/>\n'
            )
            label = f"{printable(band.loop)} ×{trips}"  # noqa: RUF001
            if end - x > 6 * len(label):
                yield _text(x + 3, _TOP - 7, label, 'fill="#5c676d"')
            elif end - x > 20:
                yield _text(x + 3, _TOP - 7, f"×{trips}", 'fill="#5c676d"')  # noqa: RUF001

    def _key(self) -> Iterator[str]:
        top = _TOP + _HEIGHT + 30
        peak = self._picture.peak
        for number, (role, series) in enumerate(reversed(self._picture.layers)):
            x, y = _LEFT + number % 3 * _COLUMN, top + number // 3 * _ROW
            yield f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLORS[role]}"/>\n'
            yield _text(x + 16, y + 9, f"{role} {format_bytes(series[peak])}", "")


def _without_repeats(steps: Sequence[str]) -> Iterator[str]:
    """Yield steps, of successive ones of the same height the last."""
    for place, step in enumerate(steps):
        height = step.partition("H")[0]
        if place + 1 == len(steps) or not steps[place + 1].startswith(f"{height}H"):
            yield step


def _text(x: float, y: float, text: str, attributes: str) -> str:
    fill = "" if "fill=" in attributes else ' fill="#1d2326"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{fill} {attributes}>{escape(text)}</text>\n'
