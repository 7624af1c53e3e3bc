"""Gaps and errors of HLO texts, and lines of others around them."""

from __future__ import annotations

import re

import pytest

from hlo_lens.hlo.module_reader import parse_hlo, parse_hlo_modules
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import clean
from tests import corpus
from tests.hlo_texts import E1, E3, E4

AROUND = """HloModule m

ENTRY e {
  p = f32[8]{0} parameter(0)
  INSTRUCTION
  ROOT r = f32[8]{0} negate(p)
}

"""


def gaps(text: str) -> list[tuple[int, int, str]]:
    """Return line, column and message of each gap; messages are in house style."""
    found = [(gap.line, gap.column, gap.message) for gap in parse_hlo(text).gaps]
    for _, _, message in found:
        assert message[0].islower()
        assert not message.endswith(".")
        assert message.isprintable()
        assert not re.search(r"__|_IS\b|\banon\b|Token|[A-Z]{2,}_", message)
    return found


INSTRUCTIONS = [
    # operands
    ("q = f32[8] add(p, p", 22, "expected ',', ')' or '#', found the end"),
    ("q = f32[8] add p, p)", 14, "expected an opcode, 'constant' or 'parameter', found 'add'"),
    ("q = f32[8] add(p#, p)", 20, "expected a number, found ','"),
    ("q = f32[8] add(p#x, p)", 20, "expected a number, found 'x'"),
    ("q = f32[8] add(negate(p, p)", 30, "expected ',' or ')', found the end"),
    (
        'q = f32[8] add(p, "p")',
        21,
        "expected an opcode, a shape, 'constant' or 'parameter', found '\"'",
    ),
    (
        "q = f32[8] add(negate(p), dimensions={0}, p)",
        29,
        "expected an opcode, a shape, 'constant' or 'parameter', found 'dimensions'",
    ),
    ("q = f32[8] parameter(x)", 24, "expected ')' or a number, found 'x'"),
    ("q = f32[8] parameter(0, 1)", 25, "expected ')', found ','"),
    # shapes
    ("q = f32[-8] add(p, p)", 11, "expected a number, '<=', '?' or ']', found '-8'"),
    ("q = f32[8]{0,1} add(p, p)", 13, "expected a layout of 1 dimensions, each of them once"),
    ("q = f32[8,8]{0,0} add(p, p)", 15, "expected a layout of 2 dimensions, each of them once"),
    ("q = f32[8]{0:T(8} add(p, p)", 19, "expected ',' or ')', found '}'"),
    (
        "q = f32[99999999999999999999] add(p, p)",
        11,
        "number too large, the largest is 9223372036854775807",
    ),
    # literals
    ("q = s32[] constant(1.5x)", 22, "expected a number, '(', ')' or '{', found '1.5x'"),
    # attributes
    ("q = f32[8] add(p, p),", 24, "expected an attribute, found the end"),
    ("q = f32[8] add(p, p), dimensions ={0}", 25, "expected an attribute, found 'dimensions'"),
    ("q = f32[8] add(p, p) dimensions={0}", 24, "expected ',' or the end, found 'dimensions'"),
    ("q = f32[8] add(p, p) x", 24, "expected the end, found 'x'"),
    ("q = f32[8] add(p, p), new=)", 29, "expected a value or '{', found ')'"),
    ("q = f32[8] add(p, p), dimensions=", 36, "expected '{', found the end"),
    ("q = f32[8] add(p, p), to_apply={1}", 35, "expected 'ROOT', '}' or a name, found '1'"),
    (
        'q = f32[8] add(p, p), metadata={op_name="x}',
        43,
        "expected a word, '{', a number or a string, found '\"'",
    ),
    # bytes
    ('q = f32[8] add(p, p), new="\0"', 29, "expected a value or '{', found '\"'"),
    # no instruction at all
    ("q f32[8] add(p, p)", 3, "expected an instruction or '}'"),
    ("q= f32[8] add(p, p)", 3, "expected 'ROOT' or a name, found 'q'"),
]

VALUES = [
    ("q = f32[8] add(p, p), dimensions=0", 36, "expected '{', found '0'"),
    ("q = f32[8] add(p, p), dimensions={0,}", 39, "expected a number, found '}'"),
    ("q = f32[8] add(p, p), dimensions={a}", 37, "expected '}' or a number, found 'a'"),
    ("q = f32[8] add(p, p), channel_id=x", 36, "expected '_' or a number, found 'x'"),
    ("q = f32[8] add(p, p), epsilon=x", 33, "expected a number, found 'x'"),
    ("q = f32[8] add(p, p), is_stable=yes", 35, "expected true or false, found 'yes'"),
    ("q = f32[8] add(p, p), direction=3", 35, "expected a word, found '3'"),
    (
        "q = f32[8] add(p, p), custom_call_target=x",
        44,
        "expected a string or a quoted name, found 'x'",
    ),
    ("q = f32[8] add(p, p), source_target_pairs={0,1}", 46, "expected '{' or '}', found '0'"),
    ("q = f32[8] add(p, p), window={size=3x}", 39, "expected an attribute or '}', found 'x'"),
    (
        "q = f32[8] add(p, p), window={size=3x3, pad=1_1}",
        41,
        "expected an attribute or '}', found ','",
    ),
    ("q = f32[8] add(p, p), padding=1", 33, "expected padding such as 0_1x2_3, found '1'"),
    (
        "q = f32[8] add(p, p), dim_labels=b0f_0io-b0f",
        36,
        "expected labels such as b01f_01io->b01f, found 'b0f_0io'",
    ),
    (
        "q = f32[8] add(p, p), slice={[0:8}",
        32,
        "expected a range such as [0:8] or '}', found '['",
    ),
    ("q = f32[8] add(p, p), sharding={devices=[2]0}", 46, "expected 2 devices, found 1"),
    (
        "q = f32[8] add(p, p), sharding=replicated",
        34,
        "expected a sharding or '{', found 'replicated'",
    ),
    (
        "q = f32[8] add(p, p), sharding={replicate}",
        35,
        "expected a kind of sharding, 'shard_as' or 'shard_like', 'metadata=' or 'replicated=', "
        "'unreduced=' or 'manual=', "
        "found 'replicate'",
    ),
    ("q = f32[8] add(p, p), replica_groups=[2,4]<=[4]", 48, "expected 2x4 devices, found 4"),
    ("q = f32[8] add(p, p), replica_groups={{0,1},{2,x}}", 49, "expected '}', found ','"),
    (
        "q = f32[8] add(p, p), metadata={op_name=x y}",
        45,
        "expected an attribute, ',' or '}', found 'y'",
    ),
    ("q = f32[8] add(p, p), backend_config=x", 40, "expected '{' or a string, found 'x'"),
    (
        "q = f32[8] add(p, p), frontend_attributes={a=1}",
        48,
        "expected '{', a string or a quoted name, found '1'",
    ),
]
"""Wrong values of attributes on which no structure depends."""


@pytest.mark.parametrize(("instruction", "column", "message"), INSTRUCTIONS)
def test_bad_instruction_is_one_gap_with_its_place(
    instruction: str, column: int, message: str
) -> None:
    text = AROUND.replace("INSTRUCTION", instruction)
    module = parse_hlo(text)
    assert gaps(text) == [(5, column, message)]
    assert [i.name for i in module.instructions] == ["p", "r"]
    assert not module.is_truncated


@pytest.mark.parametrize(("instruction", "column", "message"), VALUES)
def test_instruction_with_an_unknown_value_is_kept_beside_its_gap(
    instruction: str, column: int, message: str
) -> None:
    text = AROUND.replace("INSTRUCTION", instruction)
    module = parse_hlo(text)
    assert gaps(text) == [(5, column, message)]
    _, kept, _ = module.instructions
    assert (kept.name, kept.opcode, kept.operand_names) == ("q", "add", ("p", "p"))
    (name, value), *_ = kept.attributes.items()
    assert instruction.endswith(f"{name}={value}")


def test_sharding_of_an_unknown_form_is_unknown() -> None:
    text = AROUND.replace("INSTRUCTION", "q = f32[8] add(p, p), sharding={odd[device_id=0]}")
    sharding = parse_hlo(text).entry.instructions[1].sharding
    assert sharding is not None
    assert (sharding.kind, str(sharding)) == (ShardingKind.UNKNOWN, "{odd[device_id=0]}")


MORE = "expected ',' and a header attribute"
VALUE = "expected another value of"
HEADERS = [
    ("HloModule m x", 12, MORE),
    ("HloModule 3m", 11, MORE),
    ("HloModule m,", 12, MORE),
    ("HloModule m, is_scheduled=yes", 14, f"{VALUE} is_scheduled"),
    ("HloModule m, num_partitions=x", 14, f"{VALUE} num_partitions"),
    ("HloModule m, input_output_alias={ {0}: 0 }", 14, f"{VALUE} input_output_alias"),
    ("HloModule m, frontend_attributes={a=1}", 14, f"{VALUE} frontend_attributes"),
    ("HloModule m, entry_computation_layout={(F32[])}", 14, f"{VALUE} entry_computation_layout"),
    ('HloModule m, new="x', 12, MORE),
    ("HloModulem", 1, "expected 'HloModule' or a computation"),
]


@pytest.mark.parametrize(("header", "column", "message"), HEADERS)
def test_bad_header_is_a_gap_and_hides_no_computation(
    header: str, column: int, message: str
) -> None:
    module = parse_hlo(AROUND.replace("HloModule m", header).replace("INSTRUCTION\n  ", ""))
    assert [(g.line, g.column, g.message) for g in module.gaps] == [(1, column, message)]
    assert [i.name for i in module.instructions] == ["p", "r"]


BODY = "  ROOT p = f32[] parameter(0)\n"
STRUCTURES = {
    "no closing brace at the end": (
        f"HloModule m\n\nENTRY e {{\n{BODY}",
        [(4, 30, "expected '}', found the end: e is cut off")],
    ),
    "no closing brace and blank lines": (
        f"HloModule m\n\nENTRY e {{\n{BODY}\n\n\n",
        [(4, 30, "expected '}', found the end: e is cut off")],
    ),
    "no closing brace before a computation": (
        f"HloModule m\n\na {{\n{BODY}\nENTRY e {{\n{BODY}}}\n",
        [(6, 1, "expected '}', found a new computation")],
    ),
    "no closing brace before a module": (
        f"HloModule m\n\nENTRY e {{\n{BODY}HloModule n\n\nENTRY e {{\n{BODY}}}\n",
        [
            (5, 1, "expected '}', found a new computation"),
            (
                5,
                1,
                "expected the end of the text, found a second HloModule "
                "(hlo_lens.load reads them all)",
            ),
        ],
    ),
    "cut off in the operands": (
        "HloModule m\n\nENTRY e {\n  q = f32[] add(p,",
        [
            (4, 19, "expected an opcode, a shape, 'constant' or 'parameter', found the end"),
            (4, 19, "expected '}', found the end: e is cut off"),
        ],
    ),
    "cut off in a string": (
        'HloModule m\n\nENTRY e {\n  q = f32[] add(), metadata={op_name="x',
        [
            (4, 38, "expected a word, '{', a number or a string, found '\"'"),
            (4, 40, "expected '}', found the end: e is cut off"),
        ],
    ),
    "cut off without a name": (
        "{\n  p = f32[",
        [
            (2, 11, "expected a number, '<=', '?' or ']', found the end"),
            (2, 11, "expected '}', found the end: the computation is cut off"),
        ],
    ),
    "two closing braces": (
        f"HloModule m\n\nENTRY e {{\n{BODY}}}}}\n",
        [(5, 2, "expected 'HloModule' or a computation")],
    ),
    "comma after the closing brace": (
        f"HloModule m\n\nENTRY e {{\n{BODY}}},\n",
        [(5, 2, "expected 'HloModule' or a computation")],
    ),
    "no opening brace": (
        f"HloModule m\n\nENTRY e\n{BODY}}}\n",
        [
            (3, 1, "expected 'HloModule' or a computation"),
            (5, 1, "expected 'HloModule' or a computation"),
        ],
    ),
    "bad shape in a signature": (
        f"HloModule m\n\nENTRY %e (p: F32[]) -> f32[] {{\n{BODY}}}\n",
        [(3, 10, "expected (name: shape, ...) -> shape")],
    ),
    "no name in a signature": (
        f"HloModule m\n\nENTRY %e (f32[]) -> f32[] {{\n{BODY}}}\n",
        [(3, 10, "expected (name: shape, ...) -> shape")],
    ),
    "bad string in a table": (
        f"HloModule m\n\nFileNames\n1 x\n\nENTRY e {{\n{BODY}}}\n",
        [(4, 1, "expected 'HloModule' or a computation")],
    ),
    "bad field in a table": (
        f"HloModule m\n\nStackFrames\n1 {{file_location_id=x}}\n\nENTRY e {{\n{BODY}}}\n",
        [(4, 1, "expected 'HloModule' or a computation")],
    ),
    "words after a header that nothing follows": (
        "HloModule m\n\nthat was all\nreally\n",
        [(3, 1, "expected 'HloModule' or a computation")],
    ),
    "second module": (
        f"HloModule m\n\nENTRY e {{\n{BODY}}}\n\nHloModule n\n\nENTRY e {{\n{BODY}}}\n",
        [
            (
                7,
                1,
                "expected the end of the text, found a second HloModule "
                "(hlo_lens.load reads them all)",
            )
        ],
    ),
    "hole of NUL bytes": (
        f"HloModule m\n\nENTRY e {{\n{BODY}{chr(0) * 40}\n}}\n",
        [(5, 1, "expected an instruction or '}'")],
    ),
}


@pytest.mark.parametrize(("text", "expected"), STRUCTURES.values(), ids=STRUCTURES)
def test_bad_structure_is_placed_and_hides_no_parameter(
    text: str, expected: list[tuple[int, int, str]]
) -> None:
    assert gaps(text) == expected
    modules = parse_hlo_modules(clean(text))
    assert sum(m.opcode_counts()["parameter"] for m in modules) == text.count(BODY)


NOTHING = {
    "": (1, 1, "expected 'HloModule' or a computation, found nothing"),
    "  \n\t\n": (1, 1, "expected 'HloModule' or a computation, found nothing"),
    "// only a comment\n": (1, 1, "expected 'HloModule' or a computation, found nothing"),
    "words only\nand more\n": (1, 1, "expected 'HloModule' or a computation"),
    "\n\n  }\n": (3, 3, "expected 'HloModule' or a computation"),
    "{": (1, 1, "expected 'HloModule' or a computation"),
    "loss = 3\n": (1, 1, "expected 'HloModule' or a computation"),
    "ENTRY": (1, 1, "expected 'HloModule' or a computation"),
    "\0\0\0": (1, 1, "expected 'HloModule' or a computation"),
}


@pytest.mark.parametrize(("text", "place"), NOTHING.items())
def test_text_of_which_nothing_is_hlo_is_an_error(text: str, place: tuple[int, int, str]) -> None:
    with pytest.raises(DumpSyntaxError) as caught:
        parse_hlo(text, path="some.txt")
    error = caught.value
    assert (error.line, error.column, error.message) == place
    assert error.path == "some.txt"
    assert error.exit_code == 4


def test_bad_lines_that_follow_each_other_are_counted_in_one_gap() -> None:
    (gap,) = parse_hlo(AROUND.replace("INSTRUCTION", "one\n  two: 2\n\n  three")).gaps
    assert (gap.line, gap.lines) == (5, 4)


def test_gaps_stand_in_text_order() -> None:
    text = "%junk\n" + AROUND.replace("INSTRUCTION", "junk\n  q = f32[8] add(p") + "%junk\n"
    module = parse_hlo(text)
    places = [(gap.line, gap.column) for gap in module.gaps]
    assert places == sorted(places)
    assert len(places) == 4


def test_gap_belongs_to_the_module_in_which_it_stands() -> None:
    first = AROUND.replace("INSTRUCTION", "q = f32[8] add(p")
    second = AROUND.replace("INSTRUCTION", "junk").replace("HloModule m", "HloModule n")
    modules = parse_hlo_modules(clean("%before\n" + first + "%between\n" + second))
    assert [[gap.line for gap in module.gaps] for module in modules] == [[1, 6, 10], [15]]


# ---- strict -------------------------------------------------------------------------------------


def test_strict_raises_the_first_gap() -> None:
    text = AROUND.replace("INSTRUCTION", "junk\n  q = f32[8] add(p")
    with pytest.raises(DumpSyntaxError) as caught:
        parse_hlo(text, strict=True, path="a.txt")
    first = parse_hlo(text, path="a.txt").gaps[0]
    assert str(caught.value) == str(first)
    assert str(first) == (
        "a.txt:5:3: error: expected an instruction or '}'\n      junk\n      ^^^^"
    )
    with pytest.raises(DumpSyntaxError, match="found a second HloModule"):
        parse_hlo(2 * AROUND.replace("INSTRUCTION\n  ", ""), strict=True)


@pytest.mark.parametrize("end", ["", " ", "\n", " // note"])
def test_header_attribute_without_value_hides_nothing(end: str) -> None:
    module = parse_hlo(f"HloModule m, x={end}\n\nENTRY e {{\n  ROOT a = f32[] constant(1)\n}}\n")
    assert [computation.is_entry for computation in module.computations] == [True]
    assert [gap.line for gap in module.gaps] == [1]


@pytest.mark.parametrize("value", ["\n  {1}", " 3", " /* note */ 3", "\n\n[1,2]"])
def test_value_of_a_header_attribute_may_follow_white_space(value: str) -> None:
    module = parse_hlo(f"HloModule m, x={value}\n\nENTRY e {{\n  ROOT a = f32[] constant(1)\n}}\n")
    assert module.header["x"] == value.split("*/")[-1].strip()
    assert not module.gaps


FOREIGN = {
    "assignment of Python": "loss = 3\n",
    "call of Python": "x = jnp.ones((3, 4))\ny = f(x)\n",
    "text proto": "cfg {\n  a: 3\n  b {\n    c: 4\n  }\n}\n",
    "one brace of JSON": "{'loss': 3}\n",
    "JSON over lines": '{\n  "a": {\n    "b": [1, 2]\n  }\n}\n',
    "configuration": "Config(\n  a=1,\n)\n",
    "source code": "def f(x):\n  return x\n\nclass A:\n  pass\nif (a) {\n",
    "MLIR": (
        "module @jit_f attributes {a = 1 : i32} {\n"
        "  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {\n"
        "    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>\n"
        "    return %0 : tensor<8xf32>\n  }\n}\n"
    ),
    "a program of JAX": "{ lambda ; a:f32[8]. let\n    b:f32[8] = sin a\n  in (b,) }\n",
    "memory message": (
        "Ran out of memory in memory space hbm.\n  1. Size: 4.00G\n"
        '     Operator: op_name="jit(f)/dot"\n     Shape: f32[32768,32768]{1,0:T(8,128)}\n'
        "     XLA label: fusion.3 = fusion(%p), metadata={a}\n"
    ),
    "warning with an instruction": (
        "[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding "
        "{replicated} to {devices=[2]0,1} for HLO operation %a = f32[8]{0} add(%b, %c), "
        'sharding={replicated}, metadata={op_name="x"}\n'
    ),
    "shardings of JAX": (
        "arg_shapes : (ShapeDtypeStruct(shape=(20, 16), dtype=float32, "
        "sharding=NamedSharding(mesh=Mesh('x': 4), spec=PartitionSpec('x',))),)\n"
        "f : ShapedArray(float32[8,4]), dimensions=(0, 1), sharding=None, calls=[1]\n"
    ),
    "progress": " 12%|###       | 3/24 [00:01<00:10]\n",
    "frames of stdout": "*** End module_0000.jit_f.txt ***\n*** Begin module_0001.txt ***\n",
}


@pytest.mark.parametrize("lines", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("text", [E1, E3, E4], ids=["2022", "2025", "2026"])
def test_lines_of_others_around_a_module_are_no_gaps(lines: str, text: str) -> None:
    module = parse_hlo(lines + text + "\n" + lines)
    assert module == parse_hlo(text)
    assert module.gaps == ()
    assert module.passed_lines == 2 * sum(1 for line in lines.splitlines() if line)


@pytest.mark.parametrize("lines", FOREIGN.values(), ids=FOREIGN)
def test_lines_of_others_stand_between_modules_and_computations(lines: str) -> None:
    inside = E1.replace("\n\nENTRY", f"\n{lines}\nENTRY")
    modules = parse_hlo_modules(clean(inside + "\n" + lines + E3))
    assert [module.gaps for module in modules] == [(), ()]
    assert [module.computations for module in modules] == [
        parse_hlo(text).computations for text in (E1, E3)
    ]


@pytest.mark.parametrize("lines", FOREIGN.values(), ids=FOREIGN)
def test_lines_of_others_inside_a_computation_are_gaps(lines: str) -> None:
    module = parse_hlo(E1.replace("\n  next = ", f"\n{lines}  next = "))
    assert module.gaps
    assert module.passed_lines == 0 or len(module.computations) > 1


def test_lost_first_line_of_a_computation_makes_gaps_of_its_body() -> None:
    for text in (E1, E3, E4):
        lines = text.splitlines(keepends=True)
        heads = [k for k, line in enumerate(lines) if line.rstrip().endswith("{")]
        for head in heads:
            module = parse_hlo("".join([*lines[:head], *lines[head + 1 :]]))
            assert module.gaps, lines[head]


def test_no_line_of_hlo_is_taken_for_one_of_others() -> None:
    for path in sorted(corpus.SAMPLES.glob("*/tp_mlp/module_*optimizations.txt")):
        lines = path.read_text("utf-8").splitlines(keepends=True)
        text = "".join(line for line in lines if not line.rstrip().endswith("{"))
        (module, *_) = parse_hlo_modules(clean(text))
        body = sum(1 for line in lines if " = " in line)
        assert sum(gap.lines for gap in module.gaps) >= body


def test_first_line_of_the_entry_that_is_cut_off_is_a_gap() -> None:
    head = E1.index("\nENTRY")
    for length in range(2, 8):
        module = parse_hlo(E1[: head + length])
        assert [gap.line for gap in module.gaps] == [9]
    assert parse_hlo(E1 + "\nEN").gaps == ()


def test_module_without_a_computation_has_no_lines_of_others() -> None:
    module = parse_hlo("HloModule m, is_scheduled=true\n\nall is well\nreally\n")
    assert (module.passed_lines, [gap.lines for gap in module.gaps]) == (0, [2])


@pytest.mark.parametrize(
    "lines",
    [
        "  %lost = f32[8]{0} add(%a, %b)\n",
        "ENTRY e\n",
        "}\n",
        "1 {file_name_id=1 line=3}\n",
        '3 "/home/me/a.py"\n',
        "m, is_scheduled=true, entry_computation_layout={()->f32[]}\n",
        "hloModule m\n",
        "\0\0\0\n",
    ],
)
def test_what_may_be_of_a_damaged_module_is_a_gap(lines: str) -> None:
    module = parse_hlo(E4 + "\n" + lines)
    assert [gap.lines for gap in module.gaps] == [1]


def test_lines_that_follow_a_lost_body_are_of_it() -> None:
    module = parse_hlo(E3 + "\n  %a = f32[] add(%b, %c)\n  words\n\nwords\n")
    assert [gap.lines for gap in module.gaps] == [2]
    assert module.passed_lines == 1


NAMES = """HloModule m

ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] negate(p)
  q = f32[8] abs(p)
  ROOT r = f32[8] add(p, q)
}
"""
NUMBERS = NAMES.replace("  q = f32[8] abs(p)", "  s = f32[8] parameter(0)")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (NAMES, (6, 3, "expected another name: q is defined already")),
        (NUMBERS, (6, 24, "expected another parameter: the computation has a parameter 0 already")),
    ],
)
def test_a_repetition_is_a_gap_at_its_second_place(text: str, place: tuple[int, int, str]) -> None:
    assert gaps(text) == [place]


def test_computations_may_repeat_names_of_each_other() -> None:
    body = "{\n  p = f32[] parameter(0)\n}\n"
    assert parse_hlo(f"HloModule m\n\nf {body}\nENTRY e {body}").gaps == ()
