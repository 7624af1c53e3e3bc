"""Items and numbers of the two sides of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.render.result import Cell, Column, Row

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Delta:
    """A number before and after; None if it is not known.

    Attributes:
        base: Before.
        head: After.
        is_comparable: Whether the two mean the same.
        is_at_most: Whether a number is an upper bound.
    """

    base: int | None
    head: int | None
    is_comparable: bool = True
    is_at_most: bool = False

    @property
    def delta(self) -> int | None:
        """Head minus base; None if either is not known, or they do not mean the same."""
        if self.base is None or self.head is None or not self.is_comparable:
            return None
        return self.head - self.base

    @property
    def is_changed(self) -> bool:
        """Whether the numbers differ."""
        return self.base != self.head

    def to_dict(self) -> dict[str, int | None]:
        """Return the JSON object."""
        return {"base": self.base, "head": self.head, "delta": self.delta}


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
            raise AssertionError("a pair has at least one side")
        return found

    def cells(self, name: str, absent: Cell = None) -> tuple[Cell, Cell]:
        """Return a field of both sides; `absent` where there is no item."""
        base, head = (getattr(item, name, absent) for item in (self.base, self.head))
        return base, head

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
