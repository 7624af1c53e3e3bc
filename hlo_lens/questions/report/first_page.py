"""First page of a module: verdict, fixes, memory by role and line, bytes sent, work.

What decides comes first, and what is as it should be is left out: `full_page` has all facts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from hlo_lens.program.flops import flops
from hlo_lens.program.instructions import largest_instructions, opcodes
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import (
    backend_of_dump,
    cut_facts,
    device_memory,
    hlo_text,
    own_target,
    summary,
    target_text,
)
from hlo_lens.questions.collectives.collective import axis_text, collectives
from hlo_lens.questions.collectives.loop_levels import collectives_by
from hlo_lens.questions.collectives.page import collectives_text
from hlo_lens.questions.dumps.groups import STEP
from hlo_lens.questions.findings.finding import Severity, savings_text
from hlo_lens.questions.findings.findings import module_findings
from hlo_lens.questions.findings.page import NONE, counts_text, finding_facts
from hlo_lens.questions.memory.page import memory_warnings, missing_texts, verdict_text
from hlo_lens.questions.memory.peak import instructions_by_name
from hlo_lens.questions.memory.results import memory_results, peak_by
from hlo_lens.questions.memory.roles import memory_roles
from hlo_lens.questions.memory.statement import memory_amount
from hlo_lens.questions.report.module_page import (
    command_on,
    coverage_text,
    fit_answer,
    full_notes,
    full_tables,
    memory_lines,
    work_line,
)
from hlo_lens.questions.sharding.page import donation_text, mesh_text, replicated_text
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Section, Table
from hlo_lens.text.dump_kinds import AFTER
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.groups import Lead
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults

MOST_LINES = 30
"""Lines of the page at 100 columns."""

_MOST_FINDINGS = 3
_MOST_INFOS = 2
"""Findings shown where all are infos."""

_MOST_ROWS = 6
_MOST_NAMES = 3

_LEAST_SHOWN = 0.01
"""Share of the memory below which a role or a line has no row of its own."""


def first_page(dump: ModuleDump, lead: Lead) -> Section:
    """Return the first page of a module with HLO text."""
    facts = [
        (label, f"{text}: {command_on('collectives', dump)}" if label == "Sent" else text)
        for label, text in _run_facts(dump)
    ]
    if others := _others_text(dump, lead):
        facts.append(("Others", others))
    facts.append(("More", command_on("report", dump, "--full")))
    activity = Section(title="", facts=tuple(facts))
    return Section(
        title=summary(dump).name or dump.name,
        facts=tuple(("", text) for text in _head_lines(dump, lead)),
        parts=(_findings_part(dump), _memory_part(dump), activity),
        most_lines=MOST_LINES,
    )


def full_page(dump: ModuleDump, lead: Lead) -> Section:
    """Return all facts and tables of a module with HLO text, and the others of its dump."""
    found, coverage = module_findings(dump), summary(dump).coverage
    count = counts_text(found, is_whole=not coverage.problem)
    facts = [("", text) for text in _head_lines(dump, lead)]
    facts.append(("findings", count if count == NONE else f"{count}: {command_on('lint', dump)}"))
    facts += [*finding_facts(found.counted), *memory_lines(dump), *_run_facts(dump)]
    if (shardings := sharding_results(dump)) is not None and summary(dump).computations:
        facts.append(("donation", donation_text(shardings)))
        if shardings.table.num_devices > 1:
            facts.append(("replicated", replicated_text(shardings)))
    size = plural(summary(dump).instructions, "instruction")
    size += f" in {plural(summary(dump).computations, 'computation')}"
    facts.append(("coverage", f"{coverage_text(summary(dump))}; {size}"))
    return Section(
        title=summary(dump).name or dump.name,
        facts=tuple(facts),
        tables=tuple(full_tables(dump, lead)),
        notes=tuple(full_notes(dump)),
    )


def summary_section(dump: ModuleDump) -> Section:
    """Return what the first page says of the program: facts, and tables of its memory."""
    if not dump.has_hlo:
        facts = (("files", ", ".join(dump.files)), *memory_lines(dump))
        return Section(title="Summary", facts=facts)
    memory = _memory_part(dump)
    amount = memory.title.removeprefix("Memory").strip() or "; ".join(t for _, t in memory.facts)
    facts = (("Memory", amount), *_run_facts(dump))
    cut = (("cut", text) for _, text in cut_facts(dump))
    return Section(
        title="Summary",
        facts=(*cut, ("Devices", devices_line(dump)), *facts),
        tables=memory.tables,
        notes=memory.notes,
    )


def _head_lines(dump: ModuleDump, lead: Lead) -> Iterator[str]:
    yield from (text for _, text in cut_facts(dump))
    role = "" if lead.group is None or lead.group.mark == STEP else f"{lead.role}; "
    yield f"{role}{devices_line(dump)}"
    memory = memory_results(dump)
    if memory is not None and (verdict := verdict_text(memory.statement)):
        answer = fit_answer(dump)
        yield verdict if answer else f"{verdict}: {command_on('fit', dump)}"
        yield from answer
    if summary(dump).coverage.problem:
        yield coverage_text(summary(dump))
    unknown = [*opcodes(dump).unknown_opcodes, *hlo_text(dump).unknown_attributes]
    if unknown:
        names = ", ".join(unknown)
        yield f"opcodes or attributes not known to this version of hlo-lens: {names}"


def devices_line(dump: ModuleDump) -> str:
    """Return the devices of a program, their mesh and kind, and a stage that is not the last."""
    shardings, facts = sharding_results(dump), summary(dump)
    count = (facts.evident_partitions or 1) * facts.replica_count
    count = count if shardings is None else max(count, shardings.table.num_devices)
    mesh = "" if shardings is None else mesh_text(shardings.table.meshes).removeprefix(", mesh ")
    target, limit = own_target(dump), device_memory(dump)
    kind = target_text(dump) if target is None or target.backend == "gpu" else target.name
    kind = kind or (None if limit is None else limit[1].partition(":")[0])
    backend = (backend_of_dump(dump) or "").upper()
    device = " ".join(word for word in (backend, kind) if word and word != "cpu")
    stage = "" if (dump.stage or AFTER).endswith(AFTER) else f"; {dump.stage}"
    parts = (f"{plural(count, 'device')}{f' ({mesh})' if mesh else ''}", device)
    figures = "; figures are those of one device" if count > 1 and not stage else ""
    return f"{', '.join(filter(None, parts))}{stage}{figures}"


def _findings_part(dump: ModuleDump) -> Section:
    found = module_findings(dump)
    counted = found.counted
    codes = Counter(one.code for one in counted if one.severity is not Severity.INFO)
    grave = codes.total()
    listed_codes = ", ".join(f"{code} x{n}" if n > 1 else code for code, n in codes.items())
    texts = (
        f"{grave} to fix{f' ({listed_codes})' * (grave > 1)}" if grave else "",
        f"{len(counted) - grave} to consider" if len(counted) > grave else "",
    )
    read = " in the parts that were read" if summary(dump).coverage.problem else ""
    title = ", ".join(filter(None, texts)) or f"nothing to fix{read}"
    title += f"; {plural(len(found.undecided), 'rule')} not decided" if found.undecided else ""
    most = _MOST_FINDINGS if grave else _MOST_INFOS
    facts: list[tuple[str, str]] = []
    least = 0
    for one in counted[:most]:
        place = short_place(one.source)
        where = f"{place}: " if place and place not in one.message else ""
        facts.append((f"{one.code} {one.severity}", f"{where}{one.message}"))
        if saves := savings_text(one.saves, one.share, one.share_of):
            facts.append(("  ", saves))
        facts.append(("  fix", one.fix))
        least = least or len(facts)
    command = command_on("lint", dump)
    return Section(title=title, command=command, facts=tuple(facts), least_facts=least)


def short_place(source: str | None) -> str:
    """Return a place without the folders of its file; empty where it is not known.

    >>> short_place("/home/me/train.py:12 ~")
    'train.py:12'
    """
    return (source or "").removesuffix(" ~").rpartition("/")[2]


_ROLE_COLUMNS = (
    Column("size_bytes", Unit.BYTES, "bytes at the peak, or of the whole program"),
    Column("role", Unit.NONE, "what they are for"),
    Column("largest", Unit.NONE, "the largest of them"),
)
_LINE_COLUMNS = (
    Column("size_bytes", Unit.BYTES, "bytes at the peak of values made at the line"),
    Column("line", Unit.NONE, "source line, or operation"),
    Column("largest", Unit.NONE, "the largest of them"),
)


def _memory_part(dump: ModuleDump) -> Section:
    memory = memory_results(dump)
    if memory is None:
        rows = largest_instructions(dump).objects(_MOST_ROWS)
        shown = [(row["result_bytes"], row["name"], row["shape"]) for row in rows]
        title = "largest instructions"
        table = _people_table("largest", _LINE_COLUMNS, shown, title=title)
        facts = tuple(("", text) for _, text in memory_lines(dump))
        return Section(title="Memory", facts=facts, tables=(table,) if shown else ())
    statement = memory.statement
    limit = "" if statement.limit_bytes is None else f" of {format_bytes(statement.limit_bytes)}"
    amount = memory_amount(statement, "total", statement.total_bytes).text(format_bytes)
    estimate = " (an estimate)" if statement.source == "estimate" else ""
    peak = memory.peak
    fullest = "" if peak is None else _fullest_text(dump, peak)
    tables = [_people_table("roles", _ROLE_COLUMNS, [*_role_rows(dump, memory)])]
    tables += [] if peak is None else _line_tables(dump, peak)
    return Section(
        title=f"Memory   {amount}{limit}{estimate}{fullest}",
        command=command_on("memory", dump),
        tables=tuple(tables),
        notes=(*memory_warnings(memory), *(missing_texts(memory) if peak is None else ())),
    )


def _people_table(
    name: str,
    columns: tuple[Column, ...],
    rows: Sequence[Row],
    *,
    title: str = "",
    command: str = "",
) -> Table:
    """Return a table without headings and with few rows, of which others are counted."""
    return Table(
        name=name,
        title=title,
        columns=columns,
        read_rows=lambda: rows,
        row_count=len(rows),
        totals={"size_bytes": sum(row[0] for row in rows if isinstance(row[0], int))},
        command=command,
        most_rows=_MOST_ROWS,
        has_headings=False,
    )


def _fullest_text(dump: ModuleDump, peak: PeakMemory) -> str:
    place, name = short_place(peak.instruction_origin.source), peak.instruction
    if not place or name is None:
        return ""
    instruction, loop = instructions_by_name(hlo_text(dump), {name}).get(name), ""
    runs = None if instruction is None else call_counts(dump).of(instruction.computation.name)
    if runs is not None and runs.loop_path:
        times = "?" if runs.times is None else f"{'<=' * runs.is_at_most}{runs.times:,}"
        loop = f", in a loop (x{times})"
    return f"; fullest at {place}{loop}"


def _role_rows(dump: ModuleDump, memory: MemoryResults) -> Iterator[tuple[int, str, str]]:
    """Yield bytes, role and largest values of each role, largest first; they sum to the total.

    Without live ranges these are arguments, results and temporaries.
    """
    statement, peak, roles = memory.statement, memory.peak, memory_roles(dump)
    if peak is None or roles is None:
        results = statement.output_bytes - statement.alias_bytes
        sizes = (statement.argument_bytes, results, statement.temp_bytes)
        known = zip(sizes, ("arguments", "results", "temporaries"), strict=True)
        yield from sorted(((size, role, "") for size, role in known if size), reverse=True)
        return
    members: dict[str, list[LiveValue]] = defaultdict(list)
    for value in peak.live:
        members[roles.of_live(value)].append(value)
    held = {role: sum(one.owned_bytes for one in values) for role, values in members.items()}
    rest = statement.total_bytes - (statement.generated_code_bytes or 0) - sum(held.values())
    by_role = [(size, role, _largest_text(peak, members[role])) for role, size in held.items()]
    by_role.append((rest, "gaps between values", ""))
    by_role.append((statement.generated_code_bytes or 0, "generated code", ""))
    by_role.sort(key=lambda row: -row[0])
    large = [row for row in by_role if row[0] >= _LEAST_SHOWN * statement.total_bytes]
    yield from large
    if small := [row for row in by_role[len(large) :] if row[0]]:
        yield sum(row[0] for row in small), "all else", ", ".join(row[1] for row in small)


def _largest_text(peak: PeakMemory, values: Sequence[LiveValue]) -> str:
    """Return the largest values of a role: arguments by name, others by shape and line."""
    names = Counter[str]()
    for value in values:
        argument = peak.origin_of(value).argument
        if value.category == "argument" and argument is not None:
            names[argument] += value.owned_bytes
    if names:
        least = _LEAST_SHOWN * names.total()
        groups = [(name, size) for name, size in _grouped(names).most_common() if size >= least]
        return listed([f"{name} {format_bytes(size)}" for name, size in groups], _MOST_NAMES)
    largest = max(values, key=lambda value: value.owned_bytes)
    place = short_place(peak.origin_of(largest).source)
    text = f"{_LAYOUT.sub('', largest.shape)}{f' at {place}' if place else ''}"
    count = len([value for value in values if value.owned_bytes])
    return f"{text}, the largest of {count}" if count > 1 else text


_KEY = re.compile(r"\[[^\]]*\]|\.\w+")
_LAYOUT = re.compile(r"\{[^{}]*\}")


def _grouped(names: Counter[str]) -> Counter[str]:
    """Return sizes by the longest beginnings of names that are few enough to print.

    >>> _grouped(Counter({"s['p']['a']": 1, "s['p']['b']": 2, "s['o']['a']": 3, "s['o']['b']": 4}))
    Counter({"s['o']": 7, "s['p']": 3})
    """
    groups = names
    for depth in (4, 3, 2, 1, 0):
        if len(groups) <= _MOST_NAMES:
            break
        groups = Counter()
        for name, size in names.items():
            keys = [*_KEY.finditer(name)]
            groups[name[: keys[depth].start()] if len(keys) > depth else name] += size
    return groups


def _line_tables(dump: ModuleDump, peak: PeakMemory) -> Iterator[Table]:
    """Yield the bytes by source line; by operation where the text has no lines for most of them."""
    for by, word in (("source", "line"), ("op", "operation")):
        groups = peak_by(dump, by)
        if groups is None or groups.is_unattributed:
            continue
        least, rows = _LEAST_SHOWN * peak.total_bytes, list[Row]()
        for one in (one for one in groups.records if one.size_bytes >= least):
            place = short_place(one.group) if by == "source" else one.group
            operation = "" if by == "op" else _last_operation(one.op_name or "")
            largest = f"{_LAYOUT.sub('', one.shape)} {operation if operation != place else ''}"
            count = f", {plural(one.values, 'value')}" if one.values > 1 else ""
            rows.append((one.size_bytes, place, largest.rstrip() + count))
        if rows:
            title, command = (
                f"  by {word}, arguments apart",
                command_on("memory", dump, f"--by {by}"),
            )
            yield _people_table("lines", _LINE_COLUMNS, rows, title=title, command=command)
        return


def _last_operation(path: str) -> str:
    """Return the last part of an operation path, without the transformations around it.

    >>> _last_operation("jit(f)/transpose(jvp(psum))"), _last_operation("x['a/b']")
    ('psum', "x['a/b']")
    """
    name = path if "[" in path else path.rpartition("/")[2]
    return name.rpartition("(")[2].rstrip(")") if name.endswith(")") else name


def _run_facts(dump: ModuleDump) -> Iterator[tuple[str, str]]:
    if hlo_text(dump).has_entry:
        if collectives(dump).collectives:
            yield "Sent", _sent_text(dump)
        if flops(dump).total != 0:
            yield "Work", work_line(dump)


def _sent_text(dump: ModuleDump) -> str:
    found = collectives(dump)
    if not found.is_complete:
        return collectives_text(dump)
    wire = found.known_wire_bytes
    groups = collectives_by(found.collectives, "axis", is_dynamic=True).groups
    parts = [
        f"{axis_text(one.axis).replace(',', ' x ')} {format_bytes(one.wire_bytes_per_run)}"
        for one in groups
        if one.wire_bytes_per_run and one.wire_bytes_per_run >= _LEAST_SHOWN * wire.most
    ]
    bound = "at most " * wire.is_at_most
    known = "" if found.wire_bounds is not None else ", as far as known"
    axes = f": {listed(parts, _MOST_NAMES)}" if len(parts) > 1 else ""
    over = f" over {axis_text(groups[0].axis)}" if len(parts) == 1 else ""
    lines = len({one.source for one in found.collectives if one.source})
    at = f" from {plural(lines, 'line')}" if lines else ""
    count = f"{plural(len(found.collectives), 'collective')}{at}"
    return f"{bound}{format_bytes(wire.most)} in one run{over}{known}{axes}; {count}"


def _others_text(dump: ModuleDump, lead: Lead) -> str:
    if lead.others is None or not lead.others.groups:
        return ""
    modules = [module for group in lead.others.groups for module in group.modules]
    total = format_bytes(sum(module.total_bytes or 0 for module in modules))
    bad = sum(one.problem is not None for one in modules)
    problem = f", {bad} with problems" if bad else ""
    count = plural(len(modules), "other module")
    return f"{count} of {total} in all{problem}: hlo-lens ls {shell_word(dump.path or 'PATH')}"
