"""First difference between the programs that two processes of a job compiled.

Programs are matched instruction by instruction. Their lines are compared instead where a program is
too large for that, or where the programs differ in names or text alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.dumps.across_processes import SAME_BUT_NAMES
from hlo_lens.analysis.dumps.text_comparison import first_difference
from hlo_lens.analysis.program_diff.difference import program_diff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.dumps.across_processes import AcrossProcesses, SharedProgram
    from hlo_lens.analysis.dumps.text_comparison import Line
    from hlo_lens.analysis.program_diff.difference import ProgramDiff
    from hlo_lens.model.dump import ModuleDump

_MOST_DIFFED = 100_000
"""Instructions of the largest program that is matched instruction by instruction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDifference:
    """Difference of one program between the first process and the first that differs from it.

    Attributes:
        program: The program, over all processes.
        instructions: Instructions in the first process.
        diff: Differences of the instructions; None where they were not matched.
        lines: First lines that differ, None past the end of a module; None where `diff` has edits
            or changes of the header, or no line differs.
    """

    program: SharedProgram
    instructions: int
    diff: ProgramDiff | None
    lines: tuple[Line | None, Line | None] | None


def process_difference(
    across: AcrossProcesses, modules: Sequence[ModuleDump]
) -> ProcessDifference | None:
    """Return the difference of the first program that is not the same in all processes.

    Args:
        across: The programs.
        modules: The modules, in the order of the facts that the programs were compared by.
    """
    odd = next((p for p in across.programs if p.modules), None)
    if odd is None or odd.modules is None:
        return None
    ours, theirs = (modules[k].hlo for k in odd.modules)
    if ours is None or theirs is None:
        return None
    diff = None
    largest = max(ours.instruction_count, theirs.instruction_count)
    if odd.verdict != SAME_BUT_NAMES and largest <= _MOST_DIFFED:
        diff = program_diff(ours, theirs)
    is_text = diff is None or not (diff.module_changes or diff.edits)
    return ProcessDifference(
        program=odd,
        instructions=ours.instruction_count,
        diff=diff,
        lines=first_difference(ours, theirs, up_to_names=False) if is_text else None,
    )
