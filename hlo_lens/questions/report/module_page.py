"""Sections, tables and JSON object of one module in ``hlo-lens report``."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.program.flops import flops
from hlo_lens.program.instructions import largest_instructions, opcodes, source_bytes
from hlo_lens.program.pages import with_marks
from hlo_lens.program.signature import EntrySignature, entry_signature
from hlo_lens.program.summary import hlo_text, no_hlo_text, summary, target_notes
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.page import (
    collectives_object,
    collectives_table,
    groups_table,
    movement_tables,
)
from hlo_lens.questions.dumps.page import estimate_notes, modules_table
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
    not_known_text,
    peak_by_source,
)
from hlo_lens.questions.memory.statement import FEW_BYTES, space_name
from hlo_lens.questions.sharding.page import NOT_KNOWN, sharding_rows
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.questions.snapshots.module_snapshot import module_facts
from hlo_lens.questions.work.work import repeated_text, work, work_object
from hlo_lens.render.result import Column, Unit, facts_object, row_objects, rows_of
from hlo_lens.render.table import Section, Sections, Table, table_of
from hlo_lens.render.to_json import ModulePage, RowObjects
from hlo_lens.text.dump_kinds import BEFORE, TEXT_FLAGS
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import (
    exact_size_text,
    flops_text,
    format_bytes,
    format_ratio,
    listed,
    plural,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.flops import Flops
    from hlo_lens.program.signature import EntryValue
    from hlo_lens.program.summary import Summary
    from hlo_lens.questions.dumps.groups import Lead
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.plans.plans import Verdict

RANKING = 100
"""Rows of an open-ended ranking in JSON; ``row_count`` is the number of all."""

_NAMES_SHOWN = 5
GAP_COLUMNS = (
    Column("line", Unit.NONE, "1-based line of the file"),
    Column("column", Unit.NONE, "1-based column"),
    Column("message", Unit.NONE, "what was expected and found"),
    Column("lines", Unit.COUNT, "lines that were not understood"),
)


def module_page(dump: ModuleDump) -> ModulePage:
    """Return the page of a module with HLO text."""

    def sections() -> Iterator[Section]:
        memory = memory_results(dump)
        tables = [Table.of(summary(dump), title="Summary", is_data_only=True)]
        tables += [] if memory is None else memory_tables(memory, peak_by_source(dump))
        tables += [groups_table(dump), *_detail_tables(dump)]
        yield Section(title=summary(dump).name or dump.name, tables=tuple(tables))

    return ModulePage(sections=Sections(sections), make_object=partial(module_object, dump))


def page_of_texts(
    dump: ModuleDump, sections: Sequence[Section], make_objects: Callable[[], Mapping[str, object]]
) -> ModulePage:
    """Return the page of a module without HLO text: its other texts, or its memory.

    `sections` are on its other texts, and `make_objects` makes their JSON objects.
    """
    if not sections:
        facts = (("files", ", ".join(dump.files)), *memory_lines(dump))
        section, memory = Section(title=dump.name, facts=facts), memory_results(dump)
        if memory is not None:
            tables = tuple(memory_tables(memory, peak_by_source(dump)))
            section = replace(section, tables=tables, notes=tuple(memory_notes(memory)))
        sections = (section,)
    missing = ["work", "fit", "sharding", "parameter_rows", "output_rows", "opcode_rows"]
    missing += ["largest_instructions", "source_bytes", "log"]

    def make_object() -> Mapping[str, object]:
        memory = memory_object(memory_results(dump))
        facts = {**_facts_object(dump, name=dump.name), "memory": memory}
        return {**facts, **dict.fromkeys(missing), **make_objects()}

    return ModulePage(sections=tuple(sections), make_object=make_object)


def full_tables(dump: ModuleDump, lead: Lead) -> Iterator[Table]:
    """Yield the tables of a module with HLO text, and that of the others of its dump."""
    leading, memory = leading_table(dump), memory_results(dump)
    if leading is not None:
        yield replace(leading[0], command=command_on("memory", dump, leading[1]))
    elif largest_instructions(dump).row_count:
        yield largest_table(dump)
    if collectives(dump).collectives:
        yield replace(groups_table(dump), command=command_on("collectives", dump))
    if memory is not None:
        yield from statement_tables(memory)
        yield from [] if memory.peak is None else [peak_table(memory, memory.peak)]
    yield from _detail_tables(dump)
    yield from (table for section in others_sections(dump, lead) for table in section.tables)


def others_sections(dump: ModuleDump, lead: Lead) -> Iterator[Section]:
    """Yield the section on the other modules of a dump, largest first, if there are any."""
    groups = lead.others
    if groups is None or not groups.groups:
        return
    modules = [module for group in groups.groups for module in group.modules]
    left_out = [module for module in modules if module.is_estimate_left_out]
    path = shell_word(dump.path) if dump.path else "PATH"
    notes = [*estimate_notes(modules)]
    if left_out:
        names = listed([module.key for module in left_out], 1)
        command = f"hlo-lens memory {path} {left_out[0].module_option}".rstrip()
        notes.append(f"memory of {names} is not estimated for size; the estimate: {command}")
    shown = (
        "name",
        *(("process",) if len(groups.processes) > 1 else ()),
        *("total_bytes", "peak_bytes", "flops", "instructions", "compiles"),
        *(("problem",) if any(module.problem for module in modules) else ()),
    )
    table = modules_table(groups, plural(len(modules), "other module"), shown)
    table = replace(table, notes=tuple(notes), command=f"hlo-lens ls {path}")
    yield Section(title=dump.path or "other modules", tables=(table,))


def path_words(dump: ModuleDump) -> str:
    """Return path and module as arguments of a command on a module alone."""
    return f"{shell_word(dump.path) if dump.path else 'PATH'} {dump.module_option}".rstrip()


def command_on(name: str, dump: ModuleDump, options: str = "") -> str:
    """Return a command on a module alone, with the limit that its user stated."""
    limit = dump.given.limit_bytes if name in _WITH_LIMIT else None
    stated = "" if limit is None else f" --limit {exact_size_text(limit)}"
    return f"hlo-lens {name} {path_words(dump)}{stated} {options}".rstrip()


_WITH_LIMIT = {"fit", "lint", "report"}
"""Commands that take the memory of a device."""


def fit_verdict(dump: ModuleDump) -> Verdict | None:
    """Return the answer of an earlier ``fit`` on a module that does not fit; None without one."""
    memory = memory_results(dump)
    if memory is None or memory.statement.fits is not False:
        return None
    from hlo_lens.questions.plans.plans import kept_verdict  # for few programs

    return kept_verdict(dump, memory.statement.limit_bytes)


def fit_answer(dump: ModuleDump) -> tuple[str, ...]:
    """Return the answer of an earlier ``fit`` as a line with its command; empty without one."""
    if (answer := fit_verdict(dump)) is None:
        return ()
    command = ("what-if", dump, answer.words) if answer.fits else ("fit", dump)
    return (f"{answer.text}: {command_on(*command)}",)


def memory_lines(dump: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield the lines on the memory of a module; why it is not known, and how to get it."""
    memory = memory_results(dump)
    if memory is not None:
        space = space_name(DEFAULT_SPACE, memory.backend)
        for label, text in memory_facts(memory):
            yield space if label == "memory" else label, text
        if others := _other_spaces(memory):
            yield "others", others
    elif is_estimate_left_out(dump):
        yield "memory", not_estimated_text(summary(dump).instructions, dump.path, dump.address)
    elif dump.has_hlo and not hlo_text(dump).is_scheduled:
        yield (
            "memory",
            "not known: no buffer assignment next to this text, and no schedule in it; XLA writes "
            f"both with {TEXT_FLAGS}",
        )
    elif not dump.has_hlo:
        yield "memory", no_hlo_text(dump)
    else:
        yield "memory", f"not known: {not_known_text(dump)}"


def _other_spaces(memory: MemoryResults) -> str:
    others = [space for space in memory.statement.spaces if space.color != DEFAULT_SPACE]
    sizes = [(space.total_bytes, space.name) for space in others if space.total_bytes]
    sizes.sort(key=lambda pair: -pair[0])
    small = [pair for pair in sizes if pair[0] < FEW_BYTES]
    parts = [f"{name} {format_bytes(size)}" for size, name in sizes if size >= FEW_BYTES]
    parts += [f"{space.name} not known" for space in others if space.total_bytes is None]
    if small:
        size, names = sum(size for size, _ in small), ", ".join(name for _, name in small)
        parts.append(f"{format_bytes(size)} in {names}")
    return ", ".join(parts)


def work_line(dump: ModuleDump) -> str:
    """Return the arithmetic of one device in one run, and the part that other devices repeat."""
    facts = summary(dump)
    text = work_text(flops(dump), is_partial=facts.coverage.gaps > 0)
    devices = facts.evident_partitions or 1
    if dump.stage == BEFORE and devices > 1 and flops(dump).at_least:
        text += f", before division over {devices} devices"
    return "; ".join(filter(None, (text, repeated_text(work(dump)))))


def work_text(flops: Flops, *, is_partial: bool = False) -> str:
    """Return the arithmetic of one run, as far as it is known; of a text with gaps `is_partial`."""
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
    if flops.total is not None:
        bound = "at most " * flops.is_at_most
        source = ", in part by estimates of kernels" * flops.is_estimate
        return f"{bound}{flops_text(flops.total)} of products in one run{source}{unknown}"
    if not unknown:
        unknown = "; a trip count or a shape is not known"
    known = f"at least {flops_text(least)} of products in one run" if least else "not known"
    return f"{known}{unknown}"


def coverage_text(facts: Summary) -> str:
    """Return the share of the text that was understood, its gaps, and what it lacks."""
    coverage = facts.coverage
    is_empty = not coverage.instructions and not coverage.gaps
    gaps = f"{plural(coverage.gaps, 'gap')} of {plural(coverage.gap_lines, 'line')}"
    parts = ["nothing to read" if is_empty else f"{format_ratio(coverage.ratio)} understood"]
    parts.append(gaps if coverage.gaps else "no gaps")
    if coverage.is_truncated:
        parts.append("the text ends too early")
    if facts.undefined:
        names = listed(facts.undefined, _NAMES_SHOWN)
        parts.append(f"lacks {plural(len(facts.undefined), 'part')} that it uses: {names}")
    if coverage.passed_lines:
        parts.append(f"{plural(coverage.passed_lines, 'line')} of a log around it skipped")
    return ", ".join(parts)


def full_notes(dump: ModuleDump) -> Iterator[str]:
    """Yield what is not known of a module, and the limits of its numbers."""
    unknown = collectives(dump).unknown_opcodes
    if names := ", ".join(f"{count} {name}" for name, count in unknown):
        yield f"not counted as collectives, though named like one: {names}"
    framework = dump.framework  # some facts only the framework has
    if framework is not None:
        if names := ", ".join(value.name for value in framework.unused):
            yield f"arguments that the program does not use: {names}"
        for note in framework.notes:
            yield f"{framework.name}: {note}"
    yield from target_notes(dump)
    memory = memory_results(dump)
    if memory is not None:
        yield from memory_notes(memory)


def _detail_tables(dump: ModuleDump) -> Iterator[Table]:
    yield largest_table(dump)
    sources = source_bytes(dump)
    yield Table.of(
        sources,
        title="Source lines by the bytes their instructions produce",
        shown=("result_bytes", "instructions", "source_file", "source_line"),
        notes=_unknown_sizes(sources.unknown_sizes),
    )
    yield _values_table("parameters", "Parameters", entry_signature(dump).parameters)
    yield _values_table("outputs", "Outputs", entry_signature(dump).outputs)
    yield collectives_table(collectives(dump))
    yield from movement_tables(collectives(dump).movement)
    has_unknown = bool(opcodes(dump).totals()["unknown_sizes"])
    yield Table.of(
        opcodes(dump),
        title="Opcodes as written; result bytes repeat what tuples and fusions pass on",
        shown=("opcode", "instructions", "result_bytes", *("unknown_sizes",) * has_unknown),
    )
    gaps = hlo_text(dump).gaps
    title = "Gaps: text that was not understood"
    totals = {"lines": sum(gap.lines for gap in gaps)}
    yield table_of("gaps", title, GAP_COLUMNS, [*rows_of(gaps, GAP_COLUMNS)], totals=totals)


def largest_table(dump: ModuleDump) -> Table:
    """Return the table of the instructions that produce the most bytes."""
    result = largest_instructions(dump)
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


def _values_table(name: str, title: str, values: Sequence[EntryValue]) -> Table:
    left_out = {"kind"} if name == "parameters" else {"kind", "number"}
    columns = tuple(c for c in EntrySignature.COLUMNS if c.name not in left_out)
    optional = ("index", "sharding", "donation", "aliased_with")
    hidden = {"layout", *(o for o in optional if not any(getattr(v, o) for v in values))}
    if all(value.padded_size_bytes == value.size_bytes for value in values):
        hidden.add("padded_size_bytes")
    return Table(
        name=name,
        title=title,
        columns=columns,
        read_rows=lambda: rows_of(values, columns),
        row_count=len(values),
        totals={
            "size_bytes": sum(value.size_bytes or 0 for value in values),
            "padded_size_bytes": sum(value.padded_size_bytes or 0 for value in values),
        },
        shown=tuple(c.name for c in columns if c.name not in hidden),
        notes=_unknown_sizes([value.size_bytes for value in values].count(None)),
    )


def module_object(dump: ModuleDump) -> Mapping[str, object]:
    """Return the JSON object of a module: its facts, and the rows that they are sums of.

    Scripts rely on its names: names may be added, none changes. Bytes are integers. A key whose
    value is unknown is present with null; 0 means zero.
    """
    module, signature = hlo_text(dump), entry_signature(dump)
    gaps = row_objects(GAP_COLUMNS, rows_of(module.gaps, GAP_COLUMNS))
    shardings, sharding = sharding_results(dump), None
    if shardings is not None and shardings.is_complete:
        sharding = sharding_rows(shardings)
    values, has_entry = partial(RowObjects, EntrySignature.COLUMNS), module.has_entry
    has_parameters = signature.parameter_count is not None
    return {
        **_facts_object(dump, name=summary(dump).name or dump.name),
        "coverage": {**facts_object(summary(dump).coverage), "rows": gaps},
        "collectives": collectives_object(collectives(dump)),
        "memory": memory_object(memory_results(dump)),
        "work": work_object(dump),
        "fit": None if (answer := fit_verdict(dump)) is None else asdict(answer),
        "is_estimate_left_out": is_estimate_left_out(dump),
        "sharding": {"rows": sharding},
        "parameter_rows": values(signature.parameters) if has_parameters else None,
        "output_rows": values(signature.outputs) if signature.has_outputs else None,
        "opcode_rows": opcodes(dump).objects(),
        "largest_instructions": largest_instructions(dump).ranking(RANKING) if has_entry else None,
        "source_bytes": source_bytes(dump).ranking(RANKING) if has_entry else None,
    }


def _facts_object(dump: ModuleDump, *, name: str) -> dict[str, object]:
    """Return name, files and facts, in the documented order of the keys."""
    head = dict.fromkeys(("name", "stage", "backend", "files"))
    facts = facts_object(module_facts(dump))
    return {**head, **facts, "name": name, "files": list(dump.files)}
