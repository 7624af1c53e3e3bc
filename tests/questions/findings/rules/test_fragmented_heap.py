"""M012: memory between the values of the heap."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hlo_lens.load.fact import plant
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.fragmented_heap import fragmented_heap
from hlo_lens.questions.memory.results import memory_results
from tests.questions.findings.programs import analysis_of_text

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

TEXT = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1048576]{0} parameter(0)
  a = f32[1048576]{0} negate(x)
  ROOT y = f32[1048576]{0} cosine(a)
}
"""


def _known(lost: int, limit: int | None = None) -> ModuleDump:
    """Return a program whose heap has some free bytes at the peak."""
    known = analysis_of_text(TEXT)
    memory = memory_results(known)
    assert memory is not None
    spaces = tuple(replace(one, fragmentation_bytes=lost) for one in memory.statement.spaces)
    statement = replace(memory.statement, spaces=spaces, is_exact=True, limit_bytes=limit)
    plant(known, memory_results, replace(memory, statement=statement))
    return known


def test_a_program_that_fits_with_room_has_no_finding() -> None:
    assert not [*fragmented_heap(_known(64 << 20, limit=16 << 30))]
    assert [*fragmented_heap(_known(64 << 20, limit=9 << 20))]


@pytest.mark.parametrize(("lost", "severity"), [(2 << 20, Severity.INFO), (64 << 20, None)])
def test_free_bytes_at_the_peak_are_found(lost: int, severity: Severity | None) -> None:
    (found,) = fragmented_heap(_known(lost))
    assert (found.saves.bytes, found.severity) == (lost, severity)


def test_less_than_a_quarter_of_the_memory_is_an_info() -> None:
    known = _known(64 << 20)
    memory = memory_results(known)
    assert memory is not None
    statement = replace(memory.statement, total_bytes=512 << 20)
    plant(known, memory_results, replace(memory, statement=statement))
    assert [one.severity for one in fragmented_heap(known)] == [Severity.INFO]


@pytest.mark.parametrize("lost", [0, 64 * 1024])
def test_less_than_a_tenth_has_no_finding(lost: int) -> None:
    assert list(fragmented_heap(_known(lost))) == []
