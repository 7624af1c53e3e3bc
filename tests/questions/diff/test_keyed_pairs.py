"""Pairs of items by keys, strictest first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from hlo_lens.questions.diff.pairs import pair_items

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Item = tuple[str, int]
STAGES: tuple[Callable[[Item], Hashable], ...] = (
    lambda item: item,
    lambda item: item[0] and (item[0],),
)
items = st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(0, 3)), max_size=8)


def _order(item: Item) -> tuple[object, ...]:
    return (item[1],)


@given(items, items)
def test_each_item_is_in_one_pair_or_left_over(base: list[Item], head: list[Item]) -> None:
    found = pair_items(base, head, STAGES, _order)
    assert sorted(one for one, _ in found if one is not None) == sorted(base)
    assert sorted(other for _, other in found if other is not None) == sorted(head)


@given(items, items)
def test_exchanged_sides_give_exchanged_pairs(base: list[Item], head: list[Item]) -> None:
    found, mirrored = (pair_items(*sides, STAGES, _order) for sides in ((base, head), (head, base)))
    assert Counter((b, a) for a, b in found) == Counter(mirrored)


def test_equal_items_are_paired_before_similar_ones() -> None:
    found = pair_items([("a", 1), ("a", 2)], [("a", 2), ("a", 3)], STAGES, _order)
    assert found == [(("a", 2), ("a", 2)), (("a", 1), ("a", 3))]


def test_an_empty_key_excludes_an_item_from_a_stage() -> None:
    found = pair_items([("", 1)], [("", 2)], STAGES, _order)
    assert found == [(("", 1), None), (None, ("", 2))]
