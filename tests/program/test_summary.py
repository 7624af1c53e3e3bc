"""Facts of a module."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.load.programs import modules_of
from hlo_lens.program.summary import coverage, coverage_of, summary
from tests.questions.texts import LOOP, module_of


def test_facts_are_those_of_header_and_text() -> None:
    assert {str(row[0]): row[1] for row in summary(module_of(LOOP)).rows()} == {
        "name": "jit_step",
        "backend": None,
        "is_scheduled": True,
        "num_partitions": 4,
        "evident_partitions": 4,
        "replica_count": 1,
        "computations": 4,
        "instructions": 18,
        "gaps": 0,
        "gap_lines": 0,
        "passed_lines": 0,
        "coverage": 1.0,
        "is_truncated": False,
        "undefined": 0,
    }


@pytest.mark.parametrize(
    ("instructions", "gap_lines", "share"), [(0, 0, 1), (0, 3, 0), (3, 1, 0.75), (5, 0, 1)]
)
def test_coverage_counts_unread_lines(instructions: int, gap_lines: int, share: float) -> None:
    assert coverage(instructions, gap_lines) == share


def test_gaps_lower_coverage() -> None:
    module = hlo_lens.parse_hlo(
        "HloModule m\nENTRY e {\n  x = f32[2 parameter(0)\n  y = f32[] iota()\n}"
    )
    facts = summary(modules_of(module)[0])
    assert (facts.instructions, facts.gaps) == (1, 1)
    assert facts.coverage == coverage_of(module, module.gaps) == 1 / (1 + facts.gap_lines)
