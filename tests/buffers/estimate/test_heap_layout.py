"""Heaps laid out: chunks in space and time, allocations, thread-local ones."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hlo_lens.buffers.estimate.heap_layout import (
    Allocation,
    BusyTimes,
    Chunk,
    Interval,
    LayoutRules,
    UsedBytes,
    heap_layout,
    least_bytes,
    pack,
    pack_in_time,
    partition,
    thread_local_allocations,
)
from hlo_lens.buffers.estimate.values import BufferSharing
from tests.buffers.estimate.test_dataflow import flow_of, name_of
from tests.questions.texts import LOOP, entry_of, table_of

EVENTS = 300


def chunk(size: int, *intervals: tuple[int, int], order: int = 0) -> Chunk:
    return Chunk(size, order, [Interval(*interval) for interval in intervals])


@st.composite
def chunk_lists(draw: st.DrawFn) -> list[Chunk]:
    """Draw chunks with disjoint intervals."""
    found = []
    for order in range(draw(st.integers(0, 25))):
        ends = draw(st.lists(st.integers(0, EVENTS - 1), min_size=2, max_size=6, unique=True))
        ends = sorted(ends)[: len(ends) // 2 * 2]
        pairs = list(zip(ends[::2], ends[1::2], strict=True))
        found.append(chunk(draw(st.integers(1, 700)), *pairs, order=order))
    return found


@given(chunk_lists(), st.integers(0, EVENTS - 1), st.integers(0, EVENTS - 1))
def test_used_bytes_are_those_of_all_that_overlap(chunks: list[Chunk], one: int, two: int) -> None:
    used = UsedBytes(EVENTS)
    asked = Interval(min(one, two), max(one, two))
    expected: set[int] = set()
    for number, each in enumerate(chunks):
        start = 37 * number
        for interval in each.intervals:
            used.add(interval, start, start + each.size)
            if interval.start <= asked.end and asked.start <= interval.end:
                expected.update(range(start, start + each.size))
    starts, ends = used.during([asked])
    found = {
        byte
        for start, end in zip(starts, ends, strict=True)
        for byte in range(start, end)  # sorted apart, they still have the same union
    }
    assert found == expected


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12),
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_busy_times(times: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    busy = BusyTimes(40)
    low, high = sorted(asked)
    expected = 0
    for number, pair in enumerate(times):
        start, end = sorted(pair)
        busy.add(1 << number, start, end)
        if start <= high and low <= end:
            expected |= 1 << number
    assert busy.over(low, high) == expected


def offsets(chunks: list[Chunk]) -> list[int]:
    return [each.offset for each in chunks]


def test_the_largest_is_placed_first_and_the_others_in_the_smallest_gap() -> None:
    chunks = [chunk(64, (0, 3)), chunk(256, (1, 2)), chunk(128, (0, 4), order=1)]
    assert pack(chunks, 64, 5) == 448
    assert offsets(chunks) == [384, 0, 256]


def test_chunks_that_live_apart_share_bytes() -> None:
    chunks = [chunk(100, (0, 1)), chunk(100, (2, 3), order=1), chunk(50, (1, 2), order=2)]
    assert pack(chunks, 64, 4) == 178
    assert offsets(chunks) == [0, 0, 128]


def test_a_chunk_with_a_pause_lets_others_in() -> None:
    chunks = [chunk(100, (0, 1), (6, 7)), chunk(100, (3, 4), order=1)]
    assert pack(chunks, 64, 8) == 100
    assert pack_in_time(chunks, 64, 8) == 228, "in time order, a chunk is held from first to last"


def test_in_time_each_takes_the_smallest_gap() -> None:
    chunks = [
        chunk(100, (0, 3)),
        chunk(20, (1, 9), order=1),
        chunk(40, (2, 5), order=2),
        chunk(30, (4, 8), order=3),
        chunk(35, (6, 8), order=4),
    ]
    assert pack_in_time(chunks, 10, 10) == 160
    assert offsets(chunks) == [0, 100, 120, 0, 30]


def test_no_chunks_need_no_heap() -> None:
    assert pack([], 64, 0) == pack_in_time([], 64, 0) == 0


def clashes(chunks: list[Chunk]) -> bool:
    """Whether two chunks hold a byte at one event."""
    for number, one in enumerate(chunks):
        for two in chunks[:number]:
            if one.offset < two.offset + two.size and two.offset < one.offset + one.size:
                pairs = ((a, b) for a in one.intervals for b in two.intervals)
                if any(a.start <= b.end and b.start <= a.end for a, b in pairs):
                    return True
    return False


@given(chunk_lists(), st.sampled_from([1, 64, 256]), st.sampled_from([pack, pack_in_time]))
def test_chunks_alive_at_once_are_disjoint(
    chunks: list[Chunk], alignment: int, rule: object
) -> None:
    assert callable(rule)
    size = rule(chunks, alignment, EVENTS)
    assert not clashes(chunks)
    assert all(each.offset % alignment == 0 for each in chunks)
    assert size == max((each.offset + each.size for each in chunks), default=0)
    assert size >= least_bytes(chunks, EVENTS)


def test_partition_swaps_as_the_standard_library_does() -> None:
    kinds = ["temp", "parameter", "temp", "temp", "parameter", "parameter", "temp"]
    items = [Allocation(number, 0, kind) for number, kind in enumerate(kinds)]
    done, first = partition(items, lambda each: each.kind == "parameter")
    assert [each.size for each in done] == [5, 1, 4, 3, 2, 0, 6]
    assert first == 3


def layout_of(text: str, alignment: int = 64) -> tuple[list[Allocation], list[dict[str, int]]]:
    """Return a module's layout, and the values with offsets in each allocation."""
    flow = flow_of(table_of(text))
    layout = heap_layout(flow, BufferSharing(flow, "cpu"), LayoutRules(alignment=alignment))
    named = [{name_of(flow, v): at for v, at in a.values} for a in layout]
    return layout, named


CHAIN = """HloModule m, is_scheduled=true

ENTRY main {
  p = f32[100]{0} parameter(0)
  a = f32[100]{0} reverse(p), dimensions={0}
  b = f32[100]{0} negate(a)
  c = f32[100]{0} reverse(b), dimensions={0}
  ROOT d = f32[100]{0} reverse(c), dimensions={0}
}
"""


def test_temporaries_go_into_the_output_where_they_fit() -> None:
    layout, named = layout_of(CHAIN)
    assert named == [{"d{}": 0, "a{}": 0, "b{}": 0}, {"p{}": 0}, {"c{}": 0}]
    assert [(a.kind, a.size, a.is_output) for a in layout] == [
        ("output", 400, True),
        ("argument", 400, False),
        ("heap", 400, False),
    ]


def test_outputs_may_be_kept_to_themselves() -> None:
    flow = flow_of(table_of(CHAIN))
    rules = LayoutRules(alignment=512, reuses_outputs=False)
    layout = heap_layout(flow, BufferSharing(flow, "tpu"), rules)
    assert [a.size for a in layout if a.is_temp] == [912]


DONATED = """HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

ENTRY main {
  p = f32[100]{0} parameter(0)
  a = f32[100]{0} negate(p)
  b = f32[100]{0} reverse(a), dimensions={0}
  c = f32[100]{0} reverse(b), dimensions={0}
  e = f32[100]{0} reverse(c), dimensions={0}
  ROOT d = f32[100]{0} reverse(e), dimensions={0}
}
"""


@pytest.mark.parametrize(("reuses", "inside"), [(True, "acdp"), (False, "adp")])
def test_a_value_may_reuse_a_donated_operand(reuses: bool, inside: str) -> None:
    flow = flow_of(table_of(DONATED))
    rules = LayoutRules(alignment=64, reuses_outputs=reuses)
    layout = heap_layout(flow, BufferSharing(flow, "cpu"), rules)
    parameter = next(a for a in layout if a.parameter is not None)
    assert sorted(name_of(flow, v)[0] for v, _ in parameter.values) == sorted(inside)


def test_memory_spaces_are_apart() -> None:
    layout, _ = layout_of(CHAIN.replace("c = f32[100]{0}", "c = f32[100]{0:S(5)}"))
    assert sorted((a.color, a.size) for a in layout if a.is_temp) == [(5, 400)]


def test_tables_of_tuples_follow_the_heap_aligned() -> None:
    table = entry_of("""  p = f32[100]{0} parameter(0)
  t = (f32[100]{0}, f32[100]{0}) custom-call(p), custom_call_target="f"
  a = f32[100]{0} get-tuple-element(t), index=0
  b = f32[100]{0} get-tuple-element(t), index=1
  ROOT c = f32[50]{0} custom-call(a, b), custom_call_target="g\"""")
    flow = flow_of(table)
    layout = heap_layout(flow, BufferSharing(flow, "cpu"), LayoutRules(alignment=64))
    assert [a.size for a in layout if a.is_temp] == [448 + 400 + 48 + 16]


@pytest.mark.parametrize("text", [CHAIN, LOOP])
def test_a_larger_alignment_never_needs_less(text: str) -> None:
    sizes = [sum(a.size for a in layout_of(text, step)[0]) for step in (1, 64, 4096)]
    assert sizes == sorted(sizes)


def test_reducers_are_thread_local() -> None:
    flow = flow_of(
        table_of("""HloModule m, is_scheduled=true

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}

ENTRY main {
  p = f32[100]{0} parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(p, zero), dimensions={0}, to_apply=add
}
""")
    )
    found = thread_local_allocations(flow)
    assert [(a.kind, a.size) for a in found] == [("thread-local", 4)] * 3
