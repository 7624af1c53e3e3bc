"""Report on modules: the first page for people, their objects and tables for scripts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.load.module import ModuleDump
from hlo_lens.load.programs import Progress, with_progress
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.plans.proof import with_sifted_findings
from hlo_lens.questions.report.module_page import module_page, page_of_texts
from hlo_lens.render.envelope import ModulePage, report_of_pages
from hlo_lens.render.table import Report, Section, Sections

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump


def report_modules(
    modules: Sequence[ModuleDump],
    *,
    log: ModuleDump | None = None,
    progress: Progress | None = None,
    makes: str = "data",
) -> Report:
    """Return the report on some modules.

    Args:
        modules: Modules in the order of JSON and CSV; people see the training step first.
        log: Log of the same compile or run, reported after them.
        progress: Called with modules done and modules in all.
        makes: Part to make now instead of with its first use, so that `progress` covers it:
            ``data`` (nothing), ``pages`` for people, or ``tables`` for CSV.
    """
    known = with_sifted_findings(
        [one.stating(limits_estimate=True, is_quick=True) for one in modules]
    )
    pages = [page_of_module(one) for one in known]
    shown = {"pages": progress, "tables": None}.get(makes)
    first = Sections(lambda: _first_pages(known, pages, shown))
    made = with_progress(pages, progress) if makes == "tables" else pages
    report = report_of_pages("report", map(_with_sections, made) if makes == "tables" else made)
    report = replace(
        report,
        first_page=tuple(first) if makes == "pages" else first,
        make_page=lambda: _page_data(known, _log_sections(known, pages)),
    )
    if log is None or log.log is None:
        return report
    from hlo_lens.logs.page import log_object, log_sections
    from hlo_lens.questions.report.log_in_dump import facts_of_dump

    name, text = log.name, log.log
    facts = facts_of_dump(text, modules)
    logs = Sections(lambda: log_sections(name, text, dump=facts))
    return replace(
        report,
        sections=Sections(lambda: (*report.sections, *logs)),
        first_page=Sections(lambda: (*report.pages, *logs)),
        data={**report.data, "log": log_object(text, facts)},
        make_page=lambda: _page_data(known, (*_log_sections(known, pages), *logs)),
    )


def _first_pages(
    known: Sequence[ModuleDump], pages: Sequence[ModulePage], progress: Progress | None
) -> Iterator[Section]:
    from hlo_lens.questions.report.module_page import first_pages

    return first_pages(known, pages, progress)


def _page_data(known: Sequence[ModuleDump], logs: Sequence[Section]) -> Mapping[str, object]:
    from hlo_lens.questions.report.html.page import report_page

    return report_page(known, logs)


def _log_sections(known: Sequence[ModuleDump], pages: Sequence[ModulePage]) -> tuple[Section, ...]:
    """Return the sections of the pages of logs."""
    pairs = zip(known, pages, strict=True)
    return tuple(one for k, page in pairs if k.log is not None for one in page.sections)


def page_of_module(known: ModuleDump) -> ModulePage:
    """Return text and JSON object of a module."""
    if known.has_hlo:
        return module_page(known)
    from hlo_lens.program.texts import SingleTexts

    texts = SingleTexts(known)
    sections = () if memory_results(known) is not None else tuple(texts.sections())
    return page_of_texts(known, sections, texts.objects)


def _with_sections(page: ModulePage) -> ModulePage:
    return replace(page, sections=tuple(page.sections))
