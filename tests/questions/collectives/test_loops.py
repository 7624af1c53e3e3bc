"""Levels of a program, with their trip counts and collectives."""

from __future__ import annotations

from hlo_lens.questions.collectives.loop_levels import Loops, loops
from hlo_lens.questions.collectives.page import tree_lines
from tests.questions.collectives.test_collectives import NESTED
from tests.questions.texts import LOOP, entry_module, module_of


def _loops(text: str) -> Loops:
    return loops(module_of(text))


def test_levels_are_nested_as_the_program_is() -> None:
    levels = _loops(NESTED).levels
    assert [(level.depth, level.kind, level.loop, level.branch) for level in levels] == [
        (0, "entry", "main", None),
        (1, "loop", "loop", None),
        (2, "loop", "loop.1", None),
        (2, "branch", "y", 0),
        (2, "branch", "y", 1),
        (1, "loop", "loop.0", None),
        (1, "loop", "loop.u", None),
    ]
    assert [level.times for level in levels] == [1, 5, 15, 5, 5, 0, None]
    assert [level.trip_count for level in levels] == [None, 5, 3, None, None, 0, None]


def test_each_collective_is_on_the_level_that_runs_it() -> None:
    levels = _loops(NESTED).levels
    assert [[c.name for c in level.collectives] for level in levels] == [
        ["called", "once"],
        ["outer"],
        ["inner"],
        ["taken"],
        [],
        ["never"],
        ["unknown"],
    ]
    assert [level.wire_bytes_per_run for level in levels] == [48, 80, 240, 80, 0, 0, None]
    assert levels[1].wire_bytes_per_trip == 16


def test_unknown_trip_count_has_its_reason() -> None:
    level = _loops(NESTED).levels[-1]
    assert level.reason == "it is argument 1 of the program"


def test_program_without_loops_is_one_level() -> None:
    (level,) = loops(entry_module("  ROOT x = f32[] parameter(0)")).levels
    assert (level.kind, level.instructions, level.times) == ("entry", 1, 1)


def test_tree_shows_trip_counts_and_communication() -> None:
    assert list(tree_lines(_loops(NESTED)))[:6] == [
        "main  11 instructions",
        "│  all-reduce axis_0  3, 48B on the wire",
        "├─ loop  x5",
        "│  │  all-reduce axis_0  1 each trip, 5 in one run, 80B on the wire",
        "│  ├─ loop.1  x3 (15x in one run)",
        "│  │     all-reduce axis_0  1 each trip, 15 in one run, 240B on the wire",
    ]


def test_rows_fit_the_columns() -> None:
    found = _loops(LOOP)
    assert all(len(row) == len(Loops.COLUMNS) for row in found.rows())
    assert found.row_count == 2
