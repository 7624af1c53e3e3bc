"""Collectives and trip counts against facts planted in programs, on CPU, TPU and GPU."""

from __future__ import annotations

import functools
import json
import re
import tarfile
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.hlo.query import InstructionTable, tabulate
from hlo_lens.load import load
from hlo_lens.load.programs import modules_of
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import instruction_table
from hlo_lens.program.trip_counts import trip_counts
from hlo_lens.questions.collectives.collective import Collective, Collectives, collectives
from tests import corpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FACTS = sorted(corpus.SAMPLES.glob("*/*/expect.json"))
BACKENDS = ("cpu", "tpu", "gpu")
sample = pytest.mark.parametrize("path", FACTS, ids=lambda path: "/".join(path.parts[-3:-1]))

HOISTED = {("cpu", "invariant_all_gather")}
"""Collectives that the compiler moved out of a loop: a planted defect that it repaired."""


@functools.cache
def _found(text: Path) -> Collectives:
    (dump,) = load(text).modules
    return collectives(dump)


def _text(path: Path) -> Path:
    (text,) = path.parent.glob("*after_optimizations.txt")
    return text


def _sample(path: Path) -> Collectives:
    return _found(_text(path))


def _check_derived_trips(table: InstructionTable) -> None:
    """Compare the counts that XLA printed with those derived from conditions and steps."""
    text = table.module.columns.source.text.replace("known_trip_count", "left_out")
    derived = trip_counts(tabulate(parse_hlo(text))).loops
    for loop, other in zip(trip_counts(table).loops, derived, strict=True):
        assert loop.trip_source != "printed" or loop.trip_count == other.trip_count


def _planted(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8"))["planted"])


def _of_scope(found: Collectives, scope: str) -> list[Collective]:
    return [c for c in found.collectives if f"/{scope}/" in f"{c.op_name}/"]


@sample
def test_trip_counts_are_those_that_were_planted(path: Path) -> None:
    planted = Counter(loop["trip_count"] for loop in _planted(path)["loops"])
    assert Counter(loop.trip_count for loop in _sample(path).trips.loops) == planted


@sample
def test_derived_trip_counts_are_those_that_xla_prints(path: Path) -> None:
    (dump,) = load(_text(path)).modules
    assert dump.hlo is not None
    _check_derived_trips(tabulate(dump.hlo))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_collective_runs_as_often_along_the_axes_that_were_planted(backend: str) -> None:
    path = corpus.SAMPLES / backend / "shard_map_collectives" / "expect.json"
    found = _sample(path)
    compared = 0
    for planted in _planted(path)["collectives"]:
        for row in _of_scope(found, planted["scope"]):
            assert row.dynamic_count == planted["times_per_step"]
            assert bool(row.branches) == (planted["branch"] is not None)
            assert list(row.axes or ()) == planted["axes"]
            compared += 1
    assert compared >= len(found.collectives) - 1  # GPU's ragged-all-to-all has lost its op_name


@pytest.mark.parametrize("backend", BACKENDS)
def test_planted_defects_run_as_often_as_planted(backend: str) -> None:
    path = corpus.SAMPLES / backend / "wasteful" / "expect.json"
    found = _sample(path)
    for planted in _planted(path)["defects"]:
        rows = _of_scope(found, planted.get("scope", "?"))
        if "times_per_step" not in planted or not rows:
            continue
        wanted = 1 if (backend, planted["scope"]) in HOISTED else planted["times_per_step"]
        assert {row.axes for row in rows} == {tuple(planted["axes"])}
        if planted["scope"] != "tiny_independent_psums":  # combined into one by all compilers
            assert sum(row.dynamic_count or 0 for row in rows) == wanted


def test_backends_agree_where_their_compilers_did_the_same() -> None:
    answers: dict[str, dict[str, tuple[object, ...]]] = {}
    for backend in BACKENDS:
        path = corpus.SAMPLES / backend / "shard_map_collectives" / "expect.json"
        found = _sample(path)
        for planted in _planted(path)["collectives"]:
            for row in _of_scope(found, planted["scope"]):
                answers.setdefault(f"{planted['scope']} {row.kind}", {})[backend] = (
                    row.groups and sorted(map(sorted, row.groups)),
                    row.axes,
                    row.axis_parts,
                    row.payload_bytes,
                    row.wire_bytes_per_device,
                    row.element_type,
                    row.dynamic_count,
                )
    shared = {scope: found for scope, found in answers.items() if len(found) == len(BACKENDS)}
    assert len(shared) == 21
    for scope, answer in shared.items():
        assert len(set(map(str, answer.values()))) == 1, scope


# ---- corpus ------------------------------------------------------------------------------------

TEXT = re.compile(r"truth\.json$|(after|before)_optimizations\.txt$")
AXES = re.compile(r"_(xy|x|y)(_|$)")
"""Names of the jobs of the `collectives` model end in the axes that they communicate along."""

AS_OTHER_KINDS = {"psum_scatter_y_d1"}
"""Kinds that libtpu implements by another collective."""


def _modules(archive: Path, folder: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """Yield facts and optimized text of each module in an archive, the other texts beside it."""
    with tarfile.open(archive) as tar:
        members = [m for m in tar if m.isfile() and m.size < 20e6 and TEXT.search(m.name)]
        tar.extractall(folder, members, filter="data")
    (truth,) = folder.rglob("truth.json")
    modules = json.loads(truth.read_text("utf-8")).get("modules", [])
    if not any(module.get("files") for module in modules):
        yield from (({}, file) for file in folder.rglob("*after_optimizations.txt"))
    for module in modules:
        names = [n for n in module.get("files", []) if n.endswith("after_optimizations.txt")]
        files = [file for name in names for file in folder.rglob(name)]
        if files:
            yield module, files[0]


@corpus.needs_corpus
@pytest.mark.parametrize("archive", corpus.some_archives())
def test_corpus_is_as_planted(archive: Path, tmp_path: Path) -> None:
    compared = 0
    for module, text in _modules(archive, tmp_path):
        expect = module.get("expect") or {}
        (dump,) = load(text).modules
        assert dump.hlo is not None
        found = collectives(dump)
        _check_derived_trips(instruction_table(dump))
        compared += 1
        trips = expect.get("trip_counts", expect.get("scan_trip_counts"))
        if trips is not None:
            _check_trips(found, trips)
            if dump.before is not None:
                before = call_counts(modules_of(dump.before)[0]).trips
                assert Counter(t.trip_count for t in before.loops) == Counter(trips)
        if "collectives" in expect and "x2/" not in str(archive):
            _check_kinds(found, module["job"], expect["collectives"], str(archive))
    if not compared:
        pytest.skip("it has no optimized text of less than 20 MB")


def _check_trips(found: Collectives, planted: list[int | None]) -> None:
    """Check that planted loops are there, one trip shorter where the compiler peeled them."""
    counts = Counter(loop.trip_count for loop in found.trips.loops)
    for missing in (Counter(planted) - counts).elements():
        assert missing == 1 or counts[(missing or 0) - 1], (missing, counts)


def _check_kinds(found: Collectives, job: str, planted: list[str], archive: str) -> None:
    kinds = {collective.kind for collective in found.collectives}
    if job not in AS_OTHER_KINDS or "tpu" not in archive:
        assert set(planted) <= kinds
    axes = AXES.search(job)
    if axes is not None:
        assert {"".join(c.axes or "?") for c in found.collectives} == {axes[1]}
