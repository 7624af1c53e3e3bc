"""Values that share a buffer: donated parameters, joined values, and their clipped live ranges.

Sources: xla/hlo/analysis/hlo_alias_analysis.cc, xla/hlo/utils/hlo_live_range.cc, as of August 2026.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment.shape_tree import NODES
from hlo_lens.analysis.buffer_assignment.values import DisjointSets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hlo_lens.analysis.buffer_assignment.values import Values
    from hlo_lens.analysis.buffer_assignment.walk import Walk


def join_donated(walk: Walk, result: Sequence[int]) -> set[int]:
    """Join donated parameters and their outputs; return the parameters' values.

    Args:
        walk: The finished walk over the module.
        result: Values of the entry's result.
    """
    donated: set[int] = set()
    find = walk.merged.find
    root = walk.module.entry.root_row
    tree = walk.tree(root) if root >= 0 else walk.trees.unknown
    row_of = {
        number: walk.values.places[values[0]] // NODES
        for number, values in walk.parameters.items()
        if values
    }
    for alias in walk.module.input_output_alias:
        row = row_of.get(alias.parameter_number)
        node = None if row is None else walk.tree(row).at(alias.parameter_index)
        output = tree.at(alias.output_index)
        if row is None or node is None:
            walk.skip("alias of a missing parameter")
            continue
        value = find(walk.parameters[alias.parameter_number][node])
        donated.add(value)
        if output is not None and output < len(result):
            walk.joined.union(value, find(result[output]))
    return donated


def merged_buffers(walk: Walk) -> list[list[int]]:
    """Return the buffers; values in a buffer, and buffers, are in the order of their values."""
    find = walk.merged.find
    joined = DisjointSets()
    canonical = [find(value) for value in range(len(walk.values))]
    for value in range(len(walk.values)):
        other = walk.joined.find(value)
        if other != value:
            joined.union(canonical[value], canonical[other])
    groups: dict[int, list[int]] = {}
    for value, held in enumerate(canonical):
        if held == value:
            groups.setdefault(joined.find(value), []).append(value)
    orders = walk.values.orders
    buffers = list(groups.values())
    for group in buffers:
        if len(group) > 1:
            group.sort(key=orders.__getitem__)
    buffers.sort(key=lambda group: orders[group[0]])
    return buffers


def normalise_ranges(values: Values, buffers: Iterable[list[int]]) -> None:
    """Clip the live ranges of a buffer's values: each ends where the next begins.

    Source: HloLiveRange::NormalizeAliasedBuffers. Both include that instant.
    """
    starts, ends, orders = values.starts, values.ends, values.orders
    for group in buffers:
        if len(group) == 1:
            continue
        chain = sorted(group, key=lambda v: (starts[v], ends[v], orders[v]))
        for first, second in itertools.pairwise(chain):
            end = ends[first]
            ends[second] = max(end, ends[second])
            ends[first] = min(end, starts[second])
