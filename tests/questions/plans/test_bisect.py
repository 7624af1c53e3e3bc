"""Searches for a bad version or flag, with compiles that only write a text."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.questions.plans import bisect as searches
from hlo_lens.questions.plans.bisect import Bisection, Step
from hlo_lens.questions.plans.plans import BAD, GOOD, SKIPPED, first_bad, smallest_bad
from hlo_lens.questions.what_if import environments as index
from hlo_lens.text.errors import MissingPackageError, UsageError

RULE = "opcodes.add>+0"
VERSIONS = ("0.7.0", "0.7.1", "0.8.0", "0.8.1", "0.9.0", "0.9.0.1", "0.9.1", "0.10.0", "0.10.2")
_LAYOUT = "(f32[8]{0})->f32[8]{0}"
_TEXT = """HloModule jit_f, is_scheduled=true, entry_computation_layout={{{layout}}}

ENTRY main {{
  a0 = f32[8]{{0}} parameter(0)
{adds}  ROOT r = f32[8]{{0}} negate(a{last})
}}
"""
NAME = "module_0001.jit_f.cpu_after_optimizations.txt"


def text_of(adds: int) -> str:
    """Return a program with some additions."""
    lines = (f"  a{k + 1} = f32[8]{{0}} add(a{k}, a{k})\n" for k in range(adds))
    return _TEXT.format(layout=_LAYOUT, adds="".join(lines), last=adds)


class Compiles:
    """Compiles that write a program with one addition more where something is bad."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        self.first_bad = "0.9.0"
        self.broken: tuple[str, ...] = ()
        self.cause: dict[str, str] = {}
        self.refused: tuple[str, ...] = ()

    def __call__(self, name: str, versions: str, flags: Mapping[str, str]) -> Step:
        self.names.append(name)
        version = versions.partition("==")[2]
        if version in self.broken:
            return Step(name=name, outcome=SKIPPED, reason="XLA's compiler stopped")
        if found := [flag for flag in flags if flag in self.refused]:
            return Step(name=name, outcome=SKIPPED, reason=f"No such compile option: '{found[0]}'")
        is_bad = bool(self.cause) and self.cause.items() <= flags.items()
        if version:
            is_bad = index.version_key(version) >= index.version_key(self.first_bad)
        home = self.folder / str(len(self.names))
        home.mkdir(parents=True)
        (home / NAME).write_text(text_of(3 if is_bad else 2))
        return Step(name=name, outcome=GOOD, dump=str(home))


@pytest.fixture
def compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiles:
    made = Compiles(tmp_path / "steps")
    monkeypatch.setattr(searches, "program_steps", lambda *_: made)
    monkeypatch.setattr(searches, "released_versions", lambda _: VERSIONS)
    monkeypatch.setenv("HLO_LENS_CACHE", str(tmp_path / "cache"))
    return made


@pytest.fixture
def dump(tmp_path: Path) -> str:
    home = tmp_path / "dump"
    home.mkdir()
    (home / NAME).write_text(text_of(2))
    before = text_of(2).replace(", is_scheduled=true", "")
    (home / "module_0001.jit_f.before_optimizations.txt").write_text(before)
    return str(home)


def searched(dump: str, **given: object) -> Bisection:
    """Return the search between two versions, with other arguments."""
    named = {"good": "jax==0.7.1", "bad": "jax==0.10.2", "fail_on": RULE, **given}
    return hlo_lens.bisect(dump, **named)  # type: ignore[arg-type] # a dict of arguments


def test_first_bad_version_is_found_and_its_neighbours_compared(
    dump: str, compiles: Compiles
) -> None:
    answer = found = searched(dump)
    assert answer.first_bad is not None
    assert answer.last_good is not None
    assert (answer.last_good.name, answer.first_bad.name) == ("jax==0.8.1", "jax==0.9.0")
    assert compiles.names[:2] == ["jax==0.7.1", "jax==0.10.2"]
    assert len(compiles.names) <= 5
    data = json.loads(json.dumps(dict(found.to_dict())))
    assert data["kind"] == "bisect"
    assert (data["last_good"], data["first_bad"]) == ("jax==0.8.1", "jax==0.9.0")
    assert [step["outcome"] for step in data["steps"][:2]] == [GOOD, BAD]
    assert data["steps"][1]["rules"][0]["head"] == 3


def test_versions_that_do_not_compile_are_skipped(dump: str, compiles: Compiles) -> None:
    compiles.broken = ("0.8.1", "0.9.0")
    answer = searched(dump)
    assert answer.last_good is not None
    assert answer.first_bad is not None
    assert answer.last_good.name == "jax==0.8.0"
    assert answer.first_bad.name == "jax==0.9.0.1"
    assert answer.candidates == ("jax==0.8.1", "jax==0.9.0")
    assert "any may be the first bad one" in str(searched(dump))


@pytest.mark.parametrize(
    ("first_bad", "broken", "problem"),
    [
        ("0.11", (), "jax==0.10.2 is good, not bad"),
        ("0.9.0", ("0.7.1",), "jax==0.7.1 is skipped, not good: XLA's compiler stopped"),
        ("0.9.0", ("0.10.2",), "jax==0.10.2 is skipped, not bad"),
    ],
)
def test_ends_are_verified_first(
    dump: str, compiles: Compiles, first_bad: str, broken: tuple[str, ...], problem: str
) -> None:
    compiles.first_bad, compiles.broken = first_bad, broken
    found = searched(dump)
    assert problem in found.problem
    assert found.first_bad is None
    assert len(compiles.names) <= 2


def test_newer_versions_can_be_the_good_ones(dump: str, compiles: Compiles) -> None:
    answer = searched(dump, good="jax==0.10.2", bad="jax==0.7.1", fail_on="opcodes.add<-0")
    assert answer.last_good is not None
    assert answer.first_bad is not None
    assert (answer.last_good.name, answer.first_bad.name) == ("jax==0.9.0", "jax==0.8.1")


def test_flag_that_is_the_cause_is_found(dump: str, compiles: Compiles, tmp_path: Path) -> None:
    compiles.cause = {"xla_b": "true", "xla_f": "7"}
    compiles.refused = ("xla_gone",)
    for name, values in (("good", ("false", "1")), ("bad", ("true", "7"))):
        lines = [f"xla_{letter}: {values[0]}" for letter in "abcde"]
        lines += [f"xla_f: {values[1]}", f'xla_dump_to: "{name}"', "xla_same: 1"]
        lines += ["xla_gone: 1"] * (name == "bad")
        (tmp_path / f"{name}.debug_options").write_text("\n".join(lines) + "\n")
    paths = tuple(str(tmp_path / f"{name}.debug_options") for name in ("good", "bad"))
    command = ["bisect", dump, "--flags", *paths, "--fail-on", RULE, "-f", "json"]
    run = CliRunner().invoke(main, command)
    assert run.exit_code == 0, run.output
    data = json.loads(run.stdout)
    assert data["flags"] == [
        {"name": "xla_b", "good": "false", "bad": "true"},
        {"name": "xla_f", "good": "1", "bad": "7"},
    ]
    assert [one["name"] for one in data["flags_not_tried"]] == ["xla_gone"]
    assert data["last_good"] == "flags of the good dump"
    assert data["first_bad"] == "xla_b=true, xla_f=7"


def test_no_answer_is_exit_code_4(dump: str, compiles: Compiles) -> None:
    compiles.first_bad = "0.11"
    ends = ["--good", "jax==0.7.1", "--bad", "jax==0.10.2"]
    run = CliRunner().invoke(main, ["bisect", dump, *ends, "--fail-on", RULE])
    assert run.exit_code == 4
    assert "jax==0.10.2 is good, not bad" in run.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"good": "0.7.1"}, "write 'jax==0.9.2'"),
        ({"good": "jax==0.10.2"}, "one package has two versions"),
        ({"good": "jax==0.7.1,libtpu==0.0.1"}, "one package has two versions"),
        ({"fail_on": ()}, "--fail-on"),
        ({"fail_on": "memory.total_bytes"}, "not a rule"),
        ({"good": "", "bad": ""}, "give --good and --bad"),
        ({"command": ("python", "x.py")}, "takes the place of PATH"),
    ],
)
def test_arguments_that_do_not_fit_are_errors(
    dump: str, compiles: Compiles, given: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        searched(dump, **given)


def test_command_writes_its_dump_for_each_version(
    tmp_path: Path, compiles: Compiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles_of = {f"jax=={version}": 2 + (version >= "0.9") for version in VERSIONS[:7]}
    monkeypatch.setattr(searches, "environment_python", lambda text, _: _python(tmp_path, text))
    monkeypatch.setattr(searches, "toolchain_of", lambda python: f"jax {Path(python).parts[-3]}")
    script = tmp_path / "aot.py"
    script.write_text(
        "import os, pathlib, re\n"
        "home = pathlib.Path(re.search('xla_dump_to=(\\\\S+)', os.environ['XLA_FLAGS'])[1])\n"
        "version = pathlib.Path(os.environ['VIRTUAL_ENV']).name\n"
        "if version == 'jax==0.8.0': raise SystemExit('no such function')\n"
        f"texts = { ({name: text_of(adds) for name, adds in compiles_of.items()})!r}\n"
        f"(home / {NAME!r}).write_text(texts[version])\n"
    )
    ends = ["--good", "jax==0.7.0", "--bad", "jax==0.9.1", "--fail-on", RULE, "-f", "json"]
    run = CliRunner().invoke(main, ["bisect", *ends, "--", "python", str(script)])
    assert run.exit_code == 0, run.output
    data = json.loads(run.stdout)
    assert (data["last_good"], data["first_bad"]) == ("jax==0.8.1", "jax==0.9.0")
    skipped = [one["reason"] for one in data["steps"] if one["outcome"] == SKIPPED]
    assert skipped in ([], ["no such function"])


def _python(home: Path, name: str) -> str:
    """Return an interpreter in a folder with the name of a version."""
    folder = home / name / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "python").exists():
        (folder / "python").symlink_to(sys.executable)
    return str(folder / "python")


def test_releases_are_those_that_pip_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "jax (0.10.0)\nAvailable versions: 0.10.0, 0.9.3rc1, 0.9.0\n"
    monkeypatch.setattr(index, "_run", lambda *_, **__: text)
    assert index.released_versions("jax") == ("0.9.0", "0.10.0")
    monkeypatch.setattr(index, "_run", lambda *_, **__: "ERROR: no network\nexit code 1")
    with pytest.raises(MissingPackageError, match="ERROR: no network"):
        index.released_versions("jax")


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
