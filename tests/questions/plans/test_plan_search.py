"""Search of changes with which a program fits, with a compiler that adds up savings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.plans.fit import search, worth_trying
from hlo_lens.questions.plans.plans import Attempt, Place, chosen_plans
from hlo_lens.questions.what_if.candidates import Candidate

if TYPE_CHECKING:
    from collections.abc import Sequence

BASE = 100


def change(name: str, saves: int = 10, *, kind: str = "shard", value: str = "") -> Candidate:
    values = (value or name,)
    return Candidate(kind=kind, change=name, values=values, requests=(name,), saves_bytes=saves)


class Compiler:
    """Compiles combinations: each change saves what `saves` has for it."""

    def __init__(self, limit: int, saves: dict[str, int], most: int = 99) -> None:
        self.limit = limit
        self.saves = saves
        self.most = most
        self.made: list[frozenset[str]] = []

    def __call__(self, combinations: Sequence[Sequence[Candidate]]) -> list[Attempt | None]:
        return [self.attempt(tuple(one)) for one in combinations]

    def attempt(self, changes: tuple[Candidate, ...]) -> Attempt | None:
        if len(self.made) >= self.most:
            return None
        self.made.append(frozenset(one.change for one in changes))
        total = BASE - sum(self.saves[one.change] for one in changes)
        return Attempt(place=Place(), changes=changes, total_bytes=total, fits=total <= self.limit)


def tried(limit: int, saves: dict[str, int], most: int = 99, **values: str) -> list[Attempt]:
    changes = [change(name, value=values.get(name, "")) for name in saves]
    base = Attempt(place=Place(), total_bytes=BASE, fits=False)
    found, _ = search(base, changes, limit, Compiler(limit, saves, most))
    return found


def plans(attempts: Sequence[Attempt]) -> list[set[str]]:
    return [{one.change for one in plan.changes} for plan in chosen_plans(attempts)]


def test_change_that_fits_alone_is_the_plan() -> None:
    assert plans(tried(80, {"a": 25, "b": 5})) == [{"a"}]


def test_changes_are_combined_in_the_order_of_their_savings() -> None:
    found = tried(60, {"a": 5, "b": 20, "c": 30})
    assert plans(found) == [{"b", "c"}]
    assert {one.change for one in found[3].changes} == {"b", "c"}


def test_change_that_is_not_needed_is_left_out_again() -> None:
    found = tried(45, {"a": 30, "b": 26, "c": 25, "d": 2})
    assert {"a", "b"} in plans(found)
    assert all(len(one) == 2 for one in plans(found))


def test_changes_that_raise_memory_are_not_combined() -> None:
    found = tried(60, {"a": 30, "b": -5, "c": 8})
    assert not plans(found)
    assert all("b" not in {c.change for c in one.changes} for one in found[3:])


def test_changes_of_one_value_are_not_combined() -> None:
    found = tried(60, {"a": 30, "b": 20}, a="w", b="w")
    assert [len(one.changes) for one in found] == [1, 1]


def test_search_ends_when_enough_plans_fit() -> None:
    names = {str(number): 50 for number in range(12)}
    changes = [change(name) for name in names]
    base = Attempt(place=Place(), total_bytes=BASE, fits=False)
    made, left = search(base, changes, 60, Compiler(60, names))
    assert (len(made), len(left)) == (4, 8)


def test_attempts_without_time_are_missing() -> None:
    assert len(tried(10, {"a": 30, "b": 20, "c": 15}, most=2)) == 2


def test_small_arrays_are_not_worth_a_compile_and_donations_come_first() -> None:
    base = Attempt(place=Place(), total_bytes=10_000, fits=False)
    large, donation = change("a", 500), change("d", 200, kind="donate")
    small = change("s", 10)
    assert worth_trying(base, [large, small, donation], 5_000) == ([donation, large], [small])
