"""Search for the first bad step, and for the smallest bad set."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hlo_lens.questions.plans.bisection import BAD, GOOD, SKIPPED, first_bad, smallest_bad


@given(st.data())
def test_first_bad_step_is_found_in_few_steps(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 60))
    wanted = data.draw(st.integers(1, count - 1))
    asked: list[int] = []

    def outcome_of(place: int) -> str:
        asked.append(place)
        return BAD if place >= wanted else GOOD

    assert first_bad(count, outcome_of) == (wanted - 1, wanted)
    assert len(asked) <= (count - 1).bit_length()
    assert len(set(asked)) == len(asked)


@given(st.data())
def test_only_skipped_steps_are_between_the_answer(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 30))
    wanted = data.draw(st.integers(1, count - 1))
    skipped = data.draw(st.sets(st.integers(1, count - 2))) if count > 2 else set()

    def outcome_of(place: int) -> str:
        return SKIPPED if place in skipped else BAD if place >= wanted else GOOD

    good, bad = first_bad(count, outcome_of)
    assert good < wanted <= bad
    assert set(range(good + 1, bad)) <= skipped


@given(st.sets(st.integers(0, 25), min_size=1), st.data())
def test_smallest_set_is_the_cause(items: set[int], data: st.DataObject) -> None:
    cause = data.draw(st.sets(st.sampled_from(sorted(items)), min_size=1))
    found = smallest_bad(sorted(items), lambda names: cause <= set(names))
    assert set(found) == cause


def test_one_of_two_causes_is_enough() -> None:
    found = smallest_bad(range(16), lambda names: {3, 4} <= set(names) or 12 in names)
    assert set(found) in ({3, 4}, {12})
