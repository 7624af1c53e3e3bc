"""Files with pictures of memory over the schedule: SVG, or PNG and PDF by matplotlib (an extra)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.questions.memory.timeline_picture import COLORS, timeline_svg
from hlo_lens.render.replaced_file import replaced_file
from hlo_lens.text.errors import OutputError, UsageError
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hlo_lens.questions.memory.timeline_picture import LabelPlace, TimelinePicture

FORMATS = (".svg", ".png", ".pdf")


def plot_timelines(pictures: Sequence[TimelinePicture], path: str) -> None:
    """Draw the bytes of each module over its schedule, stacked by role, one panel a module.

    Args:
        pictures: The modules.
        path: File to write; its ending is the format.

    Raises:
        UsageError: If matplotlib is missing, the format is unknown, or no module has live ranges.
        OutputError: If the file cannot be written.
    """
    ending = Path(path).suffix
    if ending not in FORMATS:
        raise UsageError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    figure = None if ending == ".svg" else _figure(pictures)
    if not pictures:
        raise UsageError("no live ranges are known, so there is no timeline to draw")
    with replaced_file(path) as new:
        if figure is not None:
            figure.savefig(new, format=ending[1:], dpi=150)
            return
        try:
            Path(new).write_text(timeline_svg(pictures), encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _figure(pictures: Sequence[TimelinePicture]) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "drawing PNG and PDF needs matplotlib: pip install 'hlo-lens[plot]'; SVG needs nothing"
        ) from error
    figure = Figure(figsize=(10, 4 * max(1, len(pictures))), layout="constrained")
    for panel, picture in enumerate(pictures):
        _draw(figure.add_subplot(len(pictures), 1, panel + 1), picture)
    return figure


def _draw(axes: Axes, picture: TimelinePicture) -> None:
    """Draw a panel: layers, loops, the peak."""
    instants, peak = picture.instants, picture.peak
    sizes = {role: series[peak] for role, series in picture.layers}
    for role, low, high in picture.stacks():
        label = f"{role} {format_bytes(sizes[role])}"
        axes.fill_between(
            instants, low, high, step="post", color=COLORS[role], linewidth=0, label=label
        )
    for band in picture.bands:
        if band.depth:
            continue
        axes.axvspan(band.start, band.end, color="#283c46", alpha=0.06, linewidth=0)
        trips = "?" if band.trip_count is None else band.trip_count
        text = f"{band.loop} x{trips}"
        axes.text(band.start, 1.01, text, transform=axes.get_xaxis_transform(), fontsize=7)
    _label(axes, picture)
    axes.axvline(peak, color="black", linewidth=0.8, linestyle=":")
    axes.set_title(picture.title, pad=16, fontsize=10)
    axes.set_xlabel("position in the schedule")
    axes.set_yticks(range(0, round(picture.held[peak] * 1.06) + 1, picture.tick_step))
    axes.yaxis.set_major_formatter(lambda size, _: format_bytes(round(size)))
    axes.set_xlim(0, max(1, len(picture.held) - 1))
    axes.set_ylim(0, picture.held[peak] * 1.08 or 1)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5))


_WIDTH, _HEIGHT = 105, 22
"""Letters across a panel, and lines in it, about."""


def _label(axes: Axes, picture: TimelinePicture) -> None:
    """Write the names of the layers, and of the peak, where there is room for them."""
    length, most = max(1, len(picture.held)), picture.held[picture.peak] or 1

    def has_room(place: LabelPlace) -> bool:
        letters = (place.end + 1 - place.start) / length * _WIDTH
        return letters > len(place.role) and place.least_bytes / most * _HEIGHT > 1

    for place in picture.label_places(has_room):
        middle = (place.start + place.end) / 2
        axes.text(middle, place.middle_bytes, place.role, ha="center", va="center", fontsize=8)
    side = "right" if picture.peak > 0.8 * length else "left"
    text = f" peak {format_bytes(most)} "
    axes.text(picture.peak, most, text, ha=side, va="bottom", fontsize=8, fontweight="bold")
