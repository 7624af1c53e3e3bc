"""Products in steps around a ring of devices are one all-gather or reduce-scatter each."""

from __future__ import annotations

from hlo_lens.questions.collectives.collective import Collective, collectives
from hlo_lens.questions.findings.values import transfers
from hlo_lens.questions.work.work import work
from tests.questions.texts import module_of

UP = "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
DOWN = "source_target_pairs={{1,0},{2,1},{3,2},{0,3}}"
PRODUCT = 'metadata={op_name="jit(f)/dot_general"}'
DOT = f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {PRODUCT}"

LOOP = f"""HloModule m, num_partitions=4, is_scheduled=true

windowed_dot_general_body_ag.1.clone {{
  t = (f32[8,8], f32[8,8], f32[8,8], s32[]) parameter(0)
  w = f32[8,8] get-tuple-element(t), index=0
  x = f32[8,8] get-tuple-element(t), index=1
  y = f32[8,8] get-tuple-element(t), index=2
  i = s32[] get-tuple-element(t), index=3
  p = f32[8,8] collective-permute(w), channel_id=1, {UP}, {PRODUCT}
  d = f32[8,8] dot(x, w), {DOT}
  z = f32[8,8] add(y, d)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT u = (f32[8,8], f32[8,8], f32[8,8], s32[]) tuple(p, x, z, j)
}}

cond {{
  t = (f32[8,8], f32[8,8], f32[8,8], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=3
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT
}}

ENTRY main {{
  x = f32[8,8] parameter(0), metadata={{op_name="x"}}
  w = f32[8,8] parameter(1), metadata={{op_name="params['w']"}}
  y = f32[8,8] parameter(2)
  o = s32[] constant(0)
  q = f32[8,8] collective-permute(w), channel_id=2, {DOWN}, {PRODUCT}
  t = (f32[8,8], f32[8,8], f32[8,8], s32[]) tuple(q, x, y, o)
  l = (f32[8,8], f32[8,8], f32[8,8], s32[]) while(t), condition=cond, \
body=windowed_dot_general_body_ag.1.clone, {PRODUCT}
  r = f32[8,8] get-tuple-element(l), index=2
  ROOT e = f32[8,8] collective-permute(r), channel_id=3, {UP}, \
metadata={{op_name="jit(f)/ppermute"}}
}}
"""


def _unrolled(second: str, op_name: str = "jit(f)/dot_general") -> list[Collective]:
    """Return the collectives of two permutes of an operation, the second of an operand."""
    text = f"""HloModule m, num_partitions=4, is_scheduled=true

ENTRY main {{
  x = f32[8,8] parameter(0)
  w = f32[8,8] parameter(1), metadata={{op_name="params['w']"}}
  p = f32[8,8] collective-permute(w), channel_id=1, {UP}, metadata={{op_name="{op_name}"}}
  d = f32[8,8] dot(x, p), {DOT}
  c = f32[8,8] copy(p)
  a = f32[8,8] add(p, d)
  q = f32[8,8] collective-permute({second}), channel_id=2, {UP}, metadata={{op_name="{op_name}"}}
  ROOT r = f32[8,8] dot(d, q), {DOT}
}}
"""
    return list(collectives(module_of(text)).collectives)


def test_loop_of_permutes_is_one_gather_of_the_whole_operand() -> None:
    found = collectives(module_of(LOOP))
    gather, asked = found.collectives
    assert (gather.kind, gather.performed_as) == ("all-gather", "collective-permute")
    assert (gather.dynamic_count, gather.loop_path, gather.group_size) == (1, (), 4)
    assert gather.payload_bytes == 4 * 256
    assert gather.wire_bytes_per_device == gather.wire_bytes_per_run == (1 + 3) * 256
    assert gather.parameters == ("params['w']",)
    assert (asked.kind, asked.performed_as) == ("collective-permute", None)
    counts = found.static_counts()
    assert (counts["all-gather"], counts["collective-permute"], found.clones) == (1, 1, 1)
    scattered = collectives(module_of(LOOP.replace("body_ag", "body_rs"))).collectives
    assert [one.kind for one in scattered] == ["reduce-scatter", "collective-permute"]


def test_values_of_a_ring_are_not_those_of_its_first_step() -> None:
    (ring, _) = transfers(module_of(LOOP))
    assert (ring.collective.kind, ring.parts) == ("all-gather", ())


def test_unrolled_steps_are_told_apart_by_what_they_pass_on() -> None:
    (gather,) = _unrolled("c")
    assert (gather.kind, gather.wire_bytes_per_device) == ("all-gather", 512)
    (scatter,) = _unrolled("a")
    assert scatter.kind == "reduce-scatter"


def test_permutes_that_are_no_steps_of_one_product_remain_permutes() -> None:
    assert [one.kind for one in _unrolled("x")] == ["collective-permute"] * 2
    assert [one.kind for one in _unrolled("c", "jit(f)/ppermute")] == ["collective-permute"] * 2


def test_damaged_pairs_are_no_ring() -> None:
    module = module_of(LOOP.replace(UP, "source_target_pairs={{0},{1,2},{2},{3,0,1}}"))
    assert "all-gather" not in [one.kind for one in collectives(module).collectives]
    assert work(module).flops is not None
