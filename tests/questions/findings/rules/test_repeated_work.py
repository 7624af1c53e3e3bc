"""W001: products that devices repeat, in programs where it is planted and in their clean twins."""

from __future__ import annotations

from pathlib import Path

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.repeated_work import repeated_work
from hlo_lens.questions.work.work import work

SAMPLES = Path(__file__).parents[4] / "sample_dumps"
SOURCE = (SAMPLES / "programs" / "plants.py").read_text("utf-8").splitlines()
PLANTS = {
    "embedding": "add plants.py:{line}=P('data', None, None)",
    "constraint": "drop plants.py:{line}",
    "merged": "add plants.py:{line}=P(None, 'data', None)",
    "specs": None,
    "undivided": "batch=P('data', None, None)",
}
CLEAN = ("embedding", "constraint", "specs", "megatron", "rolled")
BACKENDS = ("cpu", "tpu", "gpu")


def _module(backend: str, name: str) -> hlo_lens.ModuleDump:
    (module,) = hlo_lens.load(SAMPLES / "plants" / backend / f"{name}.tar.xz").modules
    return module


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PLANTS)
def test_repeated_work_is_found_at_the_line_that_loses_the_axis(backend: str, name: str) -> None:
    module = _module(backend, name)
    (found,) = repeated_work(module)
    mark = f"# planted: {name}"
    lines = [k for k, line in enumerate(SOURCE, start=1) if line.endswith(mark)]
    assert "data: 4 devices compute " in found.message or "data out: 4 " in found.message
    assert found.severity in (Severity.ERROR, Severity.WARNING)
    assert found.saves.flops == work(module).repeated_flops
    if lines:
        assert (found.source_file, [found.source_line]) == ("programs/plants.py", lines)
    change = PLANTS[name]
    expected = [] if change is None else [change.format(line=found.source_line)]
    assert [one.target for one in found.changes] == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_found_in_the_clean_twin(backend: str, name: str) -> None:
    module = _module(backend, f"{name}_clean")
    assert list(repeated_work(module)) == []
    found = work(module)
    assert found.flops == found.equal_share_flops
    assert found.repeated_flops == 0


def test_the_gathers_of_the_same_constraint_are_saved_too() -> None:
    found = hlo_lens.lint(SAMPLES / "plants" / "cpu" / "constraint.tar.xz", select=["W001"])
    (one,) = found.findings
    assert one.saves.sent_bytes == 384 << 10
    assert one.evidence[0].startswith("C014 follows: the sharding constraint leaves out data")


@pytest.mark.parametrize("backend", ["cpu", "tpu", "gpu"])
def test_the_specs_of_the_shard_map_around_the_products_are_blamed(backend: str) -> None:
    """Dividing an input changes nothing of what its body computes."""
    (module,) = hlo_lens.load(SAMPLES / backend / "wasteful").modules
    (found,) = repeated_work(module)
    assert "specs of shard_map leave model out" in found.message
    assert (found.source_line, found.changes) == (102, ())
