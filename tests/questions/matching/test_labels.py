"""Labels: attributes that count, spellings of one meaning, parts that a style leaves out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.matching.edits import Noise
from hlo_lens.questions.matching.program_diff import program_diff
from tests.questions.matching.programs import changes_between

if TYPE_CHECKING:
    from collections.abc import Callable

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


# ---- execution threads ---------------------------------------------------------------------------

THREADED = """HloModule m

g {
  q = f32[8] parameter(0)
  ROOT t = f32[8] negate(q)
}THREAD

f {
  p = f32[8] parameter(0)
  ROOT s = f32[8] call(p), to_apply=g
}THREAD

ENTRY main {
  a = f32[8] parameter(0)
  c = ((f32[8]), f32[8], u32[]) async-start(a), START calls=f
  ROOT r = f32[8] async-done(c), calls=f
}
"""


def threaded(thread: str, *, is_said: bool = False) -> str:
    said = f'async_execution_thread="{thread}",' if is_said and thread else ""
    printed = f', execution_thread="{thread}"' if thread else ""
    return THREADED.replace("THREAD", printed).replace("START", said)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("host", "sparsecore", 'execution_thread "host" -> "sparsecore"'),
        ("host", "", 'execution_thread "host" -> (none)'),
        ("", "host", 'execution_thread (none) -> "host"'),
        ("", "main", ""),
    ],
)
def test_another_thread_is_one_change(before: str, after: str, change: str) -> None:
    assert changes_between(threaded(before), threaded(after)) == ([change] if change else [])


def test_change_of_thread_is_reported_at_the_caller_that_names_it() -> None:
    before, after = threaded("host", is_said=True), threaded("sparsecore", is_said=True)
    assert changes_between(before, after) == ['async_execution_thread "host" -> "sparsecore"']


def test_threads_that_only_the_caller_prints_are_no_change() -> None:
    before = threaded("host", is_said=True)
    assert changes_between(before, before.replace(', execution_thread="host"', "")) == []


def test_other_attributes_of_a_computation_are_compared() -> None:
    assert changes_between(threaded(""), threaded("").replace("}\n\nf", "}, made_up=7\n\nf")) == [
        "made_up (none) -> 7"
    ]


# ---- channels ------------------------------------------------------------------------------------

CHANNELS = """HloModule m

ENTRY main {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  k = token[] after-all()
  s1 = (f32[8], u32[], token[]) send(a, k), channel_id=#0
  d1 = token[] send-done(s1), channel_id=#1
  s2 = (f32[8], u32[], token[]) send(b, k), channel_id=#2
  d2 = token[] send-done(s2), channel_id=#3
  r1 = (f32[8], u32[], token[]) recv(k), channel_id=#4
  e1 = (f32[8], token[]) recv-done(r1), channel_id=#5
  r2 = (f32[8], u32[], token[]) recv(k), channel_id=#6
  e2 = (f32[8], token[]) recv-done(r2), channel_id=#7
  g = f32[8] get-tuple-element(e1), index=0
  h = f32[8] get-tuple-element(e2), index=0
  ROOT r = f32[8] subtract(g, h)
}
"""


def with_channels(channels: str) -> str:
    found = CHANNELS
    for place, channel in enumerate(channels):
        found = found.replace(f"#{place}", channel)
    return found


@pytest.mark.parametrize("channels", ["22111122", "11112222", "11223344"])
def test_sends_and_recvs_with_other_counterparts_are_changed(channels: str) -> None:
    found = changes_between(with_channels("11221122"), with_channels(channels))
    assert {change.split()[0] for change in found} == {"channel_id"}


# ---- print styles --------------------------------------------------------------------------------

LONG = """HloModule m

%f (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %s = f32[8]{0} negate(%p)
}

ENTRY %main (a: f32[8]) -> (f32[8], f32[8]) {
  %a = f32[8]{0} parameter(0), metadata={op_name="a"}
  %x = f32[8]{0} sine(%a)
  %y = f32[8]{0} fusion(%a), kind=kCustom, calls=%fCONTROLSCONFIG
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%x, %y)
}
"""
CONTROLS = ", control-predecessors={%x}"
CONFIG = ', backend_config={"a":1}'
CHANGES = {
    CONTROLS: "control-predecessors (none) -> sine NAME",
    CONFIG: 'backend_config (none) -> {"a": 1}',
}


def short(text: str) -> str:
    text = re.sub(r" \(.*?\) -> .* \{", " {", text)
    return re.sub(r", metadata=\{.*?\}", "", text).replace("%", "")


def canonical(text: str) -> str:
    names = {name: f"tmp_{k}" for k, name in enumerate("axytps")}
    return re.sub(r"\b[axytps]\b(?=[ ,)}])", lambda m: names[m[0]], short(text))


STYLES: dict[str, Callable[[str], str]] = {"long": str, "short": short, "canonical": canonical}


def filled(controls: str, config: str) -> str:
    return LONG.replace("CONTROLS", controls).replace("CONFIG", config)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("part", [CONTROLS, CONFIG])
def test_first_part_of_a_kind_in_two_texts_of_one_style_is_found(style: str, part: str) -> None:
    printed = STYLES[style]
    controls, config = (part if part == one else "" for one in (CONTROLS, CONFIG))
    base, head = printed(filled("", "")), printed(filled(controls, config))
    name = "tmp_1" if style == "canonical" else "x"
    assert changes_between(base, head) == [CHANGES[part].replace("NAME", name)]


@pytest.mark.parametrize(
    ("style", "controls", "config"), [("short", "", CONFIG), ("canonical", "", "")]
)
def test_parts_that_another_style_leaves_out_are_counted(
    style: str, controls: str, config: str
) -> None:
    modules = [
        parse_hlo(text)
        for text in (filled(CONTROLS, CONFIG), STYLES[style](filled(controls, config)))
    ]
    for base, head in (modules, modules[::-1]):
        found = program_diff(base, head)
        assert found.identical
        assert found.ignored[Noise.PRINTING] == 1
        assert Noise.SPELLING not in found.ignored


def test_a_short_style_prints_configs() -> None:
    found = program_diff(parse_hlo(filled("", CONFIG)), parse_hlo(short(filled("", ""))))
    assert [str(c) for c in found.module_changes] == []
    assert [group.changes for group in found.groups] == [('backend_config {"a": 1} -> (none)',)]


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
        ("s8[]", "7", "{...}", 1),
        ("s8[]{:T(128)}", "7", "{...}", 1),
        ("f32[4]{0}", "{1, 2, 3, 4}", "{1, 2, 3, 5}", 0),
    ],
)
def test_literals_as_dots_are_counted(shape: str, before: str, after: str, unseen: int) -> None:
    text = LITERAL.replace("SHAPE", shape)
    base, head = (parse_hlo(text.replace("LITERAL", value)) for value in (before, after))
    found = program_diff(base, head)
    assert (found.identical, found.unseen_literals) == (unseen > 0, unseen)
