"""Report on modules: the first page for people, their objects and tables for scripts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.load.programs import with_progress
from hlo_lens.questions.dumps.groups import lead_of
from hlo_lens.questions.findings.settings import with_sifted_findings
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.report.first_page import first_page, full_page
from hlo_lens.questions.report.module_page import module_page, others_sections, page_of_texts
from hlo_lens.render.table import Report, Section, Sections
from hlo_lens.render.to_json import ModulePage, report_of_pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress


@dataclass(frozen=True, slots=True)
class ReportedModules:
    """Subject of the HTML page of a report: modules, those of logs too, and sections on logs."""

    modules: Sequence[ModuleDump]
    logs: Sequence[Section]


def report_modules(
    modules: Sequence[ModuleDump],
    *,
    log: ModuleDump | None = None,
    progress: Progress | None = None,
    makes: str = "data",
    limit_bytes: int | None = None,
    is_full: bool = False,
) -> Report:
    """Return the report on some modules, in this order but for people.

    `log` is one of the same compile or run. `makes` is made now instead of with its first use, so
    that `progress` covers it: ``data`` (nothing), ``pages`` for people, ``tables`` for CSV, or
    ``html`` (nothing, but memory of large modules is estimated for its picture). With `is_full`
    people see all facts and tables instead of the first page.
    """
    given = {"limits_estimate": makes != "html", "is_quick": True, "limit_bytes": limit_bytes}
    dumps = with_sifted_findings([dump.stating(**given) for dump in modules])
    pages = [page_of_module(dump) for dump in dumps]
    made: Sequence[ModulePage] = pages
    if makes == "tables":
        made = [
            replace(page, sections=tuple(page.sections)) for page in with_progress(pages, progress)
        ]
    shown = progress if makes == "pages" else None
    first = Sections(lambda: _pages_for_people(dumps, pages, shown, is_full=is_full))
    logs = Sections(lambda: _log_sections(dumps, pages))
    report = replace(
        report_of_pages("report", made),
        first_page=tuple(first) if makes == "pages" else first,
        subject=ReportedModules(dumps, logs),
    )
    if log is None or log.log is None:
        return report
    from hlo_lens.logs.page import log_object, log_sections
    from hlo_lens.questions.report.log_in_dump import facts_of_dump

    name, text = log.name, log.log
    facts = facts_of_dump(text, modules)
    joined = Sections(lambda: log_sections(name, text, dump=facts))
    return replace(
        report,
        sections=Sections(lambda: (*report.sections, *joined)),
        first_page=Sections(lambda: (*report.pages, *joined)),
        data={**report.data, "log": log_object(text, facts)},
        subject=ReportedModules(dumps, Sections(lambda: (*logs, *joined))),
    )


def _pages_for_people(
    dumps: Sequence[ModuleDump],
    pages: Sequence[ModulePage],
    progress: Progress | None,
    *,
    is_full: bool,
) -> Iterator[Section]:
    modules = [k for k, dump in enumerate(dumps) if dump.log is None]
    place, lead = lead_of([dumps[k] for k in modules], progress)
    if modules:
        dump, page = dumps[modules[place]], pages[modules[place]]
        dump.is_only |= lead.is_beside_helpers  # its commands need no --module
        if dump.has_hlo:
            yield full_page(dump, lead) if is_full else first_page(dump, lead)
        else:
            yield from page.sections
            yield from others_sections(dump, lead)
    yield from _log_sections(dumps, pages)


def _log_sections(dumps: Sequence[ModuleDump], pages: Sequence[ModulePage]) -> Iterator[Section]:
    for dump, page in zip(dumps, pages, strict=True):
        if dump.log is not None:
            yield from page.sections


def page_of_module(dump: ModuleDump) -> ModulePage:
    """Return text and JSON object of a module."""
    if dump.has_hlo:
        return module_page(dump)
    from hlo_lens.program.pages import text_objects, text_sections

    sections = () if memory_results(dump) is not None else tuple(text_sections(dump))
    return page_of_texts(dump, sections, lambda: {"log": None, **text_objects(dump)})
