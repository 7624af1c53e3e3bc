"""Changes of a module by source line of the user's program, and the causes of its changes.

Each line has the instructions that it gained and lost, its bytes at the peak of the default memory
space, and the bytes on the wire of its collectives. Lines are those of the head (`line_edits`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.questions.diff.causes import (
    LEAST,
    Cause,
    LineRow,
    argument_causes,
    donation_causes,
    line_row,
    program_causes,
    with_total,
)
from hlo_lens.questions.diff.shardings import ADDED, REMOVED
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.diff.causes import Sizes
    from hlo_lens.questions.diff.collectives import CollectiveDiff, CollectiveRow
    from hlo_lens.questions.diff.line_edits import ProgramLines
    from hlo_lens.questions.diff.memory import MemoryDiff, PeakRow
    from hlo_lens.questions.diff.shardings import DonationDiff, ShardingDiff

_DEFAULT = 0
"""Color of the default memory space."""


@dataclass(frozen=True, kw_only=True)
class LineDiff(Result):
    """Changes by line: most bytes first, then most instructions.

    Attributes:
        lines: The lines.
        causes: Causes of the changes.
        is_source: Whether instructions are those before optimizations; None if not known.
        is_source_equal: Whether these are equal on both sides.
    """

    KIND: ClassVar[str] = "line-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("source", Unit.NONE, "place in the user's program; none if it is not known"),
        Column("added", Unit.COUNT, "instructions that only the head has"),
        Column("removed", Unit.COUNT, "instructions that only the base has"),
        Column("changed", Unit.COUNT, "instructions that both have and that differ"),
        Column("moved", Unit.COUNT, "instructions in another computation"),
        Column("recomputed", Unit.COUNT, "increase of instructions computed again (remat)"),
        Column("delta_peak_bytes", Unit.BYTES_DELTA, "increase of its bytes at the peak"),
        Column("delta_wire_bytes", Unit.BYTES_DELTA, "increase of its bytes on the wire"),
        Column("what", Unit.NONE, "what changed"),
    )
    RECORDS: ClassVar[str] = "lines"
    lines: tuple[LineRow, ...] = field(repr=False)
    causes: tuple[Cause, ...]
    is_source: bool | None
    is_source_equal: bool = False

    def rows(self) -> Iterator[Row]:
        """Yield the lines."""
        for line in self.lines:
            yield tuple(getattr(line, column.name) for column in self.COLUMNS)


def line_diff(
    program: ProgramLines | None,
    memory: MemoryDiff | None,
    collectives: CollectiveDiff | None,
    shardings: ShardingDiff | None,
    donations: DonationDiff | None,
) -> LineDiff:
    """Return the changes of a module by line; arguments that are None are not known."""
    lines = {} if program is None else program.lines
    shifted = {} if program is None else program.shifted
    peak = None if memory is None else _peak_bytes(memory, shifted)
    wire = None if collectives is None else _wire_bytes(collectives, shifted)
    places = dict.fromkeys((*lines, *(peak or ()), *(wire or ())))
    rows = [line_row(place, program, peak, wire) for place in places]
    unknown = {place for place, size in (wire or {}).items() if size is None}
    rows = [
        row
        for row in rows
        if row.count or row.delta_peak_bytes or row.delta_wire_bytes or row.source in unknown
    ]
    rows.sort(key=_order)
    arguments = [*argument_causes(shardings)]
    causes = [*donation_causes(donations), *arguments]
    if program is not None:
        entries = () if shardings is None else shardings.entries
        causes += program_causes(
            program,
            rows,
            shardings,
            has_other_arguments=bool(arguments),
            has_other_number=any(
                row.one.kind == "parameter" and row.change in (ADDED, REMOVED) for row in entries
            ),
        )
    return LineDiff(
        lines=tuple(rows),
        causes=tuple(with_total(causes, memory, collectives)),
        is_source=None if program is None else program.is_source,
        is_source_equal=program is not None and program.is_source and not program.lines,
    )


def _order(row: LineRow) -> tuple[object, ...]:
    sizes = [abs(size or 0) for size in (row.delta_peak_bytes, row.delta_wire_bytes)]
    large = [-size if size >= LEAST else 0 for size in sizes]
    return (row.source is None, *large, -row.count, -sum(sizes), row.source or "")


def _peak_bytes(memory: MemoryDiff, shifted: Mapping[str, str]) -> Sizes:
    """Return the increase of bytes at the peak of the default memory space by line."""
    found: Counter[str | None] = Counter()
    for peak in memory.peaks:
        for row in peak.changed if peak.color == _DEFAULT else ():
            found[_line_of(row, shifted)] += row.delta_bytes
    return found


def _wire_bytes(collectives: CollectiveDiff, shifted: Mapping[str, str]) -> Sizes:
    """Return the increase of bytes on the wire in one run by line; None where it is not known."""
    found: dict[str | None, int | None] = {}
    for row in collectives.changed:
        line, delta = _line_of(row, shifted), row.delta_wire_bytes
        known = found.get(line, 0)
        found[line] = None if known is None or delta is None else known + delta
    return found


def _line_of(row: PeakRow | CollectiveRow, shifted: Mapping[str, str]) -> str | None:
    """Return the line of the head, also of what is gone."""
    source = row.one.source
    return source if row.head is not None or source is None else shifted.get(source, source)
