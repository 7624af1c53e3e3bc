"""A figure that may be a bound or an estimate: ``5``, ``<= 5``, ``>= 5`` or ``~ 5``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from hlo_lens.text.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

MARGIN = 0.15
"""Share of a limit within which an estimate does not decide whether the limit holds
(`hlo-lens help estimates` has the errors of estimates of memory)."""


class Kind(StrEnum):
    """Relation of a figure to the true one; its value is the mark before the number."""

    EXACT = ""
    AT_MOST = "<="
    AT_LEAST = ">="
    ESTIMATE = "~"


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure with its relation to the true one.

    >>> from hlo_lens.text.units import format_bytes
    >>> size = Amount(2048, Kind.ESTIMATE)
    >>> str(Amount(1200)), str(Amount(3, Kind.AT_MOST)), size.text(format_bytes)
    ('1,200', '<= 3', '~ 2.0KiB')
    """

    value: float
    kind: Kind = Kind.EXACT

    def __str__(self) -> str:
        return self.text()

    def text(self, format_number: Callable[[int], str] = format_count) -> str:
        """Return the number with its mark; fractions, which have no unit, with six digits."""
        whole = int(self.value)
        number = format_number(whole) if whole == self.value else f"{self.value:g}"
        return f"{self.kind} {number}" if self.kind else number

    def is_near(self, limit: float) -> bool:
        """Return whether it is an estimate that does not decide a limit (`MARGIN`)."""
        return self.kind is Kind.ESTIMATE and abs(self.value - limit) <= MARGIN * abs(limit)
