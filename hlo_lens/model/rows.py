"""Rows of columns as objects that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

_Item = TypeVar("_Item")


class Rows(Sequence[_Item]):
    """A sequence whose items are made on request and kept by nobody.

    Args:
        make: Makes the item of a row.
        rows: Which rows, in order.
    """

    __slots__ = ("_make", "_rows")

    def __init__(self, make: Callable[[int], _Item], rows: Sequence[int]) -> None:
        self._make = make
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> _Item: ...
    @overload
    def __getitem__(self, index: slice) -> Rows[_Item]: ...
    def __getitem__(self, index: int | slice) -> _Item | Rows[_Item]:
        if isinstance(index, slice):
            return Rows(self._make, self._rows[index])
        return self._make(self._rows[index])

    def __iter__(self) -> Iterator[_Item]:
        return map(self._make, self._rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment] # equal content, and content is not hashed

    def __repr__(self) -> str:
        return f"<{len(self)} rows>"
