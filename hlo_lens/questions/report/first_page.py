"""First page of ``hlo-lens report``: one module in 60 lines, the others of its dump in one each."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from hlo_lens.program.instructions import largest_instructions
from hlo_lens.program.summary import summary
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.collectives.page import groups_table
from hlo_lens.questions.dumps.listing_page import estimate_notes, modules_table
from hlo_lens.questions.findings.page import NONE, counts_text, finding_facts
from hlo_lens.questions.memory.page import leading_table, peak_table, statement_tables
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.report.head import head_facts, head_notes
from hlo_lens.questions.report.tables import detail_tables, largest_table
from hlo_lens.render.table import Section, Table
from hlo_lens.text.shell_words import shell_word
from hlo_lens.text.units import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.module_groups import Lead, ModuleGroups
    from hlo_lens.questions.findings.findings import Findings

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
