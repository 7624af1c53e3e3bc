"""Lines that findings about a whole program name."""

from __future__ import annotations

import pytest

from hlo_lens.load.programs import modules_of
from hlo_lens.questions.findings.values import call_note, call_place, maker_place

TEXT = """HloModule jit_step

FileNames
1 "train.py"

FunctionNames
1 "step"
2 "main"

FileLocations
1 {file_name_id=1 function_name_id=2 line=20 end_line=20 column=1 end_column=9}
2 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=PARENT}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  ROOT %y = f32[8]{0} negate(%x), metadata={op_name="jit(step)/neg" stack_frame_id=2}
}

"""


@pytest.mark.parametrize(("parent", "line"), [("2", 20), ("1", 7)])
def test_the_line_is_that_of_the_caller_else_the_first_of_the_function(
    parent: str, line: int
) -> None:
    (dump,) = modules_of(TEXT.replace("PARENT", parent))
    place = call_place(dump)
    assert place is not None
    assert (place.file, place.line) == ("train.py", line)


def test_a_helper_that_lowers_is_a_note_beside_the_line_of_the_step() -> None:
    text = TEXT.replace("PARENT", "2").replace('1 "step"', '1 "build.<locals>.step"')
    text = text.replace('"train.py"', '"train.py"\n2 "utils.py"')
    (dump,) = modules_of(text.replace("1 {file_name_id=1", "1 {file_name_id=2"))
    assert str(call_place(dump)) == "train.py:7"
    assert call_note(dump) == ("called at utils.py:20",)


COMBINED = """HloModule jit_step, is_scheduled=true, num_partitions=2

add {
  l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT s = f32[] add(l, r)
}

ENTRY main {
  p = f32[8]{0} parameter(0)
  q = f32[24]{0} parameter(1)
  x = f32[8]{0} negate(p), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
  y = f32[24]{0} sine(q), metadata={op_name="jit(f)/sin" source_file="f.py" source_line=4}
  ROOT g = (f32[8]{0}, f32[24]{0}) all-reduce(x, y), replica_groups={{0,1}}, to_apply=add, \
metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
}
"""


def test_the_line_of_a_result_of_a_combined_collective_is_that_of_its_part() -> None:
    copied = COMBINED.replace("ROOT g", "g").replace(
        'f.py" source_line=3}\n}',
        'f.py" source_line=3}\n'
        "  c = f32[24]{0} copy(g#1)\n  ROOT t = (f32[8]{0}, f32[24]{0}) tuple(g#0, c)\n}",
    )
    for text, name in ((COMBINED, "g"), (copied, "c")):
        (dump,) = modules_of(text)
        places = [maker_place(dump, *one) for one in (("g", "{0}"), (name, "{1}"))]
        assert [place and place.line for place in places] == [3, 4]
