"""Tables of a module's page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.instructions import largest_instructions, opcodes, source_bytes
from hlo_lens.program.pages import with_marks
from hlo_lens.program.signature import EntrySignature, entry_signature
from hlo_lens.program.summary import hlo_text, summary
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.collectives.page import collectives_table, groups_table, movement_tables
from hlo_lens.questions.memory.grouping import peak_by_source
from hlo_lens.questions.memory.page import memory_tables
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.annotations import sharding_forms
from hlo_lens.render.result import Column, Unit, rows_of
from hlo_lens.render.table import Table, table_of
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.instructions import LargestInstructions, Opcodes, SourceBytes
    from hlo_lens.program.signature import EntryValue
    from hlo_lens.questions.sharding.annotations import ShardingForms
    from hlo_lens.text.errors import Gap

GAP_COLUMNS = (
    Column("line", Unit.NONE, "1-based line of the file"),
    Column("column", Unit.NONE, "1-based column"),
    Column("message", Unit.NONE, "what was expected and found"),
    Column("lines", Unit.COUNT, "lines that were not understood"),
)


def module_tables(analysis: ModuleDump) -> Iterator[Table]:
    """Yield all tables of a module with HLO text."""
    yield Table.of(summary(analysis), title="Summary", is_data_only=True)
    memory = memory_results(analysis)
    if memory is not None:
        yield from memory_tables(memory, peak_by_source(analysis))
    yield groups_table(analysis)
    yield from detail_tables(analysis)


def detail_tables(analysis: ModuleDump) -> Iterator[Table]:
    """Yield the tables for looking things up."""
    yield largest_table(largest_instructions(analysis))
    yield _sources_table(source_bytes(analysis))
    yield _values_table("parameters", "Parameters", entry_signature(analysis).parameters)
    yield _values_table("outputs", "Outputs", entry_signature(analysis).outputs)
    yield collectives_table(collectives(analysis))
    yield from movement_tables(collectives(analysis).movement)
    yield _opcodes_table(opcodes(analysis))
    yield _shardings_table(sharding_forms(analysis))
    yield _gaps_table(hlo_text(analysis).gaps)


def largest_table(result: LargestInstructions) -> Table:
    """Return the table of the instructions that produce the most bytes."""
    left_out = (
        f"left out: {plural(result.left_out_views, 'view')} (tuples, bitcasts, loops), "
        f"{plural(result.left_out_embedded, 'instruction')} inside fusions and reducers"
    )
    table = Table.of(
        result,
        title="Largest instructions by the bytes they produce",
        shown=("result_bytes", "name", "source", "opcode", "shape", "op_name"),
        notes=(left_out, *_unknown_sizes(result.unknown_sizes)),
    )
    return with_marks(table)


def _unknown_sizes(count: int) -> tuple[str, ...]:
    return (f"{plural(count, 'value')} of unknown size",) if count else ()


def _sources_table(result: SourceBytes) -> Table:
    return Table.of(
        result,
        title="Source lines by the bytes their instructions produce",
        shown=("result_bytes", "instructions", "source_file", "source_line"),
        notes=_unknown_sizes(result.unknown_sizes),
    )


def _values_table(name: str, title: str, values: Sequence[EntryValue]) -> Table:
    columns = [c for c in EntrySignature.COLUMNS if c.name != "kind"]
    if name == "outputs":
        columns = [c for c in columns if c.name != "number"]
    shown = [c.name for c in columns if _is_worth_showing(c.name, values)]
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
        notes=_unknown_sizes([value.size_bytes for value in values].count(None)),
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


def _opcodes_table(result: Opcodes) -> Table:
    shown = ["opcode", "instructions", "result_bytes"]
    if result.totals()["unknown_sizes"]:
        shown.append("unknown_sizes")
    return Table.of(
        result,
        title="Opcodes as written; result bytes repeat what tuples and fusions pass on",
        shown=shown,
    )


def _shardings_table(result: ShardingForms) -> Table:
    notes = [f"{plural(result.unsharded, 'instruction')} without sharding"]
    return Table.of(result, title="Shardings by form", notes=notes if result.forms else ())


def _gaps_table(gaps: Sequence[Gap]) -> Table:
    rows, lines = [*rows_of(gaps, GAP_COLUMNS)], sum(gap.lines for gap in gaps)
    title = "Gaps: text that was not understood"
    return table_of("gaps", title, GAP_COLUMNS, rows, totals={"lines": lines})
