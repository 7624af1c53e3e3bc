"""Values, buffers and live ranges of small programs, and which results share bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from hlo_lens.buffers.estimate.dataflow import dataflow
from hlo_lens.buffers.estimate.values import NODES, BufferSharing
from tests.questions.texts import LOOP, entry_of, table_of

if TYPE_CHECKING:
    from hlo_lens.buffers.estimate.values import Dataflow
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.shape import Shape


def size_of(shape: Shape) -> int | None:
    return 8 * len(shape.tuple_shapes) if shape.is_tuple else shape.size_bytes


def flow_of(table: InstructionTable) -> Dataflow:
    return dataflow(table, size_of)


def name_of(flow: Dataflow, value: int) -> str:
    row, node = divmod(flow.values.places[value], NODES)
    index = ",".join(map(str, flow.tree(row).index(node)))
    return f"{flow.table.module.columns.name(row)}{{{index}}}"


def buffers_of(flow: Dataflow) -> list[list[str]]:
    """Return the names of the values in each buffer, in order."""
    return sorted(sorted(name_of(flow, value) for value in buffer) for buffer in flow.buffers)


def ranges_of(flow: Dataflow) -> dict[str, tuple[int, int]]:
    """Return the live range of each value."""
    values = flow.values
    kept = {value for buffer in flow.buffers for value in buffer}
    return {name_of(flow, v): (values.starts[v], values.ends[v]) for v in sorted(kept)}


def test_a_value_lives_from_its_definition_to_its_last_use() -> None:
    flow = flow_of(
        entry_of("""  p = f32[8]{0} parameter(0)
  a = f32[8]{0} negate(p)
  b = f32[8]{0} add(a, p)
  ROOT c = f32[8]{0} add(a, b)""")
    )
    assert ranges_of(flow) == {"p{}": (0, 4), "a{}": (1, 3), "b{}": (2, 3), "c{}": (3, 4)}
    assert flow.end == 4


def test_tuples_define_only_their_table() -> None:
    flow = flow_of(
        entry_of("""  p = f32[8]{0} parameter(0)
  a = f32[8]{0} negate(p)
  t = (f32[8]{0}, f32[8]{0}) tuple(a, p)
  e = f32[8]{0} get-tuple-element(t), index=0
  b = f32[8]{0} bitcast(e)
  ROOT c = f32[8]{0} copy(b)""")
    )
    assert buffers_of(flow) == [["a{}"], ["c{}"], ["p{}"], ["t{}"]]
    assert ranges_of(flow)["a{}"] == (1, 5)
    assert ranges_of(flow)["t{}"] == (2, 3)


def test_a_part_named_by_an_operand_is_used_behind_its_tuple() -> None:
    flow = flow_of(
        entry_of("""  %p = f32[8]{0} parameter(0)
  %s = (f32[8]{0}, s32[8]{0}) sort(%p, %p), dimensions={0}
  ROOT %c = f32[8]{0} copy(%s#0)""")
    )
    assert ranges_of(flow)["s{0}"] == (1, 2)
    assert ranges_of(flow)["s{1}"] == (1, 1)
    assert not flow.skips


def test_a_loop_and_its_donated_state_are_one_buffer() -> None:
    flow = flow_of(table_of(LOOP))
    (state,) = [buffer for buffer in buffers_of(flow) if "w{}" in buffer]
    assert state == ["loop{1}", "state.1{1}", "state{1}", "w{}", "y{}"]
    assert ["loop{0}", "next{}", "n{}", "state.1{0}", "state{0}"] in buffers_of(flow)
    assert {name_of(flow, value) for value in flow.donated} == {"w{}"}


def test_the_schedule_has_condition_and_body_before_the_loop() -> None:
    flow = flow_of(table_of(LOOP))
    name = flow.table.module.columns.name
    order = "w b n init state.1 i.1 four less state i x y one next out loop"
    assert " ".join(name(row) for row in flow.schedule) == order


CARRIED = """HloModule m, is_scheduled=true

body {
  s = (s32[], f32[8]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8]{0} get-tuple-element(s), index=1
  j = s32[] add(i, i)
  ROOT out = (s32[], f32[8]{0}) tuple(j, x)
}

cond {
  s.1 = (s32[], f32[8]{0}) parameter(0)
  i.1 = s32[] get-tuple-element(s.1), index=0
  ROOT less = pred[] compare(i.1, i.1), direction=LT
}

ENTRY main {
  n = s32[] parameter(0)
  w = f32[8]{0} parameter(1)
  v = f32[8]{0} negate(w)
  init = (s32[], f32[8]{0}) tuple(n, v)
  ROOT loop = (s32[], f32[8]{0}) while(init), condition=cond, body=body
}
"""


def test_a_value_carried_unchanged_by_a_loop_is_one_value() -> None:
    flow = flow_of(table_of(CARRIED))
    assert ["v{}"] in buffers_of(flow)
    assert ranges_of(flow)["v{}"] == (2, flow.end)
    assert ["j{}", "loop{0}", "n{}", "s.1{0}", "s{0}"] in buffers_of(flow)


def test_values_of_one_buffer_do_not_overlap_but_at_an_instant() -> None:
    flow = flow_of(table_of(CARRIED))
    values = flow.values
    for buffer in flow.buffers:
        chain = sorted(buffer, key=lambda v: (values.starts[v], values.ends[v]))
        for first, second in pairwise(chain):
            assert values.ends[first] <= values.starts[second]


def test_branches_that_differ_make_a_phi() -> None:
    flow = flow_of(
        table_of("""HloModule m, is_scheduled=true

yes {
  a = f32[8]{0} parameter(0)
  ROOT b = f32[8]{0} negate(a)
}

no {
  c = f32[8]{0} parameter(0)
  ROOT d = f32[8]{0} copy(c)
}

ENTRY main {
  q = pred[] parameter(0)
  p = f32[8]{0} parameter(1)
  ROOT r = f32[8]{0} conditional(q, p, p), true_computation=yes, false_computation=no
}
""")
    )
    assert buffers_of(flow) == [["b{}", "d{}", "r{}"], ["p{}"], ["q{}"]]


def test_updates_share_their_operand() -> None:
    flow = flow_of(
        table_of("""HloModule m, is_scheduled=true

fused {
  a = f32[8]{0} parameter(0)
  u = f32[1]{0} parameter(1)
  i = s32[] parameter(2)
  ROOT d = f32[8]{0} dynamic-update-slice(a, u, i)
}

ENTRY main {
  p = f32[8]{0} parameter(0)
  u.1 = f32[1]{0} parameter(1)
  i.1 = s32[] parameter(2)
  c = f32[8]{0} copy(p)
  one = f32[8]{0} dynamic-update-slice(c, u.1, i.1)
  two = f32[8]{0} fusion(one, u.1, i.1), kind=kLoop, calls=fused
  ROOT three = f32[8]{0} custom-call(two), custom_call_target="f", \
output_to_operand_aliasing={{}: (0, {})}
}
""")
    )
    assert ["c{}", "one{}", "three{}", "two{}"] in buffers_of(flow)


NESTED = """HloModule m, is_scheduled=true

inner {
  a = f32[8]{0} parameter(0)
  u = f32[1]{0} parameter(1)
  i = s32[] parameter(2)
  ROOT d = f32[8]{0} dynamic-update-slice(a, u, i)
}

outer {
  i.2 = s32[] parameter(0)
  a.2 = f32[8]{0} parameter(1)
  u.2 = f32[1]{0} parameter(2)
  n = f32[8]{0} negate(a.2)
  f = f32[8]{0} fusion(a.2, u.2, i.2), kind=kLoop, calls=inner
  ROOT t = (f32[8]{0}, f32[8]{0}) tuple(n, f)
}

ENTRY main {
  p = f32[8]{0} parameter(0)
  u.1 = f32[1]{0} parameter(1)
  i.1 = s32[] parameter(2)
  c = f32[8]{0} copy(p)
  ROOT r = (f32[8]{0}, f32[8]{0}) fusion(i.1, c, u.1), kind=kLoop, calls=outer
}
"""


def test_a_fusion_in_a_fusion_updates_through_both() -> None:
    assert ["c{}", "r{1}"] in buffers_of(flow_of(table_of(NESTED)))
    looped = NESTED.replace("dynamic-update-slice(a, u, i)", "fusion(a, u, i), calls=inner")
    assert ["c{}"] in buffers_of(flow_of(table_of(looped)))


PLAIN_START = """  p = f32[64]{0} parameter(0)
  i = s32[] parameter(1)
  a = f32[64]{0} negate(p)
  start = ((f32[64]{0}, s32[]), f32[8]{0}, u32[]) async-start(a, i), calls=wrapped
  b = f32[64]{0} negate(a)
  done = f32[8]{0} async-done(start)
  ROOT t = (f32[64]{0}, f32[8]{0}) tuple(b, done)"""
WRAPPED = """wrapped {
  q = f32[64]{0} parameter(0)
  j = s32[] parameter(1)
  ROOT s = f32[8]{0} dynamic-slice(q, j), dynamic_slice_sizes={8}
}"""


def test_sugared_async_operations_live_as_those_that_show_their_computation() -> None:
    header = "HloModule m, is_scheduled=true\n\n"
    shown = flow_of(table_of(f"{header}{WRAPPED}\n\nENTRY main {{\n{PLAIN_START}\n}}\n"))
    sugar = PLAIN_START.replace("async-start", "dynamic-slice-start").replace(
        "calls=wrapped", "dynamic_slice_sizes={8}"
    )
    sugar = sugar.replace("async-done", "dynamic-slice-done")
    hidden = flow_of(table_of(f"{header}ENTRY main {{\n{sugar}\n}}\n"))
    renamed = {"s{}": "start{1}"}
    assert {renamed.get(k, k): v for k, v in ranges_of(shown).items()} == ranges_of(hidden)
    assert ranges_of(shown)["s{}"] == (5, 10)
    assert len(shown.schedule) == len(hidden.schedule) == 10


IN_PLACE_START = """  p = f32[64]{0} parameter(0)
  n = f32[64]{0} negate(p)
  start = ((f32[64]{0}), f32[64]{0}) async-start(n), PAIRS, calls=wrapped
  done = f32[64]{0} async-done(start)
  ROOT r = f32[64]{0} negate(done)"""
WRAPPED_REDUCTION = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

wrapped {
  q = f32[64]{0} parameter(0)
  ROOT sum = f32[64]{0} all-reduce(q), to_apply=add
}"""


@pytest.mark.parametrize("pairs", ["{{1}: (0, {})}", "{{}: (0, {})}"], ids=["start", "result"])
def test_an_all_reduce_start_with_its_operand_is_an_async_start(pairs: str) -> None:
    header = f"HloModule m, is_scheduled=true\n\n{WRAPPED_REDUCTION}\n\n"
    shown = IN_PLACE_START.replace("PAIRS", "output_to_operand_aliasing={{1}: (0, {})}")
    flow = flow_of(table_of(f"{header}ENTRY main {{\n{shown}\n}}\n"))
    sugar = IN_PLACE_START.replace("async-start", "all-reduce-start").replace(
        "PAIRS, calls=wrapped", f"to_apply=add, output_to_operand_aliasing={pairs}"
    )
    sugar = sugar.replace("async-done", "all-reduce-done")
    hidden = flow_of(table_of(f"{header}ENTRY main {{\n{sugar}\n}}\n"))
    assert buffers_of(flow) == [["n{}", "sum{}"], ["p{}"], ["r{}"], ["start{0}"], ["start{}"]]
    assert ["n{}", "start{1}"] in buffers_of(hidden)
    renamed = {"sum{}": "start{1}"}
    assert {renamed.get(k, k): v for k, v in ranges_of(flow).items()} == ranges_of(hidden)


@pytest.mark.parametrize("opcode", ["all-gather", "collective-permute"])
def test_a_start_with_a_tuple_of_its_operand_is_an_async_start(opcode: str) -> None:
    old = entry_of(f"""  p = f32[8]{{0}} parameter(0)
  n = f32[8]{{0}} negate(p)
  start = (f32[8]{{0}}, f32[16]{{0}}) {opcode}-start(n)
  ROOT done = f32[16]{{0}} {opcode}-done(start)""")
    new = entry_of(f"""  p = f32[8]{{0}} parameter(0)
  n = f32[8]{{0}} negate(p)
  start = ((f32[8]{{0}}), f32[16]{{0}}) {opcode}-start(n)
  ROOT done = f32[16]{{0}} {opcode}-done(start)""")
    assert len(flow_of(old).schedule) == 4
    assert len(flow_of(new).schedule) == 6  # parameter and instruction of what is not printed
    assert ["start{0}"] in buffers_of(flow_of(new))


LATE_OPERAND = """  p = f32[8]{0} parameter(0)
  start = ((), (), (s32[4]{0})) START
  n = f32[8]{0} negate(p)
  update = ((f32[8]{0}), f32[32]{0}, (s32[4]{0})) custom-call-update(start, n), \
output_to_operand_aliasing={{2,0}: (0, {2,0})}
  ROOT done = f32[32]{0} custom-call-done(update)"""
LATE_WRAPPED = """wrapped {
  q = f32[8]{0} parameter(0)
  ROOT c = f32[32]{0} custom-call(q), custom_call_target="x"
}"""


def test_a_custom_call_that_gets_its_operand_later_has_its_result_from_there_on() -> None:
    header = "HloModule m, is_scheduled=true\n\n"
    start = "async-start(), calls=wrapped"
    shown = LATE_OPERAND.replace("START", start).replace("custom-call-", "async-")
    flow = flow_of(table_of(f"{header}{LATE_WRAPPED}\n\nENTRY main {{\n{shown}\n}}\n"))
    sugar = LATE_OPERAND.replace("START", 'custom-call-start(), custom_call_target="x"')
    hidden = flow_of(table_of(f"{header}ENTRY main {{\n{sugar}\n}}\n"))
    renamed = {"c{}": "update{1}"}
    assert {renamed.get(k, k): v for k, v in ranges_of(flow).items()} == ranges_of(hidden)
    assert ["start{2,0}", "update{2,0}"] in buffers_of(hidden)


def test_a_permute_of_several_operands_has_values_where_xla_has() -> None:
    flow = flow_of(
        entry_of("""  p = f32[8]{0} parameter(0)
  a = f32[8]{0} negate(p)
  start = (f32[8]{0}, f32[8]{0}) collective-permute-start(a), source_target_pairs={{0,1}}
  ROOT done = f32[8]{0} collective-permute-done(start)""")
    )
    assert buffers_of(flow) == [["a{}"], ["p{}"], ["start{1}"], ["start{}"]]


@pytest.mark.parametrize("depth", [50, 500])
def test_deeply_nested_calls_are_followed_to_a_limit(depth: int) -> None:
    calls = [f"c{k} {{\n  p{k} = f32[8]{{0}} parameter(0)\n" for k in range(depth)]
    for k in range(depth):
        inner = f"call(p{k}), to_apply=c{k - 1}" if k else "negate(p0)"
        calls[k] += f"  ROOT r{k} = f32[8]{{0}} {inner}\n}}\n\n"
    entry = f"ENTRY main {{\n  p = f32[8]{{0}} parameter(0)\n  ROOT r = f32[8]{{0}} call(p), \
to_apply=c{depth - 1}\n}}\n"
    flow = flow_of(table_of(f"HloModule m, is_scheduled=true\n\n{''.join(calls)}{entry}"))
    assert bool(flow.skips) == (depth > 100)


def test_a_computation_that_calls_itself_ends() -> None:
    flow = flow_of(
        table_of("""HloModule m, is_scheduled=true

again {
  a = f32[8]{0} parameter(0)
  ROOT b = f32[8]{0} call(a), to_apply=again
}

ENTRY main {
  p = f32[8]{0} parameter(0)
  ROOT r = f32[8]{0} call(p), to_apply=again
}
""")
    )
    assert flow.skips


def test_elementwise_results_may_share_an_operand_of_their_shape() -> None:
    flow = flow_of(
        entry_of("""  p = f32[8]{0} parameter(0)
  a = f32[8]{0} negate(p)
  b = f32[8]{0} add(a, p)
  c = bf16[8]{0} convert(b)
  ROOT d = bf16[8]{0} reverse(c), dimensions={0}""")
    )
    sharing = BufferSharing(flow, "cpu")
    places = {name_of(flow, value): flow.values.last_places[value] for value in range(5)}
    rows = {name: place // NODES for name, place in places.items()}
    assert sharing.may_share(places["a{}"], rows["b{}"], 0)
    assert not sharing.may_share(places["b{}"], rows["c{}"], 0)
    assert not sharing.may_share(places["c{}"], rows["d{}"], 0)
