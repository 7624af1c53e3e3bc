"""The memory timeline as a picture, drawn by matplotlib (an extra)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.report.render.replaced_file import replaced_file
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from hlo_lens.analysis.memory.timeline import MemoryTimeline

FORMATS = (".svg", ".png", ".pdf")
_MEBI = 1 << 20


def plot_timelines(found: Sequence[tuple[str, str, MemoryTimeline]], path: str) -> None:
    """Draw the bytes of each module over its schedule, held and in use, one panel a module.

    Args:
        found: Name of each module, memory space and timeline.
        path: File to write; its ending is the format.

    Raises:
        UsageError: If matplotlib is missing, the format is unknown, or no module has live ranges.
        OutputError: If the file cannot be written.
    """
    if Path(path).suffix not in FORMATS:
        raise UsageError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("drawing needs matplotlib: pip install 'hlo-lens[plot]'") from error
    if not found:
        raise UsageError("no live ranges are known, so there is no timeline to draw")
    figure = Figure(figsize=(9, 2.6 * len(found)), layout="constrained")
    _draw(figure, found)
    with replaced_file(path) as new:
        figure.savefig(new, format=Path(path).suffix[1:])


def _draw(figure: Figure, found: Sequence[tuple[str, str, MemoryTimeline]]) -> None:
    """Draw a panel for each name, memory space and timeline."""
    for panel, (name, space, timeline) in enumerate(found):
        series = timeline.held
        axes = figure.add_subplot(len(found), 1, panel + 1)
        held = [size / _MEBI for size in series]
        used = [size / _MEBI for size in timeline.used]
        axes.fill_between(range(len(held)), held, step="post", label="held", alpha=0.6)
        axes.step(range(len(used)), used, where="post", label="in use", color="black", linewidth=1)
        axes.legend(loc="lower right")
        peak = max(range(len(series)), key=series.__getitem__)
        axes.axvline(peak, color="black", linewidth=0.8, linestyle=":")
        axes.set_title(f"{name}, {space}: peak {series[peak] / _MEBI:.2f} MiB at {peak}")
        axes.set_xlabel("position in the schedule")
        axes.set_ylabel("MiB")
        axes.set_xlim(0, max(1, len(series) - 1))
        axes.set_ylim(bottom=0)
