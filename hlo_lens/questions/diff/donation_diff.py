"""Donated arguments of two compiles: aliases lost and gained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.snapshots.rows import EntryFact


@dataclass(frozen=True, kw_only=True)
class DonationDiff(Result):
    """Parameters whose memory a result reuses on one side only, largest first.

    Attributes:
        entries: The parameter in the base and in the head.
    """

    KIND: ClassVar[str] = "donation-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("change", Unit.NONE, "lost or gained: reuse of the argument's memory by a result"),
        Column("name", Unit.NONE, "argument"),
        Column("device_bytes", Unit.BYTES, "bytes of one device's part"),
        Column("device_shape", Unit.NONE, "shape of one device's part"),
        Column("base_output", Unit.NONE, "result that reuses its memory in the base"),
        Column("head_output", Unit.NONE, "result that reuses its memory in the head"),
        Column("base_donation", Unit.NONE, "kind of donation in the base"),
        Column("head_donation", Unit.NONE, "kind of donation in the head"),
    )
    RECORDS: ClassVar[str] = "entries"
    entries: tuple[tuple[EntryFact, EntryFact], ...]

    def rows(self) -> Iterator[Row]:
        """Yield the parameters, lost aliases first."""
        for base, head in self.entries:
            change = "gained" if base.aliased_with is None else "lost"
            yield (
                *(change, head.name or base.name, _bytes_of(head), head.device_shape),
                *(base.aliased_with, head.aliased_with, base.donation, head.donation),
            )

    def bytes_of(self, change: str) -> int:
        """Return the known bytes of all parameters with one change."""
        rows = (row for row in self.rows() if row[0] == change)
        return sum(row[2] for row in rows if isinstance(row[2], int))


def _bytes_of(entry: EntryFact) -> int | None:
    return entry.device_bytes if entry.padded_device_bytes is None else entry.padded_device_bytes


def donation_diff(pairs: Sequence[tuple[EntryFact, EntryFact]]) -> DonationDiff:
    """Return the matched parameters that lost or gained an alias."""
    found = [
        (one, other)
        for one, other in pairs
        if one.kind == "parameter" and (one.aliased_with is None) != (other.aliased_with is None)
    ]
    found.sort(
        key=lambda pair: (
            pair[0].aliased_with is None,
            -max(_bytes_of(pair[0]) or 0, _bytes_of(pair[1]) or 0),
            pair[1].name or "",
        )
    )
    return DonationDiff(entries=tuple(found))
