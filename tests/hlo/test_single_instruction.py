"""Instructions printed alone, as XLA's parser makes modules of them."""

from __future__ import annotations

import pytest

from hlo_lens import parse_hlo

FUSION = """%fusion = f32[8]{0} fusion(f32[8]{0} %x, f32[8]{0} %y), kind=kLoop, calls=
{
  %a = f32[8]{0} parameter(0)
  %b = f32[8]{0} parameter(1)
  ROOT %c = f32[8]{0} add(f32[8]{0} %a, f32[8]{0} %b)
}"""
CANONICAL = """f32[5,20]{1,0} while(f32[5,10]{1,0}), condition=
{
  tmp_0 = f32[5,10]{1,0} parameter(0)
  ROOT tmp_2 = f32[5,20]{1,0} fusion(f32[5,10]{1,0} tmp_0), kind=kLoop, calls=
  {
    tmp_0 = f32[5,10]{1,0} parameter(0)
    ROOT tmp_1 = f32[5,20]{1,0} custom-call(f32[5,10]{1,0} tmp_0), custom_call_target="f"
  }
}, body=
{
  tmp_0 = f32[5,10]{1,0} parameter(0)
  ROOT tmp_1 = f32[5,20]{1,0} custom-call(f32[5,10]{1,0} tmp_0), custom_call_target="g"
}
"""


def _entry(text: str) -> list[tuple[str, str, str, tuple[str, ...]]]:
    module = parse_hlo(text, strict=True)
    return [(i.name, i.opcode, str(i.shape), i.operand_names) for i in module.entry.instructions]


def test_undefined_operands_become_parameters() -> None:
    text = '%dot = f32[8,2]{1,0} dot(f32[8,4]{1,0} %l, f32[4,2]{1,0} %r), metadata={op_name="d"}'
    assert _entry(text) == [
        ("l", "parameter", "f32[8,4]{1,0}", ()),
        ("r", "parameter", "f32[4,2]{1,0}", ()),
        ("dot", "dot", "f32[8,2]{1,0}", ("l", "r")),
    ]
    entry = parse_hlo(text).entry
    assert [one.parameter_number for one in entry.parameters] == [0, 1]
    assert entry.root is not None
    assert (entry.root.name, entry.root.op_name) == ("dot", "d")


def test_an_operand_that_comes_twice_is_one_parameter() -> None:
    assert len(_entry("m = f32[8] multiply(f32[8] x, f32[8] x)")) == 2


def test_operands_without_a_shape_are_not_known() -> None:
    assert _entry("a = f32[4] add(x, y)") == [("a", "add", "f32[4]", ("x", "y"))]


def test_instructions_of_a_computation_printed_in_place_are_read_once() -> None:
    module = parse_hlo(FUSION, strict=True)
    assert [len(one.instructions) for one in module.computations] == [3, 3]
    assert [name for name, *_ in _entry(FUSION)] == ["x", "y", "fusion"]
    root = module.entry.root
    assert root is not None
    assert root.called_computations == (module.computations[0].name,)


def test_shapes_alone_are_operands() -> None:
    assert _entry("f32[8]{0} add(f32[8]{0}, f32[8]{0})") == [
        ("_0", "parameter", "f32[8]{0}", ()),
        ("_1", "parameter", "f32[8]{0}", ()),
        ("_", "add", "f32[8]{0}", ("_0", "_1")),
    ]


def test_a_canonical_text_is_read_with_its_computations() -> None:
    module = parse_hlo(CANONICAL, strict=True)
    assert sorted(len(one.instructions) for one in module.computations) == [2, 2, 2, 2]
    assert [opcode for _, opcode, *_ in _entry(CANONICAL)] == ["parameter", "while"]


def test_several_instructions_keep_undefined_operands() -> None:
    text = "a = f32[4] negate(f32[4] x)\nb = f32[4] abs(f32[4] a)"
    assert [opcode for _, opcode, *_ in _entry(text)] == ["negate", "abs"]


def test_places_of_gaps_are_those_of_the_text() -> None:
    gaps = parse_hlo(FUSION.replace("f32[8]{0} %a,", "f32[8]{0 %a,")).gaps
    assert gaps
    assert all(gap.line <= FUSION.count("\n") + 1 for gap in gaps)


@pytest.mark.parametrize(
    "text",
    [
        "f { a = f32[] parameter(0) ROOT b = f32[] negate(a) }\n" * 2,
        "HloModule m\nf { a = f32[] parameter(0) }\nENTRY f { a = f32[] parameter(0) }",
    ],
)
def test_a_second_computation_of_a_name_is_a_gap(text: str) -> None:
    (gap,) = parse_hlo(text).gaps
    assert "computation f is defined already" in gap.message


def test_instructions_nested_as_deep_as_xla_refuses_are_a_gap() -> None:
    def nested(depth: int) -> str:
        inner = "negate(" * depth + "f32[] constant(0)" + ")" * depth
        return f"ENTRY e {{\n  ROOT r = f32[] {inner}\n}}\n"

    assert not parse_hlo(nested(1000)).gaps
    (gap,) = parse_hlo(nested(8200)).gaps
    assert "deeper than 8192" in gap.message
