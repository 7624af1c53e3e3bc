"""Pairs the items of two lists by keys, the strictest first; what is left has no partner.

At each stage items of equal key are paired in order of a third key, as many as both sides have.
That treats both sides alike: exchanging them exchanges the members of each pair and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired(Generic[T]):
    """Who belongs to whom.

    Attributes:
        pairs: An item of the base and one of the head, and the stage that paired them, from 0.
        removed: Items of the base alone, in their order.
        added: Items of the head alone, in theirs.
    """

    pairs: tuple[tuple[T, T, int], ...]
    removed: tuple[T, ...]
    added: tuple[T, ...]


def pair_items(
    base: Sequence[T],
    head: Sequence[T],
    stages: Sequence[Callable[[T], Hashable]],
    order: Callable[[T], tuple[object, ...]],
) -> Paired[T]:
    """Return the pairs of two lists.

    Args:
        base: Items of the one side.
        head: Items of the other.
        stages: Keys, the strictest first; None for an item that does not take part in a stage.
        order: In which order items of equal key are paired; the same for all that are equal.
    """
    left, right = dict(enumerate(base)), dict(enumerate(head))
    pairs: list[tuple[T, T, int]] = []
    for stage, key_of in enumerate(stages):
        if not left or not right:
            break
        mine, yours = _by_key(left, key_of, order), _by_key(right, key_of, order)
        for key, places in mine.items():
            for one, other in zip(places, yours.get(key, ()), strict=False):
                pairs.append((left.pop(one), right.pop(other), stage))
    return Paired(pairs=tuple(pairs), removed=tuple(left.values()), added=tuple(right.values()))


def _by_key(
    items: dict[int, T],
    key_of: Callable[[T], Hashable],
    order: Callable[[T], tuple[object, ...]],
) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for place, item in items.items():
        key = key_of(item)
        if key is not None:
            found.setdefault(key, []).append(place)
    for places in found.values():
        if len(places) > 1:
            places.sort(key=lambda place: _comparable(order(items[place])))
    return found


def _comparable(parts: tuple[object, ...]) -> tuple[tuple[bool, bool, object], ...]:
    """Return a key that sorts None before numbers, and these before text."""
    return tuple(
        (part is not None, isinstance(part, str), 0 if part is None else part) for part in parts
    )
