"""Instructions: names, shapes, operands, attributes, printed forms."""

from __future__ import annotations

import pytest

from hlo_lens import parse_hlo
from hlo_lens.hlo.text import HloOperand
from tests.hlo_texts import E1, E2, E2_LONG, E3, E5, entry, names, one, read


@pytest.mark.parametrize("opcode", ["add", "all-reduce-start", "opcode-of-next-year", "rng_x2"])
def test_opcode_is_kept_as_written(opcode: str) -> None:
    assert one(f"r = f32[8] {opcode}(p, q)").opcode == opcode


def test_shape_is_none_if_left_out_and_not_known() -> None:
    root = one("ROOT r = dynamic-slice(p, q)")
    assert root.shape is None
    assert root.shape_text == ""
    assert (root.opcode, root.operand_names) == ("dynamic-slice", ("p", "q"))


def test_send_has_the_shape_of_its_operand() -> None:
    module = entry(
        "  p = f32[4] parameter(0)\n  t = token[] after-all()\n  q = (s32[], f32[4]) parameter(1)\n"
        "  s = (f32[9], u32[2], token[]) send(p, t), channel_id=1\n"
        "  r = (f32[4], u32[2], token[]) recv(t), channel_id=2\n"
        "  e = (f32[4], u32[], token[]) send(q#1, t), channel_id=1\n"
        "  ROOT d = token[] send-done(s), channel_id=1"
    )
    shapes = {i.name: str(i.shape) for i in module.instructions}
    assert shapes["s"] == shapes["r"] == shapes["e"] == "(f32[4], u32[], token[])"
    assert shapes["d"] == "token[]"


def test_send_of_another_form_keeps_the_printed_shape() -> None:
    assert str(one("r = (f32[9], u32[2]) send(p)").shape) == "(f32[9], u32[2])"
    assert str(one("r = (f32[9], u32[2], token[]) send()").shape) == "(f32[9], u32[], token[])"


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("()", ()),
        ("( )", ()),
        ("(p)", ("p",)),
        ("(%p, %q)", ("p", "q")),
        ("(p,q)", ("p", "q")),
        ("(p,, q)", ("p", "q")),
        ("(, p, q,)", ("p", "q")),
        ("(p, q, p, q, p, /*index=5*/q)", ("p", "q", "p", "q", "p", "q")),
        ("(/*first*/p, // second\n    q)", ("p", "q")),
        ("(f32[8]{0} p, (f32[], (s32[2]{0})) q)", ("p", "q")),
        ("(f32[8] %p, q)", ("p", "q")),
        ("(\n    p,\n    q\n  )", ("p", "q")),
    ],
)
def test_operands_are_read_in_every_form(text: str, operands: tuple[str, ...]) -> None:
    assert one(f"r = f32[8] custom-call{text}").operand_names == operands


def test_operand_has_a_producer_and_a_shape() -> None:
    module = entry(
        "  p = (f32[8], (s32[2], s8[3])) parameter(0)\n  n = f32[8] negate(p#0)\n"
        "  ROOT r = f32[8] custom-call(n, p#1#0, p, lost)"
    )
    parameter, negate, root = module.entry.instructions
    assert negate.producer(0) == (parameter, (0,))
    assert root.producer(1) == (parameter, (1, 0))
    assert [root.producer(position) for position in (3, 4)] == [None, None]
    shapes = [root.operand_shape(position) for position in range(5)]
    assert [None if shape is None else str(shape) for shape in shapes] == [
        "f32[8]",
        "s32[2]",
        "(f32[8], (s32[2], s8[3]))",
        None,
        None,
    ]


def test_nested_instructions_get_names_and_rows() -> None:
    module = entry(
        "  p = f32[8] parameter(0)\n"
        "  ROOT r = f32[8] add(f32[8] negate(p), f32[8] exponential(abs(p)))"
    )
    assert module.instruction_count == 5
    root = module.entry.root
    assert root is not None
    negate, exponential = (module.entry.instruction(name) for name in root.operand_names)
    assert negate is not None
    assert exponential is not None
    assert (negate.opcode, str(negate.shape), negate.operand_names) == ("negate", "f32[8]", ("p",))
    assert (exponential.opcode, str(exponential.shape)) == ("exponential", "f32[8]")
    (inner,) = (module.entry.instruction(name) for name in exponential.operand_names)
    assert inner is not None
    assert inner.opcode == "abs"
    module = entry("  ROOT r = add(f32[10] parameter(1), f32[10] parameter(0))")
    assert [p.parameter_number for p in module.entry.parameters] == [0, 1]


def test_inline_bodies_become_computations_before_their_caller() -> None:
    module = entry(
        "  p = s32[] parameter(0)\n  ROOT w = s32[] while(s32[] p), condition=\n  {\n"
        "    t = s32[] parameter(0)\n    ten = s32[] constant(10)\n"
        "    ROOT k = pred[] compare(t, ten), direction=LT\n  }, body=\n  {\n"
        "    ROOT t = s32[] parameter(0)\n  }"
    )
    assert [(c.name, c.is_inline, len(c.instructions)) for c in module.computations] == [
        ("_", True, 3),
        ("_.1", True, 1),
        ("main", False, 2),
    ]
    assert module.entry.name == "main"
    root = module.entry.root
    assert root is not None
    assert root.called_computations == ("_", "_.1")
    assert [i.name for i in module.computations[0].callers] == ["w"]


def test_inline_names_do_not_hide_outer_ones() -> None:
    module = entry(
        "  p = f32[8] parameter(0)\n"
        "  ROOT r = f32[8] call(p), to_apply={ p = f32[8] parameter(0) ROOT r = f32[8] negate(p) }"
    )
    assert names(module) == {"_": ["p", "r"], "main": ["p", "r"]}
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "call"]


def test_number_of_a_parameter_is_no_operand() -> None:
    parameter = one("r = f32[] parameter(7)")
    assert (parameter.parameter_number, parameter.operands) == (7, ())
    assert one("r = f32[8] add(p, q)").parameter_number is None


def test_attribute_name_inside_a_string_is_no_attribute() -> None:
    instruction = one('r = f32[8] add(p, q), metadata={op_name="x, sharding={replicated}"}')
    assert instruction.attribute("sharding") is None
    assert instruction.sharding is None
    assert one("r = f32[8] add(p, q)").sharding is None


def test_frontend_attributes_are_unquoted() -> None:
    instruction = one(
        r'r = f32[8] add(p, q), frontend_attributes={plain="v",inner="<[\"x\"]>",raw={n = 1 : i32}}'
    )
    assert instruction.frontend_attributes == {
        "plain": "v",
        "inner": '<["x"]>',
        "raw": "{n = 1 : i32}",
    }


def test_unescaped_quotes_of_old_dumps_stay_in_the_value() -> None:
    instruction = one(
        'r = f32[8] add(p, q), frontend_attributes={a="#m<["x"=2]>",b="2"}, channel_id=3'
    )
    assert instruction.frontend_attributes == {"a": '#m<["x"=2]>', "b": "2"}
    assert instruction.channel_id == 3


def test_control_predecessors_are_names() -> None:
    assert one("r = f32[8] add(p, q), control-predecessors={%p, q}").control_predecessors == (
        "p",
        "q",
    )
    assert one("r = f32[8] add(p, q)").control_predecessors == ()
    compact = one("r = f32[8] add(p, q), control-predecessors={%p#0, %q#1#2}")
    assert compact.control_predecessors == ("p", "q")


def test_masked_channel_is_none() -> None:
    assert one("r = f32[8] all-reduce(p), channel_id=7").channel_id == 7
    assert one("r = f32[8] all-reduce(p), channel_id=_").channel_id is None
    assert one("r = f32[8] all-reduce(p)").channel_id is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("{replicated}", 8),
        ("{devices=[2]0,1}", 4),
        ("{devices=[4]<=[4]}", 2),
        ("{mesh['x'=8], [{'x'}]}", 1),
    ],
)
def test_sharding_is_parsed_in_each_form(text: str, size: int) -> None:
    instruction = one(f"r = f32[8] add(p, q), sharding={text}")
    assert instruction.sharding is not None
    assert instruction.shape is not None
    assert instruction.sharding.shard_shape(instruction.shape).dimensions == (size,)


def test_a_computation_and_an_instruction_may_have_one_name() -> None:
    module = read(E1)
    summing = module.computation("sum")
    assert summing is not None
    assert summing.root is not None
    assert summing.root.name == "sum"
    assert [i.name for i in summing.callers] == ["all-reduce"]


def test_name_after_the_closing_brace_is_a_comment() -> None:
    module = read(E2)
    assert [c.name for c in module.computations] == ["fused_computation", "main.5_spmd"]
    assert all(c.attributes_text == "" for c in module.computations)


def test_long_style_keeps_the_signature() -> None:
    assert read(E3).entry.signature_text == "(param: f32[2,8]) -> f32[8,8]"
    assert read(E2).entry.signature_text == ""


def test_operand_shapes_are_kept_beside_the_names() -> None:
    done = read(E2_LONG).entry.root
    assert done is not None
    assert done.operands == (
        HloOperand(name="all-to-all-start", shape_text="((c64[4,8]{1,0}), c64[4,8]{1,0})"),
    )


def test_compact_operands_name_the_tuple_and_the_index() -> None:
    last = read(E5).entry.root
    assert last is not None
    assert last.operand_names == ("while.1",)
    assert last.operands == (HloOperand(name="while.1", index=(1,)),)
    assert one("r = f32[8] add(%p#0#12, f32[8]{0} %q#3)").operands == (
        HloOperand(name="p", index=(0, 12)),
        HloOperand(name="q", index=(3,), shape_text="f32[8]{0}"),
    )


FUSION = """%fusion = f32[8]{0} fusion(f32[8]{0} %x, f32[8]{0} %y), kind=kLoop, calls=
{
  %a = f32[8]{0} parameter(0)
  %b = f32[8]{0} parameter(1)
  ROOT %c = f32[8]{0} add(f32[8]{0} %a, f32[8]{0} %b)
}"""


def test_instructions_alone_are_an_entry() -> None:
    entry = parse_hlo("a = f32[4] negate(f32[4] x)\nb = f32[4] abs(f32[4] a)", strict=True).entry
    assert [(i.name, i.operand_names) for i in entry.instructions] == [("a", ("x",)), ("b", ("a",))]


def test_instructions_of_a_computation_printed_in_place_are_read_once() -> None:
    module = parse_hlo(FUSION, strict=True)
    assert [len(one.instructions) for one in module.computations] == [3, 1]
    root = module.entry.root
    assert root is not None
    assert root.called_computations == (module.computations[0].name,)


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
