"""The report on modules, for people: what to read first.

Order of a section: what the module is, its interface, its communication; then the largest
instructions and the source lines that own the most bytes; then the lists that are looked up.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.analysis.module_analysis import module_results
from hlo_lens.analysis.program.entry_signature import EntrySignature
from hlo_lens.analysis.result import Column, Unit
from hlo_lens.analysis.sharding.results import sharding_results
from hlo_lens.report.collectives.page import (
    collectives_table,
    collectives_text,
    groups_table,
    movement_tables,
)
from hlo_lens.report.program.objects import (
    NAMES_SHOWN,
    SCHEMA_VERSION,
    backend_of,
    backend_of_dump,
    module_object,
    object_without_hlo,
)
from hlo_lens.report.render.table import Objects, Report, Section, Table
from hlo_lens.report.render.units import format_bytes, format_ratio, plural
from hlo_lens.report.sharding.facts import sharding_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.module_analysis import ModuleResults
    from hlo_lens.analysis.program.entry_values import EntryValue
    from hlo_lens.analysis.program.largest_instructions import LargestInstructions
    from hlo_lens.analysis.program.opcodes import Opcodes
    from hlo_lens.analysis.program.source_bytes import SourceBytes
    from hlo_lens.analysis.program.summary import Summary
    from hlo_lens.analysis.result import Row
    from hlo_lens.analysis.sharding.forms import ShardingForms
    from hlo_lens.analysis.sharding.results import ShardingResults
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.hlo.framework import Framework
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.text.errors import Gap


MOST_ESTIMATED = 20_000
"""Instructions of the largest module whose memory the first page estimates: it must be quick."""


def module_report(
    modules: Sequence[ModuleDump],
    *,
    tool_version: str,
    progress: Callable[[int, int], None] | None = None,
    log: ModuleDump | None = None,
) -> Report:
    """Return the report on some modules.

    Args:
        modules: In the order in which they are shown.
        tool_version: Version of hlo-lens for the JSON.
        progress: Called with modules done and modules in all.
        log: What the compiler or the program wrote of the same modules, reported after them.
    """
    sections: list[Section] = []
    makers: list[Callable[[], Mapping[str, object]]] = []
    for done, dump in enumerate(modules):
        if progress is not None and len(modules) > 1:
            progress(done, len(modules))
        module = dump.hlo
        if module is None:
            from hlo_lens.analysis.memory.results import memory_results
            from hlo_lens.report.memory.single_texts import texts_alone

            memory = memory_results(dump, backend=backend_of_dump(dump))
            if memory is None and (alone := tuple(texts_alone(dump))):
                sections.extend(alone)
            else:
                sections.append(_section_without_hlo(dump, memory))
            makers.append(partial(object_without_hlo, dump, memory))
        else:
            results = module_results(module, before=partial(_before, dump))
            memory = _memory(dump, module, results)
            devices = results.summary.evident_partitions or results.summary.num_partitions
            shardings = sharding_results(
                dump, read_before=devices > 1, known=(results.table, results.signature)
            )
            sections.append(_section(dump, module, results, memory, shardings))
            makers.append(partial(module_object, dump, module, results, memory, shardings))
    data: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "kind": "report",
        "tool_version": tool_version,
        "modules": Objects(makers),
    }
    if log is not None and log.log is not None:
        from hlo_lens.report.logs.objects import log_object
        from hlo_lens.report.logs.page import log_sections

        sections.extend(log_sections(log.name, log.log, modules))
        data["log"] = log_object(log.log, modules)
    return Report(kind="report", sections=tuple(sections), data=data)


def _memory(dump: ModuleDump, module: HloModule, results: ModuleResults) -> MemoryResults | None:
    """Return what is known of a module's memory, as far as the first page says it.

    Where nothing will be, the passes for it are not even imported: that takes a fifth of the time.
    """
    if dump.buffers.assignment is None and len(module.columns) > MOST_ESTIMATED:
        return None
    from hlo_lens.analysis.memory.results import memory_results

    return memory_results(
        dump,
        backend=backend_of(dump, results.summary),
        table=results.table,
        most_estimated=MOST_ESTIMATED,
    )


def _before(dump: ModuleDump) -> HloModule | None:
    """Return a module's text from before optimizations, read at this call."""
    return dump.before


# ---- for people --------------------------------------------------------------------------------


def _section(
    dump: ModuleDump,
    module: HloModule,
    results: ModuleResults,
    memory: MemoryResults | None,
    shardings: ShardingResults | None,
) -> Section:
    """Return head and tables of a module."""
    parts = _memory_parts(memory)
    tables = (
        Table.of(results.summary, title="Summary", is_data_only=True),
        *(() if parts is None else parts.tables),
        groups_table(results.collectives, "kind and axis"),
        _largest_table(results.largest),
        _sources_table(results.sources),
        _values_table("parameters", "Parameters", results.signature.parameters),
        _values_table("outputs", "Outputs", results.signature.outputs),
        collectives_table(results.collectives),
        *movement_tables(results.collectives.movement),
        _opcodes_table(results.opcodes),
        _shardings_table(results.shardings),
        _gaps_table(module.gaps),
    )
    return Section(
        title=results.summary.name or dump.name,
        facts=(
            *_facts(dump, results),
            *(() if shardings is None else sharding_facts(shardings)),
            *(() if parts is None else parts.facts),
        ),
        tables=tables,
        notes=(
            *_notes(results, module),
            *_framework_notes(dump.framework),
            *(_memory_notes(module) if parts is None else parts.notes),
        ),
    )


def _framework_notes(framework: Framework | None) -> Iterator[str]:
    """Yield what the framework knows that no text says."""
    if framework is None:
        return
    if framework.unused:
        names = ", ".join(value.name for value in framework.unused)
        yield f"arguments that the program does not use: {names}"
    for note in framework.notes:
        yield f"{framework.name}: {note}"


def _section_without_hlo(dump: ModuleDump, memory: MemoryResults | None) -> Section:
    facts: tuple[tuple[str, str], ...] = (("files", ", ".join(dump.files)),)
    parts = _memory_parts(memory)
    if parts is not None:
        return Section(
            title=dump.name,
            facts=(*facts, *parts.facts),
            tables=parts.tables,
            notes=parts.notes,
        )
    return Section(
        title=dump.name,
        facts=facts,
        notes=("no HLO text; XLA writes it with --xla_dump_to=DIR --xla_dump_hlo_as_text",),
    )


def _facts(dump: ModuleDump, results: ModuleResults) -> Iterator[tuple[str, str]]:
    """Yield the lines at the head of a module."""
    facts = results.summary
    stage = f"{dump.stage}, " if dump.stage else ""
    backend = backend_of(dump, facts) or "backend not told by the text"
    order = "scheduled" if facts.is_scheduled else "not scheduled"
    yield "module", f"{stage}{backend}, {order}"
    yield "devices", _devices_text(facts)
    yield (
        "program",
        f"{plural(facts.instructions, 'instruction')} in "
        f"{plural(facts.computations, 'computation')}",
    )
    yield "coverage", _coverage_text(facts)
    signature = results.signature
    if not module_has_text(results):
        yield "interface", "not known: no computation was read"
        return
    yield "parameters", _interface_text(signature.parameter_count, signature.parameters)
    yield "outputs", _interface_text(len(signature.outputs), signature.outputs)
    yield "collectives", _collectives_text(results)


def module_has_text(results: ModuleResults) -> bool:
    """Return whether any computation was read."""
    return results.summary.computations > 0


def _devices_text(facts: Summary) -> str:
    """Return partitions and replicas; the shardings' word where the header has none."""
    replicas = plural(facts.replica_count, "replica")
    told = facts.evident_partitions
    if told is None or told == facts.num_partitions:
        return f"{plural(facts.num_partitions, 'partition')} x {replicas}"
    return f"{plural(told, 'partition')} x {replicas} by its shardings; the header has no number"


def _coverage_text(facts: Summary) -> str:
    share = f"{format_ratio(facts.coverage)} understood"
    if not facts.instructions and not facts.gaps:
        share = "nothing to read"
    gaps = f", {plural(facts.gaps, 'gap')} of {plural(facts.gap_lines, 'line')}"
    cut = ", the text ends too early" if facts.is_truncated else ""
    others = f", {plural(facts.passed_lines, 'line')} of a log around it passed over"
    passed = others if facts.passed_lines else ""
    return f"{share}{gaps if facts.gaps else ', no gaps'}{cut}{_undefined_text(facts)}{passed}"


def _undefined_text(facts: Summary) -> str:
    """Return what the text lacks."""
    names = facts.undefined
    if not names:
        return ""
    listed = [*names[:NAMES_SHOWN], *(["..."] if len(names) > NAMES_SHOWN else [])]
    return f", lacks {plural(len(names), 'part')} that it uses: {', '.join(listed)}"


def _interface_text(count: int, values: Sequence[EntryValue]) -> str:
    """Return how many values there are, their bytes, and what they share."""
    arrays = f" ({plural(len(values), 'array')})" if len(values) != count else ""
    size = _bytes_text([value.size_bytes for value in values])
    padded = _bytes_text([value.padded_size_bytes for value in values])
    padding = f" ({padded} with padding)" if padded != size else ""
    parts = [f"{count:,}{arrays} of {size}{padding}" if count else "none"]
    aliased = [value.size_bytes for value in values if value.aliased_with is not None]
    if aliased:
        is_input = values[0].direction == "parameter"
        where = "donated to outputs" if is_input else "in donated buffers"
        parts.append(f"{len(aliased):,} of {_bytes_text(aliased)} {where}")
    donors = [value.size_bytes for value in values if value.donation == "donor"]
    if donors:
        parts.append(f"{len(donors):,} of {_bytes_text(donors)} donated for reuse")
    return "; ".join(parts)


def _bytes_text(sizes: Iterable[int | None]) -> str:
    """Return the sum of sizes, and how many of them are not known."""
    listed = list(sizes)
    text = format_bytes(sum(size for size in listed if size is not None))
    unknown = listed.count(None)
    return f"{text} and {plural(unknown, 'value')} of unknown size" if unknown else text


def _collectives_text(results: ModuleResults) -> str:
    """Return the number of collectives and of each kind, what one run moves, what is exposed."""
    found = results.collectives
    counts = {k: n for k, n in found.static_counts().items() if n}
    if not counts:
        return "none in what was understood" if results.summary.gaps else "none"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return f"{collectives_text(found)}: {kinds}"


class _MemoryParts(NamedTuple):
    """What the report says of a module's memory."""

    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


def _memory_parts(memory: MemoryResults | None) -> _MemoryParts | None:
    if memory is None:
        return None
    from hlo_lens.report.memory.page import memory_facts, memory_notes, memory_tables

    return _MemoryParts(
        facts=tuple(memory_facts(memory)),
        tables=tuple(memory_tables(memory)),
        notes=tuple(memory_notes(memory)),
    )


def _memory_notes(module: HloModule) -> Iterator[str]:
    """Yield why nothing is said of a module's memory."""
    if not module.is_scheduled:
        yield "memory not known: no buffer assignment beside this text, and no schedule in it"
    elif len(module.columns) > MOST_ESTIMATED:
        yield (
            "no buffer assignment beside this text; hlo-lens memory estimates its memory, which "
            "takes longer than this page may"
        )


def _notes(results: ModuleResults, module: HloModule) -> tuple[str, ...]:
    """Return what a reader must know that no number shows."""
    notes = []
    if results.opcodes.unknown_opcodes:
        names = ", ".join(results.opcodes.unknown_opcodes)
        notes.append(f"opcodes not known to this version of hlo-lens: {names}")
    if module.unknown_attributes:
        names = ", ".join(module.unknown_attributes)
        notes.append(f"attributes not known to this version of hlo-lens: {names}")
    if results.collectives.unknown_opcodes:
        names = ", ".join(f"{count} {name}" for name, count in results.collectives.unknown_opcodes)
        notes.append(f"not counted as collectives, but named like one: {names}")
    return tuple(notes)


# ---- tables ------------------------------------------------------------------------------------


def _largest_table(result: LargestInstructions) -> Table:
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


def _sources_table(result: SourceBytes) -> Table:
    unknown = result.unknown_sizes
    notes = [f"{plural(unknown, 'value')} of unknown size"] if unknown else []
    return Table.of(
        result,
        title="Source lines by the bytes their instructions produce",
        shown=("result_bytes", "instructions", "source_file", "source_line"),
        notes=notes,
    )


def _values_table(name: str, title: str, values: Sequence[EntryValue]) -> Table:
    """Return the table of parameters or of outputs."""
    columns = [c for c in EntrySignature.COLUMNS if c.name != "direction"]
    if name == "outputs":
        columns = [c for c in columns if c.name != "number"]
    shown = [c.name for c in columns if _is_worth_showing(c.name, values)]

    def rows() -> Iterator[Row]:
        for value in values:
            yield tuple(getattr(value, column.name) for column in columns)

    unknown = sum(value.size_bytes is None for value in values)
    return Table(
        name=name,
        title=title,
        columns=tuple(columns),
        read_rows=rows,
        row_count=len(values),
        totals={
            "size_bytes": sum(value.size_bytes or 0 for value in values),
            "padded_size_bytes": sum(value.padded_size_bytes or 0 for value in values),
        },
        shown=tuple(shown),
        notes=(f"{plural(unknown, 'value')} of unknown size",) if unknown else (),
    )


def _is_worth_showing(name: str, values: Sequence[EntryValue]) -> bool:
    """Return whether a column tells people anything."""
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


_GAP_COLUMNS = (
    Column("line", Unit.NONE, "1-based line of the file"),
    Column("column", Unit.NONE, "1-based column"),
    Column("message", Unit.NONE, "what was expected and found"),
    Column("lines", Unit.COUNT, "how many lines were not understood"),
)


def _gaps_table(gaps: Sequence[Gap]) -> Table:
    return Table(
        name="gaps",
        title="Gaps: what was not understood",
        columns=_GAP_COLUMNS,
        read_rows=lambda: ((gap.line, gap.column, gap.message, gap.lines) for gap in gaps),
        row_count=len(gaps),
        totals={"lines": sum(gap.lines for gap in gaps)},
    )
