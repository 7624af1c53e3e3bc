"""Graphs of two modules with the same labels, made together or each alone.

A graph is made alone by the process that reads its module, while another process reads the other
module. Its labels are those for a comparison with a text of the same print style. If the two styles
differ in what labels contain, both graphs are made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from hlo_lens.questions.diff.matching.graphs import (
    number_bodies,
    program_graph,
    share_bodies,
)
from hlo_lens.questions.diff.matching.meanings import Labels, axis_numbers
from hlo_lens.questions.diff.matching.print_style import style_of

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.graphs import ProgramGraph
    from hlo_lens.questions.diff.matching.print_style import Style

GraphPair: TypeAlias = "tuple[ProgramGraph | None, ProgramGraph | None]"

NO_GRAPHS: Final[GraphPair] = (None, None)


def graph_alone(module: HloModule) -> ProgramGraph:
    """Return the graph of a module that is compared with one of the same print style."""
    style = style_of(module)
    return program_graph(module, _labels_for(style, style), {})


def graph_pair(
    base: HloModule, head: HloModule, known: GraphPair = NO_GRAPHS
) -> tuple[ProgramGraph, ProgramGraph]:
    """Return both graphs, without what only one of the texts prints.

    Args:
        base: Module of the base.
        head: Module of the head.
        known: Graphs of both that were made alone, or None.
    """
    styles = style_of(base), style_of(head)
    sugared = [s.has_sugar for s in styles]
    has_sugar = sugared[0] != sugared[1] and styles[sugared.index(False)].has_wrapped
    labels = _labels_for(*styles)
    mine, yours = known
    if mine is not None and yours is not None and not has_sugar and _fit(labels, mine, yours):
        _join(mine, yours)
        graphs = mine, yours
    else:
        hints: dict[str, int] = {}
        graphs = (
            program_graph(base, labels, hints, with_sugar=has_sugar),
            program_graph(head, labels, hints, with_sugar=has_sugar),
        )
    for graph in graphs:
        share_bodies(graph)
    return graphs


def _labels_for(one: Style, other: Style) -> Labels:
    """Return the labels of texts of two print styles, still empty."""
    styles, ways = (one, other), ((one, other), (other, one))
    return Labels(
        with_layouts=one.has_layouts == other.has_layouts,
        with_shapes=one.has_shapes == other.has_shapes,
        with_literals=not any(s.has_dots for s in styles),
        with_scalars=not any(s.has_scalar_dots for s in styles),
        with_configs=not any(s.leaves_out_configs(other) for s, other in ways),
        with_controls=not any(s.leaves_out_controls(other) for s, other in ways),
    )


def _fit(labels: Labels, *graphs: ProgramGraph) -> bool:
    """Return whether graphs were made with labels of the same contents as these."""
    return all(graph.labels.what_counts == labels.what_counts for graph in graphs)


def _join(base: ProgramGraph, head: ProgramGraph) -> None:
    """Give the graph of the head the labels of the base."""
    own, labels = head.labels, base.labels
    labels.axes[id(head.module.reader)] = axis_numbers(head.module)
    numbers = labels.adopt(own)
    head.label = list(map(numbers.__getitem__, head.label))
    edges = [labels.edges.setdefault(link, len(labels.edges)) for link in own.edges]
    head.edges = list(map(edges.__getitem__, head.edges))
    head.labels, head.hints = labels, base.hints
    number_bodies(head)
