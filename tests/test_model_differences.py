"""First differences between two models of one text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.buffers.assignment_reader import parse_buffer_assignment, parse_buffer_values
from hlo_lens.buffers.live_range_reader import parse_live_range
from hlo_lens.buffers.memory_usage import parse_memory_usage_report
from hlo_lens.hlo.module_reader import parse_hlo
from tests.corpus import SAMPLES
from tests.model_differences import first_fact_difference

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = SAMPLES / "cpu" / "tp_mlp"
STEM = "module_0000.jit_train_step"
HLO = (FOLDER / f"{STEM}.before_optimizations.txt").read_text()

CHANGES: dict[str, tuple[Callable[[str], object], str, str, str, tuple[str, str]]] = {
    "hlo": (
        parse_hlo,
        "before_optimizations",
        "f32[4,4096]{1,0} parameter",
        "f32[4,4095]{1,0} parameter",
        ("/", "shape"),
    ),
    "assignment": (
        parse_buffer_assignment,
        "cpu_after_optimizations-buffer-assignment",
        "allocation 1: size ",
        "allocation 1: size 1",
        ("allocation 1", "size"),
    ),
    "values": (
        parse_buffer_values,
        "cpu_after_optimizations-buffer-assignment-values",
        "operand 1",
        "operand 7",
        ("used value", "uses"),
    ),
    "live range": (
        parse_live_range,
        "cpu_after_optimizations-live-range",
        "    3:",
        "    3:x",
        ("position 3", "instruction"),
    ),
    "report": (
        parse_memory_usage_report,
        "cpu_after_optimizations-memory-usage-report",
        "Total bytes: ",
        "Total bytes: 1",
        ("spaces 0", "total_bytes"),
    ),
}


@pytest.mark.parametrize(("parse", "stage", "old", "new", "where"), CHANGES.values(), ids=CHANGES)
def test_the_first_difference_has_its_place_field_and_line(
    parse: Callable[[str], object], stage: str, old: str, new: str, where: tuple[str, str]
) -> None:
    text = (FOLDER / f"{STEM}.{stage}.txt").read_text()
    assert old in text
    changed = text.replace(old, new, 1)
    assert first_fact_difference(parse(text), parse(text)) is None
    found = first_fact_difference(parse(text), parse(changed))
    assert found is not None
    place, field = where
    assert place in found.place
    assert found.field == field
    assert found.first != found.second
    if stage != "cpu_after_optimizations-memory-usage-report" and "live" not in stage:
        line = changed.count("\n", 0, changed.index(new)) + 1
        assert found.line is not None
        assert found.line <= line <= found.line + 6


def test_a_missing_instruction_and_another_tree_are_differences() -> None:
    lines = HLO.splitlines(keepends=True)
    place = next(k for k, line in enumerate(lines) if " = f32[]" in line)
    found = first_fact_difference(
        parse_hlo(HLO), parse_hlo("".join(lines[:place] + lines[place + 1 :]))
    )
    assert found is not None
    assert found.line is not None
