"""Arguments whose bytes collectives move."""

from __future__ import annotations

from hlo_lens.program.signature import moved_arguments
from hlo_lens.program.summary import hlo_text
from tests.questions.texts import module_of

GATHER = "replica_groups={{0,1}}, channel_id=1, dimensions={0}, use_global_device_ids=true"
PERMUTE = "source_target_pairs={{0,1},{1,0}}, channel_id=2"

TEXT = """HloModule m, num_partitions=2

sliced {
  p = f32[4,8] parameter(0)
  i = s32[] parameter(1)
  o = s32[] constant(0)
  s = f32[1,8] dynamic-slice(p, i, o), dynamic_slice_sizes={1,8}
  b = f32[8] bitcast(s)
  ROOT c = bf16[8] convert(b)
}

sum {
  l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT a = f32[] add(l, r)
}

body {
  t = (s32[], f32[4,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  w = f32[4,8] get-tuple-element(t), index=1
  h = f32[8] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
BODY
}

cond {
  t = (s32[], f32[4,8], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}

ENTRY main {
  w = f32[4,8] parameter(0), metadata={op_name="params['w']"}
  x = f32[8] parameter(1), metadata={op_name="x"}
  o = s32[] constant(0)
ENTRY_LINES
}
"""

LOOP = """  t = (s32[], f32[4,8], f32[8]) tuple(o, w, x)
  ROOT l = (s32[], f32[4,8], f32[8]) while(t), condition=cond, body=body"""


def _moved(entry: str, body: str = "  ROOT u = (s32[], f32[4,8], f32[8]) tuple(j, w, h)") -> object:
    """Return the arguments that each collective moves, by its name."""
    module = module_of(TEXT.replace("BODY", body).replace("ENTRY_LINES", entry))
    name = hlo_text(module).columns.name
    return {name(row): names for row, names in moved_arguments(module).items()}


def test_slice_of_a_stacked_weight_is_followed_into_a_loop_and_a_fusion() -> None:
    body = f"""  s = bf16[8] fusion(w, i), kind=kLoop, calls=sliced
  g = bf16[16] all-gather(s), {GATHER}
  ROOT u = (s32[], f32[4,8], f32[8]) tuple(j, w, h)"""
    assert _moved(LOOP, body) == {"g": ("params['w']",)}


def test_element_that_a_loop_computes_is_no_longer_the_argument() -> None:
    body = f"""  p = f32[8] collective-permute(h), {PERMUTE}
  n = f32[8] negate(p)
  ROOT u = (s32[], f32[4,8], f32[8]) tuple(j, w, n)"""
    assert _moved(LOOP, body) == {}


def test_chain_of_permutes_in_a_loop_passes_the_argument_on() -> None:
    body = f"""  p = f32[8] collective-permute(h), {PERMUTE}
  ROOT u = (s32[], f32[4,8], f32[8]) tuple(j, w, p)"""
    after = f"""{LOOP.replace("ROOT l", "l")}
  e = f32[8] get-tuple-element(l), index=2
  s = f32[8] collective-permute-start(e), {PERMUTE}
  ROOT d = f32[8] collective-permute-done(s)"""
    assert _moved(after, body) == {"p": ("x",), "s": ("x",)}


def test_elements_of_combined_and_joined_operands_are_told_apart() -> None:
    entry = f"""  f = f32[32] reshape(w)
  g = (f32[64], f32[16]) all-gather(f, x), {GATHER}
  e = f32[16] get-tuple-element(g), index=1
  p = f32[16] collective-permute(e), {PERMUTE}
  j = f32[48] concatenate(f, e), dimensions={{0}}
  k = f32[96] all-gather(j), {GATHER}
  n = f32[48] negate(j)
  ROOT r = f32[48] all-reduce(n), replica_groups={{{{0,1}}}}, to_apply=sum"""
    both = ("params['w']", "x")
    assert _moved(entry) == {"g": both, "p": ("x",), "k": both}
