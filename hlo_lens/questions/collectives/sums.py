"""Sums of counts and bytes over collectives in one run of the program, with their bounds.

Of collectives in branches that exclude each other those of the largest branch count
(`branch_sums`). A sum is an upper bound if branches differ, and a sum of bytes also if those of a
collective are an upper bound (`wire_bytes`).
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from hlo_lens.program.runs import Branches, SumBounds, SumPart, bounded_sum

if TYPE_CHECKING:
    from collections.abc import Iterable

COUNT, PAYLOAD, WIRE = "dynamic_count", "payload_bytes_per_run", "wire_bytes_per_run"
UNCOVERED = "uncovered_bytes_per_run"
"""Figures of one run."""


class RunFigures(Protocol):
    """Figures of a collective in one run, of a module or of a snapshot; None if not known.

    `branches` is None in snapshots of versions that did not save it.
    """

    @property
    def branches(self) -> Branches | None:
        """Branches around it, outermost first."""

    @property
    def is_at_most(self) -> bool:
        """Whether its count or its bytes are an upper bound."""

    @property
    def is_payload_at_most(self) -> bool:
        """Whether its bytes are an upper bound each time."""

    @property
    def dynamic_count(self) -> int | None:
        """Runs in one run of the program."""

    @property
    def payload_bytes_per_run(self) -> int | None:
        """Bytes of the full tensor of one group in one run."""

    @property
    def wire_bytes_per_run(self) -> int | None:
        """Bytes that leave each device in one run."""


def run_sum(rows: Iterable[RunFigures], figure: str) -> SumBounds | None:
    """Return the bounds of the sum of a figure of one run; None if a part is not known."""
    get = attrgetter(figure)
    parts = []
    for row in rows:
        amount: int | None = get(row)
        if amount is None:
            return None
        parts.append(_part(row, amount, figure))
    return bounded_sum(parts)


def known_sum(rows: Iterable[RunFigures], figure: str) -> SumBounds:
    """Return the bounds of the sum of the known parts of a figure of one run."""
    get = attrgetter(figure)
    return bounded_sum(_part(row, get(row) or 0, figure) for row in rows)


def _part(row: RunFigures, amount: int, figure: str) -> SumPart:
    branches = row.branches
    if branches is None:
        return SumPart((), amount, is_exact=not row.is_at_most)
    return SumPart(branches, amount, is_exact=figure == COUNT or not row.is_payload_at_most)
