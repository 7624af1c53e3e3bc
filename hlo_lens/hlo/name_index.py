"""Hash table from names to numbers that does not store the names: they are in the text."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence


class NameIndex:
    """Number of each name; the last one of a repeated name.

    A hash table of numbers with open addressing: 8 to 16 bytes a name, where a dictionary with the
    names takes 200.

    Args:
        numbers: The numbers.
        name_of: Returns the name of a number.
        names: The names of the numbers, if they are at hand.
    """

    __slots__ = ("_name_of", "_slots")

    def __init__(
        self,
        numbers: Sequence[int],
        name_of: Callable[[int], str],
        names: Iterable[str] | None = None,
    ) -> None:
        self._name_of = name_of
        size = 1 << (2 * len(numbers)).bit_length()
        self._slots = array("Q" if numbers and max(numbers) >= _WIDE else "I", [0]) * size
        slots, last = self._slots, size - 1
        if names is None:
            names = map(name_of, numbers)
        for number, name in zip(numbers, names, strict=True):  # `_slot` in place, for speed
            slot = hash(name) & last
            while (found := slots[slot]) and name_of(found - 1) != name:
                slot = (slot + 1) & last
            slots[slot] = number + 1

    def get(self, name: str) -> int | None:
        """Return the number of a name, or None."""
        found = self._slots[self._slot(name)]
        return found - 1 if found else None

    def _slot(self, name: str) -> int:
        """Return the slot of a name, or the empty slot for it."""
        slots, name_of = self._slots, self._name_of
        last = len(slots) - 1
        slot = hash(name) & last
        while (found := slots[slot]) and name_of(found - 1) != name:
            slot = (slot + 1) & last
        return slot


_WIDE = (1 << 32) - 1
