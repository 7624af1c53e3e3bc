"""Page of HTML on the modules of a report, the one to lead with first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.load.devices import device_assignment, topology_of
from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.questions.report.first_page import command_on, others_sections
from hlo_lens.questions.report.html.page import page_of_modules
from hlo_lens.questions.report.html.payload import Subject
from hlo_lens.questions.report.html.sections import section_object
from hlo_lens.questions.report.leading import module_order
from hlo_lens.questions.what_if.process.requests import own_target
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.table import Section

MOST_MODULES = 24
"""Modules with views of their own on a page; the others are in a table."""

MOST_INSTRUCTIONS = 200_000
"""Instructions of all modules with views besides the first, which bound the size of the page."""

_ROWS = 200
"""Rows of tables of other modules."""


def report_page(known: Sequence[ModuleDump], logs: Iterable[Section] = ()) -> Mapping[str, object]:
    """Return the data of the page on the modules of a report.

    Args:
        known: The modules.
        logs: Sections on logs.
    """
    shown = [k for k, one in enumerate(known) if one.log is None]
    sections = [section_object(one, _ROWS) for one in logs]
    if not shown:
        title = str(sections[0]["title"]) if sections else "report"
        return page_of_modules("report", title, (), sections)
    subjects, others = module_subjects(known, shown)
    return page_of_modules("report", subjects[0][1].analysis.title, subjects, others + sections)


def module_subjects(
    known: Sequence[ModuleDump], shown: Sequence[int]
) -> tuple[list[tuple[int, Subject]], list[Mapping[str, object]]]:
    """Return the modules with views, the one to lead with first, and the sections on the others.

    Args:
        known: All modules.
        shown: Places of those that are modules, not logs.
    """
    order = module_order([known[k] for k in shown])
    places, lead = [shown[k] for k in order.places], order.lead
    chosen = _with_views(known, places)
    titles = dict(zip(chosen, unique_titles([known[k] for k in chosen]), strict=True))
    subjects = [
        (k, _subject(known[k], titles[k], lead.role if k == places[0] else "")) for k in chosen
    ]
    opened = [titles.get(shown[k]) for k in order.others]
    notes = _left_out_notes(known, places[len(chosen) :])
    others: list[Mapping[str, object]] = [
        {
            **section_object(replace(one, title="Other modules", notes=notes), _ROWS),
            "opens": opened[:_ROWS],
        }
        for one in others_sections(known[places[0]], lead)
    ]
    return subjects, others


def _with_views(known: Sequence[ModuleDump], places: Sequence[int]) -> list[int]:
    """Return the first modules, as many as a page has views of: the first one, others in limits."""
    chosen: list[int] = []
    left = MOST_INSTRUCTIONS
    for k in places[:MOST_MODULES]:
        if chosen:
            left -= len(hlo_text(known[k]).columns) if known[k].has_hlo else 0
            if left < 0:
                break
        chosen.append(k)
    return chosen


def _left_out_notes(known: Sequence[ModuleDump], left_out: Sequence[int]) -> tuple[str, ...]:
    """Return the command that makes a page with the views of a module that has none here."""
    if not left_out:
        return ()
    command = command_on("report", known[left_out[0]], "-f html -o page.html")
    return (
        f"{plural(len(left_out), 'module')} without views in this file; a page of the first: "
        f"{command}",
    )


def unique_titles(dumps: Sequence[ModuleDump]) -> list[str]:
    """Return the titles of modules, with folder and number where several have the same.

    Views and addresses refer to modules by title.
    """
    titles = [one.title for one in dumps]
    folders, names = [one.folder for one in dumps], [one.name for one in dumps]
    numbers = [f"number {k + 1}" for k in range(len(dumps))]
    for endings in (folders, names, numbers):
        counts = Counter(titles)
        titles = [
            title if counts[title] == 1 or not ending else f"{title}, {ending}"
            for title, ending in zip(titles, endings, strict=True)
        ]
    return titles


def _subject(known: ModuleDump, title: str, role: str) -> Subject:
    tail = command_on("", known).removeprefix("hlo-lens  ")
    target, devices = own_target(known, backend_of_dump(known)), device_assignment(known)
    return Subject(
        analysis=known,
        title=title,
        role=role,
        command_tail=tail,
        limit_bytes=None if target is None else target.memory_bytes,
        limit_source="" if target is None else target.memory_source,
        topology=None if target is None or devices is None else topology_of(target, devices),
    )
