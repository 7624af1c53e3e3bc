"""Texts of one program have no change."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.load import load
from hlo_lens.questions.matching.edits import Noise
from hlo_lens.questions.matching.fingerprints import text_copies
from hlo_lens.questions.matching.program_diff import ProgramDiff, program_diff
from tests.corpus import read, sample_hlo
from tests.questions.matching.programs import (
    SUGAR,
    WRAPPED,
    parsed,
    renamed,
    shuffled_computations,
    with_attributes,
)
from tests.strategies.modules import modules, novelties
from tests.strategies.printing import STYLES, print_module

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.strategies.programs import Instruction, Module

FEW = settings(max_examples=20, deadline=None)
ALIKE = [name for name in STYLES if "line" not in name]


def assert_same(found: ProgramDiff, size: int) -> None:
    assert found.groups == ()
    assert found.module_changes == ()
    assert found.identical
    assert found.unchanged == size
    assert (found.changed, found.added, found.removed, found.moved) == (0, 0, 0, 0)


def between(mine: Module, yours: Module) -> ProgramDiff:
    return program_diff(parsed(print_module(mine)), parsed(print_module(yours)))


@FEW
@given(st.one_of(modules(), novelties()))
def test_a_program_does_not_differ_from_itself(module: Module) -> None:
    text = print_module(module)
    found = program_diff(parsed(text), parsed(text))
    assert_same(found, parsed(text).instruction_count)
    assert found.ignored == {}


@FEW
@given(modules(), st.sampled_from(sorted(STYLES)), st.sampled_from(sorted(STYLES)))
def test_another_style_is_no_change(module: Module, first: str, second: str) -> None:
    if not STYLES[first].line_end == STYLES[second].line_end == "\n":
        module = replace(module, tables="")
    a, b = parsed(print_module(module, STYLES[first])), parsed(print_module(module, STYLES[second]))
    assert_same(program_diff(a, b), a.instruction_count)


@FEW
@given(modules())
def test_other_names_are_no_change(module: Module) -> None:
    numbers = count()
    known: dict[str, str] = {}

    def name(old: str) -> str:
        return known.setdefault(old, f"another.name.{next(numbers)}")

    other = renamed(module, name)
    found = between(module, other)
    assert_same(found, len(list(module.instructions)))
    assert Noise.NAMES in found.ignored


@FEW
@given(modules(), st.randoms(use_true_random=False))
def test_computations_in_another_order_are_no_change(module: Module, source: random.Random) -> None:
    found = between(module, shuffled_computations(module, source))
    assert_same(found, len(list(module.instructions)))


@FEW
@given(modules(), st.integers(1, 50))
def test_renumbered_channels_are_no_change(module: Module, shift: int) -> None:
    def renumbered(key: str, value: str) -> str:
        return str(int(value) + shift) if key == "channel_id" else value

    other = with_attributes(module, renumbered)
    found = between(module, other)
    assert_same(found, len(list(module.instructions)))
    channels = [i for i in module.instructions if "channel_id" in dict(i.attributes)]
    assert found.ignored.get(Noise.CHANNEL_IDS, 0) == len(channels)


@FEW
@given(modules())
def test_lost_metadata_is_no_change(module: Module) -> None:
    other = replace(
        module,
        computations=tuple(
            replace(
                c,
                instructions=tuple(
                    replace(i, attributes=tuple(a for a in i.attributes if a[0] != "metadata"))
                    for i in c.instructions
                ),
            )
            for c in module.computations
        ),
    )
    assert_same(between(module, other), len(list(module.instructions)))


@FEW
@given(modules(), modules())
def test_diff_of_swapped_programs_is_mirrored(mine: Module, yours: Module) -> None:
    a, b = parsed(print_module(mine)), parsed(print_module(yours))
    forth, back = program_diff(a, b), program_diff(b, a)
    assert (forth.added, forth.removed) == (back.removed, back.added)
    assert (forth.unchanged, forth.changed, forth.moved) == (
        back.unchanged,
        back.changed,
        back.moved,
    )
    assert {y: x for x, y in forth.matched_rows.items()} == back.matched_rows
    both = forth.unchanged + forth.changed + forth.moved
    assert both + forth.removed + forth.left_out_base == a.instruction_count
    assert both + forth.added + forth.left_out_head == b.instruction_count


@pytest.mark.parametrize("path", sample_hlo(), ids=lambda p: f"{p.parent.name}-{p.name[-40:]}")
def test_a_sample_does_not_differ_from_itself(path: Path) -> None:
    text = read(path).decode()
    module = parsed(text)
    found = program_diff(module, parsed(text))
    assert_same(found, module.instruction_count)
    assert found.ignored == {}


@FEW
@given(modules(), st.data())
def test_program_with_one_other_instruction_is_not_the_same(
    module: Module, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(list(module.instructions)) - 1))
    change = data.draw(st.sampled_from(["opcode", "shape", "attribute"]))
    numbers = count()

    def edited(instruction: Instruction) -> Instruction:
        if next(numbers) != place:
            return instruction
        if change == "attribute":
            return replace(instruction, attributes=(*instruction.attributes, ("made_up", "7")))
        if change == "shape":
            wide = replace(instruction.shape, parts=None, type="f64", sizes=(7, 7), layout="")
            return replace(instruction, shape=wide)
        return replace(instruction, opcode="opcode-of-next-year")

    other = replace(
        module,
        computations=tuple(
            replace(c, instructions=tuple(map(edited, c.instructions))) for c in module.computations
        ),
    )
    base, head = parse_hlo(print_module(module)), parse_hlo(print_module(other))
    found = program_diff(base, head)
    assert not found.identical
    assert found.changed + found.added + found.removed + found.moved > 0


def test_a_computation_that_calls_itself_is_compared() -> None:
    entry = "HloModule m\n\nENTRY main {\n  ROOT p = f32[2] parameter(0)\n}\n"
    circle = (
        "\nloop {\n  p = f32[2] parameter(0)\n"
        "  s = ((f32[2]), f32[2], s32[]) call-start(p), to_apply=loop\n"
        "  ROOT d = f32[2] call-done(s)\n}\n"
    )
    found = program_diff(parse_hlo(entry + circle), parse_hlo(entry))
    assert (found.unchanged, found.removed, found.added) == (1, 3, 0)


@pytest.mark.parametrize(("edited", "copies"), [("negate", 1), ("abs", 0)])
def test_a_text_repeats_a_module_in_both_spellings_of_async_operations(
    edited: str, copies: int, tmp_path: Path
) -> None:
    (tmp_path / "module_0001.m.tpu_after_optimizations.txt").write_text(WRAPPED, "utf-8")
    (tmp_path / "m.txt").write_text(SUGAR.replace("negate", edited), "utf-8")
    assert len(text_copies(load(tmp_path).modules)) == copies
