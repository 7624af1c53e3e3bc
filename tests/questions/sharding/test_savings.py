"""Donation of arguments, replicated values, and what division of a result costs."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.program.origins import Origins
from hlo_lens.questions.sharding.savings import result_growth, ways_to_divide
from hlo_lens.shapes.shape import Shape
from tests.questions.findings.programs import with_lines
from tests.questions.sharding.programs import AFTER, BEFORE, results_of

DONATION = """HloModule jit_f, is_scheduled=true, HEADER

ENTRY main {{
  a = {} parameter(0), metadata={{op_name="a"}}
  b = f32[4]{{0}} parameter(1), metadata={{op_name="b"}}
  r = f32[8,16]{{1,0}} iota(), iota_dimension=0
  ROOT t = (f32[8,16]{{1,0}}, f32[4]{{0}}) tuple(r, b)
}}
"""


SAME = "not donated; same shape, type and sharding"


def donated(shape: str, header: str, before: str | None = None) -> list[tuple[str, str, str]]:
    results = results_of(DONATION.format(shape).replace("HEADER", header), before)
    rows = results.donations.donations
    return [(str(d.value.value.name), d.status.value, d.reason) for d in rows]


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("f32[8,17]{1,0}", "no output has its shape"),
        ("bf16[8,16]{1,0}", "element type differs: bf16, in output {0} f32"),
        ("f32[8,16]{0,1}", "layout differs: {0,1}, in output {0} {1,0}"),
        ("f32[8,16]{1,0:S(5)}", "memory space differs: S(5), in output {0} S(0)"),
        ("f32[8,16]{1,0}", "output {0} fits, but XLA did not use it"),
    ],
)
def test_reason_of_a_donated_argument_that_is_not_aliased(shape: str, reason: str) -> None:
    assert ("a", "donated, not used", reason) in donated(shape, "buffer_donor={ (0, {}) }")


def test_taken_output() -> None:
    header = "buffer_donor={ (0, {}) }, input_output_alias={ {1}: (1, {}, may-alias) }"
    found = donated("f32[4]{0}", header)
    assert found[0][2] == "all outputs of its shape are taken: {1} by parameter 1"


def test_sharding_that_differs() -> None:
    before = BEFORE.replace("num_partitions=8,", "num_partitions=8, buffer_donor={ (1, {}) },")
    after = AFTER.replace("num_partitions=8", "num_partitions=8, buffer_donor={ (1, {}) }")
    after = after.replace("f32[6,64]{1,0}) tuple", "f32[3,64]{1,0}) tuple")
    (found, *_) = results_of(after, before).donations.donations
    assert found.reason == "sharding differs: P(), in output {1} P('data',)"


def test_same_shape_and_type_could_be_donated() -> None:
    assert donated("f32[8,16]{1,0}", "replica_count=1") == [
        ("a", "could be donated", SAME),
        ("b", "could be donated", SAME),
    ]


def test_each_output_is_offered_once() -> None:
    header = "input_output_alias={ {0}: (0, {}, may-alias) }"
    assert donated("f32[8,16]{1,0}", header)[-1] == ("a", "aliased", "")


def test_requested_alias_that_xla_dropped() -> None:
    header = "input_output_alias={ {0}: (0, {}, may-alias) }"
    before = DONATION.format("f32[8,16]{1,0}").replace("HEADER", header)
    found = donated("f32[8,16]{1,0}", "replica_count=1", before)
    assert found[0][:2] == ("a", "alias lost")


FREE = """HloModule jit_f, is_scheduled=true, num_partitions=8, HEADER
ENTRY main_spmd {
  x = f32[32,64]{1,0} parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  ROOT y = f32[32,64]{1,0} negate(x)
}
"""


def test_an_output_of_unknown_sharding_may_have_the_memory_but_is_not_called_the_same() -> None:
    results = results_of(FREE.replace("HEADER", "replica_count=1"))
    (found,) = results.donations.donations
    assert found.status.value == "could be donated"
    assert found.reason == "not donated; same shape and type, sharding not known"
    assert [value.value.name for value in results.table.unknown] == ["y"]


def test_an_output_of_equal_sharding_is_preferred_to_one_of_unknown_sharding() -> None:
    two = FREE.replace("ROOT y =", "y =").replace(
        "negate(x)\n",
        "negate(x)\n  ROOT t = (f32[32,64], f32[32,64]) tuple(y, y)\n",
    )
    before = two.replace("32,64", "64,64").replace("main_spmd", "main").replace(
        "tuple(y, y)", "tuple(y, z)"
    ).replace(
        "  ROOT",
        '  z = f32[64,64] custom-call(y), custom_call_target="Sharding", '
        "sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}\n  ROOT",
    )  # fmt: skip
    header = "replica_count=1"
    results = results_of(two.replace("HEADER", header), before.replace("HEADER", header))
    (found,) = results.donations.donations
    assert (found.output, found.reason) == ("{1}", SAME)


def test_an_alias_of_xla_does_not_mean_an_equal_sharding() -> None:
    alias = "input_output_alias={ {}: (0, {}, may-alias) }"
    own = results_of(FREE.replace("HEADER", alias))
    assert own.table.unknown == ()
    free = f"{alias}, allow_spmd_sharding_propagation_to_output={{true}}"
    left = results_of(FREE.replace("HEADER", free))
    assert [value.value.name for value in left.table.unknown] == ["y"]


def _updated(shape: str, count: int, output_sharding: str = "") -> str:
    """Return a program that negates so many parameters."""
    sharded = bool(output_sharding)
    mine = ", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}" if sharded else ""
    lines = [f"  p{n} = {shape} parameter({n}){mine}" for n in range(count)]
    lines += [f"  o{n} = {shape} negate(p{n})" for n in range(count)]
    shapes, names = ", ".join([shape] * count), ", ".join(f"o{n}" for n in range(count))
    yours = f", sharding={{{', '.join([output_sharding] * count)}}}" if sharded else ""
    lines.append(f"  ROOT t = ({shapes}) tuple({names}){yours}")
    return "HloModule m, num_partitions=8\n\nENTRY main {\n" + "\n".join(lines) + "\n}\n"


def test_only_axes_that_divide_a_dimension_save() -> None:
    found = results_of(AFTER, BEFORE).replicated
    savings = [(s.value.value.name, s.axis, s.dimensions, s.saved_bytes) for s in found.savings]
    assert ("x", "model", (1,), 6 * 64 * 4 * 3 // 4) in savings  # 6 rows have no 4 equal parts
    assert ("x", "data", (0, 1), 6 * 64 * 4 // 2) in savings
    assert [s for s in savings if s[0] == "w"] == [("w", "data", (0, 1), 8 * 16 * 4 // 2)]


def test_longest_dimension_is_named_first() -> None:
    found = results_of(AFTER, BEFORE).replicated
    assert {s.dimension for s in found.savings if s.value.value.name == "x"} == {1}


def test_savings_by_axis() -> None:
    found = results_of(AFTER, BEFORE).replicated
    model, data = found.by_axis.axes
    assert data[0] == "data"
    assert model == ("model", 1, 1536, 1152)  # x, of which the output is the updated one


@pytest.mark.parametrize(
    ("whole", "parts", "ways"),
    [
        ("f32[8,16]{1,0}", 8, ["f32[8,2]{1,0}", "f32[1,16]{1,0}"]),
        ("f32[64,16]{1,0:T(8,128)}", 8, ["f32[8,16]{1,0:T(8,128)}", "f32[64,2]{1,0:T(8,128)}"]),
        (
            "bf16[16,256]{1,0:T(8,128)(2,1)}",
            16,
            ["bf16[1,256]{1,0:T(2,128)(2,1)}", "bf16[16,16]{1,0:T(8,128)(2,1)}"],
        ),
        ("f32[12,100]{1,0:T(8,128)}", 4, ["f32[3,100]{1,0:T(4,128)}", "f32[12,25]{1,0:T(8,128)}"]),
        ("f32[1600]{0:T(1024)}", 8, ["f32[200]{0:T(256)}"]),
        ("bf16[1600]{0:T(1024)(128)(2,1)}", 16, ["bf16[100]{0:T(256)(128)(2,1)}"]),
        ("s32[8]{0:T(1)}", 8, ["s32[1]{0:T(1)}"]),
        ("f32[6,10]{1,0}", 4, []),
    ],
)
def test_smallest_parts_come_first(whole: str, parts: int, ways: list[str]) -> None:
    assert [str(one.part) for one in ways_to_divide(Shape.parse(whole), parts)] == ways


def test_padding_is_saved_too() -> None:
    text = AFTER.replace("f32[8,16]{1,0}", "f32[8,16]{1,0:T(8,128)}")
    assert text != AFTER
    found = results_of(text, BEFORE).replicated
    saving = next(one for one in found.savings if one.value.value.name == "w")
    assert (saving.dimension, saving.saved_bytes) == (0, 4 * 128 * 4)


TEXT = """HloModule jit_f, is_scheduled=true, num_partitions=8

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

doubled {
  p = f32[64,64]{1,0} parameter(0)
  ROOT d = f32[64,64]{1,0} add(p, p), metadata={op_name="jit(f)/add"}
}

ENTRY main {
  x = f32[64,64]{1,0} parameter(0), metadata={op_name="x"}
  w = f32[64,64]{1,0} parameter(1), metadata={op_name="w"}
  y = f32[64,64]{1,0} exponential(x), metadata={op_name="jit(f)/exp"}
  h = f32[64,64]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, @dot_general:3
  MADE
  z = f32[64,64]{1,0} add(y, y), metadata={op_name="jit(f)/add"}
  u = f32[64,64]{1,0} negate(OTHER)
  c = f32[64,64]{1,0} copy(v)
  ROOT t = (f32[64,64]{1,0}, f32[64,64]{1,0}, f32[64,64]{1,0}) tuple(c, x, z)
}
"""
FUSED = 'v = f32[64,64]{1,0} fusion(y), kind=kLoop, calls=doubled, metadata={op_name="jit(f)/add"}'
REDUCED = "v = f32[64,64]{1,0} all-reduce(h), replica_groups={}, to_apply=sum"


def _growth(made: str, place: int = 0, *, other: str = "y") -> int:
    text = with_lines(TEXT).replace("MADE", made).replace("OTHER", other)
    module = hlo_lens.parse_hlo(text)
    assert module.gaps == ()
    return result_growth(module, Origins(module), (place,))


@pytest.mark.parametrize(
    ("made", "values"),
    [
        (FUSED, 0),
        ('v = f32[64,64]{1,0} tanh(y), metadata={op_name="jit(f)/tanh"}', 0),
        ('v = f32[64,64]{1,0} tanh(y), metadata={op_name="jit(f)/shard_map/tanh"}', 1),
        (FUSED.replace("(y)", "(h)"), 3),  # the product and both its operands
        (REDUCED, 1),
        (f"{REDUCED.replace('v =', 'r =')}\n  {FUSED.replace('(y)', '(r)')}", 1),
        ('v = f32[64,64]{1,0} custom-call(h), custom_call_target="f"', 1),
        ("v = f32[64,64]{1,0} reshape(h)", 1),
    ],
)
def test_what_is_not_elementwise_may_be_a_temporary(made: str, values: int) -> None:
    assert _growth(made) == values * 64 * 64 * 4


def test_an_argument_can_be_cut_whatever_the_program_does() -> None:
    assert _growth(REDUCED, 1) == 0


def test_a_result_that_is_also_used_otherwise_remains_whole() -> None:
    assert _growth(FUSED, 2) == 0
    assert _growth(FUSED, 2, other="z") == 64 * 64 * 4
    assert _growth(FUSED, 0, other="v") == 0  # the result is a copy
