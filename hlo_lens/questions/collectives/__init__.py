"""Collectives of a program: operations, bytes on the wire, overlap, loops and causes.

Begin with `operations` (which instructions are one collective) and `collective` (its record, and
the fact `collectives`). `transfer` has bytes and overlap of one, and copies to and from the host,
`origin` its source lines, `loop_levels` groups, the loops around them, and their places in the
schedule, `explanation` the reason for one, from the divided
dimensions that `operand_shardings` follows in the text from before optimizations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.load.programs import Program
    from hlo_lens.questions.collectives.collective import Collectives
    from hlo_lens.questions.collectives.explanation import Why
    from hlo_lens.questions.collectives.loop_levels import Loops
    from hlo_lens.shapes.mesh import MeshLike


def collectives(
    program: Program, *, module: str | None = None, mesh: MeshLike | None = None
) -> Collectives:
    """Return the collectives of a module, each logical operation once.

    >>> import hlo_lens
    >>> found = hlo_lens.collectives("sample_dumps/tpu/tp_mlp")
    >>> found.to_frame()[["name", "kind", "axes"]].iloc[0].tolist()
    ['all-reduce.11', 'all-reduce', ('model',)]
    >>> found.collectives[0].dynamic_count, found.collectives[0].payload_bytes
    (4, 16777216)

    Args:
        program: A path, HLO text, or what was read from either.
        module: Regular expression for the name of the module, where there are several.
        mesh: Mesh that names the axes, where no text does: ``{"data": 2, "model": 4}``.
    """
    from hlo_lens.program.pages import one_module
    from hlo_lens.questions.collectives.collective import collectives as fact
    from hlo_lens.questions.sharding.mesh_axes import stating_mesh

    return fact(*stating_mesh([one_module(program, module)], mesh))


def loops(program: Program, *, module: str | None = None) -> Loops:
    """Return the loops and branches of a module with their communication.

    >>> import hlo_lens
    >>> hlo_lens.loops("sample_dumps/cpu/tp_mlp/compiled.txt").to_frame()["loop"].tolist()
    ['main.10_spmd', 'while.30', 'while.35']
    """
    from hlo_lens.program.pages import one_module
    from hlo_lens.questions.collectives.loop_levels import loops as fact

    return fact(one_module(program, module))


def why(
    program: Program, name: str, *, module: str | None = None, mesh: MeshLike | None = None
) -> Why:
    """Return the reasons for a collective, by its name; of several, of that which moves the most.

    >>> import hlo_lens
    >>> reasons = hlo_lens.why("sample_dumps/tpu/fsdp_transformer", "all-gather.98")
    >>> reasons.collective.parameters
    ("state.params['w_down']",)
    >>> reasons.sentences[2].partition(";")[0]
    "state.params['w_down'] is stored with dimension 1 divided over fsdp"

    Args:
        program: A path, HLO text, or what was read from either.
        name: Name of the collective, or of the instruction that starts it.
        module: Regular expression for the name of the module, where there are several.
        mesh: Mesh that names the axes, where no text does: ``{"data": 2, "model": 4}``.

    Raises:
        UnknownNameError: If there is no such collective.
    """
    from hlo_lens.program.pages import one_module
    from hlo_lens.questions.collectives.explanation import (
        explain_collectives,
        modules_with_collective,
    )
    from hlo_lens.questions.sharding.mesh_axes import stating_mesh

    stated = stating_mesh([one_module(program, module)], mesh)
    (having,) = modules_with_collective(stated, name)
    found = explain_collectives(having, name)
    return max(found, key=lambda one: one.collective.wire_bytes_per_run or 0)
