"""First page of a module: verdict, fixes, memory by role and line, bytes sent, work.

What decides comes first, and what is as it should be is left out: `full_page` has all facts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.program.flops import flops
from hlo_lens.program.instructions import opcodes
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
from hlo_lens.questions.memory.page import memory_warnings, missing_texts, verdict_text
from hlo_lens.questions.memory.peak import instructions_by_name
from hlo_lens.questions.memory.results import memory_results, peak_by
from hlo_lens.questions.memory.roles import (
    memory_roles,
)
from hlo_lens.questions.memory.statement import memory_amount
from hlo_lens.questions.report.module_page import (
    command_on,
    coverage_text,
    fit_answer,
    largest_table,
    memory_lines,
    work_line,
)
from hlo_lens.questions.sharding.page import mesh_text
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.render.result import Column, Unit
from hlo_lens.render.table import Section, Table
from hlo_lens.text.dump_kinds import AFTER
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.groups import Lead
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.memory.peak import LiveValue, MemoryGroup, PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.render.result import Row

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
    """Return the first page of a module with HLO text.

    Args:
        dump: The module.
        lead: Its place among the modules of the dump.
    """
    parts = (
        _findings_part(dump),
        _memory_part(dump),
        Section(title="", facts=tuple(_activity_facts(dump, lead))),
    )
    return Section(
        title=summary(dump).name or dump.name,
        facts=tuple(("", text) for text in _head_lines(dump, lead)),
        parts=parts,
        most_lines=MOST_LINES,
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


# ---- head ----------------------------------------------------------------------------------------


def _head_lines(dump: ModuleDump, lead: Lead) -> Iterator[str]:
    """Yield what is not whole, the devices, and whether the program fits."""
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


# ---- findings ------------------------------------------------------------------------------------


def _findings_part(dump: ModuleDump) -> Section:
    """Return the findings that come first, each with its line, saving and change."""
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
    shown = [tuple(_finding_facts(one)) for one in counted[:most]]
    return Section(
        title=title,
        command=command_on("lint", dump),
        facts=tuple(fact for facts in shown for fact in facts),
        least_facts=len(shown[0]) if shown else 0,
    )


def _finding_facts(finding: Finding) -> Iterator[tuple[str, str]]:
    place = short_place(finding.source)
    where = f"{place}: " if place and place not in finding.message else ""
    yield f"{finding.code} {finding.severity}", f"{where}{finding.message}"
    if saves := savings_text(finding.saves, finding.share, finding.share_of):
        yield "  ", saves
    yield "  fix", finding.fix


def short_place(source: str | None) -> str:
    """Return a place without the folders of its file; empty where it is not known.

    >>> short_place("/home/me/train.py:12 ~")
    'train.py:12'
    """
    return (source or "").removesuffix(" ~").rpartition("/")[2]


# ---- memory --------------------------------------------------------------------------------------

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
    """Return what must fit, by role and by line; the largest instructions if it is not known."""
    memory = memory_results(dump)
    if memory is None:
        return Section(
            title="Memory",
            facts=tuple(("", text) for _, text in memory_lines(dump)),
            tables=tuple(_instruction_tables(dump)),
        )
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


def _instruction_tables(dump: ModuleDump) -> Iterator[Table]:
    table = largest_table(dump)
    if table.row_count:
        rows = (row for row in table.read_rows())
        names = [column.name for column in table.columns]
        size, name, shape = (names.index(one) for one in ("result_bytes", "name", "shape"))
        shown = [(row[size], row[name], row[shape]) for row in islice(rows, _MOST_ROWS)]
        yield _people_table("largest", _LINE_COLUMNS, shown, title="largest instructions")


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
    """Return the line at which most memory is held, and how often the loop around it runs."""
    place = short_place(peak.instruction_origin.source)
    if not place or peak.instruction is None:
        return ""
    instruction = instructions_by_name(hlo_text(dump), {peak.instruction}).get(peak.instruction)
    runs = None if instruction is None else call_counts(dump).of(instruction.computation.name)
    if runs is None or not runs.loop_path:
        return f"; fullest at {place}"
    times = "?" if runs.times is None else f"{'<=' * runs.is_at_most}{runs.times:,}"
    return f"; fullest at {place}, in a loop (x{times})"


def _role_rows(dump: ModuleDump, memory: MemoryResults) -> Iterator[tuple[int, str, str]]:
    """Yield bytes, role and largest values of each role, largest first; they sum to the total.

    Without live ranges these are arguments, results and temporaries.
    """
    statement, peak, roles = memory.statement, memory.peak, memory_roles(dump)
    if peak is None or roles is None:
        results = statement.output_bytes - statement.alias_bytes
        known = [(statement.argument_bytes, "arguments", ""), (results, "results", "")]
        known.append((statement.temp_bytes, "temporaries", ""))
        yield from sorted((row for row in known if row[0]), reverse=True)
        return
    members: dict[str, list[LiveValue]] = defaultdict(list)
    for value in peak.live:
        members[roles.of_live(value)].append(value)
    sizes = {role: sum(one.owned_bytes for one in values) for role, values in members.items()}
    rest = statement.total_bytes - (statement.generated_code_bytes or 0) - sum(sizes.values())
    rows = [(size, role, _largest_text(peak, members[role])) for role, size in sizes.items()]
    rows.append((rest, "gaps between values", ""))
    rows.append((statement.generated_code_bytes or 0, "generated code", ""))
    rows.sort(key=lambda row: -row[0])
    large = [row for row in rows if row[0] >= _LEAST_SHOWN * statement.total_bytes]
    yield from large
    small = [row for row in rows[len(large) :] if row[0]]
    if small:
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
    text = f"{_plain_shape(largest.shape)}{f' at {place}' if place else ''}"
    count = len([value for value in values if value.owned_bytes])
    return f"{text}, the largest of {count}" if count > 1 else text


_KEY = re.compile(r"\[[^\]]*\]|\.\w+")
_LAYOUT = re.compile(r"\{[^{}]*\}")


def _plain_shape(shape: str) -> str:
    return _LAYOUT.sub("", shape)


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
    for by in ("source", "op"):
        groups = peak_by(dump, by)
        if groups is None or groups.is_unattributed:
            continue
        least = _LEAST_SHOWN * peak.total_bytes
        rows = [_line_row(one, by) for one in groups.records if one.size_bytes >= least]
        if rows:
            word = "line" if by == "source" else "operation"
            command = command_on("memory", dump, f"--by {by}")
            yield _people_table(
                "lines", _LINE_COLUMNS, rows, title=f"  by {word}, arguments apart", command=command
            )
        return


def _line_row(group: MemoryGroup, by: str) -> tuple[int, str, str]:
    place = short_place(group.group) if by == "source" else group.group
    operation = "" if by == "op" else _last_operation(group.op_name or "")
    operation = "" if operation == place else operation
    count = f", {plural(group.values, 'value')}" if group.values > 1 else ""
    return group.size_bytes, place, f"{_plain_shape(group.shape)} {operation}".rstrip() + count


def _last_operation(path: str) -> str:
    """Return the last part of an operation path, without the transformations around it.

    >>> _last_operation("jit(f)/transpose(jvp(psum))"), _last_operation("x['a/b']")
    ('psum', "x['a/b']")
    """
    name = path if "[" in path else path.rpartition("/")[2]
    return name.rpartition("(")[2].rstrip(")") if name.endswith(")") else name


# ---- what it does --------------------------------------------------------------------------------


def _activity_facts(dump: ModuleDump, lead: Lead) -> Iterator[tuple[str, str]]:
    """Yield bytes sent, work, the other modules, and the command with all facts."""
    for label, text in _run_facts(dump):
        yield label, f"{text}: {command_on('collectives', dump)}" if label == "Sent" else text
    if others := _others_text(dump, lead):
        yield "Others", others
    yield "More", command_on("report", dump, "--full")


def _run_facts(dump: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield bytes sent and work of one run."""
    if hlo_text(dump).has_entry:
        if collectives(dump).collectives:
            yield "Sent", _sent_text(dump)
        if flops(dump).total != 0:
            yield "Work", work_line(dump)


def _sent_text(dump: ModuleDump) -> str:
    """Return the bytes that leave each device in one run, by axis, and of how many collectives."""
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
    """Return the number of other modules, the largest of them, and the command that lists them."""
    if lead.others is None or not lead.others.groups:
        return ""
    modules = [module for group in lead.others.groups for module in group.modules]
    sizes = [(one.total_bytes or 0, one.name) for one in modules]
    most, total = max(sizes)[0], sum(size for size, _ in sizes)
    bad = sum(one.problem is not None for one in modules)
    problem = f", {bad} with problems" if bad else ""
    names = [f"{name} {format_bytes(size)}" for size, name in sorted(sizes, reverse=True)[:2]]
    own = memory_results(dump)
    is_small = own is None or most < _LEAST_SHOWN * own.statement.total_bytes
    largest = "" if len(modules) <= len(names) else " the largest"
    text = f" of {format_bytes(total)} in all" if is_small else f"{largest}: {', '.join(names)}"
    count = plural(len(modules), "other module")
    return f"{count}{text}{problem}: hlo-lens ls {shell_word(dump.path or 'PATH')}"
