"""Trip counts of the loops of each line of the user's program, on both sides of a comparison."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hlo_lens.hlo.query import InstructionTable
from hlo_lens.program.trip_counts import trip_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.hlo.module import HloModule

    Trips = tuple[int, ...]


def trips_by_line(module: HloModule, line: Callable[[int], str | None]) -> dict[str, Trips]:
    """Return the sorted trip counts of the loops of each line with known ones.

    Args:
        module: The module.
        line: Returns the line of a row.
    """
    rows = module.opcodes.places_of({"while"})
    if not rows:
        return {}
    counts = trip_counts(InstructionTable(module), derives_printed=False).loops
    found: dict[str, list[int | None]] = defaultdict(list)
    for row, loop in zip(rows, counts, strict=True):
        place = line(row)
        if place is not None:
            found[place].append(loop.trip_count)
    known = {place: [one for one in trips if one is not None] for place, trips in found.items()}
    return {
        place: tuple(sorted(trips))
        for place, trips in known.items()
        if len(trips) == len(found[place])
    }


def changed_trips(
    before: Mapping[str, Trips], after: Mapping[str, Trips], names: Mapping[str, str]
) -> dict[str, tuple[Trips, Trips]]:
    """Return the lines with as many loops as before, of which some have another trip count.

    Args:
        before: Trip counts by line in the base.
        after: Those in the head.
        names: Lines of the base to their names in the head.
    """
    pairs = ((names.get(place, place), trips) for place, trips in before.items())
    return {
        place: (trips, after[place])
        for place, trips in pairs
        if place in after and len(after[place]) == len(trips) and after[place] != trips
    }
