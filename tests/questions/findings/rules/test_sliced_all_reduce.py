"""C004: all-reduces of which each device uses its own part."""

from __future__ import annotations

import pytest

from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of

TEXT = """HloModule m, is_scheduled=true, num_partitions=4,\
 frontend_attributes={fingerprint_before_lhs="a"}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

cut {
  p = f32[4096]{0} parameter(0)
  n = s32[] parameter(1)
  ROOT d = f32[1024]{0} dynamic-slice(p, n), dynamic_slice_sizes={1024}
}

ENTRY main {
  x = f32[4096]{0} parameter(0)
  place = s32[] parameter(1)
  id = u32[] partition-id()
  i = s32[] convert(id)
  size = s32[] constant(1024)
  at = s32[] multiply(i, size)
  r = f32[4096]{0} all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}},\
 use_global_device_ids=true, to_apply=add
  ROOT f = f32[1024]{0} fusion(r, OFFSET), kind=kLoop, calls=cut
}
"""


def test_a_reduction_that_is_cut_to_the_own_part_is_found() -> None:
    (found,) = findings_of(TEXT.replace("OFFSET", "at"), "C004")
    assert (
        found.message == "all-reduce over axis_0: each device uses only its own part of the result"
    )
    assert found.saves.sent_bytes == 2 * 3 * 4096 * 4 // 4 // 2
    assert found.severity is not Severity.INFO


@pytest.mark.parametrize("offset", ["place"])
def test_a_slice_at_the_same_offset_on_all_devices_is_not(offset: str) -> None:
    assert findings_of(TEXT.replace("OFFSET", offset), "C004") == ()


def test_a_result_that_is_used_whole_too_is_not() -> None:
    text = (
        TEXT.replace("OFFSET", "at")
        .replace("ROOT f", "f")
        .replace("calls=cut\n", "calls=cut\n  ROOT t = (f32[1024]{0}, f32[4096]{0}) tuple(f, r)\n")
    )
    assert findings_of(text, "C004") == ()


CONVERTED = """cut {
  p = f32[4096]{0} parameter(0)
  n = s32[] parameter(1)
  h = bf16[4096]{0} convert(p)
  USED
  ROOT d = bf16[1024]{0} dynamic-slice(h, n), dynamic_slice_sizes={1024}
}"""


@pytest.mark.parametrize(("used", "count"), [("", 1), ("w = bf16[4096]{0} negate(h)", 0)])
def test_a_part_of_a_converted_result_is_a_part_of_the_result(used: str, count: int) -> None:
    start, end = TEXT.index("cut {"), TEXT.index("ENTRY")
    text = f"{TEXT[:start]}{CONVERTED.replace('USED', used)}\n\n{TEXT[end:]}"
    text = text.replace("ROOT f = f32[1024]", "ROOT f = bf16[1024]").replace("OFFSET", "at")
    assert len(findings_of(text, "C004")) == count


ASKED = """HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[SIZE]{0} parameter(0)
  ROOT r = f32[1024]{0} reduce-scatter(x), channel_id=1, replica_groups={{0,1,2,3}},\
 use_global_device_ids=true, dimensions={0}, to_apply=add
}
"""


@pytest.mark.parametrize(("size", "count"), [(4096, 0), (8192, 1)])
def test_a_reduce_scatter_that_xla_performs_so_is_not(size: int, count: int) -> None:
    before = ASKED.replace("SIZE", str(size))
    assert len(findings_of(TEXT.replace("OFFSET", "at"), "C004", before)) == count
