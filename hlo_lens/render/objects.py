"""JSON objects that are made on access, so that text output does not make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, overload

from hlo_lens.render.result import row_objects, rows_of

if TYPE_CHECKING:
    from hlo_lens.render.result import Column, Row


class Objects(Sequence[Mapping[str, object]]):
    """JSON objects of any kinds.

    Args:
        makers: Makes each object, anew at each call.
    """

    def __init__(self, makers: Sequence[Callable[[], Mapping[str, object]]]) -> None:
        self._makers = tuple(makers)

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, object]: ...
    @overload
    def __getitem__(self, index: slice) -> Objects: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, object] | Objects:
        if isinstance(index, slice):
            return Objects(self._makers[index])
        return self._makers[index]()


class RowObjects(Sequence[Mapping[str, object]]):
    """JSON objects of the rows of a result, one for each record.

    Args:
        columns: Columns of the result.
        records: Its records.
    """

    def __init__(self, columns: Sequence[Column], records: Sequence[object]) -> None:
        self._columns = columns
        self._records = records

    @property
    def names(self) -> tuple[str, ...]:
        """Keys of each object."""
        return tuple(column.name for column in self._columns)

    def rows(self) -> list[Row]:
        """Return the values of each object."""
        return list(rows_of(self._records, self._columns))

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, object]: ...
    @overload
    def __getitem__(self, index: slice) -> RowObjects: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, object] | RowObjects:
        if isinstance(index, slice):
            return RowObjects(self._columns, self._records[index])
        (found,) = row_objects(self._columns, rows_of((self._records[index],), self._columns))
        return found


class JoinedObjects(Sequence[Mapping[str, object]]):
    """Lists of JSON objects one after the other.

    Args:
        parts: The lists; the objects of each have keys of their own.
    """

    def __init__(self, *parts: Sequence[Mapping[str, object]]) -> None:
        self.parts = tuple(part for part in parts if part)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @overload
    def __getitem__(self, index: int) -> Mapping[str, object]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Mapping[str, object]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, object] | list[Mapping[str, object]]:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(len(self))[index]
        for part in self.parts:
            if place < len(part):
                return part[place]
            place -= len(part)
        raise IndexError(index)

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        return chain.from_iterable(self.parts)
