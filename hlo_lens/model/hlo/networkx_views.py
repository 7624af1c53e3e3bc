"""networkx graphs of a module, made from its links.

networkx is imported when a graph is made: the import takes a tenth of a second.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from hlo_lens.model.hlo.columns import NOTHING

if TYPE_CHECKING:
    import networkx as nx

    from hlo_lens.model.hlo.computation import HloComputation
    from hlo_lens.model.hlo.module import HloModule


def def_use_graph(computation: HloComputation) -> nx.MultiDiGraph[str]:
    """Return the graph of a computation, with edges from each instruction to its users.

    Nodes are instruction names, with attributes ``opcode`` and ``instruction``. Edges have
    ``kind``: ``operand``, with ``operand_number`` and ``index`` (the tuple index of a compact
    get-tuple-element, () for the whole value), or ``control`` for control predecessors. A name that
    is used and not defined, as in a truncated text, is a node without ``instruction``.
    """
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=computation.name)
    for instruction in computation.instructions:
        graph.add_node(instruction.name, opcode=instruction.opcode, instruction=instruction)
    links, name_of = computation.module.links, computation.module.columns.name
    for instruction in computation.instructions:
        name, row = instruction.name, instruction.row
        targets = links.operands_of(row)
        names = instruction.operand_names if NOTHING in targets else map(name_of, targets)
        elements = links.operand_elements.get(row, repeat(()))
        for number, (operand, index) in enumerate(zip(names, elements, strict=False)):
            graph.add_edge(operand, name, kind="operand", operand_number=number, index=index)
        for before in instruction.control_predecessors:
            graph.add_edge(before, name, kind="control")
    return graph


def call_graph(module: HloModule) -> nx.MultiDiGraph[str]:
    """Return the graph of a module, with edges from each computation to those that it calls.

    Nodes are computation names, with attributes ``computation`` and ``is_entry``; edges have
    ``instruction`` (the caller's name) and ``opcode``. A called computation that is not in the
    text is a node without ``computation``.
    """
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=module.name)
    for computation in module.computations:
        graph.add_node(computation.name, computation=computation, is_entry=computation.is_entry)
    calls = module.links.calls
    for number, (row, place) in enumerate(zip(calls.rows, calls.places, strict=True)):
        caller = module.instruction(row)
        called = calls.undefined.get(number) or module.computations[place].name
        graph.add_edge(
            caller.computation.name, called, instruction=caller.name, opcode=caller.opcode
        )
    return graph
