"""Texts that shardings come from."""

from __future__ import annotations

import pytest

import hlo_lens
from tests.corpus import SAMPLES


@pytest.mark.parametrize("backend", ["cpu", "tpu", "gpu"])
def test_before_optimizations_is_found_from_folder_and_file(backend: str) -> None:
    folder = SAMPLES / backend / "wasteful"
    (file,) = folder.glob("*after_optimizations.txt")
    (early,) = folder.glob("*before_optimizations.txt")
    for path in (folder, file):
        (dump,) = hlo_lens.load(path).modules
        assert dump.before is not None
        assert dump.before.path == str(early)
    assert hlo_lens.load(early).modules[0].before is None
