"""Facts about many modules: listing, processes, passes, health of a dump, XLA flags.

Begin with `listing` (facts of a module for one line) and `groups` (compiles of one function, the
likely training step, processes compared); `show`, `passes` and `doctor` have facts and page of
their command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

    from hlo_lens.load.programs import Program
    from hlo_lens.program.instructions import InstructionDetails


def instruction(program: Program, name: str, *, module: str | None = None) -> InstructionDetails:
    """Return an instruction of a module with its origin, and what is next to it.

    >>> import hlo_lens
    >>> found = hlo_lens.instruction("sample_dumps/tpu/tp_mlp", "all-reduce.11")
    >>> found.instruction.opcode, found.origin.source, found.runs.times
    ('all-reduce', 'programs/tp_mlp.py:34', 4)
    >>> found.to_frame()["role"].tolist()
    ['operand', 'user', 'called', 'caller']

    Args:
        program: A path, HLO text, or what was read from either.
        name: Its name as printed: with or without ``%``; of several of a name, the first.
        module: Regular expression for the name of the module, where there are several.

    Raises:
        UnknownNameError: If there is none.
    """
    from hlo_lens.program.pages import one_module
    from hlo_lens.questions.dumps.show import details_of

    return details_of(one_module(program, module), name)


def call_graph(program: Program, *, module: str | None = None) -> nx.MultiDiGraph[str]:
    """Return the graph of a module, with edges from each computation to those that it calls.

    Nodes and edges have the attributes of `hlo_lens.hlo.query.call_graph`.

    Args:
        program: A module, or what other functions take: a path, HLO text, an executable of jax.
        module: Regular expression that selects one of several modules.

    Raises:
        UsageError: If there is not exactly one module, or it has no HLO text.
    """
    from hlo_lens.hlo import query
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.pages import one_module
    from hlo_lens.text.errors import UsageError

    hlo = program if isinstance(program, HloModule) else one_module(program, module).hlo
    if hlo is None:
        raise UsageError("there is no HLO text, so there are no computations")
    return query.call_graph(hlo)
