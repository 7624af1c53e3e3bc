"""Copies between device and host memory."""

from __future__ import annotations

from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.page import movement_tables
from tests.questions.collectives.texts import counted
from tests.questions.texts import module_of


def test_copies_to_the_host_are_shown_apart() -> None:
    found = counted(
        """
  x = f32[8,4]{1,0} parameter(0)
  s = (f32[8,4]{1,0:S(5)}, f32[8,4]{1,0}, u32[]) copy-start(x)
  d = f32[8,4]{1,0:S(5)} copy-done(s)
  i = s32[] constant(0)
  e = f32[1,4]{1,0} dynamic-slice(d, i, i), dynamic_slice_sizes={1,4}
  ROOT k = f32[1,4]{1,0} copy(e)"""
    )
    assert found.collectives == ()
    assert [(c.name, c.direction, c.size_bytes) for c in found.movement.copies] == [
        ("s", "to host", 128),
        ("e", "to device", 16),
    ]


TEXT = """HloModule m, is_scheduled=true

moved {
  a = f32[8] parameter(0)
  s = (f32[8]{0:S(5)}, f32[8], u32[]) copy-start(a)
  d = f32[8]{0:S(5)} copy-done(s)
  b = f32[8] copy(d)
  ROOT n = f32[8] negate(b), metadata={op_name="f/neg" source_file="train.py" source_line=7}
}

kept {
  ROOT k = f32[8] parameter(0)
}

ENTRY main {
  p = pred[] parameter(0)
  x = f32[8] parameter(1)
  ROOT c = f32[8] conditional(p, x, x), true_computation=moved, false_computation=kept
}
"""


def test_copies_in_a_branch_are_upper_bounds_and_inferred_lines_are_marked() -> None:
    movement = collectives(module_of(TEXT)).movement
    assert [(one.dynamic_count, one.is_at_most) for one in movement.copies] == [(1, True)] * 2
    (table,) = movement_tables(movement)
    assert table.read_shown is not None
    places = {column.name: place for place, column in enumerate(table.columns)}
    shown = {row[places["name"]]: row for row in table.read_shown()}
    assert shown["b"][places["dynamic_count"]] == "<= 1"
    assert shown["b"][places["source"]] == "train.py:7 ~"
    assert any(note.startswith("~ inferred") for note in table.notes)
