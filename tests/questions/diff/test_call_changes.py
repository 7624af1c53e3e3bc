"""Causes of a diff at the lines that call functions, not at the lines of the functions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.diff.causes import Changes
from hlo_lens.questions.diff.explained import line_diff
from hlo_lens.questions.diff.line_edits import call_changes, program_lines
from hlo_lens.questions.matching.program_diff import program_diff

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hlo_lens.questions.diff.line_edits import Stacks

Step = tuple[str, tuple[int, ...]]
"""Opcode of an operation on the one before, and its lines, innermost first."""

ENTRY = 30
"""Line that calls the function whose lines call others."""


def function(line: int) -> int:
    """Return the number of the function of a line."""
    return 1 if line < 4 else 2 if line < 10 else 3


def program(steps: Sequence[Step], *, path: str = "") -> str:
    """Return a module of operations, each on the result of the one before."""
    frames: dict[tuple[int, ...], int] = {}
    lines = ["  %v.0 = f32[8]{0} parameter(0)"]
    for number, (opcode, stack) in enumerate(steps):
        whole = (*stack, ENTRY)
        for start in range(len(whole) - 1, -1, -1):
            frames.setdefault(whole[start:], len(frames) + 1)
        root = "ROOT " if number == len(steps) - 1 else ""
        lines.append(
            f"  {root}%v.{number + 1} = f32[8]{{0}} {opcode}(%v.{number}), metadata="
            f'{{op_name="jit(f){path}/{opcode}" stack_frame_id={frames[whole]}}}'
        )
    locations = [
        f"{one} {{file_name_id=1 function_name_id={function(stack[0])} line={stack[0]} column=1}}"
        for stack, one in frames.items()
    ]
    tree = [
        f"{one} {{file_location_id={one} parent_frame_id={frames.get(stack[1:], 0) + 1}}}"
        for stack, one in frames.items()
    ]
    tables = (
        'FileNames\n1 "/home/me/p/t.py"\n',
        'FunctionNames\n1 "helper"\n2 "layer"\n3 "step"\n',
        *("FileLocations", *locations, "\nStackFrames", *tree),
    )
    return "\n".join(["HloModule m\n", *tables, "\nENTRY %main {", *lines, "}\n"])


def causes(base: str, head: str) -> list[tuple[tuple[str, ...], str]]:
    modules = parse_hlo(base), parse_hlo(head)
    lines = program_lines(program_diff(*modules), *modules, is_source=True)
    found = line_diff(Changes(program=lines), None, None).causes
    return [(cause.sources, cause.what) for cause in found]


def helper(*callers: int) -> list[Step]:
    """Return a call of the function of lines 2 and 3."""
    return [("tanh", (2, *callers)), ("negate", (3, *callers))]


START: Step = ("sine", (10,))
END: Step = ("cosine", (20,))
LINES = "p/t.py:2, p/t.py:3"


def test_one_more_call_is_at_the_line_of_the_call() -> None:
    base = program([START, *helper(11), *helper(12), END])
    head = program([START, *helper(11), *helper(12), *helper(13), END])
    what = f"new call: negate, tanh added in {LINES}"
    assert causes(base, head) == [(("p/t.py:13",), what)]
    gone = f"call gone: negate, tanh removed in {LINES}"
    assert causes(head, base) == [(("p/t.py:13",), gone)]


def test_a_call_that_is_gone_is_marked_where_the_head_has_another_line_of_its_number() -> None:
    base = program([START, *helper(11), *helper(12), ("cosine", (13,))])
    head = program([START, *helper(11), ("cosine", (12,))])
    ((sources, what),) = causes(base, head)
    assert sources == ("p/t.py:12 (base)",)
    assert what.startswith("call gone: ")


def test_lines_shifted_by_the_edit_are_paired() -> None:
    base = program([START, *helper(11), ("sine", (12,)), *helper(13), END])
    calls = [*helper(12), *helper(14), ("sine", (15,)), *helper(16)]
    head = program([START, *calls, ("cosine", (23,))])
    ((sources, what),) = causes(base, head)
    assert sources in [("p/t.py:12",), ("p/t.py:14",)]
    assert what.startswith("new call: ")


@pytest.mark.parametrize(("few", "many"), [(1, 2), (2, 3), (4, 6)])
def test_a_line_that_calls_more_often_is_the_cause(few: int, many: int) -> None:
    """As a loop of Python, or another call on the line of one."""
    base = program([START, *helper(11), *few * helper(12), END])
    head = program([START, *helper(11), *many * helper(12), END])
    for one, other, way in ((base, head, "added"), (head, base, "removed")):
        ((sources, what),) = causes(one, other)
        assert sources == ("p/t.py:12",)
        assert what.startswith("another number of calls: ")
        assert what.endswith(f" {way} in {LINES}")


def test_the_outermost_of_nested_calls_is_the_cause() -> None:
    layer = [*helper(5, 12), *helper(6, 12), ("exponential", (7, 12))]
    base, head = (program([START, *count * layer, END]) for count in (2, 3))
    assert [sources for sources, _ in causes(base, head)] == [("p/t.py:12",)]


def test_another_function_called_on_a_line_is_the_cause_at_the_line() -> None:
    base = program([START, *helper(11), ("exponential", (5, 12)), ("exponential", (5, 13)), END])
    head = program([START, *helper(11), *helper(12), ("exponential", (5, 13)), END])
    assert [sources for sources, _ in causes(base, head)] == [("p/t.py:12",)]


def test_one_of_two_functions_that_a_line_calls_is_the_cause_at_the_line() -> None:
    both = [*helper(12), ("exponential", (5, 12)), ("log", (6, 12))]
    base = program([START, *helper(11), *both, END])
    head = program([START, *helper(11), *both[2:], END])
    gone = f"call gone: negate, tanh removed in {LINES}"
    assert causes(base, head) == [(("p/t.py:12",), gone)]
    new = f"new call: negate, tanh added in {LINES}"
    assert causes(head, base) == [(("p/t.py:12",), new)]


def test_a_function_that_makes_other_operations_was_edited() -> None:
    """As the stacks of operations that JAX traced once name another line."""
    base = program([START, *helper(11), ("exponential", (5, 12)), ("log", (6, 12)), END])
    head = program([START, *helper(11), ("log", (5,)), ("log", (6, 12)), END])
    assert ("p/t.py:5",) in [sources for sources, _ in causes(base, head)]


def test_another_name_of_a_function_is_no_change() -> None:
    base = program([START, *helper(11), END])
    assert causes(base, base.replace('"helper"', '"block"')) == []


def test_an_edited_function_is_the_cause_itself() -> None:
    def edited(*callers: int) -> list[Step]:
        return [*helper(*callers), ("exponential", (3, *callers))]

    base = program([START, *helper(11), *helper(12), END])
    head = program([START, *edited(11), *edited(12), END])
    assert causes(base, head) == [(("p/t.py:3",), "2 exponential added")]


def test_a_function_whose_operations_all_calls_repeat_was_edited() -> None:
    def stacks(count: int) -> Stacks:
        return {
            (f"t.py:{line}", f"t.py:{caller}"): Counter({"dot": count, "tanh": count})
            for line in (2, 3)
            for caller in (11, 12)
        }

    names = {f"t.py:{line}": f"t.py:{line}" for line in (2, 3)}
    changed = call_changes(stacks(1), stacks(2), Counter(), names, (), {})
    assert (changed.callers, changed.lines) == ({}, frozenset())


def test_a_line_edited_beside_a_new_call_is_a_cause_too() -> None:
    base = program([START, *helper(11), END])
    edited = [START, *helper(11), *helper(12), END, ("exponential", (20,))]
    assert [sources for sources, _ in causes(base, program(edited))] == [
        ("p/t.py:12",),
        ("p/t.py:20",),
    ]


def test_frames_that_another_version_of_jax_prints_are_no_new_calls() -> None:
    base = program([START, *helper(11), ("exponential", (2,)), ("log", (2,)), END])
    head = program([START, *helper(11), ("log", (2, 12)), ("exponential", (2, 12)), END])
    assert not [what for _, what in causes(base, head) if "call" in what]


def test_sums_of_gradients_are_no_cause() -> None:
    def summed(steps: Iterable[Step]) -> str:
        text = program([*steps, ("add", (20,))])
        return text.replace("jit(f)/add", "jit(f)/transpose(jvp())/add_any")

    steps = [START, *helper(11), END]
    head = summed([START, *helper(11), *helper(12), END])
    assert [sources for sources, _ in causes(program(steps), head)] == [("p/t.py:12",)]


def test_broadcasts_of_constants_are_no_cause_beside_others() -> None:
    base = program([START, *helper(11), END])
    head = [START, *helper(11), ("exponential", (12,)), ("broadcast", (20,)), END]
    assert [sources for sources, _ in causes(base, program(head))] == [("p/t.py:12",)]
    only = program([START, *helper(11), ("broadcast", (20,)), END])
    assert [sources for sources, _ in causes(base, only)] == [("p/t.py:20",)]
