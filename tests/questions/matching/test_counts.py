"""Every instruction of both texts is counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.questions.diff.page import program_diff_json
from hlo_lens.questions.matching.edits import Noise
from hlo_lens.questions.matching.program_diff import ProgramDiff, program_diff
from tests.strategies.modules import modules, novelties
from tests.strategies.printing import STYLES, print_module

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from tests.strategies.programs import Module

MOST = settings(max_examples=35, deadline=None)
PROGRAMS = st.one_of(modules(), novelties())
OPCODES = ("add", "multiply", "subtract", "negate", "tanh", "dot", "tuple", "copy")


def assert_sums(base: HloModule, head: HloModule, found: ProgramDiff) -> None:
    for diff, one, other in ((found, base, head), (program_diff(head, base), head, base)):
        counts = program_diff_json(diff)
        both = sum(int(str(counts[name])) for name in ("unchanged", "changed", "moved"))
        assert both + int(str(counts["removed"])) == one.instruction_count
        assert both + int(str(counts["added"])) == other.instruction_count


@MOST
@given(PROGRAMS, PROGRAMS, st.sampled_from(sorted(STYLES)), st.sampled_from(sorted(STYLES)))
def test_counts_of_any_two_programs_sum_to_their_instructions(
    one: Module, other: Module, first: str, second: str
) -> None:
    base = parse_hlo(print_module(one, STYLES[first]))
    head = parse_hlo(print_module(other, STYLES[second]))
    assert_sums(base, head, program_diff(base, head))


@MOST
@given(PROGRAMS, st.integers(0, 50), st.sampled_from(OPCODES))
def test_counts_of_an_edited_program_sum_to_its_instructions(
    module: Module, place: int, opcode: str
) -> None:
    text = print_module(module)
    lines = text.split("\n")
    rows = [k for k, line in enumerate(lines) if " = " in line and line.startswith(" ")]
    edited = rows[place % len(rows)]
    before, _, after = lines[edited].partition("(")
    lines[edited] = f"{before.rpartition(' ')[0]} {opcode}({after}"
    base, head = parse_hlo(text), parse_hlo("\n".join(lines))
    assert_sums(base, head, program_diff(base, head))


def chain(count: int, edited: frozenset[int]) -> str:
    """Return a program in which each instruction takes the one before; some may be edited."""
    lines = ["HloModule m", "", "ENTRY main {", "  v.0 = f32[8] parameter(0)"]
    for place in range(1, count):
        opcode = "power" if place in edited else ("add", "multiply", "subtract")[place % 3]
        path = f'metadata={{op_name="jit(f)/layer_{place // 30}/{opcode}"}}'
        root = "ROOT " if place == count - 1 else ""
        lines.append(f"  {root}v.{place} = f32[8] {opcode}(v.{place - 1}, v.0), {path}")
    return "\n".join([*lines, "}", ""])


def test_edits_far_apart_are_the_only_ones() -> None:
    base, head = parse_hlo(chain(400, frozenset())), parse_hlo(chain(400, frozenset({70, 80, 330})))
    found = program_diff(base, head)
    assert (found.changed, found.added, found.removed, found.moved) == (3, 0, 0, 0)
    assert Noise.INSTRUCTION_ORDER not in found.ignored


def uncalled(copies: int, edited: int, shift: int = 0) -> str:
    """Return a module with many equal computations that nothing calls; one may be edited."""
    parts = ["HloModule m", ""]
    for place in range(copies):
        opcode, copy = "multiply" if place == edited else "add", place + shift
        parts += [
            f"%inner.{copy} (a: f32[8]) -> f32[8] {{",
            f"  %a.{copy} = f32[8]{{0}} parameter(0)",
            f"  ROOT %r.{copy} = f32[8]{{0}} {opcode}(%a.{copy}, %a.{copy})",
            "}",
            "",
            f"%outer.{copy} (b: f32[8]) -> f32[8] {{",
            f"  %b.{copy} = f32[8]{{0}} parameter(0)",
            f"  %n.{copy} = f32[8]{{0}} negate(%b.{copy})",
            f"  ROOT %c.{copy} = f32[8]{{0}} call(%n.{copy}), to_apply=%inner.{copy}",
            "}",
            "",
        ]
    parts += ["ENTRY %main (x: f32[8]) -> f32[8] {"]
    parts += ["  ROOT %x = f32[8]{0} parameter(0)", "}", ""]
    return "\n".join(parts)


@pytest.mark.parametrize("shift", [0, 7, 1000])
@pytest.mark.parametrize("edited", [0, 20, 39])
def test_one_edit_among_equal_uncalled_computations_is_one_change(edited: int, shift: int) -> None:
    base, head = parse_hlo(uncalled(40, -1)), parse_hlo(uncalled(40, edited, shift))
    found = program_diff(base, head)
    assert_sums(base, head, found)
    assert (found.changed, found.added, found.removed, found.moved) == (1, 0, 0, 0)


@pytest.mark.parametrize("fewer", [1, 13])
def test_missing_copies_of_uncalled_computations_are_counted(fewer: int) -> None:
    base, head = parse_hlo(uncalled(40, -1)), parse_hlo(uncalled(40 - fewer, -1))
    found = program_diff(base, head)
    assert_sums(base, head, found)
    assert (found.removed, found.added) == (5 * fewer, 0)


def test_an_instruction_on_two_lines_changes_no_count_of_others() -> None:
    place = 'metadata={op_name="f" source_line=7}'
    text = f"""ENTRY e {{
  p = f32[] parameter(0), frontend_attributes={{a="b"}}, {place}
  ROOT n = f32[] negate(p), {place}
}}
"""
    split = text.replace(f"(p), {place}", f"(p),\n    {place}")
    assert split != text
    for base, head in ((text, split), (split, text)):
        assert not program_diff(parse_hlo(base), parse_hlo(head)).ignored
        found = program_diff(
            parse_hlo(base), parse_hlo(head.replace("source_line=7", "source_line=9"))
        )
        assert found.ignored == {Noise.METADATA: 2}


def test_a_line_number_in_another_attribute_is_no_metadata() -> None:
    text = 'ENTRY e {\n  ROOT p = f32[] custom-call(), backend_config={"a":"source_line=3"}\n}\n'
    found = program_diff(parse_hlo(text), parse_hlo(text.replace("=3", "=4")))
    assert found.changed == 1
    assert not found.ignored
