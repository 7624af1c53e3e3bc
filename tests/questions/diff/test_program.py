"""The program diff as facts and JSON."""

from __future__ import annotations

from hlo_lens.questions.diff.page import program_diff_facts, program_diff_json
from hlo_lens.questions.matching.program_diff import program_diff
from tests.questions.matching.programs import parsed

BASE = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }

ENTRY main {
  p = f32[8] parameter(0), metadata={op_name="w"}
  q = f32[8] parameter(1)
  a = f32[8] sine(p), metadata={op_name="jit(f)/sin" source_file="f.py" source_line=3}
  k = f32[20] constant({...})
  ROOT t = (f32[8], f32[8], f32[20]) tuple(a, q, k)
}
"""
HEAD = BASE.replace(", {1}: (1, {}, may-alias)", "").replace("sine(p)", "cosine(p)")


def test_equal_programs_say_no_change() -> None:
    found = program_diff(
        parsed(BASE), parsed(BASE.replace("a = f32", "b = f32").replace("(a,", "(b,"))
    )
    assert program_diff_facts(found) == (
        ("program", "no change: 5 instructions"),
        ("ignored", "names (1)"),
    )
    assert program_diff_json(found)["identical"] is True


def test_the_line_counts_changes_of_the_module() -> None:
    (_, text), *_ = program_diff_facts(program_diff(parsed(BASE), parsed(HEAD)))
    assert text == (
        "4 unchanged, 1 changed, 0 added, 0 removed, 0 moved; of the module: input_output_alias (1)"
    )
