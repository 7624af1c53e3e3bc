"""Origins of collectives, and of the members of combined ones."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.loop_levels import collectives_by
from tests.questions.collectives.texts import counted
from tests.questions.texts import module_of

COMBINED = """HloModule jit_f, is_scheduled=true, num_partitions=2

ENTRY main {
  p = f32[8]{0} parameter(0), metadata={op_name="w['a']"}
  q = f32[24]{0} parameter(1), metadata={op_name="w['b']"}
  x = f32[8]{0} negate(p), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
  y = f32[24]{0} sine(q), metadata={op_name="jit(f)/sin" source_file="f.py" source_line=4}
  g = (f32[16]{0}, f32[48]{0}) all-gather(x, y), channel_id=1, replica_groups={{0,1}}, \
dimensions={0}, use_global_device_ids=true, \
metadata={op_name="PATH" source_file="f.py" source_line=9}
  a = f32[16]{0} get-tuple-element(g), index=0, \
metadata={op_name="PATH" source_file="f.py" source_line=9}
  b = f32[48]{0} get-tuple-element(g), index=1, \
metadata={op_name="jit(f)/own" source_file="f.py" source_line=5}
  ROOT t = (f32[16]{0}, f32[48]{0}) tuple(a, b)
}
"""


@pytest.mark.parametrize(
    "path", ["jit(f)/(a/neg:b/sin)", "jit(f)/(jvp(a)/neg:jvp(checkpoint(b))/sin)/out"]
)
def test_the_path_of_all_members_is_that_of_none(path: str) -> None:
    module = module_of(COMBINED.replace("PATH", path))
    (found,) = collectives(module).collectives
    assert found.op_name == path
    assert [(one.op_name, one.source_line) for one in found.members] == [
        ("jit(f)/neg", 3),
        ("jit(f)/own", 5),
    ]
    assert (found.source_line, found.origin_basis) == (5, "own"), "that of the largest member"


BETWEEN_SLICES = """HloModule jit_f, is_scheduled=true, num_partitions=8

ENTRY main {
  w = f32[8]{0} parameter(0), metadata={op_name="w"}
  t = token[] after-all()
  s = (f32[8]{0}, u32[], token[]) send(w, t), channel_id=1, is_host_transfer=true, ACROSS
  r = (f32[16]{0}, u32[], token[]) recv(t), channel_id=2, is_host_transfer=true, ACROSS
  sent = token[] send-done(s), channel_id=1, is_host_transfer=true
  got = (f32[16]{0}, token[]) recv-done(r), channel_id=2, is_host_transfer=true
  all = f32[16]{0} get-tuple-element(got), index=0
  ROOT n = f32[16]{0} negate(all), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
}
""".replace(
    "ACROSS",
    'frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
    '_xla_megascale_transfer_type="ALL_GATHER",_xla_host_transfer_rendezvous="one"}',
)


def test_a_transfer_between_slices_has_the_line_of_what_uses_its_answer() -> None:
    (found,) = collectives(module_of(BETWEEN_SLICES)).collectives
    assert (found.source, found.origin_basis, found.op_name) == ("f.py:3", "user", "jit(f)/neg")
    assert found.argument == "w"


PACKED = """HloModule jit_f, is_scheduled=true, num_partitions=2

add {
  l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT s = f32[] add(l, r)
}

packing {
  one = f32[8]{0} parameter(0)
  other = f32[2,12]{1,0} parameter(1)
  flat = f32[24]{0} bitcast(other)
  ROOT whole = f32[32]{0} concatenate(one, flat), dimensions={0}
}

wrapped {
  all = f32[32]{0} parameter(0)
  ROOT sum = f32[32]{0} all-reduce(all), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=add, \
metadata={op_name="PATH" source_file="f.py" source_line=9}
}

ENTRY main {
  p = f32[8]{0} parameter(0), metadata={op_name="w['a']"}
  q = f32[2,12]{1,0} parameter(1), metadata={op_name="w['b']"}
  x = f32[8]{0} negate(p), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
  y = f32[2,12]{1,0} sine(q), metadata={op_name="jit(f)/sin" source_file="f.py" source_line=4}
  packed = f32[32]{0} fusion(x, y), kind=kLoop, calls=packing
  start = ((f32[32]{0}), f32[32]{0}) async-start(packed), calls=wrapped
  ROOT done = f32[32]{0} async-done(start)
}
"""


def test_parts_of_a_packed_operand_are_members() -> None:
    module = module_of(PACKED.replace("PATH", "jit(f)/(neg:sin)"))
    (found,) = collectives(module).collectives
    assert [
        (one.op_name, one.source_line, one.payload_bytes, one.origin_basis) for one in found.members
    ] == [("jit(f)/neg", 3, 32, "operand"), ("jit(f)/sin", 4, 96, "operand")]


def test_concatenation_that_the_program_asks_for_is_one_operand() -> None:
    module = module_of(PACKED.replace("PATH", "jit(f)/psum"))
    (found,) = collectives(module).collectives
    assert found.members == ()
    assert found.source_line == 9


OPERANDS = """add {
  l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT s = f32[] add(l, r)
}

ENTRY main {
  p = f32[8]{0} parameter(0)
  q = f32[24]{0} parameter(1)
  x = f32[8]{0} negate(p), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
  y = f32[24]{0} sine(q), metadata={op_name="jit(f)/sin" source_file="f.py" source_line=4}
"""
COMPACT = (
    f"HloModule jit_f, is_scheduled=true, num_partitions=2\n\n{OPERANDS}"
    """\
  g = (f32[8]{0}, f32[24]{0}, f32[8]{0}) all-reduce(x, y, p), channel_id=1, \
replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add, \
metadata={op_name="jit(f)/PATH" source_file="f.py" source_line=LINE}
  ROOT t = (f32[8]{0}, f32[24]{0}, f32[8]{0}) tuple(g#0, g#1, g#2)
}
"""
)
BEFORE = (
    f"HloModule jit_f, num_partitions=2\n\n{OPERANDS}"
    """\
  a = f32[8]{0} all-reduce(x), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=add, \
metadata={op_name="jit(f)/psum" source_file="f.py" source_line=7}
  b = f32[24]{0} all-reduce(y), channel_id=2, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=add, \
metadata={op_name="jit(f)/psum" source_file="f.py" source_line=8}
  c = f32[8]{0} all-reduce(p), channel_id=3, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=add, \
metadata={op_name="jit(f)/psum" source_file="f.py" source_line=9}
  ROOT t = (f32[8]{0}, f32[24]{0}, f32[8]{0}) tuple(a, b, c)
}
"""
)


def lines(
    path: str, line: int, before: str | None = None, after: str = COMPACT
) -> list[tuple[int | None, str | None]]:
    """Return line and basis of the members of a text such as `COMPACT`."""
    text = None if before is None else hlo_lens.parse_hlo(before)
    module = module_of(after.replace("PATH", path).replace("LINE", str(line)), text)
    (found,) = collectives(module).collectives
    assert [one.payload_bytes for one in found.members] == [32, 96, 32]
    return [(one.source_line, one.origin_basis) for one in found.members]


def test_members_that_a_text_does_not_print_have_the_lines_of_their_operands() -> None:
    assert lines("neg", 3) == [(3, "own"), (4, "operand"), (3, "own")]


def test_members_that_the_program_asks_for_have_the_lines_of_their_calls() -> None:
    assert lines("psum", 7, BEFORE) == [
        (7, "own"),
        (8, "before optimizations"),
        (7, "combined"),
    ], "of two calls of one shape, what makes the operand tells which it is"


def test_members_of_a_path_of_all_have_the_lines_of_their_calls() -> None:
    before = BEFORE.replace(
        '"jit(f)/psum" source_file="f.py" source_line=8',
        '"jit(f)/a/psum" source_file="f.py" source_line=8',
    )
    expected = ["before optimizations", "before optimizations", "combined"]
    assert lines("(psum:a/psum)", 7, before) == [*zip((7, 8, 7), expected, strict=True)]
    assert lines("(psum:a/psum)", 7) == [(7, "combined")] * 3


def test_members_asked_for_in_a_loop_of_a_function_have_the_lines_of_their_calls() -> None:
    head, _, entry = BEFORE.replace("jit(f)/", "while/body/").partition("ENTRY main {\n")
    values = "(f32[8]{0}, f32[24]{0}, f32[8]{0})"
    body = entry.replace("p = f32[8]{0} parameter(0)", f"w = {values} parameter(0)")
    body = body.replace("q = f32[24]{0} parameter(1)", "p = f32[8]{0} add(w#0, w#0)")
    body = body.replace("sine(q)", "sine(w#1)")
    before = f"""{head}body {{
{body}
condition {{
  w = {values} parameter(0)
  ROOT p = pred[] constant(false)
}}

shard_map {{
  w = {values} parameter(0)
  ROOT l = {values} while(w), condition=condition, body=body, metadata={{op_name="while"}}
}}

ENTRY main {{
  w = {values} parameter(0)
  ROOT c = {values} call(w), to_apply=shard_map, metadata={{op_name="jit(f)/shard_map"}}
}}
"""
    expected = [(7, "combined"), (8, "before optimizations"), (7, "combined")]
    assert lines("shard_map/while/body/psum", 7, before) == expected


def test_members_of_types_that_xla_widens_may_be_of_any_of_their_lines() -> None:
    before = BEFORE.replace("f32[8]{0} negate", "bf16[8]{0} negate")
    before = before.replace('neg"', 'cos"').replace("a = f32[8]", "a = bf16[8]")
    assert lines("psum", 9, before) == [
        (9, "combined"),
        (8, "before optimizations"),
        (9, "combined"),
    ], "of bf16 and f32, both may be the f32 after"


def test_members_that_xla_reorders_may_be_of_any_of_their_lines() -> None:
    before = BEFORE.replace("x = f32[8]{0} n", "x = f32[2,4]{1,0} n").replace('neg"', 'cos"')
    assert lines("psum", 9, before)[0] == (9, "combined")


def test_members_made_by_operations_before_conversions_may_be_of_their_lines() -> None:
    before = BEFORE.replace("all-reduce(p)", "all-reduce(n)").replace(
        "  a = f32",
        """  k = f32[8]{0} negate(p), metadata={op_name="jit(f)/neg" source_file="f.py"}
  n = f32[8]{0} convert(k), metadata={op_name="jit(f)/convert" source_file="f.py"}
  a = f32""",
    )
    assert lines("psum", 8, before)[0] == (8, "combined"), "the conversion may be gone"


def test_members_made_by_fusions_of_several_results_have_the_path_of_their_own() -> None:
    fused = """fused {
  p = f32[8]{0} parameter(0)
  m = f32[8]{0} multiply(p, p), metadata={op_name="jit(f)/mul" source_file="f.py" source_line=2}
  x = f32[8]{0} negate(m), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
  ROOT t = (f32[8]{0}, f32[8]{0}) tuple(x, m)
}

ENTRY"""
    after = COMPACT.replace("ENTRY", fused).replace("(x, y, p)", "(x#0, y, x#1)")
    after = after.replace(
        "x = f32[8]{0} negate(p)", "x = (f32[8]{0}, f32[8]{0}) fusion(p), kind=kLoop, calls=fused"
    )
    before = BEFORE.replace("all-reduce(p)", "all-reduce(k)").replace(
        "  a = f32",
        """  k = f32[8]{0} multiply(p, p), metadata={op_name="jit(f)/mul" source_file="f.py"}
  a = f32""",
    )
    assert [line for line, _ in lines("psum", 8, before, after)] == [7, 8, 9]


def test_members_that_one_line_asks_for_are_on_it() -> None:
    before = BEFORE.replace("source_line=8", "source_line=7").replace("line=9", "line=7")
    assert lines("psum", 7, before) == [(7, "own")] * 3


def test_members_whose_calls_are_not_known_have_the_line_of_one_of_them() -> None:
    assert lines("psum", 7) == [(7, "combined")] * 3


SHARED_OUT = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[96] parameter(0)
  y = f32[32] parameter(1), metadata={op_name="params['y']"}
  m = f32[96] negate(x), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
  both = (f32[96], f32[32]) all-reduce(m, y), replica_groups={{0,1,2,3}}, channel_id=1, \
use_global_device_ids=true, to_apply=add, metadata={op_name="jit(f)/(neg:dot)" \
source_file="f.py" source_line=3}
  first = f32[96] get-tuple-element(both), index=0
  second = f32[32] get-tuple-element(both), index=1, metadata={op_name="jit(f)/dot" \
source_file="f.py" source_line=5}
  alone = f32[96] all-reduce(first), replica_groups={{0,1,2,3}}, channel_id=2, \
use_global_device_ids=true, to_apply=add
  ROOT t = (f32[96], f32[32]) tuple(alone, second)
}
"""


def test_combined_collective_shares_its_bytes_over_the_lines_of_its_members() -> None:
    found = collectives(module_of(SHARED_OUT))
    both, alone = found.collectives
    assert [(m.source_line, m.op_name, m.payload_bytes) for m in both.members] == [
        (3, "jit(f)/neg", 384),
        (5, "jit(f)/dot", 128),
    ]
    assert [m.origin_basis for m in both.members] == ["operand", "own"]
    assert (alone.source, alone.origin_basis) == ("f.py:3", "operand")
    groups = {g.group: g for g in collectives_by(found.collectives, "source").groups}
    assert {k: g.wire_bytes_per_run for k, g in groups.items()} == {
        "f.py:3": 2 * 576,
        "f.py:5": 192,
    }
    assert {k: g.static_count for k, g in groups.items()} == {"f.py:3": 2, "f.py:5": 0}
    whole = sum(c.wire_bytes_per_run or 0 for c in found.collectives)
    assert sum(g.wire_bytes_per_run or 0 for g in groups.values()) == whole


def test_gather_of_an_argument_has_the_line_of_its_consumer_and_the_name() -> None:
    found = counted(
        """
  w = f32[8,4] parameter(0), metadata={op_name="params['w']"}
  g = f32[32,4] all-gather(w), replica_groups={{0,1,2,3}}, dimensions={0}
  ROOT d = f32[32,4] tanh(g), metadata={op_name="jit(f)/tanh" source_file="f.py" source_line=8}""",
        ", num_partitions=4",
    ).collectives[0]
    assert (found.source, found.origin_basis, found.argument) == ("f.py:8", "user", "params['w']")
    assert found.own_op_name is None
