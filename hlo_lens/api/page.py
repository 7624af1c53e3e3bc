"""Pages of HTML: the modules of a report, the one to lead with first; the pairs of a diff."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.analysis.module_analysis import ModuleAnalysis
from hlo_lens.api.report_pages import lead_of
from hlo_lens.jax_bridge.recompile.program import own_target
from hlo_lens.report.page.page import page_of_modules
from hlo_lens.report.page.payload import Subject
from hlo_lens.report.page.sections import section_object
from hlo_lens.report.program.first_page import others_sections
from hlo_lens.text.shell_words import shell_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.analysis.comparison.module_diff import ModuleDiff
    from hlo_lens.analysis.program_diff.side_by_side import ComputationPair
    from hlo_lens.api.comparison.changes import Diff
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.report.program.first_page import Lead
    from hlo_lens.report.render.table import Report, Section

MOST_MODULES = 24
"""Modules with views of their own on a page; the others are in a table."""

_ROWS = 200
_DIFF_ROWS = 15
"""Rows of tables of other modules, and of those of a diff."""


def report_page(
    known: Sequence[ModuleAnalysis], logs: Iterable[Section] = ()
) -> Mapping[str, object]:
    """Return the data of the page on the modules of a report.

    Args:
        known: The modules.
        logs: Sections on logs.
    """
    shown = [k for k, one in enumerate(known) if one.dump.log is None]
    sections = [section_object(one, _ROWS) for one in logs]
    if not shown:
        title = str(sections[0]["title"]) if sections else "report"
        return page_of_modules("report", title, (), sections)
    place, lead = lead_of([known[k] for k in shown], None)
    order = [shown[place], *(k for k in shown if k != shown[place])]
    first = known[order[0]]
    chosen = order[:MOST_MODULES]
    titles = unique_titles([known[k].dump for k in chosen])
    subjects = [
        (k, _subject(known[k], title, lead.role if k == order[0] else "", lead))
        for k, title in zip(chosen, titles, strict=True)
    ]
    others = [section_object(one, _ROWS) for one in others_sections(first, lead)]
    return page_of_modules("report", first.dump.title, subjects, [*others, *sections])


def diff_page(diff: Diff, report: Report) -> Mapping[str, object]:
    """Return the data of the page on a diff: its text, and the views of pairs with both texts.

    Args:
        diff: Changes.
        report: Their report, whose sections are on the page.
    """
    pairs = enumerate(zip(diff.places, diff.modules, strict=True))
    shown = [pair for pair in pairs if diff.head.modules[pair[1][0][1]].dump is not None]
    shown.sort(key=lambda pair: pair[1][1].identical)  # those with changes first
    subjects = [
        (number, _pair_subject(diff, places, module))
        for number, (places, module) in shown[:MOST_MODULES]
    ]
    titles = unique_titles([subject.analysis.dump for _, subject in subjects])
    subjects = [
        (number, subject._replace(title=title))
        for (number, subject), title in zip(subjects, titles, strict=True)
    ]
    sections = [section_object(one, _DIFF_ROWS) for one in report.pages]
    title = report.pages[0].title if report.pages else "diff"
    return page_of_modules("diff", title, subjects, sections)


def _pair_subject(diff: Diff, places: tuple[int, int], module: ModuleDiff) -> Subject:
    """Return the subject of a pair of modules, whose head has texts."""
    base, head = diff.base.modules[places[0]].dump, diff.head.modules[places[1]].dump
    assert head is not None
    before = None if base is None else ModuleAnalysis(base, limits_estimate=True, is_quick=True)
    return Subject(
        analysis=ModuleAnalysis(head, limits_estimate=True, is_quick=True),
        title=head.title,
        command_tail=f"{_path(diff.base.path)} {_path(diff.head.path)}",
        base=before,
        diff=module,
        computations=_side_by_side(module, base, head),
    )


def _side_by_side(
    module: ModuleDiff, base: ModuleDump | None, head: ModuleDump
) -> Sequence[ComputationPair]:
    """Return the computations with changes; none where a side has no HLO text."""
    from hlo_lens.analysis.program_diff.side_by_side import side_by_side

    if module.program is None or base is None or base.hlo is None or head.hlo is None:
        return ()
    return side_by_side(module.program, base.hlo, head.hlo)


def _path(path: str) -> str:
    return shell_word(path) if path else "PATH"


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


def _subject(known: ModuleAnalysis, title: str, role: str, lead: Lead) -> Subject:
    dump = known.dump
    tail = lead.command("", dump).removeprefix("hlo-lens  ")
    target = own_target(dump, known.backend)
    return Subject(
        analysis=known,
        title=title,
        role=role,
        command_tail=tail,
        limit_bytes=None if target is None else target.memory_bytes,
        limit_source="" if target is None else target.memory_source,
    )
