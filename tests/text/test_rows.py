"""Sequences over columns."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hlo_lens.text.rows import FewTexts


@given(st.lists(st.sampled_from(("add", "dot", "tuple", "add.1")), max_size=30))
def test_few_texts_are_the_texts(texts: list[str]) -> None:
    few = FewTexts(texts)
    assert list(few) == texts
    assert [few[place] for place in range(len(few))] == texts
    assert list(few[1:-1]) == texts[1:-1]
    assert few.different == tuple(dict.fromkeys(texts))


@given(
    st.lists(st.sampled_from(("add", "dot", "tuple", "add.1")), max_size=30),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_places_of_texts_are_those_in_a_range(texts: list[str], start: int, stop: int) -> None:
    wanted = {"add", "tuple", "absent"}
    expected = [place for place in range(start, min(stop, len(texts))) if texts[place] in wanted]
    assert FewTexts(texts).places_of(wanted, range(start, stop)) == expected


def test_more_texts_than_two_bytes_can_tell_are_kept_apart() -> None:
    texts = [str(number) for number in range(70_000)] * 2
    few = FewTexts(texts)
    assert list(few) == texts
    assert len(few.different) == 70_000
