"""Trip counts: printed, derived in all forms, or unknown with a reason."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from hlo_lens.program.trip_counts import TripCount, count_true, printed_trip_count, trip_counts
from tests.questions.texts import table_of

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = """
body {
  s = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT out = (s32[], s32[], f32[4]) tuple(next, n, x)
}
"""
COND = """
cond {
  s = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  five = s32[] constant(5)
  ROOT less = pred[] compare(i, five), direction=LT
}
"""
ENTRY = """
ENTRY main {
  x = f32[4] parameter(0)
  m = s32[] parameter(1)
  zero = s32[] constant(0)
  bound = s32[] constant(9)
  init = (s32[], s32[], f32[4]) tuple(zero, bound, x)
  ROOT loop = (s32[], s32[], f32[4]) while(init), condition=cond, body=body
}
"""


def _loops(body: str = BODY, cond: str = COND, entry: str = ENTRY) -> tuple[TripCount, ...]:
    return trip_counts(table_of(f"HloModule m\n{body}\n{cond}\n{entry}")).loops


def _count(body: str = BODY, cond: str = COND, entry: str = ENTRY) -> int | None:
    (loop,) = _loops(body, cond, entry)
    assert (loop.trip_source == "derived") == (loop.trip_count is not None)
    return loop.trip_count


def test_all_facts_of_one_loop() -> None:
    assert _loops() == (
        TripCount(
            loop="loop",
            computation="main",
            trip_count=5,
            trip_source="derived",
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("direction=LT", "direction=LE", 6),
        ("direction=LT", "direction=NE", 5),
        ("direction=LT", "direction=GT", 0),
        ("compare(i, five), direction=LT", "compare(five, i), direction=GT", 5),
        ("compare(i, five), direction=LT", "compare(five, i), direction=GE", 6),
        ("compare(i, five)", "compare(i, n)", 9),
        ("constant(5)", "constant(-3)", 0),
        ("constant(5)", "constant(0)", 0),
        ("compare(i, five)", "compare(five, five)", 0),
    ],
)
def test_condition_in_all_directions(old: str, new: str, count: int) -> None:
    assert old in COND
    assert _count(cond=COND.replace(old, new)) == count


@pytest.mark.parametrize(
    ("step", "count"),
    [
        ("one = s32[] constant(1)\n  next = s32[] add(one, i)", 5),
        ("one = s32[] constant(2)\n  next = s32[] add(i, one)", 3),
        ("one = s32[] constant(-1)\n  next = s32[] subtract(i, one)", 5),
        ("c = s32[] constant(1)\n  one = s32[] copy(c)\n  next = s32[] add(i, one)", 5),
        ("one = s64[] constant(1)\n  t = s32[] convert(one)\n  next = s32[] add(i, t)", 5),
        ("one = s32[] constant(1)\n  j = s32[] add(i, one)\n  next = s32[] add(j, one)", 3),
        ("one = s32[] constant(1)\n  next = s32[] add(s#0, one)", 5),
        ("one = s32[1] constant({1})\n  b = s32[] bitcast(one)\n  next = s32[] add(i, b)", 5),
    ],
)
def test_step_in_all_forms(step: str, count: int) -> None:
    old = "one = s32[] constant(1)\n  next = s32[] add(i, one)"
    assert old in BODY
    assert _count(body=BODY.replace(old, step)) == count


def test_counter_that_goes_down() -> None:
    body = BODY.replace("add(i, one)", "subtract(i, one)")
    cond = COND.replace("direction=LT", "direction=GT")
    entry = ENTRY.replace("constant(0)", "constant(11)")
    assert _count(body, cond, entry) == 6
    assert _count(body, cond.replace("GT", "GE"), entry) == 7


def test_unsigned_counter_that_goes_down_by_adding_the_largest_number() -> None:
    body = BODY.replace("s32[] constant(1)", "u32[] constant(4294967295)").replace("s32", "u32")
    cond = COND.replace("s32", "u32").replace("constant(5)", "constant(0)").replace("LT", "NE")
    entry = ENTRY.replace("s32", "u32").replace("constant(0)", "constant(7)")
    assert _count(body, cond, entry) == 7


def test_compact_tuple_elements() -> None:
    cond = """
cond {
  s = (s32[], s32[], f32[4]) parameter(0)
  ROOT less = pred[] compare(s#0, s#1), direction=LT
}
"""
    assert _count(cond=cond) == 9


def test_condition_and_body_that_are_fusions() -> None:
    cond = """
compare_them {
  p = s32[] parameter(0)
  q = s32[] parameter(1)
  ROOT less = pred[] compare(q, p), direction=LT
}

cond {
  s = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  four = s32[] constant(4)
  ROOT f = pred[] fusion(four, i), kind=kLoop, calls=compare_them
}
"""
    body = """
step {
  p = s32[] parameter(0)
  c = s32[] constant(2)
  ROOT a = s32[] add(c, p)
}
""" + BODY.replace("add(i, one)", "fusion(i), kind=kLoop, calls=step")
    assert _count(body, cond) == 2


def test_bound_hoisted_through_the_tuples_of_two_loops() -> None:
    text = """HloModule m

inner_body {
  s = (s32[], s32[], s32[]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  step = s32[] get-tuple-element(s), index=2
  next = s32[] add(j, step)
  ROOT out = (s32[], s32[], s32[]) tuple(next, n, step)
}

inner_cond {
  s = (s32[], s32[], s32[]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT less = pred[] compare(j, n), direction=LT
}

outer_body {
  s = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  step = s32[] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  init = (s32[], s32[], s32[]) tuple(zero, n, step)
  inner = (s32[], s32[], s32[]) while(init), condition=inner_cond, body=inner_body
  kept = s32[] get-tuple-element(inner), index=1
  next = s32[] add(i, step)
  ROOT out = (s32[], s32[], s32[]) tuple(next, kept, step)
}

outer_cond {
  s = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT less = pred[] compare(i, n), direction=LT
}

ENTRY main {
  zero = s32[] constant(0)
  seven = s32[] constant(7)
  copied = (s32[], s32[], u32[]) copy-start(seven)
  n = s32[] copy-done(copied)
  two = s32[] constant(2)
  init = (s32[], s32[], s32[]) tuple(zero, n, two)
  ROOT outer = (s32[], s32[], s32[]) while(init), condition=outer_cond, body=outer_body
}
"""
    found = {loop.loop: loop.trip_count for loop in trip_counts(table_of(text)).loops}
    assert found == {"inner": 4, "outer": 4}


def _both(sides: str) -> str:
    """Return a condition that is an ``and`` of the counter below 5 and of another comparison."""
    first = "less = pred[] compare(i, five), direction=LT"
    return COND.replace(
        "ROOT less = pred[] compare(i, five), direction=LT",
        f"{first}\n  other = pred[] {sides}\n  ROOT both = pred[] and(less, other)",
    )


@pytest.mark.parametrize(
    ("other", "bound", "count"),
    [
        ("compare(i, n), direction=LT", 9, 5),
        ("compare(i, n), direction=LT", 3, 3),
        ("compare(n, i), direction=GT", 3, 3),
        ("compare(n, n), direction=LT", 9, 0),
        ("copy(less)", 3, 5),
        ("compare(i, i), direction=EQ", 9, None),
    ],
)
def test_condition_of_two_comparisons(other: str, bound: int, count: int | None) -> None:
    entry = ENTRY.replace("constant(9)", f"constant({bound})")
    assert _count(cond=_both(other), entry=entry) == count


@pytest.mark.parametrize(
    "other", ["compare(x, x), direction=LT", "not(done)", "compare(m, m), direction=NE"]
)
def test_condition_with_a_test_that_is_not_counted_has_a_bound(other: str) -> None:
    (loop,) = _loops(cond=_both(other))
    assert (loop.trip_count, loop.trips_at_most, loop.text) == (None, 5, "x<=5")
    assert loop.reason


def test_condition_in_a_choice_has_no_bound() -> None:
    (loop,) = _loops(cond=_both("not(done)").replace(" and(", " or("))
    assert (loop.trip_count, loop.trips_at_most, loop.text) == (None, None, "x?")


def test_condition_of_two_comparisons_in_a_fusion() -> None:
    inside = """
both {
  k = s32[] parameter(0)
  seven = s32[] constant(7)
  more = pred[] compare(k, seven), direction=LT
  ROOT and = pred[] and(more, more)
}
"""
    cond = COND.replace("compare(i, five), direction=LT", "fusion(i), kind=kLoop, calls=both")
    assert _count(body=BODY + inside, cond=cond) == 7


AFTER = """
body_2 {
  s2 = (s32[], s32[]) parameter(0)
  k = s32[] get-tuple-element(s2), index=0
  n2 = s32[] get-tuple-element(s2), index=1
  one_2 = s32[] constant(1)
  next_2 = s32[] subtract(k, one_2)
  ROOT out_2 = (s32[], s32[]) tuple(next_2, n2)
}

cond_2 {
  s3 = (s32[], s32[]) parameter(0)
  k3 = s32[] get-tuple-element(s3), index=0
  low = s32[] constant(0)
  ROOT more = pred[] compare(k3, low), direction=GT
}
"""


@pytest.mark.parametrize(("start", "trips"), [("zero", 5), ("three", 2), ("m", None)])
def test_bound_that_a_loop_before_counted(start: str, trips: int | None) -> None:
    entry = ENTRY.replace("tuple(zero, bound, x)", f"tuple({start}, bound, x)")
    entry = entry.replace("zero = ", "three = s32[] constant(3)\n  zero = ")
    entry = entry.replace("ROOT loop", "loop").replace(
        "body=body\n",
        "body=body\n  last = s32[] get-tuple-element(loop), index=0\n"
        "  init_2 = (s32[], s32[]) tuple(last, bound)\n"
        "  ROOT back = (s32[], s32[]) while(init_2), condition=cond_2, body=body_2\n",
    )
    forward, back = _loops(entry=AFTER + entry)
    assert forward.trip_count == trips
    assert back.trip_count == (None if trips is None else 5)
    assert back.reason == (None if trips else "the loop loop changes it")


@pytest.mark.parametrize("result", ["copy(less)", "and(less, less)"])
def test_condition_in_a_circle_has_no_count(result: str) -> None:
    (loop,) = _loops(cond=COND.replace("compare(i, five), direction=LT", result))
    assert loop.trip_count is None
    assert loop.reason == "the condition is too long"


def test_loop_that_runs_itself_has_no_count() -> None:
    # the carried tuple of the loop in the body is not in the text, and its trips need its own
    (loop,) = _loops(
        body=BODY.replace("ROOT out", "out").replace(
            "next, n, x)\n",
            "next, n, x)\n  ROOT again = (s32[], s32[], f32[4]) while(init), "
            "condition=cond, body=body\n",
        ),
        entry="",
    )
    assert loop.trip_count is None


@pytest.mark.parametrize("steps", [2, 60])
def test_sums_of_sums_are_followed_once(steps: int) -> None:
    sums = [f"  n{k} = s32[] add(n{k - 1}, n{max(k - 2, 0)})\n" for k in range(1, steps)]
    count = _count(
        cond=COND.replace("five =", "n0 =")
        .replace("  ROOT", f"{''.join(sums)}  ROOT")
        .replace("(i, five)", f"(i, n{steps - 1})")
    )
    numbers = [5, 10]
    while len(numbers) < steps:
        numbers.append((numbers[-1] + numbers[-2] + 2**31) % 2**32 - 2**31)
    assert count == max(numbers[steps - 1], 0)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("tuple(zero, bound, x)", "tuple(m, bound, x)", "it is argument 1 of the program"),
        ("compare(i, five)", "compare(x, x)", "compares what is no integer"),
        ("add(i, one)", "multiply(i, one)", "multiplies what changes"),
        ("add(i, one)", "negate(i)", "it depends on next (negate)"),
        ("tuple(next, n, x)", "tuple(n, next, x)", "not a sum of itself and a constant"),
        ("constant(1)", "constant(0)", "overflows"),
        ("direction=LT", "direction=GT", None),
        ("ROOT less = pred[]", "less = pred[]", "no comparison"),
    ],
)
def test_unknown_has_a_reason(old: str, new: str, reason: str | None) -> None:
    text = f"{BODY}\n{COND}\n{ENTRY}"
    changed = text.replace(old, new)
    if old.startswith("compare"):
        changed = changed.replace(
            "five = s32", "x = f32[4] get-tuple-element(s), index=2\n  five = s32"
        )
    if old.startswith("ROOT"):
        changed = changed.replace(
            "direction=LT\n", "direction=LT\n  ROOT all = pred[] or(less, less)\n"
        )
    (loop,) = trip_counts(table_of(f"HloModule m\n{changed}")).loops
    if reason is None:
        assert (loop.trip_count, loop.reason) == (0, None)
    else:
        assert loop.trip_count is None
        assert reason in (loop.reason or "")


@pytest.mark.parametrize(
    ("config", "count"),
    [
        ('{"known_trip_count":{"n":"4"},"known_init_step":{"init":"0","step":"1"}}', 4),
        ('{"dynamic_variables":[], "known_trip_count": {"n": "17"}}', 17),
        (r'"{\"known_trip_count\":{\"n\":\"3\"}}"', 3),
        ('{"known_trip_count":{"n":"0"}}', 0),
        ('{"known_trip_count":{}}', 0),
        ('{"known_induction_variable":{"tuple_index":"0"}}', None),
        ("", None),
    ],
)
def test_printed_count(config: str, count: int | None) -> None:
    assert printed_trip_count(config) == count


def test_printed_count_is_preferred_to_the_derived_one() -> None:
    config = 'body=body, backend_config={"known_trip_count":{"n":"4"}}'
    (loop,) = _loops(entry=ENTRY.replace("body=body", config))
    assert (loop.trip_count, loop.trip_source) == (4, "printed")


HOLDS: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "NE": operator.ne,
}


@given(
    st.integers(-128, 127),
    st.integers(-40, 40),
    st.sampled_from(["LT", "LE", "GT", "GE", "NE"]),
    st.integers(-128, 127),
)
def test_count_equals_that_of_running_the_loop(
    start: int, step: int, direction: str, bound: int
) -> None:
    holds = HOLDS[direction]
    counter, expected = start, None
    for trips in itertools.count():
        if not holds(counter, bound):
            expected = trips
            break
        counter += step
        if not -128 <= counter <= 127 or trips > 256:
            break
    assert count_true(start, step, direction, bound, (-128, 127)) == expected


# ---- counts that change with the loop around ---------------------------------------------------

OUTER = """
outer_body {{
  s = (s32[], s32[], s32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  t = s32[] get-tuple-element(s), index=2
  change = s32[] constant({change})
  zero = s32[] constant(0)
  later = s32[] add(k, change)
  init = (s32[], s32[], s32[]) tuple({start}, {bound}, t)
  loop = (s32[], s32[], s32[]) while(init), condition=cond, body=body
  sum = s32[] get-tuple-element(loop), index=2
  ROOT out = (s32[], s32[], s32[]) tuple(later, n, sum)
}}

outer_cond {{
  s = (s32[], s32[], s32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT less = pred[] compare(k, n), direction=LT
}}
"""
INNER = """
body {{
  s = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  b = s32[] get-tuple-element(s), index=1
  t = s32[] get-tuple-element(s), index=2
  step = s32[] constant({step})
  one = s32[] constant(1)
  next = s32[] add(i, step)
  more = s32[] add(t, one)
  ROOT out = (s32[], s32[], s32[]) tuple(next, b, more)
}}

cond {{
  s = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  b = s32[] get-tuple-element(s), index=1
  ROOT less = pred[] compare(i, b), direction=LT
}}
"""
NEST_ENTRY = """
ENTRY main {{
  m = s32[] parameter(0)
  first = s32[] constant({first})
  last = s32[] constant({last})
  none = s32[] constant(0)
  init = (s32[], s32[], s32[]) tuple({begin}, last, none)
  ROOT outer = (s32[], s32[], s32[]) while(init), condition=outer_cond, body=outer_body
}}
"""
NEST = f"HloModule m\n{INNER}\n{OUTER}\n{NEST_ENTRY}"
NEST_VALUES = {"start": "zero", "bound": "k", "begin": "first"}


def _nest(text: str = NEST, **values: object) -> tuple[TripCount, TripCount]:
    """Return the trip counts of the inner and the outer loop of `NEST`."""
    found = trip_counts(table_of(text.format(**{**NEST_VALUES, **values}))).loops
    inner, outer = sorted(found, key=lambda trip: trip.computation != "outer_body")
    return inner, outer


def test_bound_that_is_the_counter_of_the_loop_around() -> None:
    inner, outer = _nest(first=0, last=5, change=1, step=1)
    assert outer.trip_count == 5
    assert outer.trips_of_outer_run is None
    assert inner.trip_count is None
    assert inner.trips_of_outer_run == 0 + 1 + 2 + 3 + 4
    assert inner.around == "main"
    assert inner.reason == "it is 0 to 4, by the trip of outer around it"


@given(
    first=st.integers(-9, 9),
    length=st.integers(1, 20),
    change=st.integers(1, 4),
    step=st.integers(1, 4),
    ends=st.sampled_from([("zero", "k"), ("k", "n"), ("k", "zero"), ("zero", "later")]),
)
def test_sum_equals_that_of_running_both_loops(
    first: int, length: int, change: int, step: int, ends: tuple[str, str]
) -> None:
    last = first + length
    inner, outer = _nest(
        first=first, last=last, change=change, step=step, start=ends[0], bound=ends[1]
    )
    total = trips = 0
    k = first
    while k < last:
        values = {"zero": 0, "k": k, "n": last, "later": k + change}
        i = values[ends[0]]
        while i < values[ends[1]]:
            i += step
            total += 1
        k += change
        trips += 1
    assert outer.trip_count == trips
    assert inner.trips_of_outer_run == total


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tuple(later, n, sum)", "tuple(sum, n, sum)"),  # the loop around has no count
        ("tuple({begin}, last, none)", "tuple(m, last, none)"),
        ("tuple(next, b, more)", "tuple(next, more, more)"),  # the bound changes in the loop
        ("{bound}, t)", "t, t)"),  # the bound changes otherwise than by a constant
        ("constant({last})", "constant(2147483647)"),  # too many trips to count
    ],
)
def test_no_sum_of_what_does_not_change_by_a_constant(old: str, new: str) -> None:
    assert old in NEST
    inner, _ = _nest(NEST.replace(old, new), first=0, last=5, change=1, step=1)
    assert inner.trip_count is None
    assert inner.trips_of_outer_run is None
    assert inner.around is None


def test_no_sum_of_a_loop_in_a_branch() -> None:
    branch = """
branch {{
  init = (s32[], s32[], s32[]) parameter(0)
  ROOT loop = (s32[], s32[], s32[]) while(init), condition=cond, body=body
}}
other {{
  ROOT init = (s32[], s32[], s32[]) parameter(0)
}}
"""
    text = NEST.replace("\nouter_body", f"{branch}\nouter_body").replace(
        "while(init), condition=cond, body=body\n  sum",
        "conditional(later, init, init), branch_computations={{branch, other}}\n  sum",
    )
    found = trip_counts(table_of(text.format(**NEST_VALUES, first=0, last=5, change=1, step=1)))
    (inner,) = (trip for trip in found.loops if trip.computation == "branch")
    assert inner.trips_of_outer_run is None
