"""Steps with one planted waste: it is the first finding, at its line; their twins have none."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from tests.corpus import SAMPLES

SOURCE = (SAMPLES / "programs" / "wastes.py").read_text("utf-8").splitlines()
CODES = {
    "scores": "M011",
    "logits": "M011",
    "one_hot": "M011",
    "heads": "M011",
    "accumulated": "C015",
    "fused": "C016",
    "gathered": "C005",
    "resharded": "C017",
    "carried": "M006",
    "turned": "C017",
    "contracted": "W003",
    "normed": "W001",
    "experts": "C018",
}
REMOVED = {("tpu", "one_hot"), ("tpu", "heads"), ("gpu", "heads"), ("tpu", "carried")}
"""Wastes that the compiler of a backend removes, so that nothing is found."""

BACKENDS = ("cpu", "tpu", "gpu")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CODES)
def test_a_planted_waste_is_the_first_finding(backend: str, name: str) -> None:
    found = list(hlo_lens.lint(SAMPLES / "plants" / backend / f"{name}.tar.xz"))
    if (backend, name) in REMOVED:
        assert CODES[name] not in [one.code for one in found]
        return
    first, is_root = found[0], CODES[name].startswith("W")
    severity = Severity.ERROR if is_root else Severity.WARNING
    assert (first.code, first.severity) == (CODES[name], severity)
    line = SOURCE[(first.source_line or 0) - 1]
    assert first.source_file == "programs/wastes.py"
    assert line.endswith(f"# planted: {name}")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*CODES, "stationary"])
def test_a_twin_has_no_warning(backend: str, name: str) -> None:
    found = hlo_lens.lint(SAMPLES / "plants" / backend / f"{name}_clean.tar.xz")
    assert [one.message for one in found if one.severity is not Severity.INFO] == []


def test_f32_values_of_a_cpu_promise_no_saving() -> None:
    """CPU computes bf16 in f32 whatever the program says; a GPU does not."""
    for backend, bytes_ in (("cpu", None), ("gpu", 128 << 20)):
        plant = SAMPLES / "plants" / backend / "carried.tar.xz"
        (found, *_) = hlo_lens.lint(plant, select=["M006"]).findings
        assert (found.severity, found.saves.bytes) == ("warning", bytes_)
