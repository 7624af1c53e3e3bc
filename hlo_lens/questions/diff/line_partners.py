"""Lines of the base paired with lines of the head: each with one other at most.

Lines pair by their unchanged instructions, most first; then those with equal operations in equal
order between these pairs, as lines of unrolled loops have; then those between two pairs that an
edit further up shifted equally far, or with as many other lines on both sides; what remains pairs
by name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.portable_sources import split_source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    Votes = Counter[tuple[str, str]]
    Operations = Mapping[str, frozenset[str]]


def line_partners(votes: Votes, before: Operations, after: Operations) -> dict[str, str]:
    """Return the line of the head for lines of the base.

    Args:
        votes: Line of the base and line of the head, with their unchanged instructions.
        before: Opcodes of the operations of each line of the base.
        after: Those of the head.
    """
    found = _voted(votes)
    for pairs in (_alike, _shifted, _in_gaps, _equal):
        kept = set(found.values())
        for mine, yours in [*pairs(found, before, after)]:
            if mine not in found and yours not in kept:
                found[mine] = yours
                kept.add(yours)
    return found


def _voted(votes: Votes) -> dict[str, str]:
    """Return pairs by votes, in an order that does not depend on the direction."""

    def order(item: tuple[tuple[str, str], int]) -> tuple[object, ...]:
        (mine, yours), count = item
        return -count, mine != yours, min(mine, yours), max(mine, yours)

    found: dict[str, str] = {}
    kept: set[str] = set()
    for (mine, yours), _ in sorted(votes.items(), key=order):
        if mine not in found and yours not in kept:
            found[mine] = yours
            kept.add(yours)
    return found


def _alike(
    found: Mapping[str, str], before: Operations, after: Operations
) -> Iterator[tuple[str, str]]:
    """Yield lines with equal operations, in order between the pairs of their file."""
    pairs = {yours: mine for mine, yours in found.items()}
    others = _by_file(after)
    for file, lines in _by_file(before).items():
        mine = [f"{file}:{line}" for line in lines]
        yours = [f"{file}:{line}" for line in others.get(file, ())]
        keys: list[object] = [one if one in found else before[one] for one in mine]
        other_keys: list[object] = [pairs.get(one) or after[one] for one in yours]
        for one, other, size in SequenceMatcher(
            None, keys, other_keys, autojunk=False
        ).get_matching_blocks():
            yield from zip(mine[one : one + size], yours[other : other + size], strict=True)


def _shifted(
    found: Mapping[str, str], before: Operations, after: Operations
) -> Iterator[tuple[str, str]]:
    """Yield lines between two pairs that are shifted equally far."""
    shifts: dict[str, dict[int, int]] = defaultdict(dict)
    for mine, yours in found.items():
        (file, line), (other_file, other) = split_source(mine), split_source(yours)
        if file is not None and file == other_file and line and other:
            shifts[file][line] = other - line
    known = {file: sorted(lines) for file, lines in shifts.items()}
    for place in before:
        file, line = split_source(place)
        lines = known.get(file or "", [])
        at = bisect_left(lines, line or 0)
        around = {shifts[file or ""][one] for one in lines[max(0, at - 1) : at + 1]}
        if line is not None and 0 < at < len(lines) and len(around) == 1:
            yours = f"{file}:{line + around.pop()}"
            if yours in after:
                yield place, yours


def _in_gaps(
    found: Mapping[str, str], before: Operations, after: Operations
) -> Iterator[tuple[str, str]]:
    """Yield lines of like operations between two pairs, with as many lines on both sides."""
    others = dict(_gaps(after, set(found.values())))
    for (start, end), mine in _gaps(before, set(found)):
        yours = others.get((found[start], found[end]), [])
        for one, other in zip(mine, yours, strict=False) if len(mine) == len(yours) else ():
            if 2 * len(before[one] & after[other]) > len(before[one] | after[other]):
                yield one, other


def _gaps(
    places: Operations, paired: Collection[str]
) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yield the lines between two paired lines of one file, with these two."""
    for file, lines in _by_file(places).items():
        start, between = "", list[str]()
        for place in [f"{file}:{line}" for line in lines]:
            if place not in paired:
                between.append(place)
                continue
            if start and between:
                yield (start, place), between
            start, between = place, []


def _equal(
    _found: Mapping[str, str], before: Operations, after: Operations
) -> Iterator[tuple[str, str]]:
    """Yield lines of equal names."""
    yield from ((place, place) for place in before if place in after)


def _by_file(places: Operations) -> dict[str, Sequence[int]]:
    """Return the lines of each file, in their order."""
    found: dict[str, list[int]] = defaultdict(list)
    for file, line in map(split_source, places):
        if file is not None and line is not None:
            found[file].append(line)
    return {file: sorted(lines) for file, lines in found.items()}
