"""X005: programs that differ between processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.different_hosts import different_hosts
from tests.questions.findings.programs import analysis_of_text, listed

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

TEXT = """HloModule jit_step, is_scheduled=true

ENTRY main {
  x = f32[64]{0} parameter(0)
  ROOT y = f32[64]{0} negate(x)
}
"""


def _of_process(text: str, folder: str) -> ModuleDump:
    known = analysis_of_text(text, name="module_0000.jit_step")
    known.number, known.folder = 0, folder
    return known


def test_a_program_that_differs_is_an_error_of_the_odd_process() -> None:
    odd = TEXT.replace("negate", "cosine")
    modules = [_of_process(TEXT, "host_0"), _of_process(odd, "host_1"), _of_process(TEXT, "host_2")]
    ((place, found),) = different_hosts(listed(*modules))
    assert place == 1
    assert found.message == "jit_step of host_1 is not that of host_0"
    assert found.severity is Severity.ERROR


def test_equal_programs_have_no_finding() -> None:
    modules = [_of_process(TEXT, "host_0"), _of_process(TEXT, "host_1")]
    assert list(different_hosts(listed(*modules))) == []


def test_folders_that_are_no_processes_are_not_compared() -> None:
    odd = TEXT.replace("negate", "cosine")
    modules = [_of_process(TEXT, "base"), _of_process(odd, "head")]
    assert list(different_hosts(listed(*modules))) == []
