"""The program diff as tables, facts and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.diff.page import (
    TEXTS_DIFFER,
    program_diff_facts,
    program_diff_json,
    program_diff_tables,
    text_note,
)
from hlo_lens.questions.matching.program_diff import program_diff
from tests.questions.matching.programs import parsed

if TYPE_CHECKING:
    from hlo_lens.render.result import Cell
    from hlo_lens.render.table import Table

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


def test_equal_programs_say_no_change_and_have_no_tables() -> None:
    found = program_diff(
        parsed(BASE), parsed(BASE.replace("a = f32", "b = f32").replace("(a,", "(b,"))
    )
    assert program_diff_facts(found) == (
        ("program", "no change: 5 instructions"),
        ("ignored", "names (1)"),
    )
    assert program_diff_tables(found) == ()
    assert program_diff_json(found)["identical"] is True


def test_equal_programs_with_different_texts_have_a_note() -> None:
    line = "  r = f32[8] all-reduce(a), channel_id=1, replica_groups={}, to_apply=main\n"
    base = BASE.replace("  k = ", line + "  k = ")
    renumbered = program_diff(parsed(base), parsed(base.replace("channel_id=1", "channel_id=7")))
    assert text_note(renumbered) == TEXTS_DIFFER
    assert text_note(program_diff(parsed(base), parsed(base.replace(" k ", " c ")))) is None
    assert text_note(program_diff(parsed(BASE), parsed(HEAD))) is None


def test_tables_are_of_the_module_then_of_the_instructions() -> None:
    found = program_diff(parsed(BASE), parsed(HEAD))
    module, program = program_diff_tables(found)
    assert list(module.read_rows()) == [
        ("input_output_alias", "lost", 1, "parameter 1 in output {1}", None)
    ]
    (row,) = [dict(zip(program.shown, cells, strict=True)) for cells in _shown(program)]
    assert row == {
        "edit": "changed",
        "instructions": 1,
        "opcode": "sine",
        "what": "opcode sine -> cosine",
        "where": "entry",
        "op_name": "jit(f)/sin",
        "source": "f.py:3",
    }
    assert program.notes == ("1 constant without printed value: taken to be equal",)


def _shown(table: Table) -> list[list[Cell]]:
    """Return the rows of the columns that people see."""
    places = [table.columns.index(column) for column in table.shown_columns]
    return [[row[place] for place in places] for row in table.read_rows()]


def test_many_lost_donations_are_one_row() -> None:
    count = 9
    lines = "\n".join(f"  p{k} = f32[8] parameter({k})" for k in range(count))
    names = ", ".join(f"p{k}" for k in range(count))
    shapes = ", ".join(["f32[8]"] * count)
    alias = ", ".join(f"{{{k}}}: ({k}, {{}}, may-alias)" for k in range(count))
    text = f"HloModule m, input_output_alias={{ {alias} }}\n\nENTRY e {{\n{lines}\n"
    text += f"  ROOT t = ({shapes}) tuple({names})\n}}\n"
    head = text.replace(f", input_output_alias={{ {alias} }}", "")
    (module,) = program_diff_tables(program_diff(parsed(text), parsed(head)))
    ((what, edit, number, base, after),) = module.read_rows()
    assert (what, edit, number, after) == ("input_output_alias", "lost", count, None)
    assert str(base).endswith("[6 more]")
