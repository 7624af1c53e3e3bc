"""Pages of HTML: the modules of a report, the one to lead with first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.api.report_pages import lead_of
from hlo_lens.report.page.page import page_of_modules
from hlo_lens.report.page.payload import Subject
from hlo_lens.report.page.sections import section_object
from hlo_lens.report.program.first_page import command_text, others_sections

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.analysis.module_analysis import ModuleAnalysis

MOST_MODULES = 24
"""Modules with views of their own on a page; the others are in a table."""

_ROWS = 200


def report_page(known: Sequence[ModuleAnalysis]) -> Mapping[str, object]:
    """Return the data of the page on the modules of a report."""
    shown = [k for k, one in enumerate(known) if one.dump.log is None]
    if not shown:
        return page_of_modules("report", "report", ())
    place, lead = lead_of([known[k] for k in shown], None)
    order = [shown[place], *(k for k in shown if k != shown[place])]
    first = known[order[0]]
    chosen = order[:MOST_MODULES]
    subjects = [
        (k, _subject(known[k], lead.role if k == order[0] else "", len(known))) for k in chosen
    ]
    others = [section_object(one, _ROWS) for one in others_sections(first, lead)]
    return page_of_modules("report", first.dump.title, subjects, others)


def _subject(known: ModuleAnalysis, role: str, count: int) -> Subject:
    dump = known.dump
    tail = command_text("", dump.path, dump.name if count > 1 else "").removeprefix("hlo-lens  ")
    return Subject(analysis=known, title=dump.title, role=role, command_tail=tail)
