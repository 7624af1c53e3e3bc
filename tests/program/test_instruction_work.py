"""Work of instructions: slices, updates, fusions, loops, conditionals."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.hlo.query import tabulate
from hlo_lens.program.call_counts import CallCounts
from hlo_lens.program.instruction_work import NO_WORK, Work, WorkFinder
from tests.hlo_texts import without_elements

TEXT = """HloModule m, is_scheduled=true

sliced {
  p = f32[100,8] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  d = f32[1,8] dynamic-slice(p, i, z), dynamic_slice_sizes={1,8}
  ROOT n = f32[1,8] negate(d)
}

updated {
  p = f32[100,8] parameter(0)
  u = f32[1,8] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  ROOT d = f32[100,8] dynamic-update-slice(p, u, i, z)
}

carried {
  p = f32[8] parameter(0)
  g = f32[16] all-gather(p), replica_groups={{0,1}}, dimensions={0}
  x = f32[4,4] parameter(1)
  m = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[4,4], f32[16], f32[8]) tuple(m, g, p)
}

body {
  s = (s32[], f32[100,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100,8] get-tuple-element(s), index=1
  y = f32[100,8] negate(x)
  ROOT t = (s32[], f32[100,8]) tuple(i, y)
}

condition {
  s = (s32[], f32[100,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ROOT l = pred[] compare(i, i), direction=LT
}

small {
  p = f32[8] parameter(0)
  ROOT n = f32[8] negate(p)
}

large {
  p = f32[8] parameter(0)
  n = f32[8] negate(p)
  ROOT m = f32[8] negate(n)
}

ENTRY main {
  p = f32[100,8] parameter(0)
  i = s32[] parameter(1)
  v = f32[8] parameter(2)
  x = f32[4,4] parameter(3)
  slice = f32[1,8] fusion(p, i), kind=kLoop, calls=sliced
  update = f32[100,8] fusion(p, slice, i), kind=kLoop, calls=updated
  carry = (f32[4,4], f32[16], f32[8]) fusion(v, x), kind=kOutput, calls=carried
  plain = f32[1,8] slice(p), slice={[0:1], [0:8]}
  gather = f32[16] all-gather(v), replica_groups={{0,1}}, dimensions={0}
  view = f32[800] bitcast(p)
  buffer = f32[8] custom-call(), custom_call_target="AllocateBuffer"
  kernel = f32[8] custom-call(v), custom_call_target="kernel"
  either = f32[8] conditional(i, v, v), branch_computations={small, large}
  s = (s32[], f32[100,8]) tuple(i, p)
  open = (s32[], f32[100,8]) while(s), condition=condition, body=body
  loop = (s32[], f32[100,8]) while(s), condition=condition, body=body, \
backend_config={"known_trip_count":{"n":"5"}}
  ROOT r = f32[800] negate(view)
}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("slice", Work(32 + 4 + 32, 0)),
        ("update", Work(0 + 32 + 4 + 32, 0)),
        ("carry", Work(64 + 64, 2 * 4 * 4 * 4)),
        ("plain", Work(64, 0)),
        ("gather", NO_WORK),
        ("view", NO_WORK),
        ("buffer", NO_WORK),
        ("kernel", Work(64, None)),
        ("either", Work(128, 0)),
        ("open", Work(None, 0)),
        ("loop", Work(5 * (6400 + 9), 0)),
        ("r", Work(6400, 0)),
    ],
)
def test_work_of_an_instruction(name: str, expected: Work) -> None:
    table = tabulate(hlo_lens.parse_hlo(TEXT))
    instruction = table.module.entry.instruction(name)
    assert instruction is not None
    assert WorkFinder(table, CallCounts(table)).of(instruction.row) == expected


ELEMENTS = """HloModule m, is_scheduled=true

split {
  p = (s32[], f32[100,8]) parameter(0)
  a = s32[] get-tuple-element(p), index=0
  both = (s32[], f32[100,8]) fusion(a), kind=kLoop, calls=filled
  b = s32[] get-tuple-element(both), index=0
  ROOT t = (s32[], s32[]) tuple(a, b)
}

filled {
  n = s32[] parameter(0)
  c = f32[] constant(1)
  f = f32[100,8] broadcast(c), dimensions={}
  ROOT t = (s32[], f32[100,8]) tuple(n, f)
}

ENTRY main {
  s = (s32[], f32[100,8]) parameter(0)
  c = s32[] constant(1)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100,8] get-tuple-element(s), index=1
  add = s32[] add(i, c)
  negate = f32[100,8] negate(x)
  update = f32[100,8] dynamic-update-slice(x, x, i, i)
  fusion = (s32[], s32[]) fusion(s), kind=kLoop, calls=split
  ROOT t = (s32[], f32[100,8]) tuple(add, negate)
}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add", Work(12, 0)),
        ("negate", Work(6400, 0)),
        ("update", Work(6400, 0)),
        ("fusion", Work(4 + 4, 0)),
    ],
)
@pytest.mark.parametrize("is_compact", [False, True])
def test_of_a_tuple_only_the_element_is_read(name: str, expected: Work, is_compact: bool) -> None:
    text = without_elements(ELEMENTS) if is_compact else ELEMENTS
    table = tabulate(hlo_lens.parse_hlo(text))
    assert ("get-tuple-element" in table.different_opcodes) is not is_compact
    instruction = table.module.entry.instruction(name)
    assert instruction is not None
    assert WorkFinder(table, CallCounts(table)).of(instruction.row) == expected


def test_a_fusion_whose_body_lost_its_root_has_unknown_work() -> None:
    text = """HloModule m
lost {
}

ENTRY e {
  x = f32[8] parameter(0)
  ROOT f = f32[8] fusion(x), kind=kLoop, calls=lost
  last = f32[8] parameter(1)
}
"""
    module = hlo_lens.parse_hlo(text)
    table = tabulate(module)
    assert module.entry is not None
    assert module.entry.root is not None
    assert WorkFinder(table, CallCounts(table)).of(module.entry.root.row).size_bytes is None


@pytest.mark.parametrize(
    "body",
    [
        "ROOT r = f32[8] fusion(p), kind=kLoop, calls=odd",
        "x = f32[8] bitcast(r)\n  ROOT r = f32[8] bitcast(x)",
        "x = f32[8] bitcast(p, r)\n  ROOT r = f32[8] bitcast(x)",
        "ROOT r = (f32[8], f32[8]) tuple(r, r)",
    ],
)
def test_a_fusion_with_a_circle_has_unknown_work(body: str) -> None:
    text = f"""HloModule m
odd {{
  p = f32[8] parameter(0)
  {body}
}}

ENTRY e {{
  x = f32[8] parameter(0)
  ROOT f = f32[8] fusion(x), kind=kLoop, calls=odd
}}
"""
    table = tabulate(hlo_lens.parse_hlo(text))
    assert table.module.entry.root is not None
    assert None in WorkFinder(table, CallCounts(table)).of(table.module.entry.root.row)
