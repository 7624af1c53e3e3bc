"""Lines of a log around a module: foreign lines are skipped, others are gaps."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.module_reader import parse_hlo, parse_hlo_modules
from hlo_lens.text.source import clean
from tests import corpus
from tests.hlo_texts import E1, E3, E4

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


@pytest.mark.parametrize("indent", ["", "  "])
@pytest.mark.parametrize("blank", ["", "\n", "  \n"])
def test_rows_that_are_none_are_gaps_and_what_follows_the_tables_is_not(
    indent: str, blank: str
) -> None:
    body = "ENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n"
    tables = f'HloModule m\n\nFileNames\n1 "a.py"\n{blank}{body}'
    module = parse_hlo("".join(indent + line for line in tables.splitlines(keepends=True)))
    assert (module.gaps, module.stack_frames.file_names) == ((), ("a.py",))
    module = parse_hlo(tables.replace("\n1 ", "\n1 1 "))
    assert [(gap.line, gap.lines) for gap in module.gaps] == [(4, 1)]


def test_lines_that_follow_a_lost_body_are_of_it() -> None:
    module = parse_hlo(E3 + "\n  %a = f32[] add(%b, %c)\n  words\n\nwords\n")
    assert [gap.lines for gap in module.gaps] == [2]
    assert module.passed_lines == 1
