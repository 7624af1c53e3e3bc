"""Pairs of items with equal keys."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Key: TypeAlias = Callable[[int], Hashable]
"""Key of a node; None for none."""

Keys: TypeAlias = "tuple[Sequence[int], Sequence[int]]"
"""A number for each node of base and head."""


def by_key(
    mine: Sequence[int], yours: Sequence[int], my_key: Key, your_key: Key, mode: str
) -> list[tuple[int, int]]:
    """Return pairs of equal keys, in order.

    Args:
        mine: One side.
        yours: The other.
        my_key: Key of an item; None for none.
        your_key: The same for the other side.
        mode: ``unique`` for keys that appear once on both sides, ``equal`` for keys that appear
            equally often, ``any`` for as many pairs as possible.
    """
    return by_keys(mine, yours, (list(map(my_key, mine)), list(map(your_key, yours))), mode)


def by_keys(
    mine: Sequence[int],
    yours: Sequence[int],
    keys: tuple[Sequence[Hashable], Sequence[Hashable]],
    mode: str,
) -> list[tuple[int, int]]:
    """Return the pairs as `by_key` does, from the keys of all items."""
    my_keys, your_keys = keys
    common = set(my_keys).intersection(your_keys)
    common.discard(None)
    if not common:
        return []
    groups: dict[Hashable, list[int]] = {}
    for item, key in zip(yours, your_keys, strict=True):
        if key in common:
            groups.setdefault(key, []).append(item)
    found: dict[Hashable, list[int]] = {}
    for item, key in zip(mine, my_keys, strict=True):
        if key in common:
            found.setdefault(key, []).append(item)
    pairs: list[tuple[int, int]] = []
    for key, items in found.items():
        others = groups[key]
        if mode == "unique" and not len(items) == len(others) == 1:
            continue
        if mode == "equal" and len(items) != len(others):
            continue
        pairs.extend(zip(items, others, strict=False))
    return pairs


def singles(mine: Sequence[int], yours: Sequence[int], keys: Keys) -> list[tuple[int, int]]:
    """Return pairs of keys that appear once on both sides, in order.

    Args:
        mine: One side.
        yours: The other.
        keys: A number for each item of both sides.
    """
    a, b = _once(mine, keys[0]), _once(yours, keys[1])
    return [(item, b[key]) for key, item in a.items() if key in b]


def _once(items: Sequence[int], keys: Sequence[int]) -> dict[int, int]:
    """Return the items with a unique key, by key."""
    numbers = list(map(keys.__getitem__, items))
    last = dict(zip(numbers, items, strict=True))
    if len(last) == len(items):
        return last
    first = dict(zip(reversed(numbers), reversed(items), strict=True))
    return {key: item for key, item in last.items() if first[key] == item}
