"""Memory over the schedule: bytes at each instant, loops, and pictures (the extra ``plot``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate, count, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.load.fact import fact
from hlo_lens.program.runs import call_counts
from hlo_lens.questions.memory.layout import (
    DEFAULT_SPACE,
    MemoryLayout,
    by_allocation,
    owned_changes,
)
from hlo_lens.questions.memory.peak import rows_of_names
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import ROLES, MemoryRoles, memory_roles
from hlo_lens.questions.memory.statement import space_name
from hlo_lens.render.replaced_file import replaced_file
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.errors import UsageError, printable
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from matplotlib.axes import Axes

    from hlo_lens.load.module import ModuleDump


@dataclass(frozen=True, kw_only=True)
class RoleSeries:
    """Bytes of each role over the schedule: the changes by instant, ascending, of `length`."""

    length: int
    changes: Mapping[str, Mapping[int, int]]

    def series(self, role: str) -> list[int]:
        changes = self.changes.get(role, {})
        return list(accumulate(changes.get(t, 0) for t in range(self.length)))


def role_series(module: ModuleDump, color: int) -> RoleSeries | None:
    """Return the bytes of each role over the schedule; None without live ranges."""
    roles = memory_roles(module)
    return None if roles is None else series_of_roles(roles, color=color)


def series_of_roles(roles: MemoryRoles, *, color: int = DEFAULT_SPACE) -> RoleSeries | None:
    """Return the bytes of each role over a schedule; None without live ranges."""
    layout = roles.layout
    if layout.length is None:
        return None
    changes: dict[str, Counter[int]] = {role: Counter() for role in ROLES}
    for allocation in layout.held(color):
        changes[roles.allocations[allocation.index].role][0] += allocation.size
    for group in by_allocation(layout.occupants(color, is_temp=True), layout.length):
        for instant, number, delta in owned_changes(group):
            if instant < layout.length:
                changes[roles.values[group[number].key].role][instant] += delta
    kept = {
        role: {instant: delta for instant, delta in sorted(of_role.items()) if delta}
        for role, of_role in changes.items()
    }
    return RoleSeries(length=layout.length, changes={role: c for role, c in kept.items() if c})


class LoopBand(NamedTuple):
    """A loop of a flattened schedule, with the first and last instant of its condition and body."""

    loop: str  # the while instruction, which runs at `end`
    start: int
    end: int
    trip_count: int | None  # of one run of the loop
    depth: int  # number of loops around it


@fact
def loop_bands(dump: ModuleDump) -> tuple[LoopBand, ...]:
    """Return the loops in the order in which they begin; none without live ranges or HLO text."""
    memory, module = memory_results(dump), dump.hlo
    if memory is None or memory.layout.schedule is None or module is None:
        return ()
    schedule, calls = memory.layout.schedule, call_counts(dump)
    rows = rows_of_names(module, set(schedule))
    owners, links = module.links.owners, module.links.calls
    first: dict[int, int] = {}  # computation to its first instant, bodies of its loops included
    bands: list[LoopBand] = []
    for instant, name in enumerate(schedule):
        row = rows.get(name)
        if row is None:
            continue
        start = instant
        if module.opcodes[row] == "while":
            called = [call.place for call in links.of_row(row) if call.place != NOTHING]
            start = min((first[place] for place in called if place in first), default=instant)
            if start < instant:
                trips = calls.trip_count(module.instruction(row))
                bands.append(LoopBand(name, start, instant, trips, 0))
        first[owners[row]] = min(first.get(owners[row], start), start)
    bands.sort(key=lambda band: (band.start, -band.end, band.loop))
    ends: list[int] = []  # of the loops around the current one
    for number, band in enumerate(bands):
        while ends and ends[-1] < band.start:
            ends.pop()
        bands[number] = band._replace(depth=len(ends))
        ends.append(band.end)
    return tuple(bands)


class Instant(NamedTuple):
    """Bytes of a memory space at one instant."""

    position: Annotated[int, "instant, from 0"]
    instruction: Annotated[str | None, "instruction that runs then"]
    held_bytes: Annotated[int, Unit.BYTES, "bytes held: whole arguments and outputs, temporaries"]
    occupied_bytes: Annotated[int, Unit.BYTES, "bytes in use: values alive"]


@dataclass(frozen=True, kw_only=True)
class MemoryTimeline(Records[Instant]):
    """Bytes of a memory space at each instant, one more than the schedule has instructions."""

    KIND: ClassVar[str] = "memory-timeline"
    instants: tuple[Instant, ...]
    color: int


def memory_timeline(layout: MemoryLayout, *, color: int = DEFAULT_SPACE) -> MemoryTimeline | None:
    """Return the bytes over the schedule; None where no live ranges are known."""
    held, used = layout.held_series(color), layout.used_series(color)
    if held is None or used is None or layout.schedule is None:
        return None
    columns = zip(count(), (*layout.schedule, None), held, used, strict=False)
    return MemoryTimeline(color=color, instants=tuple(starmap(Instant, columns)))


FORMATS = (".svg", ".png", ".pdf")

COLORS = {
    "weights": "#5b9bd0",
    "optimizer state": "#c79ac0",
    "caches": "#8f8fd6",
    "inputs": "#58b08b",
    "constants": "#c9c9bf",
    "outputs": "#9cc46b",
    "gathered weights": "#9fd0ef",
    "copies of weights": "#7da7d9",
    "copies of arguments": "#a3d3bd",
    "gradients": "#e0845c",
    "saved activations": "#edb54a",
    "temporaries": "#b9c2c6",
    "other": "#9aa0a3",
}
"""Colour of each role."""

_COLUMNS = 800
"""Columns of pixels of a picture."""


class Timeline(NamedTuple):
    """Memory of one module in a memory space over its schedule, to be drawn."""

    name: str
    space: str
    series: RoleSeries
    bands: Sequence[LoopBand] = ()


def timelines(modules: Iterable[ModuleDump], color: int) -> Iterator[Timeline]:
    """Yield the timelines of the modules whose live ranges are known."""
    for module in modules:
        memory, series = memory_results(module), role_series(module, color)
        if memory is not None and series is not None:
            space = space_name(color, memory.backend)
            yield Timeline(name=module.name, space=space, series=series, bands=loop_bands(module))


def plot_timelines(drawn: Sequence[Timeline], path: str) -> None:
    """Draw the bytes of each module over its schedule, stacked by role, one panel a module.

    Raises:
        UsageError: If matplotlib is missing, the format is unknown, or no module has live ranges.
        OutputError: If the file cannot be written.
    """
    ending = Path(path).suffix
    if ending not in FORMATS:
        raise UsageError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'hlo-lens[plot]'")
    if not drawn:
        raise UsageError("no live ranges are known, so there is no timeline to draw")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with replaced_file(path) as new, rc_context({"svg.fonttype": "none"}):
        figure = Figure(figsize=(10, 4 * len(drawn)), layout="constrained")
        for panel, timeline in enumerate(drawn):
            _draw(figure.add_subplot(len(drawn), 1, panel + 1), timeline)
        figure.savefig(new, format=ending[1:], dpi=150)


def thinned(held: Sequence[int]) -> list[int]:
    """Return the instants to draw: of each column of pixels the largest and the smallest."""
    length = len(held)
    if length <= 2 * _COLUMNS:
        return list(range(length))
    drawn = {0, length - 1}
    for column in range(_COLUMNS):
        part = range(column * length // _COLUMNS, (column + 1) * length // _COLUMNS)
        drawn |= {max(part, key=held.__getitem__), min(part, key=held.__getitem__)}
    return sorted(drawn)


def _draw(axes: Axes, timeline: Timeline) -> None:
    """Draw a panel: roles, loops, the peak. Names of a dump are no formulas (``$``)."""
    series = timeline.series
    layers = {role: series.series(role) for role in ROLES if role in series.changes}
    held = [sum(one) for one in zip(*layers.values(), strict=True)] or [0] * series.length
    instants, peak, length = thinned(held), held.index(max(held)), len(held)
    most, size = held[peak] or 1, format_bytes(held[peak])
    axes.stackplot(
        instants,
        *([layer[instant] for instant in instants] for layer in layers.values()),
        labels=[f"{role} {format_bytes(layer[peak])}" for role, layer in layers.items()],
        colors=[COLORS[role] for role in layers],
        step="post",
        linewidth=0,
    )
    for band in timeline.bands:
        if band.depth:
            continue
        axes.axvspan(band.start, band.end, color="#283c46", alpha=0.06, linewidth=0)
        text = f"{printable(band.loop)} x{'?' if band.trip_count is None else band.trip_count}"
        where = axes.get_xaxis_transform()
        axes.text(band.start, 1.01, text, transform=where, fontsize=7, parse_math=False)
    axes.axvline(peak, color="black", linewidth=0.8, linestyle=":")
    side = "right" if peak > 0.8 * length else "left"
    axes.text(peak, most, f" peak {size} ", ha=side, va="bottom", fontsize=8, fontweight="bold")
    title = f"{printable(timeline.name)}, {timeline.space}: peak {size} at instant {peak}"
    axes.set_title(title, pad=16, fontsize=10, parse_math=False)
    axes.set_xlabel("position in the schedule")
    axes.set_yticks(range(0, round(most * 1.06) + 1, 1 << max(0, (most // 6).bit_length())))
    axes.yaxis.set_major_formatter(lambda size, _: format_bytes(round(size)))
    axes.set_xlim(0, max(1, length - 1))
    axes.set_ylim(0, most * 1.08)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5))
