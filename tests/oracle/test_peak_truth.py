"""Peak and total against XProf's memory viewer and PJRT, on compiles of jax 0.12."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from hlo_lens.load import load
from hlo_lens.questions.memory.results import memory_results
from tests import corpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hlo_lens.questions.memory.results import MemoryResults

SETS = sorted((corpus.CORPUS / "jax012").glob("*.tar.xz"))


def results_of(folder: Path) -> MemoryResults:
    (assignment,) = folder.glob("*-buffer-assignment.txt")
    (dump,) = load(assignment).modules
    results = memory_results(dump)
    assert results is not None
    return results


def compiles(root: Path) -> Iterator[tuple[dict[str, Any], MemoryResults]]:
    (file,) = root.rglob("truth.jsonl")
    for line in file.read_text("utf-8").splitlines():
        truth = json.loads(line)
        if truth.get("xprof"):
            yield truth, results_of(file.parent / truth["name"])


@corpus.needs_corpus
@pytest.mark.parametrize("archive", SETS, ids=lambda path: path.name.partition(".")[0])
def test_peak_and_total_are_those_of_xprof(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    compared = 0
    for truth, results in compiles(tmp_path):
        name, peak = truth["name"], results.peak
        assert peak is not None
        xprof = truth["xprof"]["peak_heap_bytes"]
        has_scratch = archive.name.startswith("tpu7x")  # of SparseCores, which XProf leaves out
        assert (name, peak.total_bytes) >= (name, xprof)
        assert (name, peak.total_bytes) == (name, xprof) or has_scratch
        assert (name, results.statement.total_bytes) == (name, truth["xprof"]["total_bytes"])
        compared += 1
    assert compared >= 5
