"""First page of ``hlo-lens report``: one module in 60 lines, the others of its dump in one each."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.analysis.dumps.module_groups import MOST_FLOPS, MOST_MEMORY, STEP
from hlo_lens.report.collectives.page import groups_table
from hlo_lens.report.memory.page import peak_table, source_table, statement_tables
from hlo_lens.report.program.head import head_facts, head_notes
from hlo_lens.report.program.tables import detail_tables, largest_table
from hlo_lens.report.render.table import Section, Table
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.dumps.module_groups import ModuleGroup, ModuleGroups
    from hlo_lens.analysis.module_analysis import ModuleAnalysis

MOST_LINES = 60
"""Lines of the page where no number of rows is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The module that a page leads with, and the others of the dump.

    Attributes:
        group: Its compiles, with their mark in the listing; None for a single module.
        others: The other modules; None for a single module.
    """

    group: ModuleGroup | None = None
    others: ModuleGroups | None = None

    @property
    def role(self) -> str:
        """Its place among the modules; empty for a single module."""
        if self.group is None or self.others is None:
            return ""
        count = sum(len(group.modules) for group in (self.group, *self.others.groups))
        role = _ROLES.get(self.group.mark or "", "1 of {}").format(plural(count, "module"))
        compiles = len(self.group.modules)
        return role if compiles == 1 else f"{role}, the largest of {compiles} compiles"


_MORE = "values at the peak, largest instructions, parameters, outputs, opcodes:"
_ROLES = {
    STEP: "the training step, 1 of {}",
    MOST_FLOPS: "the most arithmetic of {}",
    MOST_MEMORY: "the most memory of {}",
}


def first_section(analysis: ModuleAnalysis, lead: Lead) -> Section:
    """Return the page of a module with HLO text."""
    more = _command("report", analysis, "-n 10", is_alone=lead.others is None)
    return Section(
        title=analysis.summary.name or analysis.dump.name,
        facts=tuple(head_facts(analysis, lead.role)),
        tables=tuple(_tables(analysis, lead)),
        notes=(*head_notes(analysis), f"{_MORE} {more}"),
        make_more=lambda: _more(analysis),
        most_lines=MOST_LINES,
    )


def others_sections(analysis: ModuleAnalysis, lead: Lead) -> Iterator[Section]:
    """Yield the section on the other modules, if there are any."""
    if lead.others is not None and lead.others.groups:
        table = _others_table(lead.others, _listing(analysis))
        yield Section(title=analysis.dump.path or "other modules", tables=(table,))


def _tables(analysis: ModuleAnalysis, lead: Lead) -> Iterator[Table]:
    is_alone = lead.others is None
    by_source = analysis.peak_by_source
    if by_source is not None:
        command = _command("memory", analysis, "--by source", is_alone=is_alone)
        yield replace(source_table(by_source), command=command)
    else:
        yield largest_table(analysis.largest)
    if analysis.collectives.collectives:
        command = _command("collectives", analysis, is_alone=is_alone)
        yield replace(groups_table(analysis), command=command)
    if lead.others is not None and lead.others.groups:
        yield _others_table(lead.others, _listing(analysis))


def _more(analysis: ModuleAnalysis) -> Iterator[Table]:
    """Yield the tables for those who ask for rows."""
    if analysis.memory is not None:
        yield from statement_tables(analysis.memory)
        if analysis.memory.peak is not None:
            yield peak_table(analysis.memory, analysis.memory.peak)
    yield from detail_tables(analysis)


def _others_table(groups: ModuleGroups, command: str) -> Table:
    """Return the table with a line for each other module, largest first."""
    count = sum(len(group.modules) for group in groups.groups)
    table = Table.of(
        groups,
        title=plural(count, "other module"),
        shown=("name", "total_bytes", "peak_bytes", "flops", "instructions", "compiles"),
    )
    return replace(table, command=command)


def _listing(analysis: ModuleAnalysis) -> str:
    return _command("ls", analysis, is_alone=True)


def _command(name: str, analysis: ModuleAnalysis, options: str = "", *, is_alone: bool) -> str:
    """Return a command on the path of a module, restricted to it if it has others beside it."""
    dump = analysis.dump
    parts = ["hlo-lens", name, shlex.quote(dump.path) if dump.path else "PATH"]
    if not is_alone:
        parts += ["--module", shlex.quote(dump.name)]
    return " ".join((*parts, options) if options else parts)
