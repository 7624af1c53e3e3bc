"""Page of one module in ``hlo-lens report``.

Order of a section: identity, interface and communication; then the largest instructions and the
source lines with the most bytes; then lists for looking things up.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.facts import coverage_facts, module_facts
from hlo_lens.analysis.module_analysis import NO_HLO, not_estimated_text
from hlo_lens.analysis.program.entry_signature import EntrySignature
from hlo_lens.analysis.result import Cell, Column, Unit, row_objects, rows_of
from hlo_lens.model.snapshot.writing import facts_object
from hlo_lens.report.collectives.page import (
    collectives_object,
    collectives_table,
    collectives_text,
    groups_table,
    movement_tables,
)
from hlo_lens.report.memory.facts import memory_facts, memory_notes
from hlo_lens.report.memory.page import memory_object, memory_tables
from hlo_lens.report.render.envelope import ModulePage
from hlo_lens.report.render.table import Section, Sections, Table, table_of
from hlo_lens.report.sharding.page import sharding_facts, sharding_rows, sum_text
from hlo_lens.text.units import format_ratio, listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.program.entry_values import EntryValue
    from hlo_lens.analysis.program.largest_instructions import LargestInstructions
    from hlo_lens.analysis.program.opcodes import Opcodes
    from hlo_lens.analysis.program.source_bytes import SourceBytes
    from hlo_lens.analysis.program.summary import Summary
    from hlo_lens.analysis.sharding.forms import ShardingForms
    from hlo_lens.model.hlo.framework import Framework
    from hlo_lens.text.errors import Gap

_NAMES_SHOWN = 5
"""Names that a line lists."""


def module_page(analysis: ModuleAnalysis) -> ModulePage:
    """Return the page of a module with HLO text."""
    return ModulePage(
        sections=Sections(lambda: (_section(analysis),)),
        make_object=partial(module_object, analysis),
    )


def page_of_texts(
    analysis: ModuleAnalysis,
    sections: Sequence[Section],
    make_objects: Callable[[], Mapping[str, object]],
) -> ModulePage:
    """Return the page of a module without HLO text.

    Args:
        analysis: The module.
        sections: Sections on its other texts.
        make_objects: Makes the JSON objects of these.
    """
    memory, files = _memory_section(analysis), ("files", ", ".join(analysis.dump.files))
    alone = replace(memory, title=analysis.dump.name, facts=(files, *memory.facts))
    return ModulePage(
        sections=tuple(sections) or (alone,),
        make_object=lambda: {**object_without_hlo(analysis), **make_objects()},
    )


# ---- for people --------------------------------------------------------------------------------


def _section(analysis: ModuleAnalysis) -> Section:
    module, shardings = analysis.module, analysis.shardings
    memory = _memory_section(analysis)
    tables = (
        Table.of(analysis.summary, title="Summary", is_data_only=True),
        *memory.tables,
        groups_table(analysis),
        _largest_table(analysis.largest),
        _sources_table(analysis.sources),
        _values_table("parameters", "Parameters", analysis.signature.parameters),
        _values_table("outputs", "Outputs", analysis.signature.outputs),
        collectives_table(analysis.collectives),
        *movement_tables(analysis.collectives.movement),
        _opcodes_table(analysis.opcodes),
        _shardings_table(analysis.sharding_forms),
        _gaps_table(module.gaps),
    )
    return Section(
        title=analysis.summary.name or analysis.dump.name,
        facts=(
            *_facts(analysis),
            *(() if shardings is None else sharding_facts(shardings)),
            *memory.facts,
        ),
        tables=tables,
        notes=(
            *_notes(analysis),
            *_framework_notes(analysis.dump.framework),
            *memory.notes,
        ),
    )


def _framework_notes(framework: Framework | None) -> Iterator[str]:
    """Yield notes on facts that only the framework has."""
    if framework is None:
        return
    if framework.unused:
        names = ", ".join(value.name for value in framework.unused)
        yield f"arguments that the program does not use: {names}"
    for note in framework.notes:
        yield f"{framework.name}: {note}"


def _facts(analysis: ModuleAnalysis) -> Iterator[tuple[str, str]]:
    facts = analysis.summary
    stage = f"{analysis.dump.stage}, " if analysis.dump.stage else ""
    backend = analysis.backend or "backend unknown"
    order = "scheduled" if facts.is_scheduled else "not scheduled"
    yield "module", f"{stage}{backend}, {order}"
    yield "devices", _devices_text(facts)
    yield (
        "program",
        f"{plural(facts.instructions, 'instruction')} in "
        f"{plural(facts.computations, 'computation')}",
    )
    yield "coverage", _coverage_text(facts)
    signature = analysis.signature
    if not facts.computations:
        yield "interface", "not known: no computation was read"
        return
    yield "parameters", _interface_text(signature.parameter_count, signature.parameters)
    yield "outputs", _interface_text(len(signature.outputs), signature.outputs)
    yield "collectives", _collectives_text(analysis)


def _devices_text(facts: Summary) -> str:
    """Return partitions and replicas; partitions by the shardings if the header has none."""
    replicas = plural(facts.replica_count, "replica")
    evident = facts.evident_partitions
    if evident is None or evident == facts.num_partitions:
        return f"{plural(facts.num_partitions, 'partition')} x {replicas}"
    return f"{plural(evident, 'partition')} x {replicas} by its shardings; the header has no number"


def _coverage_text(facts: Summary) -> str:
    is_empty = not facts.instructions and not facts.gaps
    parts = ["nothing to read" if is_empty else f"{format_ratio(facts.coverage)} understood"]
    gaps = f"{plural(facts.gaps, 'gap')} of {plural(facts.gap_lines, 'line')}"
    parts.append(gaps if facts.gaps else "no gaps")
    if facts.is_truncated:
        parts.append("the text ends too early")
    if facts.undefined:
        names = listed(facts.undefined, _NAMES_SHOWN)
        parts.append(f"lacks {plural(len(facts.undefined), 'part')} that it uses: {names}")
    if facts.passed_lines:
        parts.append(f"{plural(facts.passed_lines, 'line')} of a log around it skipped")
    return ", ".join(parts)


def _interface_text(count: int, values: Sequence[EntryValue]) -> str:
    """Return the number of values, their bytes, and those donated or aliased."""
    arrays = f" ({plural(len(values), 'array')})" if len(values) != count else ""
    size = sum_text([value.size_bytes for value in values])
    padded = sum_text([value.padded_size_bytes for value in values])
    padding = f" ({padded} with padding)" if padded != size else ""
    parts = [f"{count:,}{arrays} of {size}{padding}" if count else "none"]
    aliased = [value.size_bytes for value in values if value.aliased_with is not None]
    if aliased:
        is_input = values[0].kind == "parameter"
        where = "donated to outputs" if is_input else "in donated buffers"
        parts.append(f"{len(aliased):,} of {sum_text(aliased)} {where}")
    donors = [value.size_bytes for value in values if value.donation == "donor"]
    if donors:
        parts.append(f"{len(donors):,} of {sum_text(donors)} donated for reuse")
    return "; ".join(parts)


def _collectives_text(analysis: ModuleAnalysis) -> str:
    """Return the number of collectives, their bytes and exposure, and the number of each kind."""
    found = analysis.collectives
    counts = {k: n for k, n in found.static_counts().items() if n}
    if not counts:
        return "none in the parts that were understood" if analysis.summary.gaps else "none"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return f"{collectives_text(analysis)}: {kinds}"


def _memory_section(analysis: ModuleAnalysis) -> Section:
    """Return facts, tables and notes on the memory of a module, or why it is not known."""
    memory, title = analysis.memory, analysis.dump.title
    if memory is not None:
        return Section(
            title=title,
            facts=tuple(memory_facts(memory)),
            tables=tuple(memory_tables(memory, analysis.peak_by_source)),
            notes=tuple(memory_notes(memory)),
        )
    if not analysis.has_hlo:
        return Section(title=title, notes=(NO_HLO,))
    if analysis.is_estimate_left_out:
        dump = analysis.dump
        text = not_estimated_text(analysis.summary.instructions, dump.path, dump.name)
        return Section(title=title, facts=(("memory", text),))
    note = "memory not known: no buffer assignment next to this text, and no schedule in it"
    return Section(title=title, notes=() if analysis.module.is_scheduled else (note,))


def _notes(analysis: ModuleAnalysis) -> Iterator[str]:
    """Yield notes on opcodes and attributes that hlo-lens does not know."""
    if analysis.opcodes.unknown_opcodes:
        names = ", ".join(analysis.opcodes.unknown_opcodes)
        yield f"opcodes not known to this version of hlo-lens: {names}"
    if analysis.module.unknown_attributes:
        names = ", ".join(analysis.module.unknown_attributes)
        yield f"attributes not known to this version of hlo-lens: {names}"
    unknown = analysis.collectives.unknown_opcodes
    if unknown:
        names = ", ".join(f"{count} {name}" for name, count in unknown)
        yield f"not counted as collectives, though named like one: {names}"


# ---- tables -------------------------------------------------------------------------------------


def _largest_table(result: LargestInstructions) -> Table:
    left_out = (
        f"left out: {plural(result.left_out_views, 'view')} (tuples, bitcasts, loops), "
        f"{plural(result.left_out_embedded, 'instruction')} inside fusions and reducers"
    )
    return Table.of(
        result,
        title="Largest instructions by the bytes they produce",
        shown=("result_bytes", "name", "source", "opcode", "shape", "op_name"),
        notes=(left_out, *_unknown_sizes(result.unknown_sizes)),
    )


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


# ---- JSON ---------------------------------------------------------------------------------------


GAP_COLUMNS = (
    Column("line", Unit.NONE, "1-based line of the file"),
    Column("column", Unit.NONE, "1-based column"),
    Column("message", Unit.NONE, "what was expected and found"),
    Column("lines", Unit.COUNT, "lines that were not understood"),
)

RANKING = 100
"""Rows of an open-ended ranking; ``row_count`` is the number of all."""


def module_object(analysis: ModuleAnalysis) -> Mapping[str, object]:
    """Return the JSON object of a module: its facts, and the rows that they are sums of.

    Scripts rely on its names: names may be added, none changes. Bytes are integers. A key whose
    value is unknown is present with null; 0 means zero.
    """
    module, signature = analysis.module, analysis.signature
    gaps = row_objects(GAP_COLUMNS, rows_of(module.gaps, GAP_COLUMNS))
    return {
        **_facts_object(analysis, name=analysis.summary.name or analysis.dump.name),
        "coverage": {**facts_object(coverage_facts(analysis.summary)), "rows": gaps},
        "collectives": collectives_object(analysis.collectives),
        "memory": memory_object(analysis.memory),
        "is_estimate_left_out": analysis.is_estimate_left_out,
        "sharding": {
            "rows": [
                *({"kind": "form", **row} for row in analysis.sharding_forms.objects()),
                *sharding_rows(analysis.shardings),
            ]
        },
        "parameter_rows": _values(signature.parameters),
        "output_rows": _values(signature.outputs),
        "opcode_rows": analysis.opcodes.objects(),
        "largest_instructions": analysis.largest.ranking(RANKING),
        "source_bytes": analysis.sources.ranking(RANKING),
    }


def object_without_hlo(analysis: ModuleAnalysis) -> dict[str, object]:
    """Return the JSON object of a module without HLO text: its memory at most."""
    rows = "sharding parameter_rows output_rows opcode_rows largest_instructions source_bytes log"
    return {
        **_facts_object(analysis, name=analysis.dump.name),
        "memory": memory_object(analysis.memory),
        **dict.fromkeys(rows.split()),
    }


def _facts_object(analysis: ModuleAnalysis, *, name: str) -> dict[str, object]:
    """Return name, files and facts, in the documented order of the keys."""
    head = dict.fromkeys(("name", "stage", "backend", "files"))
    found = facts_object(module_facts(analysis))
    return {**head, **found, "name": name, "files": list(analysis.dump.files)}


def _values(values: Iterable[EntryValue]) -> list[dict[str, Cell]]:
    return row_objects(EntrySignature.COLUMNS, (value.row() for value in values))
