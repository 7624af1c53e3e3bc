"""Sums and joins over the buffer-side models, compared with the figures that XLA prints."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hlo_lens.buffers.assignment_reader import parse_buffer_assignment, parse_buffer_values
from hlo_lens.buffers.live_range import parse_live_range
from hlo_lens.buffers.memory_usage import parse_memory_usage_report
from hlo_lens.text.source import clean, decode
from tests import buffer_texts, corpus
from tests.buffer_texts import assigned_values
from tests.lark_alone import lark_alone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.buffers.assignment import BufferAssignment, BufferValues
    from hlo_lens.buffers.live_range import HloLiveRange
    from hlo_lens.buffers.memory_usage import MemoryUsageReport
    from hlo_lens.text.errors import Gap

TEXT = """BufferAssignment:
allocation 0: size 100, parameter 0, shape |f32[25]| at ShapeIndex {}, maybe-live-out:
 value: <0 p @0> (size=100,offset=0): f32[25]{0}
 value: <3 add{1} (phi) @0> (size=100,offset=0): f32[25]{0}
allocation 1: size 40, parameter 1, shape |f32[10]| at ShapeIndex {}:
 value: <1 q @0> (size=40,offset=0): f32[10]{0}
allocation 2: size 8, output shape is |(f32[25])|, maybe-live-out:
 value: <4 t{} @0> (size=8,offset=0): (f32[25]{0})
allocation 3: size 4, constant:
 value: <2 c @0> (size=4,offset=0): f32[]
allocation 4: size 500, color 1, preallocated-temp:
 value: <5 x @1> (size=200,offset=0): f32[50]{0:S(1)}
 value: <6 y @1> (size=300,offset=200): f32[75]{0:S(1)}
"""


def test_rows_are_sequences() -> None:
    assignment = parse_buffer_assignment(TEXT)
    allocations = assignment.allocations
    assert [a.index for a in allocations[1:3]] == [1, 2]
    assert allocations[-1].values[-1].name == "y{}"
    assert [v.id for v in assigned_values(assignment)] == [0, 3, 1, 4, 2, 5, 6]
    assert allocations[1:1] == []
    assert allocations[:2] != allocations[1:3]
    assert len({allocations[0], assignment.allocations[0]}) == 1
    assert repr(allocations[0]) == "<BufferAllocation 0: size 100>"
    assert repr(allocations[0].values[1]) == "<AssignedValue 3 add{1}>"


def test_equal_is_what_says_the_same() -> None:
    assert parse_buffer_assignment(TEXT) == parse_buffer_assignment(
        TEXT.replace("\nallocation", "\n\nallocation")
    )
    for old, new in (("size 40", "size 41"), ("constant", "thread-local"), ("(phi) ", "")):
        assert parse_buffer_assignment(TEXT) != parse_buffer_assignment(TEXT.replace(old, new))


# ---- the numbers that XLA prints ---------------------------------------------------------------


@dataclass
class _Module:
    """The buffer-side texts of one module and stage."""

    assignment: BufferAssignment | None = None
    values: BufferValues | None = None
    live_range: HloLiveRange | None = None
    report: MemoryUsageReport | None = None
    gaps: list[Gap] = field(default_factory=list)

    def add(self, kind: str, text: str, name: str) -> None:
        """Read one text; all of it must be whole."""
        if kind == "buffer-assignment":
            self.assignment = parse_buffer_assignment(text, path=name)
            assert self.assignment.is_complete
            self.gaps += self.assignment.gaps
            self.values = self.values or self.assignment.values
            if "\nHloLiveRange " in text:
                self.live_range = parse_live_range(text, path=name)
        elif kind == "buffer-assignment-values":
            self.values = parse_buffer_values(text, path=name)
        elif kind == "live-range":
            self.live_range = parse_live_range(text, path=name)
        else:
            self.report = parse_memory_usage_report(text, path=name)
        for read in (self.values, self.live_range, self.report):
            if read is not None:
                assert read.is_complete
                self.gaps += read.gaps


def _modules(texts: Iterable[tuple[str, bytes]]) -> dict[str, _Module]:
    found: defaultdict[str, _Module] = defaultdict(_Module)
    for name, data in texts:
        found[buffer_texts.stem_of(name)].add(buffer_texts.kind_of(name), decode(data), name)
    return found


def _check_values(assignment: BufferAssignment, values: BufferValues) -> None:
    """Assert that both blocks name the same values, and that the printed total is their sum."""
    assert values.total_bytes == assignment.allocated_bytes
    assert len(values) == len(assigned_values(assignment))
    by_id = {value.id: value for value in values}
    for assigned in assigned_values(assignment):
        value = by_id[assigned.id]
        assert (value.name, value.is_phi, value.color) == (
            assigned.name,
            assigned.is_phi,
            assigned.color,
        )


def _check_report(assignment: BufferAssignment, report: MemoryUsageReport) -> None:
    """Assert that the report's totals and rows are those of the allocations."""
    assert report.total_bytes == assignment.allocated_bytes
    by_color: Counter[int] = Counter()
    sizes: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for allocation in assignment.allocations:
        by_color[allocation.color] += allocation.size
        for value in allocation.values:
            sizes[allocation.index, value.offset].append(value.size)
    if report.is_by_memory_space:
        assert report.bytes_by_color() == by_color
    at_offset: defaultdict[int, list[list[int]]] = defaultdict(list)
    for (_, offset), found in sizes.items():
        at_offset[offset].append(found)
    for row in report.rows:
        assert any(
            len(found) == row.used_by_n_values and row.size.matches(max(found))
            for found in at_offset[row.offset]
        )


def _check_live_range(assignment: BufferAssignment, ranges: HloLiveRange) -> None:
    """Assert that XLA lists the values alive at the printed peak, and that all have a place."""
    if not ranges.is_available or ranges.peak_moment is None:
        return
    alive = ranges.live_at(ranges.peak_moment)
    listed = ranges.peak_values
    if listed and listed[0].index is not None:
        names = Counter((v.instruction_name, v.index) for v in listed)
        assert names == Counter((r.instruction_name, r.index) for r in alive)
    else:
        names_only = Counter(v.instruction_name for v in listed)
        assert names_only == Counter(r.instruction_name for r in alive)
    placed = {value.name for value in assigned_values(assignment)}
    assert {r.name for r in ranges.buffer_live_ranges} <= placed


def _check(modules: dict[str, _Module]) -> None:
    for stem, module in modules.items():
        assert module.gaps == [], stem
        if module.assignment is None:
            continue
        if module.values is not None:
            _check_values(module.assignment, module.values)
        if module.report is not None:
            _check_report(module.assignment, module.report)
        if module.live_range is not None:
            _check_live_range(module.assignment, module.live_range)


_SAMPLES = sorted(
    {p.parent for kind in buffer_texts.KINDS for p in buffer_texts.sample_texts(kind)}
)
_FOLDERS = sorted(
    {p.parent for kind in buffer_texts.KINDS for p in buffer_texts.corpus_texts(kind)}
)


@pytest.mark.parametrize(
    "folder", [*_SAMPLES, *_FOLDERS], ids=lambda folder: "/".join(folder.parts[-2:])
)
def test_what_xla_prints_is_what_is_summed(folder: Path) -> None:
    texts = [p for p in sorted(folder.iterdir()) if buffer_texts.kind_of(p.name)]
    _check(_modules((path.name, corpus.read(path)) for path in texts))


def _assert_same(kind: str, text: str, name: str) -> None:
    """Assert that scanner and grammar give equal models of each part of a text."""
    allocations, values, ranges = text, text, text
    if kind == "buffer-assignment":
        allocations, values, ranges = buffer_texts.combined_parts(text)
        source = clean(buffer_texts.shortened(allocations, kind), name)
        read = parse_buffer_assignment(source)
        with lark_alone():
            assert read == parse_buffer_assignment(source)
    if kind == "memory-usage-report":
        source = clean(buffer_texts.shortened(text, kind), name)
        if "Allocations sorted by size" not in text or source.text == text:
            report = parse_memory_usage_report(source)
            with lark_alone():
                assert report == parse_memory_usage_report(source)
        return
    if values.strip() and kind != "live-range":
        source = clean(buffer_texts.shortened(values, "buffer-assignment-values"), name)
        used = parse_buffer_values(source)
        with lark_alone():
            assert used == parse_buffer_values(source)
    if ranges.strip() and kind != "buffer-assignment-values":
        source = clean(buffer_texts.shortened(ranges, "live-range"), name)
        live = parse_live_range(source)
        with lark_alone():
            assert live == parse_live_range(source)


REAL = [
    (kind, path)
    for kind in buffer_texts.KINDS
    for path in buffer_texts.sample_texts(kind) + buffer_texts.corpus_texts(kind)
]


@pytest.mark.parametrize(("kind", "path"), REAL, ids=lambda one: "/".join(Path(one).parts[-3:]))
def test_real_texts_are_read_alike(kind: str, path: Path) -> None:
    _assert_same(kind, decode(corpus.read(path)), path.name)


@corpus.needs_corpus
@pytest.mark.parametrize("archive", corpus.some_archives())
def test_dumps_of_the_corpus_are_whole_and_read_alike(archive: Path) -> None:
    texts = list(buffer_texts.archived_texts(archive))
    _check(_modules(texts))
    seen: Counter[str] = Counter()
    for name, data in texts:
        kind = buffer_texts.kind_of(name)
        seen[kind] += 1
        if seen[kind] <= 2:
            _assert_same(kind, decode(data), name)
