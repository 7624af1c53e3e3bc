"""Graph views of a program as networkx graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo import graph_export
from hlo_lens.hlo.module import HloModule
from hlo_lens.load.programs import Program, one_module
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    import networkx as nx


def call_graph(program: Program, *, module: str | None = None) -> nx.MultiDiGraph[str]:
    """Return the graph of a module, with edges from each computation to those that it calls.

    Nodes and edges have the attributes of `hlo_lens.hlo.graph_export.call_graph`.

    Args:
        program: A module, or what other functions take: a path, HLO text, an executable of jax.
        module: Regular expression that selects one of several modules.

    Raises:
        UsageError: If there is not exactly one module, or it has no HLO text.
    """
    hlo = program if isinstance(program, HloModule) else one_module(program, module).hlo
    if hlo is None:
        raise UsageError("there is no HLO text, so there are no computations")
    return graph_export.call_graph(hlo)
