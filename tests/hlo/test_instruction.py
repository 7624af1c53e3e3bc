"""Instructions: name, opcode, shape, operands, literals."""

from __future__ import annotations

import pytest

from tests.hlo_texts import E5, entry, names, one, read


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "%x",
        "_x",
        "add",
        "%constant.94.clone.1..sunk",
        "%true_computation",
        "true",
        "%ROOT",
        "ROOTS",
        "%0",
        "%3.x",
        "entry",
        "f32_",
        "parameter",
        "a-b-",
    ],
)
def test_names_are_read_without_percent(name: str) -> None:
    module = entry(f"  {name} = f32[] parameter(0)\n  ROOT last = f32[] negate({name})")
    first, last = module.entry.instructions
    assert first.name == name.removeprefix("%")
    assert last.operand_names == (first.name,)


@pytest.mark.parametrize("opcode", ["add", "all-reduce-start", "opcode-of-next-year", "rng_x2"])
def test_opcode_is_kept_as_written(opcode: str) -> None:
    assert one(f"r = f32[8] {opcode}(p, q)").opcode == opcode


def test_opcodes_are_counted_as_written() -> None:
    assert read(E5).opcode_counts() == {
        "parameter": 3,
        "constant": 3,
        "add": 1,
        "tuple": 2,
        "compare": 1,
        "while": 1,
        "copy": 1,
    }


def test_shape_is_none_if_left_out_and_not_known() -> None:
    root = one("ROOT r = dynamic-slice(p, q)")
    assert root.shape is None
    assert root.shape_text == ""
    assert (root.opcode, root.operand_names) == ("dynamic-slice", ("p", "q"))


def test_send_has_the_shape_of_its_operand() -> None:
    module = entry(
        "  p = f32[4] parameter(0)\n  t = token[] after-all()\n"
        "  s = (f32[9], u32[2], token[]) send(p, t), channel_id=1\n"
        "  r = (f32[4], u32[2], token[]) recv(t), channel_id=2\n"
        "  ROOT d = token[] send-done(s), channel_id=1"
    )
    shapes = {i.name: str(i.shape) for i in module.instructions}
    assert shapes["s"] == "(f32[4], u32[], token[])"
    assert shapes["r"] == "(f32[4], u32[], token[])"
    assert shapes["d"] == "token[]"


def test_send_of_an_element_of_a_tuple_has_the_shape_of_the_element() -> None:
    module = entry(
        "  p = (s32[], f32[4]) parameter(0)\n  t = token[] after-all()\n"
        "  ROOT s = (f32[4], u32[], token[]) send(p#1, t), channel_id=1"
    )
    shapes = {i.name: str(i.shape) for i in module.instructions}
    assert shapes["s"] == "(f32[4], u32[], token[])"


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
        "  p = f32[8] parameter(0)\n  ROOT r = f32[8] add(negate(p), f32[8] exponential(abs(p)))"
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


def test_nested_parameters_are_parameters() -> None:
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


def test_branches_may_be_names_and_bodies() -> None:
    module = read(
        "HloModule m\n\nt {\n  ROOT a = f32[] parameter(0)\n}\n\nENTRY e {\n"
        "  i = s32[] parameter(0)\n  x = f32[] parameter(1)\n"
        "  ROOT r = f32[] conditional(i, x, x), "
        "branch_computations={t, { ROOT b = f32[] parameter(0) }}\n}\n"
    )
    root = module.entry.root
    assert root is not None
    assert root.called_computations == ("t", "_")
    assert names(module) == {"t": ["a"], "_": ["b"], "e": ["i", "x", "r"]}


def test_inline_names_do_not_hide_outer_ones() -> None:
    module = entry(
        "  p = f32[8] parameter(0)\n"
        "  ROOT r = f32[8] call(p), to_apply={ p = f32[8] parameter(0) ROOT r = f32[8] negate(p) }"
    )
    assert names(module) == {"_": ["p", "r"], "main": ["p", "r"]}
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "call"]


@pytest.mark.parametrize(
    ("shape", "literal"),
    [
        ("f32[]", "1e-05"),
        ("f32[]", "-nan"),
        ("f32[]", "nan(0x7fc001)"),
        ("f32[]", "-inf"),
        ("pred[]", "true"),
        ("c64[]", "(1, -2)"),
        ("s32[3]", "{1, 2, 3}"),
        ("s32[0]", "{}"),
        ("s32[2,0]", "{ {}, {} }"),
        ("f32[2,2]", "{ { 1, 2 }, { 3, inf } }"),
        ("pred[2]", "{1, 0}"),
        ("f32[99]", "{...}"),
        ("f32[2,2]", "0"),
        ("c64[1]", "{(1, 2)}"),
        ("(s32[], f32[2])", "( 1, {2, 3} )"),
        ("s32[2]", "{1,\n    2}"),
        ("s32[2]", "{/*i0=0*/1, /*i0=1*/2}"),
        ("s32[<=4]", "(2) {1, 2}"),
    ],
)
def test_literal_is_kept_as_written(shape: str, literal: str) -> None:
    constant = one(f"r = {shape} constant({literal})")
    assert (constant.opcode, constant.operand_text) == ("constant", literal)
    assert constant.operands == ()
    assert constant.operand_names == ()


def test_number_of_a_parameter_is_no_operand() -> None:
    parameter = one("r = f32[] parameter(7)")
    assert (parameter.parameter_number, parameter.operands) == (7, ())
    assert one("r = f32[8] add(p, q)").parameter_number is None
