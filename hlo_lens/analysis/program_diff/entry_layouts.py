"""Layouts that the header demands of parameters and result, where the entry's own are others.

Before layouts are assigned the two differ: the header says what the caller passes and takes. A
header that says nothing demands what the entry prints (xla/hlo/parser/hlo_parser.cc, which derives
the one from the other).
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
"""What stands for the result where parameters go by their number."""


class EntryShape(NamedTuple):
    """A parameter or the result of a program.

    Attributes:
        demanded: Its shape as the header has it; the printed one where the header says nothing.
        printed: Its shape as the instruction has it.
    """

    demanded: Shape
    printed: Shape


def entry_shapes(graph: ProgramGraph) -> dict[int, EntryShape]:
    """Return the shapes of the parameters by number, and of the result, where both are known."""
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
    """Yield what the header demands otherwise of a parameter or the result, leaf by leaf.

    Not what the instructions themselves say: the header repeats it.
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
