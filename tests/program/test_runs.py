"""Run counts of computations: loops, conditionals, fusions, several callers."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.hlo.query import tabulate
from hlo_lens.program.runs import (
    ONCE,
    CallCounts,
    Runs,
    SumBounds,
    SumPart,
    bounded_sum,
)

KNOWN = 'backend_config={"known_trip_count":{"n":"5"}}'
TEXT = f"""HloModule m

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

fused {{
  ROOT p = f32[8] parameter(0)
}}

branch {{
  p = f32[8] parameter(0)
  ROOT f = f32[8] fusion(p), kind=kLoop, calls=fused
}}

body {{
  p = f32[8] parameter(0)
  i = s32[] constant(0)
  ROOT c = f32[8] conditional(i, p, p), branch_computations={{branch, branch}}
}}

open_body {{
  p = f32[8] parameter(0)
  ROOT w = f32[8] while(p), condition=cond, body=body, {KNOWN}
}}

cond {{
  p = f32[8] parameter(0)
  ROOT t = pred[] constant(true)
}}

open_cond {{
  p = f32[8] parameter(0)
  ROOT t = pred[] constant(true)
}}

ENTRY main {{
  x = f32[8] parameter(0)
  w = f32[8] while(x), condition=open_cond, body=open_body
  v = f32[8] while(w), condition=cond, body=body, {KNOWN}
  z = f32[] constant(0)
  ROOT r = f32[] reduce(v, z), dimensions={{0}}, to_apply=add
}}
"""


def counts() -> CallCounts:
    return CallCounts(tabulate(hlo_lens.parse_hlo(TEXT)))


def test_entry_runs_once() -> None:
    assert counts().of("main") == ONCE


def test_loop_with_unknown_trip_count_makes_runs_unknown() -> None:
    found = counts()
    assert found.of("open_body") == Runs(times=None, loop_path=("w",))
    assert found.of("body") == Runs(times=None, loop_path=("w", "w"))


def test_condition_runs_once_more_than_the_body() -> None:
    runs = counts().of("cond")
    assert runs.times is None


def test_branches_are_at_most() -> None:
    runs = counts().of("branch")
    assert runs.is_at_most


def test_fusions_run_with_their_computation_and_reducers_are_not_counted() -> None:
    found = counts()
    assert found.of("fused") == found.of("branch")
    assert found.of("add").times is None
    assert found.sites("add") == []


def test_call_sites_have_roles_and_branches() -> None:
    found = counts()
    sites = [(site.caller.name, site.role, site.branch) for site in found.sites("branch")]
    assert sites == [("c", "branch", 0), ("c", "branch", 1)]
    roles = {
        (site.caller.name, site.role) for name in ("body", "cond") for site in found.sites(name)
    }
    assert roles == {("w", "body"), ("v", "body"), ("w", "condition"), ("v", "condition")}


CALLED = """HloModule m

f {
  ROOT p = f32[8] parameter(0)
}

first {
  p = f32[8] parameter(0)
  ROOT c = f32[8] call(p), to_apply=f
}

second {
  p = f32[8] parameter(0)
  ROOT c = f32[8] call(p), to_apply=f
}

ENTRY main {
  i = pred[] parameter(0)
  x = f32[8] parameter(1)
  ROOT r = f32[8] conditional(i, x, x), true_computation=first, false_computation=OTHER
}
"""


def test_computation_that_all_branches_call_runs_once() -> None:
    found = CallCounts(tabulate(hlo_lens.parse_hlo(CALLED.replace("OTHER", "second"))))
    assert found.of("f") == ONCE
    assert found.of("first").branches == ("main/r:0/2",)


def test_computation_that_one_branch_calls_keeps_the_branch() -> None:
    text = CALLED.replace("OTHER", "add").replace("second", "add")
    text = text.replace("ROOT c = f32[8] call(p), to_apply=f", "ROOT c = f32[8] negate(p)", 2)
    text = text.replace("ROOT c = f32[8] negate(p)", "ROOT c = f32[8] call(p), to_apply=f", 1)
    runs = CallCounts(tabulate(hlo_lens.parse_hlo(text))).of("f")
    assert (runs.times, runs.branches) == (1, ("main/r:0/2",))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], (0, 0)),
        ([SumPart((), 3), SumPart((), 4)], (7, 7)),
        ([SumPart((), 3), SumPart((), 4, is_exact=False)], (3, 7)),
        ([SumPart(("e/c:0/2",), 3)], (0, 3)),
        ([SumPart(("e/c:0/2",), 3), SumPart(("e/c:1/2",), 5), SumPart((), 1)], (4, 6)),
        ([SumPart(("e/c:0/2",), 5), SumPart(("e/c:1/2",), 5)], (5, 5)),
        ([SumPart(("e/c:0/3",), 5), SumPart(("e/c:1/3",), 5)], (0, 5)),
        ([SumPart(("e/c:0/2",), 5), SumPart(("e/d:0/2",), 5)], (0, 10)),
        (
            [
                SumPart(("e/c:0/2",), 1),
                SumPart(("e/c:0/2", "b/d:0/2"), 2),
                SumPart(("e/c:0/2", "b/d:1/2"), 8),
                SumPart(("e/c:1/2",), 4),
            ],
            (3, 9),
        ),
    ],
)
def test_one_branch_of_each_conditional_counts(
    parts: list[SumPart], expected: tuple[int, int]
) -> None:
    assert bounded_sum(parts) == SumBounds(*expected)
