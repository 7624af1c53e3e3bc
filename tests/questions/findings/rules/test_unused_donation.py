"""M002: arguments that are donated in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from tests.questions.findings.programs import findings_of

if TYPE_CHECKING:
    from pathlib import Path

STEP = """HloModule jit_step, is_scheduled=true, HEADER

ENTRY main {
  old = bf16[512,512]{1,0} parameter(0), metadata={op_name="cache"}
  new = TYPE[SIZE,512]{1,0} iota(), iota_dimension=0
  ROOT t = (TYPE[SIZE,512]{1,0}) tuple(new)
}
"""


def _text(kind: str, size: int, header: str = "buffer_donor={ (0, {}) }") -> str:
    return STEP.replace("HEADER", header).replace("TYPE", kind).replace("SIZE", str(size))


@pytest.mark.parametrize(
    ("kind", "size", "reason", "fix", "saved"),
    [
        ("f32", 512, "element type differs: bf16, in output {0} f32", "cast the new", 512 << 10),
        ("bf16", 256, "no output has its shape", "return the new value of cache", None),
    ],
)
def test_the_reason_is_in_the_message(
    kind: str, size: int, reason: str, fix: str, saved: int | None
) -> None:
    (found,) = findings_of(_text(kind, size), "M002")
    assert found.message == (
        f"argument cache (512.0KiB) is donated, but its memory is not reused: {reason}"
    )
    assert found.fix.startswith(fix)
    assert found.saves.bytes == saved


def test_a_donation_that_is_used_has_no_finding() -> None:
    assert findings_of(_text("bf16", 512, "input_output_alias={ {0}: (0, {}) }"), "M002") == ()


def test_an_alias_that_xla_dropped() -> None:
    before = _text("bf16", 512, "input_output_alias={ {0}: (0, {}) }")
    (found,) = findings_of(_text("bf16", 512, "replica_count=1"), "M002", before)
    assert found.message.endswith("requested for {0}, not in XLA's text")


@pytest.mark.parametrize(
    ("stage", "count"), [("after_spmd_partitioner", 0), ("sm_9.0a_gpu_after_optimizations", 1)]
)
def test_a_stage_before_the_last_does_not_show_whether_donations_are_used(
    stage: str, count: int, tmp_path: Path
) -> None:
    text = _text("bf16", 512).replace(" is_scheduled=true,", "")
    (tmp_path / f"module_0001.jit_step.{stage}.txt").write_text(text)
    assert len(hlo_lens.lint(tmp_path, select=["M002"]).findings) == count
