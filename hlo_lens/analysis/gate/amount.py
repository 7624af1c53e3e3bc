"""Amounts in rules: ``14.5GiB``, ``2%``, ``48``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from hlo_lens.text.errors import UsageError

_AMOUNT = re.compile(r"([+-]?)(\d+(?:\.\d+)?|\.\d+)\s*(%|[kKMGTPE]?i?[Bb]?)")
_PREFIXES = "KMGTPE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number and its unit.

    Attributes:
        number: The number, in bytes for a size, as a fraction for percent.
        is_percent: Whether it is a fraction of another number.
        is_size: Whether it has a unit of bytes.
        text: As written.
    """

    number: Fraction
    is_percent: bool
    is_size: bool
    text: str

    @classmethod
    def parse(cls, value: object) -> Amount:
        """Return the amount of a number or text.

        ``KiB`` is 1024 and ``kB`` 1000, and so on; a letter alone (``G``) is a power of 1024.

        Raises:
            UsageError: If it is no amount.
        """
        message = f"not an amount: {value!r}; write it like 48, 14.5GiB or 2%"
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise UsageError(message)
        if not isinstance(value, str):
            if not math.isfinite(value):
                raise UsageError(message)
            number = Fraction(str(value))
            return cls(number=number, is_percent=False, is_size=False, text=str(value))
        match = _AMOUNT.fullmatch(value.strip().replace("_", ""))
        if match is None:
            raise UsageError(message)
        sign, digits, unit = match.groups()
        number = Fraction(digits) * (-1 if sign == "-" else 1)
        if unit == "%":
            return cls(number=number / 100, is_percent=True, is_size=False, text=value.strip())
        return cls(
            number=number * _scale(unit), is_percent=False, is_size=bool(unit), text=value.strip()
        )


def _scale(unit: str) -> int:
    """Return the bytes of a unit; 1 for none."""
    prefix = unit[:1].upper()
    if prefix not in _PREFIXES or not prefix:
        return 1
    is_decimal = unit[1:].lower() == "b"
    return int((1000 if is_decimal else 1024) ** (_PREFIXES.index(prefix) + 1))
