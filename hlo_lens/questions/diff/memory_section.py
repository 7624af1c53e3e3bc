"""Memory changes of a module as text and tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.memory_diff import PEAK, MemoryDiff
from hlo_lens.questions.diff.side_pair import Delta
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.origins import with_marks
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Table, table_of
from hlo_lens.text.amount import Amount, Kind
from hlo_lens.text.units import format_bytes, format_change, format_delta, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.diff.donation_diff import DonationDiff
    from hlo_lens.questions.diff.peak_diff import PeakDiff
    from hlo_lens.questions.snapshots.rows import SpacePeak

NO_CHANGE = "no change"

_MOST_NAMES = 8


def delta_text(delta: Delta, kinds: tuple[Kind, Kind] = (Kind.EXACT, Kind.EXACT)) -> str:
    """Return a size before and after, marked by kind, with the difference; ``?`` if not known."""
    base, head = (
        "?" if size is None else Amount(size, kind).text(format_bytes)
        for size, kind in zip((delta.base, delta.head), kinds, strict=True)
    )
    if delta.base == delta.head:
        return f"{base} ({NO_CHANGE})" if delta.base is not None else "not known"
    if delta.delta is None or delta.base is None or delta.head is None:
        return f"{base} -> {head}"
    percent = format_change(delta.base, delta.head)
    return f"{base} -> {head}, {format_delta(delta.delta)} ({percent})"


def memory_facts(memory: MemoryDiff) -> Iterator[tuple[str, str]]:
    """Yield the changes of total and peaks, or why they are not known."""
    if memory.problem:
        yield "memory", memory.problem
    elif memory.is_outdated:
        yield "memory", "totals and peaks are not compared"
    elif not memory.is_changed:
        yield "memory", NO_CHANGE
    else:
        total = memory.metrics["total_bytes"]
        yield "memory", f"total {delta_text(total, memory.kinds)}"
    small = [peak for peak in memory.peaks if peak.space in memory.small_spaces]
    for peak in memory.peaks:
        if peak.is_peak and peak not in small and (peak.delta_bytes or peak.has_moved):
            label = "peak" if peak.color == 0 else f"peak of {peak.space}"
            yield label, peak_text(peak, memory.kinds)
    texts = [f"{peak.space} {size_text(peak, memory.kinds)}" for peak in small if peak.delta_bytes]
    if texts:
        yield "small spaces", "; ".join(texts)


def peak_text(peak: PeakDiff, kinds: tuple[Kind, Kind]) -> str:
    """Return the change of a space's peak, and where it moved."""
    base, head = peak.base, peak.head
    text = size_text(peak, kinds)
    if base is None or head is None or not peak.has_moved:
        return text
    return f"{text}; moved from {moment_text(base)} to {moment_text(head)}"


def size_text(peak: PeakDiff, kinds: tuple[Kind, Kind]) -> str:
    """Return the change of a space's peak."""
    base, head = peak.base, peak.head
    return delta_text(Delta(base.bytes if base else 0, head.bytes if head else 0), kinds)


def moment_text(peak: SpacePeak) -> str:
    """Return the place of a peak in the program."""
    words = [word for word in (peak.source, peak.op_name) if word]
    return " ".join(words) or peak.opcode or "the whole program"


_COLUMNS = (
    Column("metric", Unit.NONE, "path in the report's memory object"),
    Column("base", Unit.BYTES, "before"),
    Column("head", Unit.BYTES, "after"),
    Column("delta", Unit.BYTES_DELTA, "difference"),
    Column("change", Unit.NONE, "difference in percent"),
)


def statement_tables(memory: MemoryDiff) -> Iterator[Table]:
    """Yield the figures of the statement that differ; of one space, or of each of several.

    Text leaves out those of spaces of few bytes, and the name of the default space; CSV has both.
    """
    rows: list[Row] = [
        (name, delta.base, delta.head, delta.delta, _percent(delta))
        for name, delta in memory.metrics.items()
        if _is_shown(name, memory.metrics)
    ]
    changed = [row for row in rows if row[1] != row[2]]
    folded = tuple(f"spaces[{name}]." for name in memory.small_spaces)
    shown = [row for row in changed if not (folded and str(row[0]).startswith(folded))]
    hidden = len(changed) - len(shown)
    counts = ((len(rows) - len(changed), "without change"), (hidden, "of small spaces not shown"))
    notes = tuple(f"{plural(number, 'figure')} {what}" for number, what in counts if number)
    table = table_of("memory-statement", "Memory of one device", _COLUMNS, changed)
    names = [f"spaces[{peak.space}]." for peak in memory.peaks if peak.color == DEFAULT_SPACE]
    short = [(str(row[0]).removeprefix("".join(names[:1])), *row[1:]) for row in shown]
    text = table_of("memory-statement", table.title, _COLUMNS, short)
    yield replace(text, notes=notes, is_whole=True, is_text_only=True)
    yield replace(table, text_only=("change",), is_data_only=True)


def _is_shown(name: str, metrics: Mapping[str, Delta]) -> bool:
    """Return whether no other figure is the same by definition."""
    if name == PEAK:
        return not any(other.startswith("spaces[") for other in metrics)
    last = name.rpartition(".")[2]
    if not name.startswith("spaces[") or last in ("peak_bytes", "fragmentation_bytes"):
        return True
    return last == "total_bytes" and metrics[name] != metrics[last]


def _percent(delta: Delta) -> str:
    if delta.base is None or delta.head is None or delta.delta is None:
        return ""
    return format_change(delta.base, delta.head)


def peak_table(peak: PeakDiff) -> Table:
    """Return the values that differ in a memory space."""
    title = f"Differences at the peak of {peak.space}"
    if peak.rest:
        title = f"Differences in {peak.space}: values at the peak, and other bytes"
    elif not peak.is_peak:
        title = f"Differences in {peak.space}: all allocated values; no live ranges"
    same = peak.unchanged_groups
    table = Table.of(
        peak,
        title=title,
        shown=("delta_bytes", "change", "source", "shape", "op_name"),
        notes=(f"{plural(same, 'group')} of values without change",) if same else (),
    )
    return with_marks(table)


def donation_text(donations: DonationDiff) -> str:
    """Return the arguments whose memory a result no longer reuses, or newly reuses."""
    parts: list[str] = []
    for change in ("lost", "gained"):
        rows = [row for row in donations.rows() if row[0] == change]
        if not rows:
            continue
        names = listed([str(row[1]) for row in rows], _MOST_NAMES)
        size = format_bytes(donations.bytes_of(change))
        parts.append(f"{change} for {plural(len(rows), 'argument')} of {size}: {names}")
    return "; ".join(parts)
