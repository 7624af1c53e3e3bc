"""Plans with which programs fit, with real compiles on CPU and with a fake compiler."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.load.devices import CPU, parse_target
from hlo_lens.questions.plans import fit as api
from hlo_lens.questions.plans.fit import Search, other_meshes, worth_trying
from hlo_lens.questions.plans.plans import Attempt, Candidate, Place, chosen_plans, closest
from hlo_lens.questions.what_if.compiling import source_program
from hlo_lens.questions.what_if.recompiling import Base, Compiler, Figures, Recompiled
from hlo_lens.text.errors import UsageError
from tests.corpus import SAMPLES
from tests.questions.what_if.test_compiling import needs_jax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.what_if.edits import Change

WASTEFUL = str(SAMPLES / "cpu" / "wasteful")
MIB = 1 << 20


def base_of(path: str) -> Base:
    dump = next(one for one in hlo_lens.load(path).modules if "step" in one.name)
    program = source_program(dump)
    assert program is not None
    return Base(dump=dump, program=program, target=parse_target("cpu"), own=Figures())


def recompiled(known: Base, changes: tuple[Change, ...], total: int) -> Recompiled:
    made = Figures(total_bytes=total, temp_bytes=8 * MIB, wire_bytes_per_device=len(changes))
    return Recompiled(known=known, changes=changes, target=CPU, predicted=made)


@pytest.fixture
def fake_compiler(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Replace compiles: the base needs 100 MiB, each donation or sharding saves 30."""
    made: list[tuple[str, ...]] = []

    def base(known: Base, _: Compiler) -> Base:
        return replace(known, figures=Figures(total_bytes=100 * MIB))

    def changed(known: Base, variant: Recompiled, _: Compiler) -> Recompiled:
        changes = variant.changes
        made.append(tuple(one.kind for one in changes))
        kinds = {one.kind for one in changes} & {"donate", "shard"}
        return recompiled(known, changes, total=(100 - 30 * len(kinds)) * MIB)

    monkeypatch.setattr(api, "compiled_base", base)
    monkeypatch.setattr(api, "changed_module", changed)
    return made


def test_program_that_fits_by_its_dump_is_not_compiled(
    fake_compiler: list[tuple[str, ...]],
) -> None:
    (module,) = hlo_lens.fit(WASTEFUL, limit="1GiB").modules
    assert module.fits
    assert not module.is_compiled
    assert module.plans == (module.base,)
    assert not fake_compiler


def test_limit_is_asked_for_where_the_device_is_not_known() -> None:
    with pytest.raises(UsageError, match="--limit"):
        hlo_lens.fit(WASTEFUL)
    with pytest.raises(UsageError, match="limit is 0"):
        hlo_lens.fit(WASTEFUL, limit=0)


@pytest.mark.usefixtures("fake_compiler")
def test_cheapest_plan_is_a_donation() -> None:
    found = hlo_lens.fit(WASTEFUL, limit="75MiB", target="cpu")
    (module,) = found.modules
    assert found.fits
    assert [one.kind for one in module.plans[0].changes] == ["donate"]
    assert "donate params" in str(found)
    assert "hlo-lens what-if" in str(found)


@pytest.mark.usefixtures("fake_compiler")
def test_fixes_of_findings_are_tried_and_others_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "candidates", lambda *_, **__: ())
    (module,) = hlo_lens.fit(WASTEFUL, limit="75MiB", target="cpu").modules
    assert module.plans[0].options == (("target", "cpu"), ("donate", "params"))
    found = hlo_lens.fit(WASTEFUL, limit="1MiB", target="cpu")
    assert [one.code for one in found.modules[0].by_hand] == ["M002"]
    assert "by hand" in str(found)


@pytest.mark.usefixtures("fake_compiler")
def test_what_cannot_be_compiled_is_not_known_to_fit_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def base(known: Base, _: Compiler) -> Base:
        return replace(known, refusal="libtpu is not installed")

    def changed(*_: object) -> Recompiled:
        raise UsageError("libtpu is not installed")

    monkeypatch.setattr(api, "compiled_base", base)
    monkeypatch.setattr(api, "changed_module", changed)
    found = hlo_lens.fit(WASTEFUL, limit="45MiB", target="cpu")
    assert found.is_undecided
    text = str(found)
    assert "fits      not known: what must fit in 45.00MiB (--limit)" in text
    assert "none fits" not in text
    assert "1 program compiled" not in text


@pytest.mark.usefixtures("fake_compiler")
def test_combination_is_found_where_no_change_fits_alone() -> None:
    (module,) = hlo_lens.fit(WASTEFUL, limit="45MiB", target="cpu").modules
    assert {one.kind for one in module.plans[0].changes} == {"donate", "shard"}


@pytest.mark.usefixtures("fake_compiler")
def test_nothing_fits_exits_with_1_and_names_the_closest() -> None:
    run = CliRunner().invoke(
        main, ["fit", WASTEFUL, "--limit", "1MiB", "--target", "cpu", "-f", "json"]
    )
    assert run.exit_code == 1, run.output
    (module,) = json.loads(run.stdout)["modules"]
    assert (module["fits"], module["plans"]) == (False, [])
    assert module["closest"][0]["total_bytes"] == 40 * MIB
    assert module["closest"][0]["predicted"]["total_bytes"] == 40 * MIB


@pytest.mark.usefixtures("fake_compiler", "cache")
def test_report_prints_the_answer_of_an_earlier_fit() -> None:
    def report(limit: str, *options: str) -> str:
        run = CliRunner().invoke(main, ["report", WASTEFUL, "--limit", limit, *options])
        return " ".join(run.stdout.split())

    assert f"too much: hlo-lens fit {WASTEFUL} --limit 45MiB" in report("45MiB")
    for limit in ("45MiB", "1MiB"):
        hlo_lens.fit(WASTEFUL, limit=limit)
    found = report("45MiB")
    assert "fits with donate params, shard " in found
    assert f": 40.00MiB: hlo-lens what-if {WASTEFUL} --donate params --shard" in found
    assert "no plan of hlo-lens fit fits; the least is 40.00MiB, with " in report("1MiB", "--full")
    (module,) = json.loads(report("45MiB", "-f", "json"))["modules"]
    assert (module["fit"]["fits"], module["fit"]["total_bytes"]) == (True, 40 * MIB)
    assert "hlo-lens fit" in report("44MiB")


@pytest.mark.usefixtures("fake_compiler")
def test_changes_without_time_are_listed() -> None:
    (module,) = hlo_lens.fit(WASTEFUL, limit="1MiB", target="cpu", minutes=1e-9).modules
    assert not module.plans
    assert any("no time left" in one for one in module.skipped)


def test_meshes_are_those_nearest_to_the_program() -> None:
    found = other_meshes(base_of(str(SAMPLES / "cpu" / "tp_mlp")))  # data=2, model=4
    assert found[0] == "data=4,model=2"
    assert len(found) == 3
    assert other_meshes(base_of(WASTEFUL)) == []  # it has a shard_map


@needs_jax
@pytest.mark.usefixtures("compiles")
def test_real_plan_agrees_with_what_if(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_ENOUGH_PLANS", 1)
    monkeypatch.setattr(api, "_AT_ONCE", 1)
    figures = hlo_lens.what_if(WASTEFUL).modules[0].base
    assert figures.total_bytes is not None
    limit = figures.total_bytes - MIB
    run = CliRunner().invoke(main, ["fit", WASTEFUL, "--limit", str(limit), "-f", "json"])
    assert run.exit_code == 0, run.output
    plan = json.loads(run.stdout)["modules"][0]["plans"][0]
    assert plan["command"] == f"hlo-lens what-if {WASTEFUL} --donate params"
    again = hlo_lens.what_if(WASTEFUL, donate="params").modules[0]
    assert again.predicted is not None
    assert plan["predicted"] == again.predicted.to_dict()
    assert plan["total_bytes"] <= limit


def candidate(name: str, kind: str = "shard", saves: int = 10, value: str = "") -> Candidate:
    values = (value or name,)
    return Candidate(kind=kind, change=name, values=values, requests=(name,), saves_bytes=saves)


def attempt(*names: Candidate, total: int = 5, wire: int = 0, fits: bool = True) -> Attempt:
    figures = Figures(total_bytes=total, wire_bytes_per_device=wire)
    return Attempt(place=Place(), changes=names, figures=figures, total_bytes=total, fits=fits)


A, B, D = candidate("a"), candidate("b"), candidate("d")


def test_plans_that_send_less_come_first_and_those_not_known_last() -> None:
    one, other = attempt(A, wire=9), attempt(B, total=6, wire=3)
    unknown = replace(attempt(D, total=4), figures=Figures(total_bytes=4))
    assert chosen_plans([one, other, unknown]) == (other, one, unknown)


def test_plan_that_another_beats_is_left_out() -> None:
    cheap, dear, small = attempt(A, wire=3), attempt(B, wire=9), attempt(D, wire=9, total=4)
    assert chosen_plans([dear, cheap]) == (cheap,)
    assert chosen_plans([small, cheap]) == (cheap, small)


def test_plan_with_needless_changes_is_left_out_unless_it_sends_less() -> None:
    small, large = attempt(A, wire=9), attempt(A, B, wire=9)
    assert chosen_plans([large, small]) == (small,)
    less = attempt(A, B, wire=8)
    assert chosen_plans([less, small]) == (less, small)


def test_at_most_five_plans_of_attempts_that_fit() -> None:
    attempts = [attempt(candidate(str(number)), fits=number != 3) for number in range(9)]
    assert len(chosen_plans(attempts)) == 5
    assert attempts[3] not in chosen_plans(attempts)


def test_attempts_of_unknown_size_are_the_least_close() -> None:
    unknown = Attempt(place=Place(), why_not="refused")
    large = attempt(A, total=9, fits=False)
    assert closest([unknown, large, attempt(B, total=7, fits=False)], 2)[1] == large


BASE = 100


class AddedSavings:
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
    changes = [candidate(name, value=values.get(name, "")) for name in saves]
    base = Attempt(place=Place(), total_bytes=BASE, fits=False)
    search = Search(base, limit, AddedSavings(limit, saves, most))
    search.run(changes)
    return search.attempts


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


def test_search_ends_when_enough_plans_fit() -> None:
    names = {str(number): 50 for number in range(12)}
    changes = [candidate(name) for name in names]
    base = Attempt(place=Place(), total_bytes=BASE, fits=False)
    search = Search(base, 60, AddedSavings(60, names))
    assert (len(search.run(changes)), len(search.attempts)) == (8, 4)


def test_small_arrays_are_not_worth_a_compile_and_donations_come_first() -> None:
    base = Attempt(place=Place(), total_bytes=10_000, fits=False)
    large, donation = candidate("a", saves=500), candidate("d", "donate", saves=200)
    small = candidate("s")
    assert worth_trying(base, [large, small, donation], 5_000) == ([donation, large], [small])
