"""C001: transfers in loops without work beside them."""

from __future__ import annotations

import pytest

from tests.analysis.findings.programs import findings_of, looped

BODY = """
  r = f32[SIZE]{0} all-reduce(v), channel_id=1, replica_groups={{0,1},{2,3}},\
 use_global_device_ids=true, to_apply=add
"""
ASYNC = """
  s = f32[SIZE]{0} all-reduce-start(v), channel_id=1, replica_groups={{0,1},{2,3}},\
 use_global_device_ids=true, to_apply=add
  w = f32[SIZE,64]{1,0} broadcast(v), dimensions={0}
  u = f32[SIZE,64]{1,0} exponential(w)
  r = f32[SIZE]{0} all-reduce-done(s)
"""


def test_a_reduction_without_work_beside_it_is_found() -> None:
    (found,) = findings_of(looped(BODY, size=1 << 16, trips=4), "C001")
    assert found.message == (
        "all-reduce over axis_1 in a loop: 1.00MiB of one run, 100% of all bytes sent, "
        "are not covered by work"
    )


@pytest.mark.parametrize(("body", "backend"), [(ASYNC, None), (BODY, "cpu")])
def test_covered_ones_and_those_of_cpu_are_not(body: str, backend: str | None) -> None:
    assert findings_of(looped(body, size=1 << 16, trips=4, backend=backend), "C001") == ()
