"""Runs of collectives, their groups, and the loops around them."""

from __future__ import annotations

import pytest

from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.loop_levels import Loops, collectives_by, loops
from hlo_lens.questions.collectives.page import tree_lines
from tests.questions.collectives.texts import ADD
from tests.questions.texts import entry_module, module_of


def test_dynamic_count_is_weighted_by_loops_calls_and_conditionals() -> None:
    found = {c.name: c for c in collectives(module_of(NESTED)).collectives}
    counts = {name: (c.dynamic_count, c.is_at_most, c.loop_path) for name, c in found.items()}
    assert counts == {
        "once": (1, False, ()),
        "called": (2, False, ()),
        "outer": (5, False, ("loop",)),
        "inner": (15, False, ("loop", "loop.1")),
        "checked": (20, False, ("loop", "loop.1")),
        "taken": (5, True, ("loop",)),
        "never": (0, False, ("loop.0",)),
        "unknown": (None, False, ("loop.u",)),
    }


BRANCHES = """HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

small {
  x = f32[8] parameter(0)
  ROOT one = f32[8] all-reduce(x), channel_id=1, GROUPS, to_apply=add
}

large {
  x = f32[8] parameter(0)
  two = f32[8] all-reduce(x), channel_id=2, GROUPS, to_apply=add
  ROOT three = f32[8] all-reduce(two), channel_id=3, GROUPS, to_apply=add
}

ENTRY main {
  p = pred[] parameter(0)
  x = f32[8] parameter(1)
  ROOT r = f32[8] conditional(p, x, x), true_computation=small, false_computation=large
}
""".replace("GROUPS", "replica_groups={{0,1,2,3}}, use_global_device_ids=true")


@pytest.mark.parametrize(
    ("third", "runs", "wire"),
    [("all-reduce(two), ", (1, 2), (48, 96)), ("negate(two) //", (1, 1), (48, 48))],
)
def test_largest_branch_of_a_conditional_counts(
    third: str, runs: tuple[int, int], wire: tuple[int, int]
) -> None:
    found = collectives(module_of(BRANCHES.replace("all-reduce(two), ", third)))
    assert found.dynamic_bounds()["all-reduce"] == runs
    assert found.wire_bounds == wire
    (group,) = collectives_by(found.collectives, "kind").groups
    assert (group.dynamic_count, group.wire_bytes_per_run) == (runs[1], wire[1])
    assert group.dynamic_is_at_most is group.wire_bytes_is_at_most is (runs == (1, 2))
    assert group.times == ("<= 2" if runs == (1, 2) else "1")


def test_sums_of_unknown_counts_are_unknown() -> None:
    found = collectives(module_of(NESTED))
    assert found.figures.dynamic["all-reduce"] is None
    assert found.figures.dynamic["all-gather"] == 0
    assert found.wire_bytes_per_device is None


def _loop(name: str, body: str, trips: int | None, condition: str = "") -> str:
    bound = "m = s32[] get-tuple-element(s), index=1" if trips is None else ""
    limit = "m" if trips is None else "n"
    return f"""
{name}_body {{
  s = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
{body}
  ROOT out = (s32[], s32[], f32[4]) tuple(next, k, y)
}}

{name}_cond {{
  s = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  {bound}
  n = s32[] constant({trips or 0})
{condition}
  ROOT less = pred[] compare(i, {limit}), direction=LT
}}
"""


def _psum(name: str, of: str) -> str:
    return (
        f"  {name} = f32[4] all-reduce({of}), channel_id=1, replica_groups={{{{0,1}}}}, "
        "use_global_device_ids=true, to_apply=add"
    )


def _while(name: str, loop: str) -> str:
    return f"  {name} = (s32[], s32[], f32[4]) while(init), condition={loop}_cond, body={loop}_body"


CHECK = f"  c = f32[4] get-tuple-element(s), index=2\n{_psum('checked', 'c')}"

INNER = f"{_psum('inner', 'x')}\n  y = f32[4] copy(inner)"

NEVER = f"{_psum('never', 'x')}\n  y = f32[4] copy(never)"

OPEN = f"{_psum('unknown', 'x')}\n  y = f32[4] copy(unknown)"


OUTER = f"""{_psum("outer", "x")}
  zero = s32[] constant(0)
  init = (s32[], s32[], f32[4]) tuple(zero, k, outer)
{_while("loop.1", "inner")}
  z = f32[4] get-tuple-element(loop.1), index=2
  p = pred[] constant(true)
  y = f32[4] conditional(p, z, z), true_computation=then, false_computation=otherwise"""


NESTED = f"""HloModule m, num_partitions=2
{ADD}
helper {{
  h = f32[4] parameter(0)
  ROOT {_psum("called", "h").strip()}
}}

then {{
  h = f32[4] parameter(0)
  ROOT {_psum("taken", "h").strip()}
}}

otherwise {{
  ROOT h = f32[4] parameter(0)
}}
{_loop("inner", INNER, 3, CHECK)}
{_loop("outer", OUTER, 5)}
{_loop("zero", NEVER, 0)}
{_loop("open", OPEN, None)}
ENTRY main {{
  x = f32[4] parameter(0)
  m = s32[] parameter(1)
{_psum("once", "x")}
  a = f32[4] call(once), to_apply=helper
  b = f32[4] call(a), to_apply=helper
  zero = s32[] constant(0)
  init = (s32[], s32[], f32[4]) tuple(zero, m, b)
{_while("loop", "outer")}
{_while("loop.0", "zero")}
{_while("loop.u", "open")}
  ROOT r = f32[4] get-tuple-element(loop.u), index=2
}}
"""


def test_groups_of_collectives_sum_bytes_of_one_run() -> None:
    found = collectives(module_of(NESTED)).collectives
    by_loop = {g.group: g for g in collectives_by(found, "loop").groups}
    assert by_loop["[not in a loop]"].static_count == 2
    assert by_loop["[not in a loop]"].wire_bytes_per_run == 3 * 16
    assert by_loop["loop"].times == "<= 10"
    assert by_loop["loop.u"].wire_bytes_per_run is None
    assert by_loop["loop.u"].times == "x?"
    (by_kind,) = collectives_by(found, "kind", is_dynamic=False).groups
    assert (by_kind.static_count, by_kind.wire_bytes_per_device, by_kind.times) == (
        8,
        8 * 16,
        "<= 48 + x?",
    )


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
    assert levels[-1].reason == "it is argument 1 of the program"


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


def test_a_branch_in_a_loop_of_unknown_trips_has_no_bound() -> None:
    text = NESTED.replace("n = s32[] constant(5)", "n = s32[] get-tuple-element(s), index=1")
    lines = [line for line in tree_lines(_loops(text)) if " branch " in line]
    assert [line.partition(" branch ")[2] for line in lines] == ["0, x?", "1, x?"]
