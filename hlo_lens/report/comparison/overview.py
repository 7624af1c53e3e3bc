"""All modules that changed in one table, those that changed the most first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.memory_diff import PEAK
from hlo_lens.analysis.result import Column, Unit
from hlo_lens.report.comparison.program import program_diff_json
from hlo_lens.report.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.comparison.module_diff import ModuleDiff
    from hlo_lens.analysis.program_diff.difference import ProgramDiff
    from hlo_lens.analysis.result import Row
    from hlo_lens.report.comparison.objects import DiffLike


def weight(diff: ModuleDiff) -> tuple[int, int]:
    """Return a key by which modules that changed the most come first."""
    return -abs(_total(diff) or 0), -abs(_wire(diff) or 0)


def _total(diff: ModuleDiff) -> int | None:
    return None if diff.memory is None else diff.memory.metrics["total_bytes"].delta


def _wire(diff: ModuleDiff) -> int | None:
    return None if diff.collectives is None else diff.collectives.wire_bytes.delta


_MODULE_COLUMNS = (
    Column("module", Unit.NONE, "module"),
    Column("delta_total_bytes", Unit.BYTES_DELTA, "all that is allocated, more than before"),
    Column("delta_peak_bytes", Unit.BYTES_DELTA, "bytes at the peak, more than before"),
    Column("delta_wire_bytes", Unit.BYTES_DELTA, "bytes on the wire of one run, more than before"),
    Column("collectives", Unit.COUNT, "collectives that changed"),
    Column("shardings", Unit.COUNT, "values that lie on the devices in another way"),
    Column("instructions", Unit.COUNT, "instructions that changed, came, went or moved"),
)


def modules_table(diff: DiffLike) -> Table:
    """Return one line for each module that changed."""
    changed = sorted((one for one in diff.modules if not one.identical), key=weight)
    rows = [_module_row(one) for one in changed]
    return Table(
        name="modules",
        title="Modules that changed",
        columns=_MODULE_COLUMNS,
        read_rows=lambda: rows,
        row_count=len(rows),
        totals=_totals(rows),
    )


def _totals(rows: Sequence[Row]) -> dict[str, int]:
    """Return the sums of columns that are known of every module."""
    found: dict[str, int] = {}
    for place, column in enumerate(_MODULE_COLUMNS):
        numbers = [cell for row in rows if isinstance(cell := row[place], int)]
        if numbers and len(numbers) == len(rows):
            found[column.name] = sum(numbers)
    return found


def _module_row(diff: ModuleDiff) -> Row:
    memory, program = diff.memory, diff.program
    return (
        diff.head.name,
        _total(diff),
        None if memory is None else memory.metrics[PEAK].delta,
        _wire(diff),
        None if diff.collectives is None else sum(row.count for row in diff.collectives.changed),
        None if diff.shardings is None else diff.shardings.row_count,
        None if program is None else _edits(program),
    )


def _edits(program: ProgramDiff) -> int:
    """Return how many instructions changed, came, went or moved."""
    counts = program_diff_json(program)
    return sum(int(str(counts[name])) for name in ("changed", "added", "removed", "moved"))
