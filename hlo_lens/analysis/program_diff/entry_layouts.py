"""Layouts of parameters and result in the header that differ from those of the entry.

Before layout assignment the two differ: the header has the layouts that the caller passes and
receives. Without a header field, the layouts are those of the entry (xla/hlo/parser/hlo_parser.cc
derives one from the other).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.analysis.program_diff.edits import Change
from hlo_lens.analysis.program_diff.label_changes import shape_changes
from hlo_lens.analysis.program_diff.match_keys import parameter_numbers
from hlo_lens.model.shapes.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.program_diff.graph import ProgramGraph

RESULT = -1
"""Key of the result among the numbers of parameters."""


class EntryShape(NamedTuple):
    """A parameter or the result of a program.

    Attributes:
        demanded: Its shape in the header; the printed one if the header has none.
        printed: Its shape in the instruction.
    """

    demanded: Shape
    printed: Shape


def entry_shapes(graph: ProgramGraph) -> dict[int, EntryShape]:
    """Return the shapes of the parameters by number, and of the result, if both are known."""
    labels, module = graph.labels, graph.module
    printed: dict[int, Shape | str] = {
        number: labels.shapes[labels.parts[graph.label[node]].shape]
        for number, node in parameter_numbers(graph, graph.entry).items()
    }
    if module.entry.root is not None:
        text = module.entry.root.shape_text
        printed[RESULT] = labels.shapes[labels.shape(text, module.reader)]
    demanded: dict[int, Shape] = {}
    program = module.entry_computation_layout
    if program is not None:
        demanded = dict(enumerate(program.parameters))
        demanded[RESULT] = program.result
    return {
        number: EntryShape(
            labels.plain_shape(demanded[number]) if number in demanded else shape, shape
        )
        for number, shape in printed.items()
        if isinstance(shape, Shape)
    }


def layout_changes(mine: EntryShape, yours: EntryShape, label: str) -> Iterator[Change]:
    """Yield the changes of header layouts of a parameter or the result, leaf by leaf.

    Without those of the instructions, which the header repeats.
    """
    if mine.demanded == yours.demanded:
        return
    leaves = [[leaf for _, leaf in shape.leaves()] for shape in (*mine, *yours)]
    is_alike = len({len(part) for part in leaves}) == 1
    quadruples = zip(*leaves, strict=True) if is_alike else [(*mine, *yours)]
    for place, (before, was, after, now) in enumerate(quadruples):
        said = set(shape_changes(was, now))
        name = f"{label} {{{place}}}" if len(leaves[0]) > 1 and is_alike else label
        for change in shape_changes(before, after):
            if change not in said:
                yield Change(
                    what="entry_computation_layout",
                    base=f"{name} {change.what} {change.base or '(none)'}",
                    head=f"{name} {change.what} {change.head or '(none)'}",
                )
