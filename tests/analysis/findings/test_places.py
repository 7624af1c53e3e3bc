"""Lines that findings about a whole program name."""

from __future__ import annotations

import pytest

from hlo_lens.analysis.findings.places import call_place
from hlo_lens.analysis.module_analysis import ModuleAnalysis
from hlo_lens.api.modules import modules_of

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
    place = call_place(ModuleAnalysis(dump))
    assert place is not None
    assert (place.file, place.line) == ("train.py", line)
