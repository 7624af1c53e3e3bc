"""Memory of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.api.modules import analysis_of
from hlo_lens.text.errors import MissingDumpError

if TYPE_CHECKING:
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.api.modules import Program


def memory(program: Program, *, module: str | None = None) -> MemoryResults:
    """Return the memory of a module: ``statement``, ``peak`` and the layout behind them.

    >>> import hlo_lens
    >>> memory = hlo_lens.memory("sample_dumps/tpu/tp_mlp")
    >>> memory.statement.argument_bytes, memory.peak.total_bytes, memory.peak.instruction
    (67141632, 159459328, 'copy-start.12')
    >>> memory.peak.to_frame()["value"].head(2).tolist()
    ['while.36{2}', 'while.36{4}']

    Raises:
        MissingDumpError: If nothing is known of it: no buffer assignment, and no schedule.
        DumpMismatchError: If texts of the module contradict one another.
    """
    known = analysis_of(program, module)
    if known.memory is None:
        message = (
            f"{known.dump.title}: memory is not known: no buffer assignment beside the text, and "
            "no schedule in it (is_scheduled=true)"
        )
        raise MissingDumpError(message)
    return known.memory
