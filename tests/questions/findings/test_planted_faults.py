"""Programs with one planted fault: it is the first or the second finding, at the line to blame."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from tests.corpus import CORPUS, SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

BUGS = CORPUS / "bugs"
PLANTED = {
    "gpt_nodonate": ("M001", "gpt.py:95"),
    "gpt_badcomm": ("C014", "gpt.py:39"),
    "gpt_noremat": ("M007", "gpt.py:58"),
    "up_bad": ("M006", "up.py:8"),
    "remat_bad": ("C005", "rest.py:113"),
}
CLEAN = (
    "cpu/tp_mlp",
    "gpu/tp_mlp",
    "tpu/tp_mlp",
    "cpu/fsdp_transformer",
    "gpu/fsdp_transformer",
    "tpu/fsdp_transformer",
)
"""Samples without a fault."""


def _unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(BUGS / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.skipif(not BUGS.is_dir(), reason="no corpus beside the checkout")
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_among_the_first_two(name: str, tmp_path: Path) -> None:
    found = hlo_lens.lint(_unpacked(name, tmp_path))
    first = sorted(found.modules, key=lambda one: -len(one.findings.counted))[0].findings.counted
    assert PLANTED[name] in [(one.code, (one.source or "").rpartition("/")[2]) for one in first[:2]]


@pytest.mark.skipif(not BUGS.is_dir(), reason="no corpus beside the checkout")
@pytest.mark.parametrize("name", ["gpt_good", "up_good", "decode_good"])
def test_a_twin_without_the_fault_has_no_warning(name: str, tmp_path: Path) -> None:
    found = hlo_lens.lint(_unpacked(name, tmp_path))
    assert [one.message for one in found if one.severity is not Severity.INFO] == []


@pytest.mark.parametrize("name", CLEAN)
def test_clean_samples_have_no_warning(name: str) -> None:
    found = hlo_lens.lint(SAMPLES / name)
    assert [one.message for one in found if one.severity is not Severity.INFO] == []
