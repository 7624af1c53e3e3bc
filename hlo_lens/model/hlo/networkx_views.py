"""networkx views of a module, built when they are asked for.

networkx takes a tenth of a second to import, which commands that need no graph must not pay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

    from hlo_lens.model.hlo.computation import HloComputation
    from hlo_lens.model.hlo.module import HloModule


def def_use_graph(computation: HloComputation) -> nx.MultiDiGraph[str]:
    """Return the graph of a computation: from each instruction to those that use its result.

    Nodes are instruction names, with attributes ``opcode`` and ``instruction``. Edges have
    ``kind``: ``operand``, with ``operand_number`` and ``index`` (the tuple index of a compact
    get-tuple-element, () for the whole value), or ``control`` for control predecessors. A name that
    is used and not defined, as in a text that was cut, is a node without ``instruction``.
    """
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=computation.name)
    for instruction in computation.instructions:
        graph.add_node(instruction.name, opcode=instruction.opcode, instruction=instruction)
    for instruction in computation.instructions:
        name = instruction.name
        for number, operand in enumerate(instruction.operands):
            graph.add_edge(
                operand.name, name, kind="operand", operand_number=number, index=operand.index
            )
        for before in instruction.control_predecessors:
            graph.add_edge(before, name, kind="control")
    return graph


def call_graph(module: HloModule) -> nx.MultiDiGraph[str]:
    """Return the graph of a module: from each computation to those that its instructions call.

    Nodes are computation names, with attributes ``computation`` and ``is_entry``; edges have
    ``instruction`` (the caller's name) and ``opcode``. A computation that is called and not printed
    is a node without ``computation``.
    """
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=module.name)
    for computation in module.computations:
        graph.add_node(computation.name, computation=computation, is_entry=computation.is_entry)
    for computation in module.computations:
        for instruction in computation.instructions:
            for called in instruction.called_computations:
                graph.add_edge(
                    computation.name,
                    called,
                    instruction=instruction.name,
                    opcode=instruction.opcode,
                )
    return graph
