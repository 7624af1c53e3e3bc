"""Ways of values: through circles, deep nesting and large tuples."""

from __future__ import annotations

from functools import partial

import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.program.origins import Origins
from hlo_lens.program.value_flow import Value, consumers, producers, value_flow
from tests.timing import cpu_seconds

HEADER = "HloModule m, is_scheduled=true\n\n"
ENTRY = f"{HEADER}ENTRY main {{\n  p = f32[8] parameter(0)\n  LINES\n}}\n"

CIRCLES = {
    "send": "s = (f32[8], u32[], token[]) send(s, s), channel_id=1\n"
    "ROOT g = token[] send-done(s), channel_id=1",
    "add": "a = f32[8] add(a, a)\nROOT g = f32[8] all-gather(a), dimensions={0}",
    "copy": "c = f32[8] copy(c)\nROOT g = f32[8] all-gather(c), dimensions={0}",
    "views": "a = f32[8] opt-barrier(b)\nb = f32[8] bitcast(a)\nROOT g = f32[8] all-reduce(a)",
    "element": "e = f32[8] get-tuple-element(e), index=0\nROOT g = f32[8] all-reduce(e)",
    "tuple": "t = (f32[8], f32[8]) tuple(t, p)\ne = f32[8] get-tuple-element(t), index=0\n"
    "ROOT g = f32[8] all-reduce(e)",
    "start": "a = (f32[8], f32[8]) all-gather-start(g), dimensions={0}\n"
    "ROOT g = f32[8] all-gather-done(a)",
    "update": "z = s32[] constant(0)\na = f32[8] dynamic-update-slice(a, a, z)\n"
    "ROOT g = f32[8] all-reduce(a)",
}
"""Instructions that use themselves."""

LOOPS = f"""{HEADER}b {{
  s = (f32[8], s32[]) parameter(0)
  ROOT w = (f32[8], s32[]) while(s), condition=c, body=b
}}

c {{
  s = (f32[8], s32[]) parameter(0)
  x = (f32[8], s32[]) while(s), condition=c, body=b
  i = s32[] get-tuple-element(x), index=1
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}}

ENTRY main {{
  p = f32[8] parameter(0)
  n = s32[] constant(0)
  t = (f32[8], s32[]) tuple(p, n)
  w = (f32[8], s32[]) while(t), condition=c, body=b
  e = f32[8] get-tuple-element(w), index=0
  ROOT g = f32[8] all-gather(e), dimensions={{0}}
}}
"""

CALLS = f"""{HEADER}a {{
  p = f32[8] parameter(0)
  ROOT c = f32[8] call(p), to_apply=b
}}

b {{
  p = f32[8] parameter(0)
  ROOT c = f32[8] call(p), to_apply=a
}}

ENTRY main {{
  p = f32[8] parameter(0)
  c = f32[8] call(p), to_apply=a
  ROOT g = f32[8] all-gather(c), dimensions={{0}}
}}
"""

FUSIONS = f"""{HEADER}a {{
  p = f32[8] parameter(0)
  f = (f32[8], f32[8]) fusion(p), kind=kLoop, calls=a
  e = f32[8] get-tuple-element(f), index=0
  ROOT t = (f32[8], f32[8]) tuple(e, p)
}}

ENTRY main {{
  p = f32[8] parameter(0)
  f = (f32[8], f32[8]) fusion(p), kind=kLoop, calls=a
  e = f32[8] get-tuple-element(f), index=0
  x = f32[8] custom-call(e), custom_call_target="AsyncCollectiveStart"
  ROOT g = f32[8] all-gather(e), dimensions={{0}}
}}
"""
"""Computations that run themselves or each other."""

TWICE = """HloModule m, is_scheduled=true

body {
  t = (f32[8,8], f32[8,8]) parameter(0)
  x = f32[8,8] parameter(0)
  d = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT u = (f32[8,8], f32[8,8]) tuple(x, x)
}

cond {
  t = (f32[8,8], f32[8,8]) parameter(0)
  ROOT l = pred[] constant(false)
}

ENTRY main {
  x = f32[8,8] parameter(0)
  g = f32[8,8] all-gather(x), dimensions={0}
  t = (f32[8,8], f32[8,8]) tuple(g, g)
  ROOT l = (f32[8,8], f32[8,8]) while(t), condition=cond, body=body
}
"""
"""A body with two first parameters, of which one lacks the elements of the other."""

COMMANDS = ("report", "lint", "collectives", "collectives --why g", "memory", "loops", "sharding")


PROGRAMS = {name: ENTRY.replace("LINES", text) for name, text in CIRCLES.items()}


@pytest.mark.parametrize("text", [*PROGRAMS.values(), LOOPS, CALLS, FUSIONS, TWICE])
def test_commands_end_where_values_go_in_circles(text: str) -> None:
    for command in COMMANDS:
        result = CliRunner().invoke(main, [*command.split()[:1], "-", *command.split()[1:]], text)
        assert result.exit_code in (0, 2, 3), (command, result.output)


def nested(depth: int) -> str:
    """Return a program with loops in loops, each of which carries two elements unchanged."""
    state = "(f32[8], s32[])"
    lines = [f"c {{\n  s = {state} parameter(0)\n  ROOT l = pred[] constant(false)\n}}\n\n"]
    for level in range(depth):
        inner = f"w = {state} while(s), condition=c, body=b{level - 1}" if level else "w = "
        inner = inner if level else f"w = {state} copy(s)"
        lines.append(
            f"b{level} {{\n  s = {state} parameter(0)\n  {inner}\n"
            "  x = f32[8] get-tuple-element(w), index=0\n"
            "  i = s32[] get-tuple-element(w), index=1\n"
            f"  ROOT t = {state} tuple(x, i)\n}}\n\n"
        )
    body = (
        f"  p = {state} parameter(0)\n  w = {state} while(p), condition=c, body=b{depth - 1}\n"
        "  ROOT e = f32[8] get-tuple-element(w), index=0\n"
    )
    return f"{HEADER}{''.join(lines)}ENTRY main {{\n{body}}}\n"


def test_elements_that_a_thousand_nested_loops_keep_are_those_before_them() -> None:
    module = hlo_lens.parse_hlo(nested(1000).replace("copy(s)", "opt-barrier(s)"))
    root = module.entry.root
    assert root is not None
    parameter = module.entry.parameters[0]
    assert value_flow(module).definition(Value(root.row)) == Value(parameter.row, (0,))


def test_report_ends_on_thousands_of_nested_loops() -> None:
    text = (
        nested(1500)
        .replace("ROOT e =", "e =")
        .replace("index=0\n}\n", "index=0\n  ROOT g = f32[8] all-reduce(e)\n}\n")
    )
    result = CliRunner().invoke(main, ["report", "-"], text)
    assert result.exit_code == 0, result.output[-2000:]


def test_ends_have_the_element_of_the_start_that_is_the_result() -> None:
    text = ENTRY.replace(
        "LINES",
        """q = f32[4] parameter(1)
  s = ((f32[8], f32[4]), (f32[8], f32[4])) all-gather-start(p, q), dimensions={0}
  d = (f32[8], f32[4]) all-gather-done(s)
  e = f32[4] get-tuple-element(d), index=1
  ROOT c = f32[4] copy(e)""",
    )
    module = hlo_lens.parse_hlo(text)
    rows = {one.name: one.row for one in module.entry.instructions}
    flow = value_flow(module)
    assert flow.maker(Value(rows["c"])) == Value(rows["s"], (1, 1))
    assert [use and use.row for use in flow.array_uses(Value(rows["s"], (1, 1)))] == [None]
    assert list(flow.array_uses(Value(rows["s"], (0, 1)))) == []


def elements(count: int) -> str:
    """Return a program that takes a tuple apart and adds up what it takes."""
    kinds = ", ".join("f32[8]" for _ in range(count))
    lines = [
        f"t = ({kinds}) tuple({', '.join('p' for _ in range(count))})",
        f"b = ({kinds}) opt-barrier(t)",
        *(f"e{n} = f32[8] get-tuple-element(b), index={n}" for n in range(count)),
        *(f"a{n} = f32[8] add(e{n}, p)" for n in range(count)),
        "ROOT r = f32[8] negate(p)",
    ]
    return ENTRY.replace("LINES", "\n  ".join(lines))


def test_time_grows_with_the_elements_of_a_tuple() -> None:
    def find(text: str) -> None:
        module = hlo_lens.parse_hlo(text)
        origins, barrier = Origins(module), module.entry.rows[2]
        for number, row in enumerate(module.entry.rows[3:-1]):
            origins.of_row(row)
            list(origins.steps.users(Value(barrier, (number,))))

    seconds = []
    for count in (500, 4000):
        runs = [partial(find, elements(count)) for _ in range(3)]
        seconds.append(min(map(cpu_seconds, runs)))
    assert seconds[1] < 24 * seconds[0], "8 times is linear, 64 times quadratic"


TEXT = """HloModule m

passed {
  p = f32[8] parameter(0)
  ROOT c = bf16[8] convert(p)
}

product {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  ROOT d = f32[] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}

body {
  s = (f32[8], s32[]) parameter(0)
  w = f32[8] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  g = f32[8] all-gather(w), dimensions={0}
  k = f32[] fusion(g, w), kind=kOutput, calls=product
  ROOT t = (f32[8], s32[]) tuple(w, i)
}

cond {
  s = (f32[8], s32[]) parameter(0)
  ROOT b = pred[] constant(true)
}

ENTRY main {
  x = f32[8] parameter(0)
  e = f32[8] exponential(x)
  f = bf16[8] fusion(e), kind=kLoop, calls=passed
  n = s32[] constant(0)
  a = f32[8] all-reduce(e), to_apply=passed
  init = (f32[8], s32[]) tuple(a, n)
  l = (f32[8], s32[]) while(init), condition=cond, body=body
  ROOT r = f32[8] get-tuple-element(l), index=0
}
"""


@pytest.fixture(name="module", scope="module")
def _module() -> hlo_lens.HloModule:
    return hlo_lens.parse_hlo(TEXT)


def test_producer_is_found_through_a_loop_that_carries_it(module: hlo_lens.HloModule) -> None:
    body = module.computation("body")
    assert body is not None
    gather = body.instruction("g")
    assert gather is not None
    (found,) = producers(gather)
    assert found.name == "a"


def test_consumers_are_products_in_fusions_and_results(module: hlo_lens.HloModule) -> None:
    body = module.computation("body")
    assert body is not None
    gather = body.instruction("g")
    assert gather is not None
    found = consumers(gather)
    assert [near.name for near in found] == ["d"]


def test_fusions_that_only_convert_are_skipped(module: hlo_lens.HloModule) -> None:
    fusion = module.entry.instruction("f")
    assert fusion is not None
    (found,) = producers(fusion)
    assert found.name == "e"
