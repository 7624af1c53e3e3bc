"""Tables of one module in ``hlo-lens report``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.program.entry_signature import EntrySignature
from hlo_lens.analysis.result import rows_of
from hlo_lens.report.program.objects import GAP_COLUMNS
from hlo_lens.report.render.table import Table
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.program.entry_values import EntryValue
    from hlo_lens.analysis.program.largest_instructions import LargestInstructions
    from hlo_lens.analysis.program.opcodes import Opcodes
    from hlo_lens.analysis.program.source_bytes import SourceBytes
    from hlo_lens.analysis.sharding.forms import ShardingForms
    from hlo_lens.text.errors import Gap


def largest_table(result: LargestInstructions) -> Table:
    """Return the table of the largest instructions."""
    notes = [
        f"left out: {plural(result.left_out_views, 'view')} (tuples, bitcasts, loops), "
        f"{plural(result.left_out_embedded, 'instruction')} inside fusions and reducers"
    ]
    if result.unknown_sizes:
        notes.append(f"{plural(result.unknown_sizes, 'value')} of unknown size")
    return Table.of(
        result,
        title="Largest instructions by the bytes they produce",
        shown=("result_bytes", "name", "source", "opcode", "shape", "op_name"),
        notes=notes,
    )


def sources_table(result: SourceBytes) -> Table:
    """Return the table of source lines."""
    unknown = result.unknown_sizes
    notes = [f"{plural(unknown, 'value')} of unknown size"] if unknown else []
    return Table.of(
        result,
        title="Source lines by the bytes their instructions produce",
        shown=("result_bytes", "instructions", "source_file", "source_line"),
        notes=notes,
    )


def values_table(name: str, title: str, values: Sequence[EntryValue]) -> Table:
    """Return the table of parameters or of outputs."""
    columns = [c for c in EntrySignature.COLUMNS if c.name != "direction"]
    if name == "outputs":
        columns = [c for c in columns if c.name != "number"]
    shown = [c.name for c in columns if _is_worth_showing(c.name, values)]

    unknown = sum(value.size_bytes is None for value in values)
    return Table(
        name=name,
        title=title,
        columns=tuple(columns),
        read_rows=lambda: rows_of(values, columns),
        row_count=len(values),
        totals={
            "size_bytes": sum(value.size_bytes or 0 for value in values),
            "padded_size_bytes": sum(value.padded_size_bytes or 0 for value in values),
        },
        shown=tuple(shown),
        notes=(f"{plural(unknown, 'value')} of unknown size",) if unknown else (),
    )


def _is_worth_showing(name: str, values: Sequence[EntryValue]) -> bool:
    """Return whether a column has information for people."""
    if name == "layout":
        return False
    if name == "padded_size_bytes":
        return any(value.padded_size_bytes != value.size_bytes for value in values)
    if name in ("index", "sharding", "donation", "aliased_with"):
        return any(getattr(value, name) for value in values)
    return True


def opcodes_table(result: Opcodes) -> Table:
    """Return the table of opcodes."""
    shown = ["opcode", "instructions", "result_bytes"]
    if result.totals()["unknown_sizes"]:
        shown.append("unknown_sizes")
    return Table.of(
        result,
        title="Opcodes as written; result bytes repeat what tuples and fusions pass on",
        shown=shown,
    )


def shardings_table(result: ShardingForms) -> Table:
    """Return the table of sharding forms."""
    notes = [f"{plural(result.unsharded, 'instruction')} without sharding"]
    return Table.of(result, title="Shardings by form", notes=notes if result.forms else ())


def gaps_table(gaps: Sequence[Gap]) -> Table:
    """Return the table of gaps."""
    return Table(
        name="gaps",
        title="Gaps: text that was not understood",
        columns=GAP_COLUMNS,
        read_rows=lambda: rows_of(gaps, GAP_COLUMNS),
        row_count=len(gaps),
        totals={"lines": sum(gap.lines for gap in gaps)},
    )
