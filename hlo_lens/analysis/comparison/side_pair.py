"""Pair of the two sides of a changed item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.analysis.result import Cell, Column, Row

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePair(Generic[T]):
    """An item before and after.

    Attributes:
        base: Before; None if it was added.
        head: After; None if it was removed.
    """

    base: T | None
    head: T | None

    @property
    def one(self) -> T:
        """The item of the head, or of the base if it was removed."""
        found = self.head or self.base
        if found is None:
            message = "a pair has at least one side"
            raise AssertionError(message)
        return found

    def row(self, columns: Iterable[Column]) -> Row:
        """Return the cells of some columns.

        A column is a property of the pair, a field of `one`, or with the prefix ``base_`` or
        ``head_`` a field of that side. Items without such a field have None there.
        """
        return tuple(self._cell(column.name) for column in columns)

    def _cell(self, name: str) -> Cell:
        side, _, field = name.partition("_")
        found: Cell
        if hasattr(self, name):
            found = getattr(self, name)
        elif side in ("base", "head"):
            found = getattr(getattr(self, side), field, None)
        else:
            found = getattr(self.one, name, None)
        return found
