"""Data of the view Summary: head of the text report, and its tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.program.instructions import largest_instructions
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.page import groups_table
from hlo_lens.questions.memory.page import leading_table
from hlo_lens.questions.report.html.page import section_object
from hlo_lens.questions.report.module_page import (
    head_facts,
    head_notes,
    largest_table,
    memory_lines,
)
from hlo_lens.render.table import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.report.html.page import Strings, Subject
    from hlo_lens.render.table import Table

ORDER = 10
KINDS = ("report", "check")

_ROWS = 10


def view_data(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return the head of the module and the tables of its first page."""
    del strings
    analysis = subject.analysis
    if not analysis.has_hlo:
        files = ("files", ", ".join(analysis.files))
        section = Section(title=subject.title, facts=(files, *memory_lines(analysis)))
        return section_object(section, _ROWS)
    section = Section(
        title=subject.title,
        facts=tuple(head_facts(analysis, subject.role)),
        tables=tuple(_tables(subject)),
        notes=tuple(head_notes(analysis)),
    )
    return section_object(section, _ROWS)


def _tables(subject: Subject) -> Iterator[Table]:
    analysis, tail = subject.analysis, subject.command_tail
    found = leading_table(analysis)
    if found is not None:
        table, option = found
        yield replace(table, command=f"hlo-lens memory {tail} {option}".rstrip())
    elif largest_instructions(analysis).row_count:
        yield largest_table(largest_instructions(analysis))
    if collectives(analysis).collectives:
        yield replace(groups_table(analysis), command=f"hlo-lens collectives {tail}")
