"""Plans with which programs fit, with real compiles on CPU and with a fake compiler."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.load.devices import all_slices, device_count, parse_target
from hlo_lens.questions.plans import fit as api
from hlo_lens.questions.plans.fit import expanded_targets, places
from hlo_lens.questions.what_if.compiling import source_program
from hlo_lens.questions.what_if.figures import Figures, Reproduction
from hlo_lens.questions.what_if.recompiling import (
    Base,
    Compiler,
    Recompiled,
)
from hlo_lens.text.errors import UsageError
from tests.corpus import SAMPLES
from tests.questions.what_if.test_compiling import needs_jax

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.what_if.edits import Change

WASTEFUL = str(SAMPLES / "cpu" / "wasteful")
MIB = 1 << 20


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HLO_LENS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def base_of(path: str) -> Base:
    dump = next(one for one in hlo_lens.load(path).modules if "step" in one.name)
    program = source_program(dump)
    assert program is not None
    return Base(dump=dump, program=program, target=parse_target("cpu"), own=Figures())


@pytest.fixture
def fake_compiler(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Replace compiles: the base needs 100 MiB, each donation or sharding saves 30."""
    made: list[tuple[str, ...]] = []

    def base(dump: ModuleDump, _: Sequence[str], __: Compiler) -> Base:
        return replace(base_of(WASTEFUL), dump=dump, figures=Figures(total_bytes=100 * MIB))

    def changed(known: Base, changes: tuple[Change, ...], _: Compiler) -> Recompiled:
        made.append(tuple(one.kind for one in changes))
        kinds = {one.kind for one in changes} & {"donate", "shard"}
        total = (100 - 30 * len(kinds)) * MIB
        return Recompiled(
            name="f",
            reproduction=Reproduction(is_equal=True),
            base_target="cpu",
            target="cpu",
            versions={},
            changes=changes,
            own=known.own,
            base=known.own,
            predicted=Figures(
                total_bytes=total, temp_bytes=8 * MIB, wire_bytes_per_device=len(changes)
            ),
        )

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
def test_what_cannot_be_compiled_is_not_known_to_fit_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def base(dump: ModuleDump, _: Sequence[str], __: Compiler) -> Base:
        return replace(base_of(WASTEFUL), dump=dump, refusal="libtpu is not installed")

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


@pytest.mark.usefixtures("fake_compiler")
def test_temporaries_that_alone_are_too_large_are_named() -> None:
    assert "jax.checkpoint" in str(hlo_lens.fit(WASTEFUL, limit="7MiB", target="cpu"))
    assert "jax.checkpoint" not in str(hlo_lens.fit(WASTEFUL, limit="9MiB", target="cpu"))


@pytest.mark.usefixtures("fake_compiler")
def test_changes_without_time_are_listed() -> None:
    (module,) = hlo_lens.fit(WASTEFUL, limit="1MiB", target="cpu", minutes=1e-9).modules
    assert not module.plans
    assert any("no time left" in one for one in module.skipped)


def test_smallest_slice_that_fits_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(SAMPLES / "cpu" / "tp_mlp")
    tried: list[str] = []

    def changed(known: Base, changes: tuple[Change, ...], _: Compiler) -> Recompiled:
        target = next(one.target for one in changes if one.kind == "target")
        tried.append(target)
        total = 400 * MIB // (device_count(parse_target(target)) or 1)
        return Recompiled(
            name="f",
            reproduction=Reproduction(is_equal=True),
            base_target="cpu",
            target=target,
            versions={},
            changes=changes,
            own=known.own,
            base=known.own,
            predicted=Figures(total_bytes=total, wire_bytes_per_device=len(tried)),
        )

    monkeypatch.setattr(api, "compiled_base", lambda dump, *_: replace(base_of(path), dump=dump))
    monkeypatch.setattr(api, "changed_module", changed)
    found = hlo_lens.fit(path, module="step", target="v5e:*", limit="120MiB")
    (module,) = found.modules
    assert {one.place.target for one in module.plans} == {"v5e:2x2"}
    assert module.plans[0].place.mesh == "data=2,model=2"
    assert set(tried) == {"v5e:1x1", "v5e:2x2"}
    assert "on v5e:2x2" in str(found)


def test_slices_of_a_kind_are_in_the_order_of_their_size() -> None:
    counts = [device_count(one) for one in all_slices("v5e:*")]
    assert counts[:4] == [1, 4, 8, 16]
    assert [device_count(one) for one in all_slices("h100_sxm:*")][:5] == [1, 2, 4, 8, 16]
    assert device_count(parse_target("tpu7x:2x2x1")) == 8


def test_meshes_of_a_slice_are_those_nearest_to_the_program() -> None:
    base = base_of(str(SAMPLES / "cpu" / "tp_mlp"))  # data=2, model=4
    found = places(base, expanded_targets(["v5e:*"]))
    by_target = {group[0].target: group for group in found.groups}
    assert by_target["v5e:2x4"][0].mesh == ""  # as it is
    assert by_target["v5e:2x2"][0].mesh == "data=2,model=2"
    assert {one.devices for one in by_target["v5e:4x4"]} == {16}


def test_slices_that_a_program_cannot_be_divided_over_are_named_with_the_reason() -> None:
    found = places(base_of(WASTEFUL), expanded_targets(["v5e:*"]))
    assert [one.target for group in found.groups for one in group] == ["v5e:2x4"]
    assert "shard_map.26 (programs/wasteful.py:102)" in found.skipped[0]


@needs_jax
def test_real_plan_agrees_with_what_if() -> None:
    figures = hlo_lens.what_if(WASTEFUL).modules[0].base
    assert figures.total_bytes is not None
    limit = figures.total_bytes - MIB
    run = CliRunner().invoke(main, ["fit", WASTEFUL, "--limit", str(limit), "-f", "json"])
    assert run.exit_code == 0, run.output
    (module,) = json.loads(run.stdout)["modules"]
    plan = module["plans"][0]
    given = plan["command"].split(" ", 3)[2:]
    assert given[0] == WASTEFUL
    donated = [one["target"] for one in plan["changes"] if one["kind"] == "donate"]
    sharded = dict(one["target"].split("=", 1) for one in plan["changes"] if one["kind"] == "shard")
    again = hlo_lens.what_if(WASTEFUL, donate=donated, shard=sharded).modules[0]
    assert again.predicted is not None
    assert plan["predicted"] == again.predicted.to_dict()
    assert plan["total_bytes"] <= limit
