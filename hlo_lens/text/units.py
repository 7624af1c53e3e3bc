"""Numbers as text: bytes as XLA prints them, counts, shares, and figures that may be bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hlo_lens.text.errors import UsageError


def bounded_int(digits: str) -> int:
    """Return a number without sign; of one beyond 64 bits, as in damaged texts, 2**64.

    >>> bounded_int("12"), bounded_int("9" * 5000) == 2**64
    (12, True)
    """
    return int(digits) if len(digits) < 20 else 1 << 64


_PREFIXES = "KMGTPEZY"


def format_bytes(size_bytes: int) -> str:
    """Return a size as XLA prints it: whole bytes, KiB with one decimal, larger ones with two.

    Source: tsl/platform/numbers.cc, HumanReadableNumBytes; beyond its 64 bits the prefixes go on.
    Unlike there, a size that rounds to 1024 of a unit is printed as one of the next.

    >>> format_bytes(1023), format_bytes(1024), format_bytes(-(5 << 19)), format_bytes(2**20 - 1)
    ('1023B', '1.0KiB', '-2.50MiB', '1.00MiB')
    """
    sign = "-" if size_bytes < 0 else ""
    size = abs(size_bytes)
    if size < 1024:
        return f"{sign}{size}B"
    prefix = 0
    while size >= 1024 * 1024 and prefix < len(_PREFIXES) - 1:
        size //= 1024
        prefix += 1
    number = f"{size / 1024:.{1 if prefix == 0 else 2}f}"
    if number.startswith("1024.0") and prefix < len(_PREFIXES) - 1:
        number, prefix = "1.00", prefix + 1
    return f"{sign}{number}{_PREFIXES[prefix]}iB"


def exact_size_text(size_bytes: int) -> str:
    """Return a size as `parse_size` reads it, in the largest unit of which it is a multiple.

    >>> exact_size_text(16 << 30), exact_size_text(1500)
    ('16GiB', '1500')
    """
    for prefix, power in (("G", 30), ("M", 20), ("K", 10)):
        if size_bytes and not size_bytes % (1 << power):
            return f"{size_bytes >> power}{prefix}iB"
    return str(size_bytes)


def format_delta(size_bytes: int) -> str:
    """Return a difference of sizes with its sign; ``=`` for none.

    >>> format_delta(1024), format_delta(-1024), format_delta(0)
    ('+1.0KiB', '-1.0KiB', '=')
    """
    if not size_bytes:
        return "="
    return f"{'+' if size_bytes > 0 else ''}{format_bytes(size_bytes)}"


def format_change(base: int, head: int) -> str:
    """Return a difference in percent; ``new``, ``gone`` and ``=`` where there is none to give.

    >>> format_change(100, 361), format_change(0, 5), format_change(5, 0), format_change(7, 7)
    ('+261%', 'new', 'gone', '=')
    >>> format_change(10**9, 10**9 + 1), format_change(2, 10**6)
    ('+<0.01%', 'x500,000')
    """
    if base == head:
        return "="
    if not base or not head:
        return "gone" if not head else "new"
    percent = (head - base) / abs(base) * 100
    if percent >= 10_000:
        return f"x{head / base:,.0f}"
    text = f"{percent:+.0f}" if abs(percent) >= 100 else f"{percent:+.2f}".rstrip("0").rstrip(".")
    return f"{text[0]}<0.01%" if text in ("+0", "-0") else f"{text}%"


def format_count(count: int) -> str:
    """Return a number with thousands separated.

    >>> format_count(-1234567)
    '-1,234,567'
    """
    return f"{count:,}"


def format_flops(flops: int) -> str:
    """Return an amount of arithmetic with three digits and a decimal prefix.

    >>> format_flops(999), format_flops(33_822_867_456), format_flops(10**24)
    ('999', '33.8G', '1.00Y')
    """
    number, prefix = float(flops), 0
    while abs(number) >= 999.5 and prefix < len(_PREFIXES):
        number, prefix = number / 1000, prefix + 1
    if not prefix:
        return str(flops)
    decimals = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    return f"{number:.{decimals}f}{_PREFIXES[prefix - 1]}"


def flops_text(flops: int) -> str:
    """Return an amount of arithmetic with its unit.

    >>> flops_text(206_000_000_000), flops_text(7)
    ('206 GFLOP', '7 FLOP')
    """
    text = format_flops(flops)
    return f"{text.rstrip(_PREFIXES)} {text.lstrip('0123456789.')}FLOP"


def format_seconds(seconds: float) -> str:
    """Return a time in seconds with milliseconds; a shorter one in microseconds.

    >>> format_seconds(1.5335), format_seconds(0.846), format_seconds(0.0000712), format_seconds(0)
    ('1.534s', '0.846s', '71.2us', '0s')
    """
    if seconds and abs(seconds) < 0.001:
        return f"{seconds * 10**6:.3g}us"
    return f"{seconds:.3f}s" if seconds else "0s"


def format_ratio(ratio: float) -> str:
    """Return a share as percent with at most two decimals, never rounded up to 100%.

    >>> format_ratio(1), format_ratio(0.999999), format_ratio(0.25)
    ('100%', '99.99%', '25%')
    """
    hundredths = round(ratio * 10000)
    if ratio < 1:
        hundredths = min(hundredths, 9999)
    text = f"{hundredths / 100:.2f}".rstrip("0").rstrip(".")
    return f"{text}%"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, which takes an s unless the count is 1.

    >>> plural(1, "gap"), plural(2000, "gap")
    ('1 gap', '2,000 gaps')
    """
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Return names joined by commas, of which those beyond a number are counted.

    >>> listed(["a", "b", "c"], 2), listed(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{rest}"


def parse_size(size: int | str) -> int:
    """Return bytes: a number, or text such as ``14GiB`` (powers of 1024, with or without the i).

    >>> parse_size("1.5KiB"), parse_size("2G"), parse_size(7)
    (1536, 2147483648, 7)
    """
    if isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size)
    if match is None:
        raise UsageError(f"not a size: {size!r}; write it like 4096, 64KiB or 1MiB")
    return int(float(match[1]) * 1024 ** " KMGTPE".index(match[2].upper() or " "))


_SIZE = re.compile(r"\s*(\d{1,60}(?:\.\d{1,60})?)\s*([KMGTPE]?)(i)?B?\s*", re.IGNORECASE)


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
