"""Memory of a module: what its buffers need, when, and what they are for.

Begin with `layout` (allocations and values with their live ranges, from a buffer assignment or an
estimate) and `results` (the fact `memory_results`: statement, peak). `peak` is one instant and its
bytes by source line and the like, `roles` what values are for, `contents` what large ones are in
the program, `timeline` the bytes over the schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.load.programs import Program
    from hlo_lens.questions.memory.results import MemoryResults


def memory(program: Program, *, module: str | None = None) -> MemoryResults:
    """Return the memory of a module: ``statement``, ``peak`` and their buffer layout.

    >>> import hlo_lens
    >>> memory = hlo_lens.memory("sample_dumps/tpu/tp_mlp")
    >>> memory.statement.argument_bytes, memory.peak.total_bytes, memory.peak.instruction
    (67141632, 159456768, 'copy-start.12')
    >>> memory.peak.to_frame()["value"].head(2).tolist()
    ['while.36{2}', 'while.36{4}']

    Raises:
        MissingDumpError: If nothing is known of it: no buffer assignment, and no schedule.
        DumpMismatchError: If texts of the module contradict one another.
    """
    from hlo_lens.program.pages import one_module
    from hlo_lens.program.summary import no_hlo_text
    from hlo_lens.questions.memory.results import memory_results, not_known_text
    from hlo_lens.text.errors import MissingDumpError

    dump = one_module(program, module)
    results = memory_results(dump)
    if results is None:
        reason = not_known_text(dump) if dump.has_hlo else no_hlo_text(dump)
        raise MissingDumpError(f"{dump.title}: memory is not known: {reason}")
    return results
