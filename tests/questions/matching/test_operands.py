"""Operands that were added, removed or changed."""

from __future__ import annotations

import pytest

from hlo_lens.questions.matching.program_diff import ProgramDiff, program_diff
from tests.questions.matching.programs import parsed

HEAD = """HloModule m

ENTRY main {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
"""


def between(before: str, after: str) -> ProgramDiff:
    return program_diff(parsed(f"{HEAD}{before}\n}}\n"), parsed(f"{HEAD}{after}\n}}\n"))


def changes_between(before: str, after: str) -> list[str]:
    """Return the changes, which must be the same in the mirrored comparison."""
    forth, back = between(before, after), between(after, before)
    assert forth.changed == back.changed == len(forth.edits) == len(back.edits)
    assert forth.unchanged == back.unchanged
    return [change for group in forth.groups for change in group.changes]


ELEMENTS = """  t = (f32[8], f32[8]) tuple(a, b)
  o = (f32[8], f32[8]) opt-barrier(t)
  g = f32[8] get-tuple-element(o), index=0
  h = f32[8] get-tuple-element(o), index=1
  ROOT r = f32[8] custom-call(g, h), custom_call_target="f\""""

TOKENS = """  i = ((f32[8], token[]), (f32[8], token[])) custom-call(a), custom_call_target="two"
  i0 = (f32[8], token[]) get-tuple-element(i), index=0
  k0 = token[] get-tuple-element(i0), index=1
  i1 = (f32[8], token[]) get-tuple-element(i), index=1
  k1 = token[] get-tuple-element(i1), index=1
  all = token[] after-all(k0, k1)
  ROOT r = f32[8] custom-call(b, all), custom_call_target="f\""""

TWICE = '  ROOT r = f32[8] custom-call(a, a), custom_call_target="f"'


@pytest.mark.parametrize(
    ("before", "operands", "fewer", "change"),
    [
        (ELEMENTS, "(g, h)", "(h)", "operands opt-barrier o#0 -> (none)"),
        (TOKENS, "(k0, k1)", "(k1)", "operands custom-call i#0#1 -> (none)"),
        (TWICE, "(a, a)", "(a)", "operands parameter a -> (none)"),
    ],
    ids=["element of a tuple", "element of an element", "given twice"],
)
def test_removed_operand_is_reported_beside_changed_ones(
    before: str, operands: str, fewer: str, change: str
) -> None:
    assert changes_between(before, before.replace(operands, fewer)) == [change]


def test_new_elements_of_a_tuple_are_reported_once() -> None:
    before = """  t = (f32[8], f32[8]) custom-call(a, b), custom_call_target="g"
  x = f32[8] get-tuple-element(t), index=0
  y = f32[8] get-tuple-element(t), index=1
  ROOT r = f32[8] custom-call(x, y), custom_call_target="f\""""
    after = before.replace("(f32[8], f32[8])", "(f32[8], f32[8], f32[8])").replace(
        "  ROOT r = f32[8] custom-call(x, y)",
        "  z = f32[8] get-tuple-element(t), index=2\n  ROOT r = f32[8] custom-call(x, y, z)",
    )
    found = between(before, after)
    assert (found.changed, found.added, found.removed) == (1, 1, 0)
    assert [c for group in found.groups for c in group.changes] == ["tuple elements 2 -> 3"]


RANDOM = "rng(a, b), distribution=rng_uniform"
EFFECT = 'custom-call(a, b), custom_call_target="f", custom_call_has_side_effect=true'


@pytest.mark.parametrize("made", [RANDOM, EFFECT], ids=["rng", "side effect"])
@pytest.mark.parametrize("through", ["", "exponential"])
def test_one_random_number_for_another_is_a_change(made: str, through: str) -> None:
    before = f"  n1 = f32[8] {made}\n  n2 = f32[8] {made}\n"
    if through:
        before += f"  x = f32[8] {through}(n1)\n  y = f32[8] {through}(n2)\n"
    x, y = ("x", "y") if through else ("n1", "n2")
    before += f"  ROOT r = f32[8] subtract({x}, {y})"
    after = before.replace(f"({x}, {y})", f"({x}, {x})")
    assert [c for group in between(before, after).groups for c in group.changes]
    lines = before.splitlines()
    other_order = "\n".join([lines[1], lines[0], *lines[2:]])
    assert between(before, other_order).identical


CIRCLE = """HloModule m

one {{
  p = f32[8] parameter(0)
  ROOT c = f32[8] call(p), to_apply={}
}}

two {{
  q = f32[8] parameter(0)
  s = f32[8] sine(q)
  ROOT d = f32[8] call(s), to_apply=one
}}

ENTRY main {{
  ROOT a = f32[8] parameter(0)
}}
"""


@pytest.mark.parametrize("called", ["one", "two"])
def test_unused_computations_in_a_cycle_are_the_same(called: str) -> None:
    text = CIRCLE.format(called)
    assert program_diff(parsed(text), parsed(text)).identical
    other = program_diff(parsed(text), parsed(text.replace("sine", "cosine")))
    assert not other.identical


FUSED = """HloModule m

fused {
  p = f32[8] parameter(0)
  ROOT s = f32[8] subtract(p, p)
}

ENTRY main {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  ROOT r = f32[8] fusion(a, b), kind=kLoop, calls=fused
}
"""


def test_a_fusion_that_takes_its_other_operand_is_changed() -> None:
    other = FUSED.replace("p = f32[8] parameter(0)", "p = f32[8] parameter(1)")
    assert not program_diff(parsed(FUSED), parsed(other)).identical
    both = other.replace("fusion(a, b)", "fusion(b, a)")
    assert program_diff(parsed(FUSED), parsed(both)).identical


SPELLED = """  %t = (f32[8], f32[8]) custom-call(%a, %b), custom_call_target="g"
  %g = f32[8] get-tuple-element(%t), index=0
  %n = f32[8] custom-call(%g), custom_call_target="f", custom_call_has_side_effect=true
  ROOT %r = f32[8] get-tuple-element(%t), index=1"""


def test_elements_that_only_one_text_prints_are_no_change_beside_a_root_that_both_print() -> None:
    compact = SPELLED.replace("custom-call(%g)", "custom-call(%t#0)").replace(
        "  %g = f32[8] get-tuple-element(%t), index=0\n", ""
    )
    for before, after in ((SPELLED, compact), (compact, SPELLED)):
        found = between(before, after)
        assert found.identical
        assert found.left_out_base + found.left_out_head == 1


def test_an_element_that_was_added_is_a_change_where_both_texts_print_elements() -> None:
    more = "  %h = f32[8] get-tuple-element(%t), index=1, sharding={replicated}\n  %n"
    found = between(SPELLED, SPELLED.replace("  %n", more))
    assert (found.added, found.left_out_head) == (1, 0)
    used = SPELLED.replace("custom-call(%g)", "custom-call(%r)").replace(
        "  %g = f32[8] get-tuple-element(%t), index=0\n", ""
    )
    lines = used.splitlines()
    used = "\n".join([lines[0], lines[2], lines[1]])  # operands may not come later
    found = between(used, used.replace("  ROOT", more.replace("  %n", "  ROOT")))
    assert (found.added, found.left_out_head) == (1, 0)
