"""Shardings of parameters, outputs and intermediate values, and what they cost.

Begin with `placement` (parameters and outputs, and the texts that their shardings are from) and
`savings` (the fact `sharding_results`; what memory could be saved by donation and division).
`annotations` has constraints inside the program, `mesh_axes` the axes of groups of devices; `shard`
is one sharding by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.load.programs import Program
    from hlo_lens.program.signature import EntrySignature
    from hlo_lens.questions.sharding.placement import ShardingTable
    from hlo_lens.shapes.mesh import MeshLike


def shardings(
    program: Program, *, module: str | None = None, mesh: MeshLike | None = None
) -> ShardingTable:
    """Return the shardings of the parameters and outputs of a module.

    >>> import hlo_lens
    >>> table = hlo_lens.shardings("sample_dumps/tpu/tp_mlp")
    >>> table.to_frame()[["name", "spec"]].iloc[2].tolist()
    ["params['w_in']", "P(None, None, 'model')"]

    Args:
        program: A path, HLO text, or what was read from either.
        module: Regular expression for the name of the module, where there are several.
        mesh: Mesh that names the axes; None for the one that arguments or texts name.
    """
    from hlo_lens.program.pages import one_module
    from hlo_lens.program.summary import no_hlo_text
    from hlo_lens.questions.sharding.mesh_axes import stating_mesh
    from hlo_lens.questions.sharding.savings import sharding_results
    from hlo_lens.text.errors import MissingDumpError

    (dump,) = stating_mesh([one_module(program, module)], mesh)
    results = sharding_results(dump)
    if results is None:
        raise MissingDumpError(f"{dump.name}: {no_hlo_text(dump)}")
    return results.table


def signature(program: Program, *, module: str | None = None) -> EntrySignature:
    """Return the parameters and outputs of a module; of one device if it is partitioned.

    >>> import hlo_lens
    >>> first = hlo_lens.signature("sample_dumps/tpu/tp_mlp").parameters[0]
    >>> first.name, first.shape, first.aliased_with
    ("params['b_in']", 'f32[4,1024]', '{0}')
    """
    from hlo_lens.program.pages import one_module
    from hlo_lens.program.signature import entry_signature

    return entry_signature(one_module(program, module))
