"""Changes of the header of a module.

Donations are compared by parameter: partners count as one, whatever their numbers, and an added or
removed parameter has lost or gained nothing. The index of the output counts only if both programs
have equally many. Layouts of the entry are compared if they do not follow from parameters and
result, all other fields as in `module_header`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.diff.matching.edits import Change
from hlo_lens.questions.diff.matching.match_keys import parameter_numbers
from hlo_lens.questions.diff.matching.module_header import (
    RESULT,
    entry_shapes,
    has_gap,
    header_values,
    layout_changes,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.graph import ProgramGraph
    from hlo_lens.questions.diff.matching.match_computations import Matching
    from hlo_lens.shapes.shape import ShapeIndex


def module_changes(base: ProgramGraph, head: ProgramGraph, found: Matching) -> Iterator[Change]:
    """Yield the changes of the module, donations first."""
    partners = _Parameters(base, head, found)
    yield from _donations(base, head, partners)
    yield from _layouts(base, head, partners)
    modules = (base.module, head.module)
    as_written = any(map(has_gap, modules))
    mine, yours = (header_values(module, as_written=as_written) for module in modules)
    for name in dict.fromkeys((*mine, *yours)):
        before, after = mine.get(name), yours.get(name)
        if before != after and not _follows_arity(before, after, (base, head)):
            yield Change(what=name, base=before, head=after)


def _follows_arity(
    before: str | None, after: str | None, graphs: tuple[ProgramGraph, ProgramGraph]
) -> bool:
    """Return whether two lists have equal values, one for each parameter or result.

    JAX prints such lists; a change of their length is reported elsewhere.
    """
    if before is None or after is None:
        return False
    mine, yours = (re.split("[,;]", text.strip("{}")) for text in (before, after))
    if len(mine) == len(yours) or set(mine) != set(yours):
        return False
    sizes = [_arities(graph.module) for graph in graphs]
    return (len(mine), len(yours)) in zip(*sizes, strict=True)


def _arities(module: HloModule) -> tuple[int, int]:
    """Return the number of arrays of the parameters and of the result."""
    shapes = [parameter.shape for parameter in module.entry.parameters]
    root = module.entry.root
    result = None if root is None else root.shape
    leaves = [0 if shape is None else len(list(shape.leaves())) for shape in (*shapes, result)]
    return sum(leaves[:-1]), leaves[-1]


class _Parameters:
    """Partners among the parameters of two programs, and their names.

    Attributes:
        partners: Number of a parameter of the base to that of the head.
        pairs: Number to the key of a pair of partners, of base and head.
        names: Number to name, of base and head.
    """

    def __init__(self, base: ProgramGraph, head: ProgramGraph, found: Matching) -> None:
        mine_at, yours_at = (parameter_numbers(graph, graph.entry) for graph in (base, head))
        number_of = {node: number for number, node in yours_at.items()}
        self.partners = {
            number: number_of[found.head_of[node]]
            for number, node in mine_at.items()
            if found.head_of[node] in number_of
        }
        self.pairs = (
            {number: number for number in self.partners},
            {partner: number for number, partner in self.partners.items()},
        )
        self.names = _parameter_names(base, mine_at), _parameter_names(head, yours_at)


def _layouts(base: ProgramGraph, head: ProgramGraph, found: _Parameters) -> Iterator[Change]:
    """Yield the changed header layouts of parameters and result."""
    mine, yours = entry_shapes(base), entry_shapes(head)
    for number, partner in (*found.partners.items(), (RESULT, RESULT)):
        if number in mine and partner in yours:
            label = "result" if number == RESULT else found.names[0][number]
            yield from layout_changes(mine[number], yours[partner], label)


class _Donation(NamedTuple):
    """A donated buffer: key, kind, and whether its parameter has no partner."""

    label: str
    how: str
    is_alone: bool


def _donations(base: ProgramGraph, head: ProgramGraph, found: _Parameters) -> Iterator[Change]:
    """Yield the donations that were lost, gained or changed."""
    with_output = _output_count(base.module) == _output_count(head.module)
    for what, read in (("input_output_alias", _aliases), ("buffer_donor", _donors)):
        mine = dict(_by_parameter(found, 0, read(base.module, with_output)))
        yours = dict(_by_parameter(found, 1, read(head.module, with_output)))
        for key in dict.fromkeys((*mine, *yours)):
            before, after = mine.get(key), yours.get(key)
            one = before or after
            if one is None or (before and after and before.how == after.how):
                continue
            if one.is_alone and (before is None or after is None):
                continue
            yield Change(
                what=what,
                base=None if before is None else f"{one.label}{before.how}",
                head=None if after is None else f"{one.label}{after.how}",
            )


def _by_parameter(
    found: _Parameters, side: int, donated: Mapping[tuple[int, ShapeIndex], str]
) -> Iterator[tuple[Hashable, _Donation]]:
    """Yield the donations by pair of parameters; by number if a text lacks their line."""
    names, others, pairs = found.names[side], found.names[1 - side], found.pairs[side]
    for (number, index), how in donated.items():
        pair = pairs.get(number)
        if pair is None and number in names and number in others:
            continue  # added or removed, and another parameter has its number
        place = f"{{{','.join(map(str, index))}}}" if index else ""
        label = f"{names.get(number, f'parameter {number}')}{place}"
        key = (pair, number if pair is None else None, index)
        yield key, _Donation(label, how, is_alone=pair is None and number in names)


def _aliases(module: HloModule, with_output: bool) -> dict[tuple[int, ShapeIndex], str]:
    found = {}
    for alias in module.input_output_alias:
        output = ",".join(map(str, alias.output_index))
        place = f" in output {{{output}}}" if with_output else ""
        kind = "" if alias.kind == "may-alias" else f", {alias.kind}"
        found[alias.parameter_number, alias.parameter_index] = f"{place}{kind}"
    return found


def _donors(module: HloModule, with_output: bool) -> dict[tuple[int, ShapeIndex], str]:
    del with_output
    return dict.fromkeys(module.buffer_donor, "")


def _output_count(module: HloModule) -> int:
    root = module.entry.root
    shape = None if root is None else root.shape
    return 1 if shape is None or not shape.is_tuple else len(shape.tuple_shapes)


def _parameter_names(graph: ProgramGraph, numbers: Mapping[int, int]) -> dict[int, str]:
    """Return the name of each parameter by number: the framework's, else the number."""
    found = {}
    for number, node in numbers.items():
        found[number] = f"parameter {number} {graph.instruction(node).op_name or ''}".rstrip()
    return found
