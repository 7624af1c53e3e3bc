"""Plans chosen of attempts."""

from __future__ import annotations

from hlo_lens.questions.plans.plans import Attempt, Place, chosen_plans, closest
from hlo_lens.questions.what_if.candidates import Candidate
from hlo_lens.questions.what_if.figures import Figures


def change(name: str, kind: str = "shard") -> Candidate:
    return Candidate(kind=kind, change=name, values=(name,), requests=(name,), saves_bytes=1)


def attempt(*names: Candidate, total: int = 5, wire: int = 0, fits: bool = True) -> Attempt:
    figures = Figures(total_bytes=total, wire_bytes_per_device=wire)
    return Attempt(place=Place(), changes=names, figures=figures, total_bytes=total, fits=fits)


A, B, C = change("a"), change("b"), change("c", "dtype")


def test_plans_that_send_less_come_first_and_other_numerics_last() -> None:
    one, other, typed = attempt(A, wire=9), attempt(B, wire=3), attempt(C)
    assert chosen_plans([one, other, typed]) == (other, one, typed)


def test_plan_with_needless_changes_is_left_out_unless_it_sends_less() -> None:
    small, large = attempt(A, wire=9), attempt(A, B, wire=9)
    assert chosen_plans([large, small]) == (small,)
    less = attempt(A, B, wire=8)
    assert chosen_plans([less, small]) == (less, small)


def test_at_most_five_plans_of_attempts_that_fit() -> None:
    attempts = [attempt(change(str(number)), fits=number != 3) for number in range(9)]
    assert len(chosen_plans(attempts)) == 5
    assert attempts[3] not in chosen_plans(attempts)


def test_attempts_of_unknown_size_are_the_least_close() -> None:
    unknown = Attempt(place=Place(), why_not="refused")
    large = attempt(A, total=9, fits=False)
    assert closest([unknown, large, attempt(B, total=7, fits=False)], 2)[1] == large


def test_smaller_hardware_comes_first() -> None:
    small, large = Place(target="v5e:2x2", devices=4), Place(target="v5e:2x4", devices=8)
    plans = [Attempt(place=one, total_bytes=1, fits=True) for one in (large, small)]
    assert [one.place for one in chosen_plans(plans)] == [small, large]
