"""Table of all modules that changed, largest changes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.memory_diff import PEAK
from hlo_lens.analysis.result import Column, Unit
from hlo_lens.report.comparison.program import COUNTS
from hlo_lens.report.render.table import Table, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.comparison.dump_diff import DumpDiff
    from hlo_lens.analysis.comparison.module_diff import ModuleDiff
    from hlo_lens.analysis.result import Row


def weight(diff: ModuleDiff) -> tuple[int, int]:
    """Return the sort key: change of total bytes, then of bytes on the wire."""
    return -abs(_total(diff) or 0), -abs(_wire(diff) or 0)


def _total(diff: ModuleDiff) -> int | None:
    return None if diff.memory is None else diff.memory.metrics["total_bytes"].delta


def _wire(diff: ModuleDiff) -> int | None:
    return None if diff.collectives is None else diff.collectives.wire_bytes.delta


_MODULE_COLUMNS = (
    Column("module", Unit.NONE, "module"),
    Column("delta_total_bytes", Unit.BYTES_DELTA, "increase of allocated bytes"),
    Column("delta_peak_bytes", Unit.BYTES_DELTA, "increase of bytes at the peak"),
    Column("delta_wire_bytes", Unit.BYTES_DELTA, "increase of bytes on the wire of one run"),
    Column("collectives", Unit.COUNT, "collectives that changed"),
    Column("shardings", Unit.COUNT, "values whose sharding changed"),
    Column("instructions", Unit.COUNT, "instructions changed, added, removed or moved"),
)


def modules_table(diff: DumpDiff) -> Table:
    """Return one line for each module that changed."""
    changed = sorted((one for one in diff.modules if not one.identical), key=weight)
    rows = [_module_row(one) for one in changed]
    return table_of("modules", "Modules that changed", _MODULE_COLUMNS, rows, totals=_totals(rows))


def _totals(rows: Sequence[Row]) -> dict[str, int]:
    """Return the sums of columns that are known for every module."""
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
        None if program is None else sum(getattr(program, name) for name in COUNTS[1:]),
    )
