"""Bytes by line of the user's program."""

from __future__ import annotations

from hlo_lens.program.hlo_text import hlo_text
from hlo_lens.program.source_bytes import source_bytes
from tests.questions.texts import LOOP, entry_module, module_of

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
