"""C001: transfers in loops without work beside them."""

from __future__ import annotations

import pytest

from tests.questions.findings.programs import findings_of, looped

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


SWITCHED = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

sent {
  q = f32[1024]{0} parameter(0)
  ROOT r = f32[1024]{0} all-reduce(q), channel_id=1, replica_groups={{0,1},{2,3}},\
 use_global_device_ids=true, to_apply=add
}

kept {
  ROOT q = f32[1024]{0} parameter(0)
}

body {
  t = (s32[], f32[1024]{0}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  v = f32[1024]{0} get-tuple-element(t), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  c = f32[1024]{0} conditional(i, v, v), branch_computations={sent, kept}
  ROOT n = (s32[], f32[1024]{0}) tuple(next, c)
}

condition {
  t = (s32[], f32[1024]{0}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  end = s32[] constant(6)
  ROOT l = pred[] compare(i, end), direction=LT
}

ENTRY main {
  x = f32[1024]{0} parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[1024]{0}) tuple(zero, x)
  loop = (s32[], f32[1024]{0}) while(start), condition=condition, body=body
  ROOT o = f32[1024]{0} get-tuple-element(loop), index=1
}
"""


def test_bytes_of_a_branch_that_may_not_be_taken_are_at_most() -> None:
    (found,) = findings_of(SWITCHED, "C001")
    assert found.message == (
        "all-reduce over axis_1 in a loop: at most 24.0KiB of one run, 100% of the most that is "
        "sent, are not covered by work"
    )
    assert found.evidence == ("r: at most 24.0KiB sent by each device in one run",)


def test_a_share_of_a_total_that_is_not_known_is_of_its_known_part() -> None:
    """A second loop, with the same body, of which the trip count is not known."""
    text = looped(BODY, size=1 << 16, trips=4).replace(
        "  ROOT o = ",
        "  again = (s32[], f32[65536]{0}, f32[65536]{0}) while(loop), condition=open, body=body2\n"
        "  ROOT o = ",
    )
    head, entry, tail = text.partition("ENTRY main")
    body = head[head.index("body {") : head.index("condition {")].replace(
        "channel_id=1", "channel_id=2"
    )
    opened = head[head.index("condition {") :].replace(
        "constant(4)", "get-tuple-element(t), index=0"
    )
    text = f"{head}{body.replace('body {', 'body2 {')}{opened.replace('condition {', 'open {')}"
    (found, *_) = findings_of(f"{text}{entry}{tail}", "C001")
    assert "100% of the bytes sent that are known, are not covered" in found.message
