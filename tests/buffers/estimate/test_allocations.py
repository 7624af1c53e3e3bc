"""Allocations of computations on a thread's stack."""

from __future__ import annotations

from hlo_lens.buffers.estimate.heap_layout import thread_local_allocations
from tests.buffers.estimate.flows import flow_of
from tests.questions.texts import table_of


def test_reducers_are_thread_local() -> None:
    flow = flow_of(
        table_of("""HloModule m, is_scheduled=true

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}

ENTRY main {
  p = f32[100]{0} parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(p, zero), dimensions={0}, to_apply=add
}
""")
    )
    found = thread_local_allocations(flow)
    assert [(a.kind, a.size) for a in found] == [("thread-local", 4)] * 3
