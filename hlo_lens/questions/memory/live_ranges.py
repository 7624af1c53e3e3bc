"""Live ranges of a scheduled module's values, from its text and its heap traces.

For protos and compiled programs, which have no live-range dump. Schedule, values and aliases follow
from the HLO text by XLA's own rules (`hlo_lens.buffers.estimate.dataflow`).

A heap trace adds which values XLA's simulation held at the same time. Its events have no times, but
a value is allocated when the instruction that defines it runs. So a value that is freed between two
allocations lived at least to the first and at most to the second, whose result may reuse its
bytes. Where the rules differ by more than one instant (asynchronous instructions begin one earlier
or later), the trace is right: allocations were made from it.
Source: xla/service/heap_simulator/heap_simulator.cc (RunComputation, FillDebugTrace).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.buffers.assignment import HeapEventKind, HeapTrace
from hlo_lens.buffers.estimate.dataflow import dataflow
from hlo_lens.buffers.estimate.shape_tree import NODES
from hlo_lens.buffers.live_range import LiveRanges
from hlo_lens.questions.memory.estimate import sizes_of, why_no_estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.hlo.query import InstructionTable

_SLACK = 1
"""Instants by which the start of an asynchronous instruction may be off."""

TRACES = "live ranges follow from the schedule and the heap traces of the proto"


def live_ranges(
    table: InstructionTable, *, backend: str | None = None, traces: Iterable[HeapTrace] = ()
) -> LiveRanges | None:
    """Return the live ranges of values; None if the text has no schedule.

    Args:
        table: The module.
        backend: ``cpu``, ``gpu`` or ``tpu`` if the caller knows it.
        traces: Its heap traces.
    """
    if why_no_estimate(table) is not None:
        return None
    flow = dataflow(table, *sizes_of(table, backend))
    name_of = flow.table.module.columns.name
    ranges: dict[str, tuple[int, int]] = {}
    values = flow.values
    for place, start, end in zip(values.places, values.starts, values.ends, strict=True):
        row, node = divmod(place, NODES)
        index = flow.tree(row).index(node) if node else ()
        ranges[f"{name_of(row)}{{{','.join(map(str, index))}}}"] = (start, end)
    found = LiveRanges(
        schedule=[name_of(row) for row in flow.schedule],
        ranges=ranges,
        is_complete=not flow.skipped,
    )
    listed = tuple(traces)
    return _traced(found, listed) if listed else found


def _traced(found: LiveRanges, traces: Sequence[HeapTrace]) -> LiveRanges:
    """Return the ranges with the ends that the heap traces allow."""
    ranges = dict(found.ranges)
    moved: list[str] = []
    for trace in traces:
        starts = _starts(trace, ranges)
        if starts is None:
            continue
        for value, (least, most) in _bounds(trace, starts, len(found.schedule)).items():
            start, end = ranges.get(value, (starts[value], least))
            kept = min(max(end, least), most)
            if abs(kept - end) > _SLACK or value not in ranges:
                ranges[value] = (start, max(start, kept))
                moved.append(value)
    return replace(found, ranges=ranges, moved=tuple(moved), source=TRACES)


def _starts(trace: HeapTrace, ranges: Mapping[str, tuple[int, int]]) -> dict[str, int] | None:
    """Return the instant at which each value of a trace is allocated, in ascending order.

    None if the order is not that of the schedule, as in the fast memory of a TPU, which is
    assigned earlier.
    """
    if not trace.is_whole_module:
        return None
    starts: dict[str, int] = {}
    now = 0
    for event in trace.events:
        if event.kind is not HeapEventKind.FREE and event.value not in starts:
            known = ranges.get(event.value)
            if known is not None and known[0] < now - _SLACK:
                return None
            now = now if known is None else max(now, known[0])
            starts[event.value] = now
    return starts


def _bounds(trace: HeapTrace, starts: Mapping[str, int], end: int) -> dict[str, tuple[int, int]]:
    """Return the first and the last instant at which the live range of each value may end."""
    bounds: dict[str, tuple[int, int]] = {}
    now = 0
    waiting: list[str] = []
    for event in trace.events:
        if event.kind is HeapEventKind.FREE:
            if event.value in starts:
                bounds[event.value] = (now, end)
                waiting.append(event.value)
            continue
        then = starts[event.value]
        if then > now:
            for value in waiting:
                bounds[value] = (bounds[value][0], then)
            waiting.clear()
            now = then
    return bounds
