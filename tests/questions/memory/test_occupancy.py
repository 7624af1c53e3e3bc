"""Union of bytes over time."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hlo_lens.questions.memory.layout import Occupant, occupied_bytes, owned_bytes

LENGTH = 12


def occupant(offset: int, size: int, start: int, end: int, allocation: int = 0) -> Occupant:
    return Occupant(allocation, offset, size, start, end, 0)


def test_both_ends_count() -> None:
    assert occupied_bytes([occupant(0, 4, 1, 2)], 4) == [0, 4, 4, 0]


def test_bytes_shared_at_one_instant_count_once() -> None:
    series = occupied_bytes([occupant(0, 4, 0, 1), occupant(0, 4, 1, 2)], 4)
    assert series == [4, 4, 4, 0]


def test_partly_shared_bytes_count_once() -> None:
    assert occupied_bytes([occupant(0, 4, 0, 1), occupant(2, 4, 1, 1)], 2) == [4, 6]


def test_allocations_are_apart() -> None:
    assert occupied_bytes([occupant(0, 4, 0, 0), occupant(0, 4, 0, 0, 1)], 1) == [8]


def test_a_range_may_reach_beyond_the_schedule() -> None:
    assert occupied_bytes([occupant(0, 4, 0, 9), occupant(8, 4, 1, 9)], 2) == [4, 8]


occupants = st.lists(
    st.builds(
        lambda a, o, s, b, d: Occupant(a, o, s, b, b + d, 0),
        st.integers(0, 2),
        st.integers(0, 30),
        st.integers(0, 12),
        st.integers(0, LENGTH - 1),
        st.integers(0, LENGTH),
    ),
    max_size=14,
)


@given(occupants)
def test_equals_the_union_at_every_instant(found: list[Occupant]) -> None:
    expected = []
    for instant in range(LENGTH):
        alive = [o for o in found if o.start <= instant <= o.end]
        held = {(o.allocation, b) for o in alive for b in range(o.offset, o.offset + o.size)}
        expected.append(len(held))
    assert occupied_bytes(found, LENGTH) == expected


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10))))
def test_each_byte_belongs_to_the_first_that_holds_it(intervals: list[tuple[int, int]]) -> None:
    taken: set[int] = set()
    expected = []
    for offset, size in intervals:
        held = set(range(offset, offset + size))
        expected.append(len(held - taken))
        taken |= held
    assert owned_bytes(intervals) == expected
    assert sum(expected) == len(taken)
