"""Labels: attributes that count, spellings of one meaning, parts that a style leaves out."""

from __future__ import annotations

import re

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.matching.edits import Noise
from hlo_lens.questions.matching.program_diff import program_diff
from tests.questions.matching.programs import changes_between

CALL = """HloModule m

ENTRY main {
  a = f32[8] parameter(0)
  ROOT r = f32[8] custom-call(a), custom_call_target="f", CONFIG
}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("aGVsbG8//AAAA", "aGVsbG8//BBBB"),
        ("-O1 -x", "-O 1-x"),
        ("a/*1*/b", "a/*2*/b"),
        ("1.0", "1.00"),
        ("a", ""),
    ],
)
def test_each_character_of_an_opaque_config_counts(before: str, after: str) -> None:
    base, head = (CALL.replace("CONFIG", f'backend_config="{c}"') for c in (before, after))
    assert changes_between(base, head) == [f"backend_config {before} -> {after or '(none)'}"]
    assert changes_between(base, base) == []


def test_an_empty_config_is_not_none() -> None:
    assert (
        len(
            changes_between(
                CALL.replace("CONFIG", 'backend_config=""'), CALL.replace(", CONFIG", "")
            )
        )
        == 1
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r'"a\"b"', r'"a\042b"'),
        (r'"{\"a\":1, \"b\":2}"', '{"b":2,"a":1}'),
        ("{a: 1, b: 2}", "{a: 1,  b:2}"),
    ],
)
def test_a_config_may_be_written_in_other_ways(before: str, after: str) -> None:
    base, head = (CALL.replace("CONFIG", f"backend_config={c}") for c in (before, after))
    assert changes_between(base, head) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"x":"1"}', '{"x":1}'),
        ('{"x":{"y":"True"}}', '{"x":{"y":true}}'),
        ('{"a.b":1}', '{"a":{"b":1}}'),
    ],
)
def test_values_with_equal_text_are_compared_in_context(before: str, after: str) -> None:
    base, head = (CALL.replace("CONFIG", f"backend_config={c}") for c in (before, after))
    (change,) = changes_between(base, head)
    assert change.replace(" ", "") == f"backend_config{before}->{after}"


GROUPED = CALL.replace("CONFIG", "sharding={replicated shard_as 1}")


@pytest.mark.parametrize(
    "after", ["replicated", "replicated shard_like 1", "replicated shard_as 2"]
)
def test_a_constraint_to_be_sharded_like_others_counts(after: str) -> None:
    head = GROUPED.replace("replicated shard_as 1", after)
    assert changes_between(GROUPED, head) == [f"sharding {{replicated shard_as 1}} -> {{{after}}}"]


LITERALS = """HloModule m

ENTRY main {
  a = TYPE constant({VALUES})
  b = f32[20] constant({...})
  ROOT t = (TYPE, f32[20]) tuple(a, b)
}
"""


@pytest.mark.parametrize(
    ("of", "before", "after"), [("c64", "(1, 0)", "(2, 0)"), ("s32", "1", "2")]
)
def test_literals_of_up_to_ten_elements_count(of: str, before: str, after: str) -> None:
    for size in (10, 11):
        text = LITERALS.replace("TYPE", f"{of}[{size}]")
        base = text.replace("VALUES", ", ".join([before] * size))
        head = text.replace("VALUES", ", ".join([before] * (size - 1) + [after]))
        assert program_diff(parse_hlo(base), parse_hlo(head)).identical == (size == 11)


SHAPES = """HloModule m

ENTRY main {
  a = f32[8,4]{1,0} parameter(0)
  k = token[] after-all()
  c = f32[8,4]{1,0} custom-call(a, a), operand_layout_constraints={f32[8,4]{0,1}, f32[8,4]{1,0}}
  ROOT o = token[] outfeed(c, k), outfeed_shape=f32[8,4]{0,1}
}
"""


def test_layouts_in_attributes_count_if_both_texts_print_layouts() -> None:
    reprinted = re.sub(r"(\[8,4\])\{\d,\d\}", r"\1", SHAPES)
    assert program_diff(parse_hlo(SHAPES), parse_hlo(reprinted)).identical
    assert changes_between(SHAPES, SHAPES.replace("e=f32[8,4]{0,1}", "e=f32[8,4]{1,0}")) == [
        "outfeed_shape f32[8,4]{0,1} -> f32[8,4]{1,0}"
    ]
    assert len(changes_between(SHAPES, SHAPES.replace("={f32[8,4]{0,1}", "={f32[8,4]{1,0}"))) == 1
    assert len(changes_between(SHAPES, SHAPES.replace("={f32[8,4]", "={f32[4,8]"))) == 1


def test_names_of_mesh_axes_are_noise_of_their_own() -> None:
    def program(axes: str, first: str) -> str:
        meshes = f'frontend_attributes={{xla.sdy.meshes="{{mesh = #sdy.mesh<[{axes}]>}}"}}'
        return (
            f"HloModule m, {meshes}\n\nENTRY %main {{\n  %p = f32[8]{{0}} parameter(0), "
            rf'frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, [{{\"{first}\"}}]>"}}'
            "\n  ROOT %r = f32[8]{0} negate(%p)\n}\n"
        )

    base = program(r"\"d\"=2, \"m\"=4", "d")
    renamed = program(r"\"data\"=2, \"model\"=4", "data")
    assert changes_between(base, renamed) == []
    found = program_diff(parse_hlo(base), parse_hlo(renamed))
    assert found.ignored == {Noise.AXIS_NAMES: 1}
    assert changes_between(base, program(r"\"d\"=2, \"m\"=4", "m"))
    assert changes_between(base, program(r"\"m\"=2, \"d\"=4", "d"))
    assert changes_between(base, program(r"\"d\"=4, \"m\"=2", "d"))


def test_attributes_of_a_computation_are_compared_and_its_thread_at_the_caller() -> None:
    text = """HloModule m

f {
  p = f32[8] parameter(0)
  ROOT s = f32[8] negate(p)
}, execution_thread="host"

ENTRY main {
  a = f32[8] parameter(0)
  c = ((f32[8]), f32[8], u32[]) async-start(a), async_execution_thread="host", calls=f
  ROOT r = f32[8] async-done(c), calls=f
}
"""
    change = 'async_execution_thread "host" -> "sparsecore"'
    assert changes_between(text, text.replace("host", "sparsecore")) == [change]
    assert changes_between(text, text.replace(', execution_thread="host"', "")) == []
    assert changes_between(text, text.replace("}, exec", "}, made_up=7, exec")) == [
        "made_up (none) -> 7"
    ]


LITERAL = """HloModule m

ENTRY %main {
  %x = SHAPE parameter(0)
  %c = SHAPE constant(LITERAL)
  ROOT %r = SHAPE add(%x, %c), metadata={op_name="constant({...})"}
}
"""


@pytest.mark.parametrize(
    ("shape", "before", "after", "unseen"),
    [
        ("f32[11]{0}", "{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}", "{...}", 1),
        ("f32[4]{0}", "{1, 2, 3, 4}", "{1, 2, 3, 5}", 0),
    ],
)
def test_literals_as_dots_are_counted(shape: str, before: str, after: str, unseen: int) -> None:
    text = LITERAL.replace("SHAPE", shape)
    base, head = (parse_hlo(text.replace("LITERAL", value)) for value in (before, after))
    found = program_diff(base, head)
    assert (found.identical, found.unseen_literals) == (unseen > 0, unseen)
