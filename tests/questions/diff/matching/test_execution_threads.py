"""Execution threads are part of the program, and a change is reported once."""

from __future__ import annotations

import pytest

from tests.questions.diff.matching.programs import changes_between

TEXT = """HloModule m

g {
  q = f32[8] parameter(0)
  ROOT t = f32[8] negate(q)
}THREAD

f {
  p = f32[8] parameter(0)
  ROOT s = f32[8] call(p), to_apply=g
}THREAD

ENTRY main {
  a = f32[8] parameter(0)
  c = ((f32[8]), f32[8], u32[]) async-start(a), START calls=f
  ROOT r = f32[8] async-done(c), calls=f
}
"""


def text(thread: str, *, is_said: bool = False) -> str:
    said = f'async_execution_thread="{thread}",' if is_said and thread else ""
    printed = f', execution_thread="{thread}"' if thread else ""
    return TEXT.replace("THREAD", printed).replace("START", said)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("host", "sparsecore", 'execution_thread "host" -> "sparsecore"'),
        ("host", "", 'execution_thread "host" -> (none)'),
        ("", "host", 'execution_thread (none) -> "host"'),
        ("", "main", ""),
    ],
)
def test_another_thread_is_one_change(before: str, after: str, change: str) -> None:
    assert changes_between(text(before), text(after)) == ([change] if change else [])


def test_change_of_thread_is_reported_at_the_caller_that_names_it() -> None:
    before, after = text("host", is_said=True), text("sparsecore", is_said=True)
    assert changes_between(before, after) == ['async_execution_thread "host" -> "sparsecore"']


def test_threads_that_only_the_caller_prints_are_no_change() -> None:
    before = text("host", is_said=True)
    assert changes_between(before, before.replace(', execution_thread="host"', "")) == []


def test_other_attributes_of_a_computation_are_compared() -> None:
    assert changes_between(text(""), text("").replace("}\n\nf", "}, made_up=7\n\nf")) == [
        "made_up (none) -> 7"
    ]
