"""Questions as functions, for notebooks and scripts: each takes what there is and gives a result.

What there is: a path, HLO text, what `hlo_lens.load` or `hlo_lens.parse_hlo` returned, or a program
of `hlo_lens.from_compiled`. Results have ``to_frame()`` (pandas) and ``to_dict()``, and notebooks
show them as tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.module_analysis import NO_HLO
from hlo_lens.api.modules import analysis_of
from hlo_lens.text.errors import MissingDumpError

if TYPE_CHECKING:
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.program.entry_signature import EntrySignature
    from hlo_lens.analysis.sharding.table import ShardingTable
    from hlo_lens.api.modules import Program
    from hlo_lens.model.shapes.mesh import MeshLike


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


def shardings(
    program: Program, *, module: str | None = None, mesh: MeshLike | None = None
) -> ShardingTable:
    """Return how the parameters and outputs of a module lie over the devices.

    >>> import hlo_lens
    >>> table = hlo_lens.shardings("sample_dumps/tpu/tp_mlp")
    >>> table.to_frame()[["name", "spec"]].iloc[2].tolist()
    ["params['w_in']", "P(None, None, 'model')"]

    Args:
        program: What there is.
        module: Which module, where there are several.
        mesh: Names the axes; else the mesh that arguments or texts name.
    """
    known = analysis_of(program, module, mesh)
    if known.sharding_table is None:
        message = f"{known.dump.name}: {NO_HLO}"
        raise MissingDumpError(message)
    return known.sharding_table


def signature(program: Program, *, module: str | None = None) -> EntrySignature:
    """Return the parameters and outputs of a module, on one device where it is partitioned.

    >>> import hlo_lens
    >>> first = hlo_lens.signature("sample_dumps/tpu/tp_mlp").parameters[0]
    >>> first.name, first.shape, first.aliased_with
    ("params['b_in']", 'f32[4,1024]', '{0}')
    """
    return analysis_of(program, module).signature
