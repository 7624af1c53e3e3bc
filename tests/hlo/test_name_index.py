"""Hash table from names to numbers."""

from __future__ import annotations

from hlo_lens.hlo.columns import NameIndex


def test_numbers_may_be_any_of_64_bits() -> None:
    names = {0: "a", 7: "b", 1 << 40: "c"}
    index = NameIndex(tuple(names), names.__getitem__)
    assert [index.get(name) for name in "abcd"] == [0, 7, 1 << 40, None]


def test_names_that_collide_are_found() -> None:
    index = NameIndex(range(1000), str)
    assert all(index.get(str(number)) == number for number in range(1000))
    assert index.get("1000") is None
