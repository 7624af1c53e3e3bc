"""Sections, tables and JSON object of one module in ``hlo-lens report``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from hlo_lens.program.flops import flops
from hlo_lens.program.instructions import largest_instructions, opcodes, source_bytes
from hlo_lens.program.pages import with_marks
from hlo_lens.program.signature import EntrySignature, entry_signature
from hlo_lens.program.summary import backend_of_dump, hlo_text, no_hlo_text, summary
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.page import (
    collectives_object,
    collectives_table,
    collectives_text,
    groups_table,
    movement_tables,
)
from hlo_lens.questions.dumps.groups import lead_of
from hlo_lens.questions.dumps.page import estimate_notes, modules_table
from hlo_lens.questions.findings.module_findings import module_findings
from hlo_lens.questions.findings.page import NONE, counts_text, finding_facts
from hlo_lens.questions.findings.places import argument_of
from hlo_lens.questions.memory.grouping import peak_by_source
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.page import (
    leading_table,
    memory_facts,
    memory_notes,
    memory_object,
    memory_tables,
    peak_table,
    statement_tables,
)
from hlo_lens.questions.memory.results import (
    is_estimate_left_out,
    memory_results,
    not_estimated_text,
)
from hlo_lens.questions.memory.statement import FEW_BYTES, space_name
from hlo_lens.questions.sharding.annotations import sharding_forms
from hlo_lens.questions.sharding.page import (
    NOT_KNOWN,
    donation_text,
    mesh_text,
    replicated_text,
    sharding_rows,
    sum_text,
)
from hlo_lens.questions.sharding.savings import DonationStatus, sharding_results
from hlo_lens.questions.snapshots.module_snapshot import module_facts
from hlo_lens.render.envelope import ModulePage
from hlo_lens.render.result import Column, Unit, facts_object, row_objects, rows_of
from hlo_lens.render.table import Section, Sections, Table, table_of
from hlo_lens.render.to_json import JoinedObjects, RowObjects
from hlo_lens.text.dump_kinds import BEFORE, TEXT_FLAGS
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import flops_text, format_bytes, format_ratio, listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import Framework
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.program.flops import Flops
    from hlo_lens.program.instructions import LargestInstructions, Opcodes, SourceBytes
    from hlo_lens.program.signature import EntryValue
    from hlo_lens.program.summary import Summary
    from hlo_lens.questions.dumps.groups import Lead, ModuleGroups
    from hlo_lens.questions.findings.findings import Findings
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.sharding.annotations import ShardingForms
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.sharding.savings import ShardingResults
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


_NAMES_SHOWN = 5
"""Names that a line lists."""
_DONATIONS_SHOWN = 3
"""Arrays that are listed; more are listed by argument of the function."""


def head_facts(analysis: ModuleDump, role: str = "") -> Iterator[tuple[str, str]]:
    """Yield the lines at the head of a module with HLO text.

    Args:
        analysis: The module.
        role: Its place among the modules of the dump, such as the training step.
    """
    facts, shardings = summary(analysis), sharding_results(analysis)
    stage = f"{analysis.stage}, " if analysis.stage else ""
    backend = backend_of_dump(analysis) or "backend unknown"
    order = "scheduled" if facts.is_scheduled else "not scheduled"
    yield "module", f"{f'{role}; ' if role else ''}{stage}{backend}, {order}"
    mesh = "" if shardings is None else mesh_text(shardings.table.meshes)
    slices = "" if shardings is None else _slices_text(facts, shardings.table.num_devices)
    yield "devices", f"{_devices_text(facts)}{slices}{mesh}"
    yield from memory_lines(analysis)
    if not facts.computations:
        yield "interface", "not known: no computation was read"
    else:
        yield from _computation_facts(analysis)
    size = (
        f"{plural(facts.instructions, 'instruction')} in "
        f"{plural(facts.computations, 'computation')}"
    )
    yield "coverage", f"{_coverage_text(facts)}; {size}"


def _computation_facts(analysis: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield the lines on interface, donation, communication, replication and arithmetic."""
    signature, shardings = entry_signature(analysis), sharding_results(analysis)
    if memory_results(analysis) is None:
        yield "parameters", _interface_text(signature.parameter_count, signature.parameters)
        outputs = len(signature.outputs) if signature.has_outputs else None
        yield "outputs", _interface_text(outputs, signature.outputs)
    if shardings is not None:
        yield "donation", _donations(shardings)
    yield "collectives", _collectives_text(analysis)
    if shardings is not None and shardings.table.num_devices > 1:
        yield "replicated", replicated_text(shardings)
    is_partial = summary(analysis).coverage.gaps > 0
    work = work_text(flops(analysis), is_partial=is_partial)
    devices = summary(analysis).evident_partitions or 1
    if analysis.stage == BEFORE and devices > 1 and flops(analysis).at_least:
        work += f", before division over {devices} devices"
    yield "work", work


def memory_lines(analysis: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield the lines on the memory of a module; why it is not known, and how to get it."""
    memory = memory_results(analysis)
    if memory is not None:
        space = space_name(DEFAULT_SPACE, memory.backend)
        for label, text in memory_facts(memory):
            yield space if label == "memory" else label, text
        others = other_spaces(memory)
        if others:
            yield "others", others
    elif is_estimate_left_out(analysis):
        text = not_estimated_text(summary(analysis).instructions, analysis.path, analysis.address)
        yield "memory", text
    elif analysis.has_hlo and not hlo_text(analysis).is_scheduled:
        yield (
            "memory",
            "not known: no buffer assignment next to this text, and no schedule in it; XLA writes "
            f"both with {TEXT_FLAGS}",
        )
    elif not analysis.has_hlo:
        yield "memory", no_hlo_text(analysis)


def other_spaces(memory: MemoryResults) -> str:
    """Return the bytes of memory spaces besides the default one; the smallest ones together."""
    others = [space for space in memory.statement.spaces if space.color != DEFAULT_SPACE]
    sizes = [(space.total_bytes, space.name) for space in others if space.total_bytes]
    sizes.sort(key=lambda pair: -pair[0])
    large = [pair for pair in sizes if pair[0] >= FEW_BYTES]
    small = sizes[len(large) :]
    parts = [f"{name} {format_bytes(size)}" for size, name in large]
    parts += [f"{space.name} not known" for space in others if space.total_bytes is None]
    if small:
        size = format_bytes(sum(size for size, _ in small))
        parts.append(f"{size} in {', '.join(name for _, name in small)}")
    return ", ".join(parts)


def _donations(shardings: ShardingResults) -> str:
    """Return the outcomes of donation, and the largest arguments that could be donated."""
    text = donation_text(shardings)
    is_whole = shardings.is_complete
    possible = shardings.donations.of(DonationStatus.DONATABLE) if is_whole else ()
    if not possible:
        return text
    leaves: dict[str, list[ShardedValue]] = {}
    for one in possible:
        name = one.value.value.name or ""
        whole = argument_of(name) if len(possible) > _DONATIONS_SHOWN else name
        leaves.setdefault(whole, []).append(one.value)
    largest = sorted(leaves.items(), key=lambda item: -sum(v.device_bytes or 0 for v in item[1]))
    names = [_donatable_text(name, values) for name, values in largest]
    return f"{text}: {listed(names, _DONATIONS_SHOWN)}"


def _donatable_text(name: str, leaves: Sequence[ShardedValue]) -> str:
    """Return an argument, the number of its arrays if it has several, and their bytes."""
    size = sum_text(value.device_bytes for value in leaves)
    if len(leaves) == 1:
        return f"{leaves[0].value.name} {size}"
    return f"{name} ({plural(len(leaves), 'array')}) {size}"


def work_text(flops: Flops, *, is_partial: bool = False) -> str:
    """Return the arithmetic of one run, as far as it is known.

    Args:
        flops: The products of the program.
        is_partial: Whether parts of the text were not understood.
    """
    least = flops.at_least
    if least is None:
        return NOT_KNOWN
    if is_partial:
        return f"at least {flops_text(least)} of products, in the parts understood"
    unknown = ""
    if flops.opaque:
        unknown = f"; {plural(flops.opaque, 'custom call')} of unknown arithmetic"
    if flops.unknown_opcodes:
        unknown += f"; arithmetic of {', '.join(flops.unknown_opcodes)} not known"
    if flops.total is None:
        known = f"at least {flops_text(least)} of products in one run" if least else "not known"
        return f"{known}{unknown or _unknown_trips(flops)}"
    bound = "at most " * flops.is_at_most
    source = ", in part by estimates of kernels" * flops.is_estimate
    return f"{bound}{flops_text(flops.total)} of products in one run{source}{unknown}"


def _unknown_trips(flops: Flops) -> str:
    once = flops.of_single_trips
    if not once:
        return "; a trip count or a shape is not known"
    return f"; {flops_text(once)} of products if loops of unknown trip count run once"


def _devices_text(facts: Summary) -> str:
    """Return partitions and replicas; partitions by the shardings if the header has none."""
    replicas = plural(facts.replica_count, "replica")
    if facts.num_partitions is not None:
        return f"{plural(facts.num_partitions, 'partition')} x {replicas}"
    evident = plural(facts.evident_partitions or 1, "partition")
    return f"{evident} x {replicas} by its shardings; the header has no number"


def _slices_text(facts: Summary, devices: int) -> str:
    """Return in how many slices the program runs; empty where the text has all its devices."""
    own = (facts.num_partitions or facts.evident_partitions or 1) * facts.replica_count
    count, rest = divmod(devices, own)
    return f" in each of {count} slices" if count > 1 and not rest else ""


def _coverage_text(facts: Summary) -> str:
    found = facts.coverage
    is_empty = not found.instructions and not found.gaps
    parts = ["nothing to read" if is_empty else f"{format_ratio(found.ratio)} understood"]
    gaps = f"{plural(found.gaps, 'gap')} of {plural(found.gap_lines, 'line')}"
    parts.append(gaps if found.gaps else "no gaps")
    if found.is_truncated:
        parts.append("the text ends too early")
    if facts.undefined:
        names = listed(facts.undefined, _NAMES_SHOWN)
        parts.append(f"lacks {plural(len(facts.undefined), 'part')} that it uses: {names}")
    if found.passed_lines:
        parts.append(f"{plural(found.passed_lines, 'line')} of a log around it skipped")
    return ", ".join(parts)


def _interface_text(count: int | None, values: Sequence[EntryValue]) -> str:
    """Return the number of values, their bytes, and those donated or aliased."""
    if count is None:
        return NOT_KNOWN
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


def _collectives_text(analysis: ModuleDump) -> str:
    """Return the number of collectives, their bytes and exposure, and the number of each kind."""
    found = collectives(analysis)
    counts = {k: n for k, n in found.static_counts().items() if n}
    if not counts:
        is_whole = found.is_complete and not summary(analysis).coverage.gaps
        return "none" if is_whole else "none in the parts that were understood"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return collectives_text(analysis, kinds)


def head_notes(analysis: ModuleDump) -> Iterator[str]:
    """Yield what is not known of a module, and the limits of its numbers."""
    yield from _unknown_words(analysis)
    yield from _framework_notes(analysis.framework)
    memory = memory_results(analysis)
    if memory is not None:
        yield from memory_notes(memory)


def _unknown_words(analysis: ModuleDump) -> Iterator[str]:
    """Yield notes on opcodes and attributes that hlo-lens does not know."""
    if opcodes(analysis).unknown_opcodes:
        names = ", ".join(opcodes(analysis).unknown_opcodes)
        yield f"opcodes not known to this version of hlo-lens: {names}"
    if hlo_text(analysis).unknown_attributes:
        names = ", ".join(hlo_text(analysis).unknown_attributes)
        yield f"attributes not known to this version of hlo-lens: {names}"
    unknown = collectives(analysis).unknown_opcodes
    if unknown:
        names = ", ".join(f"{count} {name}" for name, count in unknown)
        yield f"not counted as collectives, though named like one: {names}"


def _framework_notes(framework: Framework | None) -> Iterator[str]:
    """Yield notes on facts that only the framework has."""
    if framework is None:
        return
    if framework.unused:
        names = ", ".join(value.name for value in framework.unused)
        yield f"arguments that the program does not use: {names}"
    for note in framework.notes:
        yield f"{framework.name}: {note}"


def module_page(analysis: ModuleDump) -> ModulePage:
    """Return the page of a module with HLO text."""
    return ModulePage(
        sections=Sections(lambda: (_section(analysis),)),
        make_object=partial(module_object, analysis),
    )


def _section(analysis: ModuleDump) -> Section:
    title = summary(analysis).name or analysis.name
    return Section(title=title, tables=tuple(module_tables(analysis)))


def page_of_texts(
    analysis: ModuleDump,
    sections: Sequence[Section],
    make_objects: Callable[[], Mapping[str, object]],
) -> ModulePage:
    """Return the page of a module without HLO text.

    Args:
        analysis: The module.
        sections: Sections on its other texts.
        make_objects: Makes the JSON objects of these.
    """
    return ModulePage(
        sections=tuple(sections) or (_memory_section(analysis),),
        make_object=lambda: {**object_without_hlo(analysis), **make_objects()},
    )


def _memory_section(analysis: ModuleDump) -> Section:
    """Return the section on the memory of a module without HLO text."""
    memory = memory_results(analysis)
    section = Section(
        title=analysis.name, facts=(("files", ", ".join(analysis.files)), *memory_lines(analysis))
    )
    if memory is None:
        return section
    tables = memory_tables(memory, peak_by_source(analysis))
    return replace(section, tables=tuple(tables), notes=tuple(memory_notes(memory)))


# ---- JSON ---------------------------------------------------------------------------------------


RANKING = 100
"""Rows of an open-ended ranking; ``row_count`` is the number of all."""


def module_object(analysis: ModuleDump) -> Mapping[str, object]:
    """Return the JSON object of a module: its facts, and the rows that they are sums of.

    Scripts rely on its names: names may be added, none changes. Bytes are integers. A key whose
    value is unknown is present with null; 0 means zero.
    """
    module, signature = hlo_text(analysis), entry_signature(analysis)
    gaps = row_objects(GAP_COLUMNS, rows_of(module.gaps, GAP_COLUMNS))
    return {
        **_facts_object(analysis, name=summary(analysis).name or analysis.name),
        "coverage": {**facts_object(summary(analysis).coverage), "rows": gaps},
        "collectives": collectives_object(collectives(analysis)),
        "memory": memory_object(memory_results(analysis)),
        "is_estimate_left_out": is_estimate_left_out(analysis),
        "sharding": {"rows": _sharding_rows(analysis)},
        "parameter_rows": None
        if signature.parameter_count is None
        else _values(signature.parameters),
        "output_rows": _values(signature.outputs) if signature.has_outputs else None,
        "opcode_rows": opcodes(analysis).objects(),
        "largest_instructions": largest_instructions(analysis).ranking(RANKING)
        if module.has_entry
        else None,
        "source_bytes": source_bytes(analysis).ranking(RANKING) if module.has_entry else None,
    }


def _sharding_rows(analysis: ModuleDump) -> JoinedObjects | None:
    """Return forms of shardings, then parameters and outputs; None if not all are known."""
    shardings = sharding_results(analysis)
    if shardings is None or not shardings.is_complete:
        return None
    forms = [{"kind": "form", **row} for row in sharding_forms(analysis).objects()]
    return JoinedObjects(forms, sharding_rows(shardings))


def object_without_hlo(analysis: ModuleDump) -> dict[str, object]:
    """Return the JSON object of a module without HLO text: its memory at most."""
    rows = "sharding parameter_rows output_rows opcode_rows largest_instructions source_bytes log"
    return {
        **_facts_object(analysis, name=analysis.name),
        "memory": memory_object(memory_results(analysis)),
        **dict.fromkeys(rows.split()),
    }


def _facts_object(analysis: ModuleDump, *, name: str) -> dict[str, object]:
    """Return name, files and facts, in the documented order of the keys."""
    head = dict.fromkeys(("name", "stage", "backend", "files"))
    found = facts_object(module_facts(analysis))
    return {**head, **found, "name": name, "files": list(analysis.files)}


def _values(values: Sequence[EntryValue]) -> RowObjects:
    return RowObjects(EntrySignature.COLUMNS, values)


MOST_LINES = 60
"""Lines of the page where no number of rows is asked for."""


def command_on(name: str, dump: ModuleDump, options: str = "") -> str:
    """Return a command on a module alone."""
    return command_text(name, dump.path, dump.module_option, options)


def command_text(name: str, path: str, *options: str) -> str:
    """Return a command on a path with some options, of which empty ones are left out."""
    head = f"hlo-lens {name} {shell_word(path) if path else 'PATH'}"
    return " ".join((head, *filter(None, options)))


_MORE = "values at the peak, largest instructions, parameters, outputs, opcodes:"


def first_pages(
    known: Sequence[ModuleDump], pages: Sequence[ModulePage], progress: Progress | None
) -> Iterator[Section]:
    """Yield the page of the likely training step, with the others in one line each, and of logs.

    Args:
        known: The modules.
        pages: Their pages.
        progress: Called with modules done and modules in all.
    """
    logs = [k for k, one in enumerate(known) if one.log is not None]
    place, lead = lead_of([one for k, one in enumerate(known) if k not in logs], progress)
    rest = [k for k in range(len(known)) if k not in logs]
    if rest:
        chosen = rest[place]
        if known[chosen].has_hlo:
            yield first_section(known[chosen], lead, module_findings(known[chosen]))
        else:
            yield from pages[chosen].sections
            yield from others_sections(known[chosen], lead)
    for k in logs:
        yield from pages[k].sections


def first_section(analysis: ModuleDump, lead: Lead, findings: Findings) -> Section:
    """Return the page of a module with HLO text."""
    more = command_on("report", analysis, "-n 10")
    shown = findings.counted[:_FINDINGS_SHOWN]
    head = (*head_facts(analysis, lead.role), ("findings", _count(analysis, findings)))
    first, *others = (tuple(finding_facts([one])) for one in shown) if shown else ((),)
    return Section(
        title=summary(analysis).name or analysis.name,
        facts=(*head, *first, *chain.from_iterable(others)),
        tables=tuple(_tables(analysis, lead)),
        notes=(*head_notes(analysis), f"{_MORE} {more}"),
        make_more=lambda: _more(analysis),
        most_lines=MOST_LINES,
        least_facts=len(head) + len(first),
    )


_FINDINGS_SHOWN = 3


def _count(analysis: ModuleDump, findings: Findings) -> str:
    """Return the number of findings by severity, with the command that prints all."""
    is_whole = not summary(analysis).coverage.problem
    text = counts_text(findings, is_whole=is_whole)
    return text if text == NONE else f"{text}: {command_on('lint', analysis)}"


def others_sections(analysis: ModuleDump, lead: Lead) -> Iterator[Section]:
    """Yield the section on the other modules, if there are any."""
    if lead.others is not None and lead.others.groups:
        table = _others_table(lead.others, analysis.path)
        yield Section(title=analysis.path or "other modules", tables=(table,))


def _tables(analysis: ModuleDump, lead: Lead) -> Iterator[Table]:
    found = leading_table(analysis)
    if found is not None:
        table, option = found
        yield replace(table, command=command_on("memory", analysis, option))
    elif largest_instructions(analysis).row_count:
        yield largest_table(largest_instructions(analysis))
    if collectives(analysis).collectives:
        command = command_on("collectives", analysis)
        yield replace(groups_table(analysis), command=command)
    if lead.others is not None and lead.others.groups:
        yield _others_table(lead.others, analysis.path)


def _more(analysis: ModuleDump) -> Iterator[Table]:
    """Yield the tables for those who ask for rows."""
    memory = memory_results(analysis)
    if memory is not None:
        yield from statement_tables(memory)
        if memory.peak is not None:
            yield peak_table(memory, memory.peak)
    yield from detail_tables(analysis)


def _others_table(groups: ModuleGroups, path: str) -> Table:
    """Return the table with a line for each other module, largest first."""
    modules = [module for group in groups.groups for module in group.modules]
    left_out = [module for module in modules if module.is_estimate_left_out]
    shown = (
        "name",
        *(("process",) if len(groups.processes) > 1 else ()),
        *("total_bytes", "peak_bytes", "flops", "instructions", "compiles"),
        *(("problem",) if any(module.problem for module in modules) else ()),
    )
    notes = tuple(estimate_notes(modules))
    if left_out:
        names = listed([module.key for module in left_out], 1)
        command = command_text("memory", path, left_out[0].module_option)
        notes += (f"memory of {names} is not estimated for size; the estimate: {command}",)
    table = modules_table(groups, plural(len(modules), "other module"), shown)
    return replace(table, notes=notes, command=command_text("ls", path))
