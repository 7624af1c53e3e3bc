"""Pairs of the items of two lists with equal keys, strictest key first.

At each stage, items of equal key are paired in a given order, as many as both sides have.
Exchanging the sides exchanges the members of each pair and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")


def pair_items(
    base: Sequence[T],
    head: Sequence[T],
    stages: Sequence[Callable[[T], Hashable]],
    order: Callable[[T], tuple[object, ...]],
) -> list[tuple[T | None, T | None]]:
    """Return the pairs of two lists, then the items of one side with None, in order.

    Args:
        base: Items of one side.
        head: Items of the other.
        stages: Key functions, strictest first; None or "" excludes an item from a stage.
        order: Sort key of items with equal keys; equal for equal items.
    """
    left, right = dict(enumerate(base)), dict(enumerate(head))
    pairs: list[tuple[T | None, T | None]] = []
    for key_of in stages:
        if not left or not right:
            break
        mine, yours = _by_key(left, key_of, order), _by_key(right, key_of, order)
        for key, places in mine.items():
            for one, other in zip(places, yours.get(key, ()), strict=False):
                pairs.append((left.pop(one), right.pop(other)))
    return [
        *pairs,
        *((one, None) for one in left.values()),
        *((None, one) for one in right.values()),
    ]


def _by_key(
    items: dict[int, T],
    key_of: Callable[[T], Hashable],
    order: Callable[[T], tuple[object, ...]],
) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for place, item in items.items():
        key = key_of(item)
        if key not in (None, ""):
            found.setdefault(key, []).append(place)
    for places in found.values():
        if len(places) > 1:
            places.sort(key=lambda place: _comparable(order(items[place])))
    return found


def _comparable(parts: tuple[object, ...]) -> tuple[tuple[bool, bool, object], ...]:
    """Return a sort key: None before numbers before text."""
    return tuple(
        (part is not None, isinstance(part, str), 0 if part is None else part) for part in parts
    )
