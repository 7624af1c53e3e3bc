"""Donated arguments and the results that have their memory, in a compiled program.

JAX names most pairs; for the other donated arguments (``buffer_donor``) XLA looks for a free result
of the same bytes, the largest first. Source: xla/service/optimize_input_output_buffer_alias.cc
(Build), as of August 2026.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.shape_tree import NODES
from hlo_lens.hlo.module import InputOutputAlias
from hlo_lens.questions.what_if.arguments import index_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.buffers.estimate.values import Dataflow
    from hlo_lens.questions.what_if.arguments import EntryArrays
    from hlo_lens.questions.what_if.donation import DonatedPairs
    from hlo_lens.shapes.shape import ShapeIndex


def alias_pairs(
    arrays: EntryArrays, pairs: DonatedPairs, flow: Dataflow
) -> tuple[InputOutputAlias, ...]:
    """Return the aliases of a compiled program whose arguments are donated so.

    Args:
        arrays: Arguments and results in which the pairs are positions.
        pairs: Donated arguments.
        flow: Values of the compiled program, whose sizes count.
    """
    found: list[InputOutputAlias] = []
    for place, result in pairs.outputs.items():
        argument = arrays.arguments[place]
        found.append(
            InputOutputAlias(
                output_index=index_of(arrays.results[result]),
                parameter_number=argument.value.number or 0,
                parameter_index=index_of(argument),
                kind=pairs.kinds.get(place, "may-alias"),
            )
        )
    donors = [arrays.arguments[place] for place in sorted(pairs.donors)]
    keys = [(one.value.number or 0, index_of(one)) for one in donors]
    found += _found_by_xla(keys, {one.output_index for one in found}, flow)
    return tuple(sorted(found, key=lambda one: one.output_index))


def _found_by_xla(
    donors: Iterable[tuple[int, ShapeIndex]], taken: set[ShapeIndex], flow: Dataflow
) -> list[InputOutputAlias]:
    """Return the results that XLA finds for donated arguments, by bytes and memory space."""
    waiting: dict[tuple[int, int], list[tuple[int, ShapeIndex]]] = defaultdict(list)
    for number, index in donors:
        value = parameter_value(flow, number, index)
        if value is not None:
            part = flow.values.parts[value]
            waiting[part.color, part.size_bytes].append((number, index))
    tree = flow.tree(flow.table.module.entry.root_row)
    found = []
    for node, part in enumerate(tree.parts):
        index = tree.index(node)
        if part.is_tuple or index in taken:
            continue
        listed = waiting.get((part.color, part.size_bytes))
        if listed:
            number, parameter_index = listed.pop(0)
            found.append(
                InputOutputAlias(
                    output_index=index, parameter_number=number, parameter_index=parameter_index
                )
            )
    return found


def parameter_value(flow: Dataflow, number: int, index: ShapeIndex) -> int | None:
    """Return the value of an entry parameter at a shape index; None if there is none."""
    values = flow.parameter_values.get(number)
    if not values:
        return None
    node = flow.tree(flow.values.places[values[0]] // NODES).at(index)
    return None if node is None else values[node]
