"""Opcode histogram."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.program.instructions import largest_instructions, opcodes, source_bytes
from hlo_lens.program.summary import hlo_text
from hlo_lens.text.errors import UnknownNameError
from tests.questions.texts import LOOP, entry_module, module_of


def test_opcodes_are_as_written_and_the_most_frequent_first() -> None:
    module = entry_module(
        """
  x = f32[4]{0} parameter(0)
  s = ((f32[4]{0}), f32[2]{0}, u32[]) slice-start(x), slice={[0:2]}
  d = f32[2]{0} slice-done(s)
  n = f32[2]{0} negate(d)
  ROOT m = f32[2]{0} negate(n)"""
    )
    assert opcodes(module).counts == (
        ("negate", 2, 16, 0),
        ("parameter", 1, 16, 0),
        ("slice-done", 1, 8, 0),
        ("slice-start", 1, 28, 0),
    )


def test_unknown_sizes_are_counted_beside_the_sum() -> None:
    module = entry_module("  x = f32[?] parameter(0)\n  ROOT y = f32[3] parameter(1)")
    assert opcodes(module).counts == (("parameter", 2, 12, 1),)
    assert opcodes(module).totals() == {"instructions": 2, "result_bytes": 12, "unknown_sizes": 1}


def test_opcode_of_a_future_xla_is_kept_and_named() -> None:
    module = entry_module("  x = f32[3] parameter(0)\n  ROOT y = f32[3] warp-drive(x)")
    assert opcodes(module).unknown_opcodes == ("warp-drive",)


def test_tuples_and_loops_are_left_out() -> None:
    result = largest_instructions(module_of(LOOP))
    assert [row[:2] for row in result.rows()] == [
        (512, "w"),
        (512, "y"),
        (64, "b"),
        (4, "four"),
        (4, "n"),
        (4, "next"),
        (4, "one"),
        (1, "less"),
    ]
    assert (result.left_out_views, result.left_out_embedded) == (8, 2)


def test_row_names_shape_source_and_scope() -> None:
    rows = {row[1]: row for row in largest_instructions(module_of(LOOP)).rows()}
    place = "/home/me/step.py:7"
    assert rows["y"] == (
        512,
        "y",
        "fusion",
        "f32[8,16]",
        place,
        "jit(step)/while/neg",
        "body",
        "own",
    )
    assert rows["four"][:4] == (4, "four", "constant", "s32[]")
    assert rows["four"][4:] == (None, None, "cond", None)


def test_unknown_sizes_come_last_and_are_counted() -> None:
    module = entry_module(
        """
  a = f32[?]{0} parameter(0)
  b = f32[2]{0} parameter(1)
  ROOT c = f32[0]{0} parameter(2)"""
    )
    result = largest_instructions(module)
    assert [row[:2] for row in result.rows()] == [(8, "b"), (0, "c"), (None, "a")]
    assert (result.unknown_sizes, result.total_bytes) == (1, 8)


FRAMES = """HloModule m

FileNames
1 "/home/me/a.py"
2 "/home/me/b.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}
2 {file_name_id=2 function_name_id=1 line=5 end_line=5 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY main {
  x = f32[4]{0} parameter(0), metadata={op_name="x"}
  a = f32[4]{0} negate(x), metadata={op_name="stack_frame_id=2" stack_frame_id=1}
  b = f32[4]{0} negate(a), metadata={op_name="b" stack_frame_id=2}, backend_config={"n":"1"}
  c = f32[4]{0} negate(b), metadata={op_name="c" stack_frame_id=99}
  ROOT d = f32[4]{0} negate(c), metadata={stack_frame_id=2}
}
"""


def test_lines_and_residuals_are_all_bytes() -> None:
    result = source_bytes(module_of(LOOP))
    assert result.lines == (("/home/me/step.py", 7, 512, 1), ("/home/me/step.py", None, 9, 3))
    assert result.parameters == (512 + 64 + 4, 3)
    assert result.unattributed == (4, 1)
    assert result.totals() == {"result_bytes": 1105, "instructions": 8}


def test_stack_frames_are_looked_up_in_the_tables() -> None:
    result = source_bytes(module_of(FRAMES))
    assert result.lines == (("/home/me/b.py", 5, 48, 3), ("/home/me/a.py", 3, 16, 1))
    assert result.parameters == (16, 1)
    assert result.unattributed == (0, 0)


def test_place_is_that_of_the_model() -> None:
    module = module_of(FRAMES)
    places = {
        (i.source_location.file, i.source_location.line)
        for i in hlo_text(module).instructions
        if i.source_location is not None
    }
    assert {line[:2] for line in source_bytes(module).lines} == places


def test_file_name_with_escapes_is_unescaped() -> None:
    module = entry_module(
        r'  ROOT x = f32[2] parameter(0), metadata={source_file="C:\\my \"x\".py" source_line=3}'
    )
    assert source_bytes(module).lines == (('C:\\my "x".py', 3, 8, 1),)


def test_unknown_sizes_are_counted() -> None:
    result = source_bytes(entry_module("  ROOT x = f32[?] parameter(0)"))
    assert (result.unknown_sizes, result.parameters) == (1, (0, 1))


TEXT = """HloModule m

ENTRY main {
  p = (f32[8], f32[4]) parameter(0)
  ROOT s = f32[8] add(p#0, p#0)
}
"""


def test_uses_of_elements_are_listed_each() -> None:
    found = hlo_lens.instruction(TEXT, "s")
    operands = [(one.role, one.place, one.name) for one in found.adjacent]
    assert operands == [("operand", "0{0}", "p"), ("operand", "1{0}", "p")]
    used = hlo_lens.instruction(TEXT, "p")
    assert [(one.role, one.place, one.name) for one in used.adjacent] == [
        ("user", "0", "s"),
        ("user", "1", "s"),
    ]


def test_text_is_as_written() -> None:
    assert hlo_lens.instruction(TEXT, "%s").text == "s = f32[8] add(p#0, p#0)"


def test_unknown_name_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="computation or argument is named 'x'"):
        hlo_lens.instruction(TEXT, "x")
