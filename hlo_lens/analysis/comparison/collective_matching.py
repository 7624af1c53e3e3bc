"""Matching of the collectives of two compiles by keys, strictest first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.keyed_pairs import Paired, pair_items
from hlo_lens.analysis.comparison.op_paths import last_scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

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


def _times(fact: CollectiveFact) -> tuple[object, ...]:
    return (fact.loops, fact.dynamic_count)


def _what(fact: CollectiveFact) -> tuple[object, ...]:
    return (fact.kind, fact.groups, fact.payload_bytes, fact.element_type)


def _where(fact: CollectiveFact) -> tuple[object, ...]:
    return (fact.kind, fact.axis, fact.group_size)


def _operation(fact: CollectiveFact) -> str:
    """Return the last two scopes of the operation path; edits around it change the others."""
    return last_scopes(fact.op_name, 2)


_STAGES: tuple[Callable[[CollectiveFact], Hashable], ...] = (
    lambda f: (*_what(f), *_times(f), f.is_at_most, f.is_exposed, f.op_name, f.source),
    lambda f: (*_what(f), *_times(f), f.is_exposed, f.op_name),
    lambda f: (*_what(f), *_times(f), f.op_name),
    lambda f: (*_what(f), _loops(f), f.op_name),
    lambda f: (*_where(f), _loops(f), f.op_name),
    lambda f: (*_what(f), _operation(f)),
    # a collective that moves into another scope keeps the last scope of its path
    lambda f: last_scopes(f.op_name) and (*_what(f), last_scopes(f.op_name), f.source_file),
    lambda f: (*_what(f), len(f.loops), f.dynamic_count),
    lambda f: (*_where(f), f.payload_bytes, len(f.loops)),
    lambda f: f.op_name and (f.kind, f.op_name, f.source_file),
    lambda f: f.op_name and (*_where(f), _operation(f), f.source_file),
)
"""Keys by which collectives are matched, strictest first."""


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
