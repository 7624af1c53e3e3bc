"""Peaks of other tools."""

from __future__ import annotations

import dataclasses

import hlo_lens
from hlo_lens.questions.memory.layout import LaidAllocation
from hlo_lens.questions.memory.results import OtherPeak, other_peaks
from tests.questions.memory.layouts import layout, value

PJRT = "PJRT's peak_memory_in_bytes"

SPARSE = """HloModule m, is_scheduled=true

ENTRY %main (p: f32[2]) -> f32[2] {
  %p = f32[2] parameter(0)
  %s = ((), (), (s32[8])) async-start(), async_execution_thread="sparsecore", calls=%c
  ROOT %n = f32[2] negate(%p)
}
"""


def _peaks(
    backend: str, stated: dict[str, int] | None = None, **changes: object
) -> tuple[OtherPeak, ...]:
    laid = dataclasses.replace(layout(), **changes)  # type: ignore[arg-type] # fields by name
    module = hlo_lens.parse_hlo(SPARSE)
    return other_peaks(laid, backend=backend, module=module, stated=stated or {})


def test_pjrt_leaves_temporaries_out_on_cpu() -> None:
    (found,) = _peaks("cpu")
    assert (found.tool, found.peak_bytes) == (PJRT, 108)


def test_pjrt_has_another_peak_on_tpu() -> None:
    (unknown,) = _peaks("tpu")
    (known,) = _peaks("tpu", {"peak_memory_in_bytes": 500})
    assert (unknown.peak_bytes, known.peak_bytes) == (None, 500)


def test_equal_peaks_are_not_listed() -> None:
    assert _peaks("gpu", {"peak_memory_in_bytes": 172}) == ()
    assert _peaks("gpu", printed_peak=(2, 172)) == ()


def test_pjrt_may_count_collective_memory_on_gpu() -> None:
    more = LaidAllocation(index=5, size=12, color=7, category="temp")
    (found,) = _peaks("gpu", allocations=(*layout().allocations, more))
    assert (found.tool, found.peak_bytes) == (PJRT, None)


def test_an_estimate_is_not_compared() -> None:
    assert _peaks("cpu", source="estimate") == ()


def test_xla_prints_another_peak() -> None:
    (found,) = _peaks("gpu", printed_peak=(3, 99))
    assert (found.tool, found.peak_bytes) == ("XLA's live-range text", 99)


def test_xprof_leaves_out_scratch_memory_of_sparse_cores() -> None:
    laid = layout()
    scratch = value("s", 1, 0, 64, 1, 3)._replace(name="s{2,0}")
    plain = tuple(one for one in laid.values if one.name != "b{}")
    (found,) = _peaks("gpu", values=(*plain, scratch))
    assert (found.tool, found.peak_bytes) == ("XProf's memory viewer", 148)
    assert _peaks("gpu", values=(*plain, scratch._replace(instruction_name="p", name="p{2}"))) == ()
