"""Matching of the collectives of two compiles by keys, strictest first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.keyed_pairs import Paired, pair_items
from hlo_lens.analysis.comparison.op_paths import last_scopes

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hlo_lens.model.snapshot.rows import CollectiveFact

_TIMES = re.compile(r" x(?:\d+|\?)$")


def pair_collectives(
    base: Sequence[CollectiveFact], head: Sequence[CollectiveFact]
) -> Paired[CollectiveFact]:
    """Return matched collectives, and those added or removed."""
    return pair_items(base, head, _STAGES, _order)


def _loops(fact: CollectiveFact) -> tuple[str, ...]:
    """Return the enclosing loops, without trip counts."""
    return tuple(_TIMES.sub("", loop) for loop in fact.loops)


def _what(fact: CollectiveFact) -> tuple[object, ...]:
    return (fact.kind, fact.groups, fact.payload_bytes, fact.element_type)


def _by_all(fact: CollectiveFact) -> Hashable:
    times = (fact.dynamic_count, fact.is_at_most)
    return (*_what(fact), fact.loops, times, fact.is_exposed, fact.op_name, fact.source)


def _without_line(fact: CollectiveFact) -> Hashable:
    return (*_what(fact), fact.loops, fact.dynamic_count, fact.is_exposed, fact.op_name)


def _without_exposure(fact: CollectiveFact) -> Hashable:
    return (*_what(fact), fact.loops, fact.dynamic_count, fact.op_name)


def _without_trips(fact: CollectiveFact) -> Hashable:
    return (*_what(fact), _loops(fact), fact.op_name)


def _without_payload(fact: CollectiveFact) -> Hashable:
    return (fact.kind, fact.axis, fact.group_size, _loops(fact), fact.op_name)


def _without_loops(fact: CollectiveFact) -> Hashable:
    return (*_what(fact), _operation(fact))


def _without_scopes(fact: CollectiveFact) -> Hashable:
    """Return what a move into another scope keeps: the last scope of the path."""
    name = last_scopes(fact.op_name)
    return (*_what(fact), name, fact.source_file) if name else None


def _without_origin(fact: CollectiveFact) -> Hashable:
    return (*_what(fact), len(fact.loops), fact.dynamic_count)


def _without_groups(fact: CollectiveFact) -> Hashable:
    return (fact.kind, fact.axis, fact.group_size, fact.payload_bytes, len(fact.loops))


def _of_one_origin(fact: CollectiveFact) -> Hashable:
    if fact.op_name is None:
        return None
    return (fact.kind, fact.op_name, fact.source_file)


def _of_one_operation(fact: CollectiveFact) -> Hashable:
    if fact.op_name is None:
        return None
    return (fact.kind, fact.axis, fact.group_size, _operation(fact), fact.source_file)


def _operation(fact: CollectiveFact) -> str:
    """Return the last two scopes of the operation path; edits around it change the others."""
    return last_scopes(fact.op_name, 2)


_STAGES = (
    _by_all,
    _without_line,
    _without_exposure,
    _without_trips,
    _without_payload,
    _without_loops,
    _without_scopes,
    _without_origin,
    _without_groups,
    _of_one_origin,
    _of_one_operation,
)


def _order(fact: CollectiveFact) -> tuple[object, ...]:
    return (
        fact.source_line,
        fact.payload_bytes,
        fact.dynamic_count,
        fact.axis,
        fact.op_name,
        fact.source_file,
        " ".join(fact.loops),
        fact.groups,
        fact.element_type,
        fact.is_exposed,
    )
