"""Hash table from names to numbers."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hlo_lens.hlo.columns import NameIndex


@given(st.lists(st.text("ab.", max_size=3), max_size=40))
def test_index_finds_the_last_of_each_name_like_a_dictionary(names: list[str]) -> None:
    known = {name: number for number, name in enumerate(names)}
    index = NameIndex(range(len(names)), names.__getitem__)
    assert {name: index.get(name) for name in known} == known
    assert index.get("other") is None


def test_numbers_may_be_any_of_64_bits() -> None:
    names = {0: "a", 7: "b", 1 << 40: "c"}
    index = NameIndex(tuple(names), names.__getitem__)
    assert [index.get(name) for name in "abcd"] == [0, 7, 1 << 40, None]


def test_names_that_collide_are_found() -> None:
    index = NameIndex(range(1000), str)
    assert all(index.get(str(number)) == number for number in range(1000))
    assert index.get("1000") is None
