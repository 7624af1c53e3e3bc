"""Sequences over columns: objects made on access, and texts with few distinct values."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar, overload

_Item = TypeVar("_Item")


class Rows(Sequence[_Item]):
    """A sequence whose items are made of rows on each access and not stored."""

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


class Records(Rows[_Item]):
    """Records of numbers as one column for each field; a record is made on each access."""

    __slots__ = ("columns",)

    def __init__(self, make: Callable[..., _Item], columns: Mapping[str, Sequence[int]]) -> None:
        super().__init__(partial(_record, make, columns), range(min(map(len, columns.values()))))
        self.columns = columns


def _record(make: Callable[..., _Item], columns: Mapping[str, Sequence[int]], row: int) -> _Item:
    return make(**{name: column[row] for name, column in columns.items()})


class FewTexts(Sequence[str]):
    """A sequence of texts with few distinct values: two bytes for each instead of eight.

    Attributes:
        different: The different texts, in order of appearance.
        numbers: For each place the number of its text among these.
    """

    __slots__ = ("_places", "different", "numbers")

    def __init__(self, texts: Iterable[str]) -> None:
        known: defaultdict[str, int] = defaultdict()
        known.default_factory = known.__len__
        found = map(known.__getitem__, texts)
        self.numbers = array("H")
        try:
            self.numbers.extend(found)
        except OverflowError:  # at the first new text
            self.numbers = array("I", self.numbers)
            self.numbers.append(len(known) - 1)
            self.numbers.extend(found)
        self.different = tuple(known)
        self._places: dict[str, array[int]] | None = None

    @property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Each different text to its positions, ascending; made at the first access."""
        if self._places is None:
            self._places = {text: array("I") for text in self.different}
            append = [places.append for places in self._places.values()]
            for place, number in enumerate(self.numbers):
                append[number](place)
        return self._places

    def places_of(self, wanted: Collection[str], within: range | None = None) -> list[int]:
        found = [places for text, places in self.places.items() if text in wanted]
        if within is not None:
            found = [
                places[bisect_left(places, within.start) : bisect_left(places, within.stop)]
                for places in found
            ]
        return list(found[0]) if len(found) == 1 else sorted(chain.from_iterable(found))

    def at(self, places: Iterable[int]) -> Iterator[str]:
        return map(self.different.__getitem__, map(self.numbers.__getitem__, places))

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self.different[number] for number in self.numbers[index]]
        return self.different[self.numbers[index]]

    def __iter__(self) -> Iterator[str]:
        return map(self.different.__getitem__, self.numbers)
