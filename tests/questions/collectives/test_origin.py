"""Origins of collectives, and of the members of combined ones."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("path", "line", "expected"),
    [
        ("neg", 3, [(3, "own"), (4, "operand"), (3, "own")]),
        ("psum", 7, [(7, "combined")] * 3),
        ("(psum:a/psum)", 7, [(7, "combined")] * 3),
    ],
)
def test_members_that_a_text_does_not_print_have_lines(
    path: str, line: int, expected: list[tuple[int, str]]
) -> None:
    """They are those of the operands; calls of the program have that of one of them."""
    module = module_of(COMPACT.replace("PATH", path).replace("LINE", str(line)))
    (found,) = collectives(module).collectives
    assert [one.payload_bytes for one in found.members] == [32, 96, 32]
    assert [(one.source_line, one.origin_basis) for one in found.members] == expected


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
