"""Rounded sizes as XLA prints them: the text, and the range of bytes that it means.

Source: tsl/platform/numbers.cc, strings::HumanReadableNumBytes: whole bytes below 1024; above, the
number is divided by 1024 without its remainder until less than 1024 * 1024 is left, and that is
printed in units of 1024, with one decimal for KiB and two for the larger units. libtpu prints the
same without ``iB``: ``12.50G``.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_PRINTED = re.compile(r"(-?)(\d{1,19})(?:\.(\d{1,3}))?(?:([KMGTPE])(?:i?B)?|i?B)")
_UNITS = "KMGTPE"
_LEAST, _MOST = 1024, 1024 * 1024 - 1
"""Bounds of the quotient after the divisions; it is printed divided by 1024."""

_NO_SIZE = "-8E"
"""XLA's text for the one number that cannot be negated; it means no size."""


@dataclass(frozen=True, slots=True)
class HumanSize:
    """A rounded size as XLA prints it: ``8.00MiB``.

    Attributes:
        text: As printed.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def at_least(self) -> int | None:
        """Smallest number of bytes printed as this text; None if there is none."""
        return _bounds(self.text)[0]

    @property
    def at_most(self) -> int | None:
        """Largest number of bytes printed as this text; None if there is none."""
        return _bounds(self.text)[1]

    def matches(self, size_bytes: int) -> bool:
        """Return whether a number of bytes is printed as this text."""
        least, most = _bounds(self.text)
        return least is not None and most is not None and least <= size_bytes <= most


@functools.lru_cache(maxsize=4096)
def _bounds(text: str) -> tuple[int, int] | tuple[None, None]:
    """Return the smallest and the largest number printed as this text, both inclusive."""
    match = _PRINTED.fullmatch(text)
    if match is None or text == _NO_SIZE:
        return None, None
    sign, whole, decimals, unit = match.groups()
    if not unit:
        bounds = (int(whole), int(whole)) if decimals is None else None
    else:
        bounds = _scaled_bounds(whole, decimals or "", _UNITS.index(unit))
    if bounds is None:
        return None, None
    least, most = bounds
    return (-most, -least) if sign else (least, most)


def _scaled_bounds(whole: str, decimals: str, power: int) -> tuple[int, int] | None:
    """Return the bounds of a number in units of 1024 to the power of one more than `power`."""
    places = len(decimals)
    twice, scale = 2 * int(whole + decimals), 10**places  # the bounds are half a last digit away
    printed = f"{whole}.{decimals}" if places else whole
    least = max(_LEAST, (twice - 1) * 512 // scale - 1)
    most = min(_MOST, (twice + 1) * 512 // scale + 1)
    # Ties are rounded to even, which is easier seen by printing than derived.
    while least <= most and f"{least / 1024:.{places}f}" != printed:
        least += 1
    while most >= least and f"{most / 1024:.{places}f}" != printed:
        most -= 1
    if least > most:
        return None
    unit = int(1024**power)
    return least * unit, (most + 1) * unit - 1
