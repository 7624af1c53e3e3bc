"""Graphs of two modules with the same labels, made together or each alone.

A graph is made alone by the process that reads its module, while another process reads the other
module. Its labels are those for a comparison with a text of the same print style. If the two styles
differ in what labels contain, both graphs are made again.

A text without backend configs or control predecessors is either of a style that leaves them out or
of a program that has none: the style must show in something else as well. Source:
HloPrintOptions (xla/hlo/ir/hlo_print_options.h): ShortParsable and Canonical leave out control
dependencies together with percent signs, signatures and metadata; Canonical, and the fingerprints
made from it, leave out backend configs too, and name instructions ``tmp_0``, ``tmp_1``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from hlo_lens.hlo.columns import NAME, OPERANDS, OPERANDS_END
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.diff.matching.fingerprints import KnownBodies, fingerprints
from hlo_lens.questions.diff.matching.graphs import (
    number_bodies,
    program_graph,
)
from hlo_lens.questions.diff.matching.meanings import METADATA_KEY, Labels, axis_numbers

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.graphs import ProgramGraph

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


# ---- inline bodies -----------------------------------------------------------------------------


def share_bodies(graph: ProgramGraph) -> None:
    """Let instructions call the separate computations instead of their inline copies.

    XLA's canonical and fingerprint styles print computations inside the calling instruction and
    once more as computations (hlo_computation.cc, Print, in nested computations). Each copy is
    replaced by another of the computations equal to it, as long as there are any; a body that is
    only printed inline stays.
    """
    computations = graph.module.computations
    if not any(computation.is_inline for computation in computations):
        return
    content = fingerprints(graph, {}, KnownBodies()).content
    own: dict[int, list[int]] = {}
    for position in range(len(computations) - 1, -1, -1):
        if not computations[position].is_inline and position != graph.entry:
            own.setdefault(content[position], []).append(position)
    seen = {graph.entry}
    waiting = [graph.entry]
    while waiting:
        for node in graph.nodes[waiting.pop()]:
            called = graph.callees.get(node)
            if called is None:
                continue
            shared = tuple((role, _own(own, content[c], c)) for role, c in called)
            graph.callees[node] = shared
            for _, computation in shared:
                if computation not in seen:
                    seen.add(computation)
                    waiting.append(computation)


def _own(own: dict[int, list[int]], content: int, computation: int) -> int:
    """Return the next computation of some content, then always the last one."""
    left = own.get(content)
    if not left:
        return computation
    return left.pop() if len(left) > 1 else left[0]


# ---- print styles ------------------------------------------------------------------------------

_DOTS = "{...}"
_CANONICAL = re.compile(r"tmp_\d+")
_SCALAR = re.compile(r"\[\](?:\{[^{}]*\})?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Parts of a program that a text prints.

    Attributes:
        has_sugar: Whether an async operation is printed as ``X-start``.
        has_wrapped: Whether one is printed as an async-start that calls a computation.
        has_layouts: Whether any shape has a layout.
        has_shapes: Whether any instruction has a shape.
        has_dots: Whether a long literal is printed as dots.
        has_scalar_dots: Whether a scalar is printed as dots (fingerprints of modules).
        has_configs: Whether any instruction of a canonical text has a backend config.
        has_controls: Whether any instruction of a short text has control predecessors.
        is_short: Whether there are no percent signs, signatures and metadata.
        is_canonical: Whether it is short and instructions have numbers for names.
    """

    has_sugar: bool
    has_wrapped: bool
    has_layouts: bool
    has_shapes: bool
    has_dots: bool
    has_scalar_dots: bool
    has_configs: bool
    has_controls: bool
    is_short: bool
    is_canonical: bool

    def leaves_out_configs(self, other: Style) -> bool:
        """Return whether this style leaves out backend configs and another prints them."""
        return self.is_canonical and not other.is_canonical and not self.has_configs

    def leaves_out_controls(self, other: Style) -> bool:
        """Return whether this style leaves out control predecessors and another prints them."""
        return self.is_short and not other.is_short and not self.has_controls


def style_of(module: HloModule) -> Style:
    """Return the print style of a module's text."""
    text, spans = module.columns.source.text, module.columns.spans
    opcodes, shapes = module.opcodes.different, module.shape_texts.different
    start, end = (spans[0], spans[-1]) if spans else (0, 0)

    def holds(part: str) -> bool:
        return text.find(part, start, end) >= 0

    is_short = (
        bool(spans)
        and text[spans[NAME] - 1] != "%"
        and not holds(METADATA_KEY)
        and not any(c.signature_text for c in module.computations)
    )
    dots = _shapes_of_dots(module)
    is_canonical = is_short and _has_numbers_for_names(module)
    return Style(
        has_sugar=_has_sugar(module),
        has_wrapped="async-start" in opcodes,
        has_layouts=any("]{" in shape for shape in shapes),
        has_shapes=any(shapes),
        has_dots=bool(dots),
        has_scalar_dots=any(map(_SCALAR.search, dots)),
        has_configs=is_canonical and holds("backend_config="),  # only asked for of such texts
        has_controls=is_short and holds("control-predecessors="),
        is_short=is_short,
        is_canonical=is_canonical,
    )


def _has_sugar(module: HloModule) -> bool:
    """Return whether any opcode is sugar, or an own start has the shape of an async-start.

    The latter begins with the tuple of the operands: ``((f32[8]), f32[8]) all-gather-start``.
    """
    found = {opcode: opcode_traits(opcode) for opcode in module.opcodes.different}
    if any(traits.is_sugar for traits in found.values()):
        return True
    starts = {o for o, traits in found.items() if traits.phase == "start" and o != "async-start"}
    shapes = module.shape_texts
    return any(shapes[row].startswith("((") for row in module.opcodes.places_of(starts))


def _shapes_of_dots(module: HloModule) -> set[str]:
    """Return the shapes of the constants whose literal is printed as dots."""
    columns, shapes = module.columns, module.shape_texts
    constants = module.opcodes.places_of({"constant"})
    return {shapes[row] for row in constants if columns.text(row, OPERANDS, OPERANDS_END) == _DOTS}


def _has_numbers_for_names(module: HloModule) -> bool:
    name = module.columns.name
    return all(_CANONICAL.fullmatch(name(row)) for row in range(len(module.columns)))
