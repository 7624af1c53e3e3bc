"""Computations: entry, root, parameters, callers."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from tests.hlo_texts import E5, entry, one, read


def test_marked_entry_may_be_at_any_position() -> None:
    module = read(
        "ENTRY e {\n  ROOT a = f32[] constant(1)\n}\n\nf {\n  ROOT b = f32[] constant(1)\n}\n"
    )
    assert module.entry.name == "e"
    assert [c.is_entry for c in module.computations] == [True, False]


def test_last_computation_is_the_entry_if_none_is_marked() -> None:
    module = read(
        "HloModule m\n\ne {\n  ROOT a = f32[] constant(1)\n}\n\nf {\n  b = f32[] constant(1)\n}\n"
    )
    assert module.entry.name == "f"


def test_marked_root_may_be_at_any_position() -> None:
    module = entry("  a = f32[] constant(1)\n  ROOT b = f32[] negate(a)\n  c = f32[] abs(a)")
    assert module.entry.root is not None
    assert module.entry.root.name == "b"
    assert [i.is_root for i in module.entry.instructions] == [False, True, False]


def test_last_instruction_is_the_root_if_none_is_marked() -> None:
    module = entry("  a = f32[] constant(1)\n  b = f32[] negate(a)")
    assert module.entry.root is not None
    assert module.entry.root.name == "b"
    assert [i.is_root for i in module.entry.instructions] == [False, True]


def test_empty_computation_has_no_root() -> None:
    computation = read("HloModule m\n\nENTRY e {\n}\n").entry
    assert computation.root is None
    assert computation.parameters == ()
    assert list(computation.instructions) == []


def test_parameters_are_sorted_by_number_with_unnumbered_ones_last() -> None:
    module = entry(
        "  c = f32[] parameter(10)\n  n = f32[] parameter()\n  b = f32[] parameter(2)\n"
        "  a = f32[] parameter(0)"
    )
    assert [(p.name, p.parameter_number) for p in module.entry.parameters] == [
        ("a", 0),
        ("b", 2),
        ("c", 10),
        ("n", None),
    ]


def test_thread_is_printed_after_the_closing_brace() -> None:
    module = read(
        "HloModule m\n\n%a (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}, "
        'execution_thread="side"\n\nENTRY %e {\n  ROOT %c = f32[] constant(1)\n}\n'
    )
    assert [c.execution_thread for c in module.computations] == ["side", "main"]


def test_computations_are_found_by_name_with_or_without_percent() -> None:
    module = read(E5)
    found = module.computation("body")
    assert found == module.computation("%body") == module.computations[0]
    assert module.computation("nobody") is None


def test_instructions_are_found_by_name_with_or_without_percent() -> None:
    computation = read(E5).entry
    found = computation.instruction("while.1")
    assert found is not None
    assert found == computation.instruction("%while.1")
    assert found.opcode == "while"
    assert computation.instruction("while.2") is None
    assert computation.instruction("state") is None


def test_last_instruction_of_a_repeated_name_is_found() -> None:
    text = "ENTRY e {\n  a = f32[] constant(1)\n  ROOT a = f32[2] constant({1, 2})\n}\n"
    found = parse_hlo(text).entry.instruction("a")
    assert found is not None
    assert found.shape_text == "f32[2]"


def test_instructions_are_a_sequence() -> None:
    instructions = read(E5).entry.instructions
    assert len(instructions) == 5
    assert instructions[-1].name == "copy"
    assert [i.name for i in instructions[1:3]] == ["zero", "start"]
    assert instructions == list(instructions)
    with pytest.raises(IndexError):
        instructions[5]


CALLS = """HloModule m

f {
  ROOT z = f32[] parameter(0)
}

g {
  ROOT z = f32[] parameter(0)
}

ENTRY main {
  p = f32[8]{0} parameter(0)
  ROOT r = f32[8]{0} made-up(p), CALL
}
"""


CALLING = [
    ("to_apply=f", ("f",)),
    ("calls=%f", ("f",)),
    ("condition=%f, body=%g", ("f", "g")),
    ("true_computation=g, false_computation=f", ("g", "f")),
    ("branch_computations={%g, %f}", ("g", "f")),
    ("branch_computations={f}", ("f",)),
    ("branch_computations={%f, %g, %f}", ("f", "g", "f")),
    ("called_computations={%f, %g}", ("f", "g")),
    ("called_computations={}", ()),
    ("select=%f, scatter=%g", ("f", "g")),
    ("dimensions={0}, to_apply=%f, kind=kLoop, calls=%g", ("f", "g")),
]


@pytest.mark.parametrize(("attribute", "called"), CALLING)
def test_called_computations_come_from_every_calling_attribute(
    attribute: str, called: tuple[str, ...]
) -> None:
    module = read(CALLS.replace("CALL", attribute))
    root = module.entry.root
    assert root is not None
    assert root.called_computations == called
    assert {c.name for c in module.computations if c.callers} == set(called)


def test_other_attributes_call_nothing() -> None:
    assert one('r = f32[8] custom-call(p), custom_call_target="calls=%f"').called_computations == ()
    assert one("r = f32[8] add(p, q), to_apply_later=f").called_computations == ()


def test_callers_are_in_text_order() -> None:
    module = read(
        "HloModule m\n\nf {\n  ROOT z = f32[] parameter(0)\n}\n\nENTRY e {\n"
        "  p = f32[] parameter(0)\n  b = f32[] call(p), to_apply=f\n"
        "  ROOT a = f32[] call(b), to_apply=f\n}\n"
    )
    called = module.computation("f")
    assert called is not None
    assert [i.name for i in called.callers] == ["b", "a"]
    assert module.entry.callers == ()


def test_conditional_that_names_a_computation_twice_is_one_caller_of_it() -> None:
    module = read(CALLS.replace("CALL", "branch_computations={f, f}"))
    called = module.computation("f")
    assert called is not None
    assert [i.name for i in called.callers] == ["r"]


def test_truncated_text_without_entry_takes_no_other_computation_for_it() -> None:
    module = parse_hlo(
        "HloModule m\n\nsmall {\n  ROOT a = f32[] parameter(0)\n}\n\n"
        "big {\n  a = f32[] parameter(0)\n  b = f32[] negate(a)\n"
        "  c = f32[] call(b), to_apply=helper\n}\n\n"
        "helper {\n  a = f32[] parameter(0)\n  b = f32[] negate(a)\n"
        "  c = f32[] negate(b)\n  d = f32[] abs(c)\n}\n\n"
        "cut {\n  a = f32[] parameter(0)\n"
    )
    assert module.is_truncated
    assert not module.has_entry
    assert (list(module.entry.rows), module.entry.root) == ([], None)
    assert module.computations[-1].root is None
    assert [c.is_complete for c in module.computations] == [True, True, True, False]
    assert [gap.message for gap in module.gaps] == ["expected '}', found the end: cut is cut off"]


def test_truncated_text_keeps_complete_instructions() -> None:
    whole = read(E5)
    cut = parse_hlo(E5[: E5.index("%while.1 =") + 60])
    assert cut.is_truncated
    assert [c.name for c in cut.computations] == ["body", "condition", "main"]
    assert cut.computations[:2] == whole.computations[:2]
    assert [i.name for i in cut.entry.instructions] == ["x", "zero", "start"]
