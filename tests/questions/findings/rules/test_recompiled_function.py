"""X001: functions that were compiled several times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.recompiled_function import recompiled_function
from tests.questions.findings.programs import analysis_of_text, listed

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


def _compile(size: int, number: int, steps: int = 120) -> ModuleDump:
    shape = f"f32[{size},8]{{1,0}}"
    lines = [f"  v{n} = {shape} negate(v{n - 1})" for n in range(1, steps)]
    head = f"HloModule jit_step, is_scheduled=true\n\nENTRY main {{\n  v0 = {shape} parameter(0)\n"
    last = f"\n  ROOT y = {shape} cosine(v{steps - 1})\n}}\n"
    known = analysis_of_text(head + "\n".join(lines) + last, name=f"module_{number:04}.jit_step")
    known.number = number
    return known


def test_compiles_for_different_shapes_are_one_finding_at_the_last() -> None:
    modules = [_compile(size, number) for number, size in enumerate((8, 16, 32, 32))]
    ((place, found),) = recompiled_function(listed(*modules))
    assert place == 3
    assert found.message == "jit_step was compiled 4 times, for 3 different shapes"
    assert found.evidence == ("parameter 0: f32[8,8], f32[16,8], f32[32,8]",)
    assert found.severity is Severity.INFO


def test_many_shapes_are_a_warning() -> None:
    modules = [_compile(8 * number, number) for number in range(1, 10)]
    ((_, found),) = recompiled_function(listed(*modules))
    assert found.severity is Severity.WARNING


def test_equal_shapes_other_processes_and_small_functions_have_no_finding() -> None:
    assert list(recompiled_function(listed(*(_compile(8, number) for number in range(5))))) == []
    small = [_compile(8 * number, number, steps=20) for number in range(1, 6)]
    assert list(recompiled_function(listed(*small))) == []
    others = [_compile(8 * number, number) for number in range(1, 6)]
    for number, one in enumerate(others):
        one.folder = f"host_{number}"
    assert list(recompiled_function(listed(*others))) == []
