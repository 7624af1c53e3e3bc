"""C015: all-reduces that a loop only adds up; planted ones are in `test_planted_wastes`."""

from __future__ import annotations

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from tests.corpus import SAMPLES


def test_what_other_compilers_move_out_of_the_loop_is_an_info_on_cpu() -> None:
    (found,) = hlo_lens.lint(SAMPLES / "plants" / "cpu" / "logits_clean.tar.xz", select=["C015"])
    assert "all-reduce over data,model in each of 16 trips" in found.message
    assert found.severity is Severity.INFO
    assert "what-if --target" in found.evidence[-1]


def test_sums_that_the_loop_reads_are_none() -> None:
    """The activations of a layer are added to those of the one before, which it reads."""
    for backend in ("cpu", "tpu", "gpu"):
        found = hlo_lens.lint(SAMPLES / backend / "tp_mlp", select=["C015"])
        assert list(found) == []
