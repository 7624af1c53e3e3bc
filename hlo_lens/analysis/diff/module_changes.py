"""What changed about a whole module: its header.

Donation is told by parameter, those that are partners counting as one, whatever their numbers; one
that came or went has lost or gained nothing. The index of the output counts only where both
programs have equally many. Names of axes, fingerprints
and the layouts that follow from parameters and results are not compared here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.analysis.diff.attribute_text import squeezed
from hlo_lens.analysis.diff.edits import Change
from hlo_lens.analysis.diff.entry_layouts import RESULT, entry_shapes, layout_changes
from hlo_lens.analysis.diff.keys import parameter_numbers
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.analysis.diff.partners import Matching
    from hlo_lens.analysis.diff.program_graph import ProgramGraph
    from hlo_lens.model.hlo import HloModule
    from hlo_lens.model.shape import ShapeIndex

_COMPARED_ELSEWHERE = frozenset(
    {
        "input_output_alias",
        "buffer_donor",
        "entry_computation_layout",
        "frontend_attributes",
        "num_partitions",
        "replica_count",
        "is_scheduled",
        "debug_attributes",
        "origin_recovery_table",
    }
)
_FINGERPRINTS = frozenset({"fingerprint_before_lhs"})
"""Frontend attributes that say what the text is, not what the program does."""


def module_changes(base: ProgramGraph, head: ProgramGraph, found: Matching) -> Iterator[Change]:
    """Yield what changed about the module, donations first."""
    mine, yours = base.module, head.module
    partners = _Parameters(base, head, found)
    yield from _donations(base, head, partners)
    yield from _layouts(base, head, partners)
    for what in ("num_partitions", "replica_count", "is_scheduled"):
        before, after = getattr(mine, what), getattr(yours, what)
        if before != after:
            yield Change(what=what, base=str(before).lower(), head=str(after).lower())
    yield from _compared(_others(mine), _others(yours), "")
    yield from _compared(_frontend(mine), _frontend(yours), "frontend_attributes.")


def _compared(mine: Mapping[str, str], yours: Mapping[str, str], prefix: str) -> Iterator[Change]:
    for name in dict.fromkeys((*mine, *yours)):
        before, after = mine.get(name), yours.get(name)
        if before != after and not _is_per_parameter(before, after):
            yield Change(what=f"{prefix}{name}", base=before, head=after)


def _is_per_parameter(before: str | None, after: str | None) -> bool:
    """Return whether two lists have the same values, only more or fewer of them.

    Such is what JAX says of each parameter or result: their number is compared elsewhere.
    """
    if before is None or after is None:
        return False
    mine, yours = (re.split("[,;]", text.strip("{}")) for text in (before, after))
    return len(mine) != len(yours) and set(mine) == set(yours)


def _others(module: HloModule) -> dict[str, str]:
    return {
        name: squeezed(value)
        for name, value in module.header.items()
        if name not in _COMPARED_ELSEWHERE
    }


def _frontend(module: HloModule) -> dict[str, str]:
    try:
        found = module.frontend_attributes
    except DumpSyntaxError:
        return {}
    return {name: value for name, value in found.items() if name not in _FINGERPRINTS}


class _Parameters:
    """Who is who among the parameters of two programs, and what they are called.

    Args:
        base: Graph of the base.
        head: Graph of the head.
        found: Who is who.

    Attributes:
        partners: Number of a parameter of the base to that of the head.
        names: Number to what it is called, of both.
    """

    def __init__(self, base: ProgramGraph, head: ProgramGraph, found: Matching) -> None:
        mine_at, yours_at = (parameter_numbers(graph, graph.entry) for graph in (base, head))
        number_of = {node: number for number, node in yours_at.items()}
        self.partners = {
            number: number_of[found.head_of[node]]
            for number, node in mine_at.items()
            if found.head_of[node] in number_of
        }
        self.names = _parameter_names(base, mine_at), _parameter_names(head, yours_at)


def _layouts(base: ProgramGraph, head: ProgramGraph, found: _Parameters) -> Iterator[Change]:
    """Yield the layouts that the header demands otherwise of parameters and result."""
    mine, yours = entry_shapes(base), entry_shapes(head)
    for number, partner in (*found.partners.items(), (RESULT, RESULT)):
        if number in mine and partner in yours:
            label = "result" if number == RESULT else found.names[0][number]
            yield from layout_changes(mine[number], yours[partner], label)


def _donations(base: ProgramGraph, head: ProgramGraph, found: _Parameters) -> Iterator[Change]:
    """Yield the buffers of parameters that outputs take over no longer, or now, or elsewhere."""
    partners, names = found.partners, found.names
    known = set(partners.values())
    with_output = _output_count(base.module) == _output_count(head.module)
    for what, read in (("input_output_alias", _aliases), ("buffer_donor", _donors)):
        mine, yours = read(base.module, with_output), read(head.module, with_output)
        matched: set[tuple[int, ShapeIndex]] = set()
        for (number, index), text in mine.items():
            if number in names[0] and number not in partners:
                continue
            key = (partners.get(number, number), index)
            matched.add(key)
            if yours.get(key) != text:
                after = yours.get(key)
                label = names[0].get(number, f"parameter {number}")
                yield Change(
                    what=what,
                    base=_donation(label, index, text),
                    head=None if after is None else _donation(label, index, after),
                )
        for key, text in yours.items():
            if key not in matched and (key[0] in known or key[0] not in names[1]):
                label = names[1].get(key[0], f"parameter {key[0]}")
                yield Change(what=what, base=None, head=_donation(label, key[1], text))


def _donation(label: str, index: ShapeIndex, text: str) -> str:
    place = f"{{{','.join(map(str, index))}}}" if index else ""
    return f"{label}{place}{text}"


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
    """Return what a parameter is called by its number: by the framework, else by its number."""
    found = {}
    for number, node in numbers.items():
        metadata = graph.instruction(node).metadata
        name = "" if metadata is None or not metadata.op_name else f" {metadata.op_name}"
        found[number] = f"parameter {number}{name}"
    return found
