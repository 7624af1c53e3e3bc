"""Pages of HTML on two compiles: the pairs of modules, those with changes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.load.module import ModuleDump
from hlo_lens.questions.report.html.page import (
    MOST_MODULES,
    Subject,
    page_of_modules,
    section_object,
    unique_titles,
)
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.names import shell_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.questions.diff.matching.program_diff import ComputationPair
    from hlo_lens.questions.diff.module_diff import DumpDiff, ModuleDiff
    from hlo_lens.render.table import Report

_ROWS = 15
"""Rows of the tables of a diff."""


def diff_page(diff: DumpDiff, report: Report) -> Mapping[str, object]:
    """Return the data of the page on a diff: its text, and the view of changes of each pair.

    Args:
        diff: Changes.
        report: Their report, whose sections are on the page.
    """
    order = sorted(range(len(diff.modules)), key=lambda k: diff.modules[k].identical)
    subjects = [pair_subject(diff, number) for number in order[:MOST_MODULES]]
    titles = unique_titles([subject.analysis for subject in subjects])
    named = [
        (number, subject._replace(title=title))
        for number, subject, title in zip(order, subjects, titles, strict=False)
    ]
    command = f"hlo-lens diff {_paths(diff)}"
    sections = [
        section_object(one, _ROWS, is_leading=True, command="" if number else command)
        for number, one in enumerate(report.pages)
    ]
    title = report.pages[0].title if report.pages else "diff"
    return page_of_modules("diff", title, named, sections)


def pair_subject(diff: DumpDiff, number: int) -> Subject:
    """Return the subject of a pair of modules; of a snapshot only its figures are known."""
    place_base, place_head = diff.places[number]
    module = diff.modules[number]
    base, head = diff.base.modules[place_base].dump, diff.head.modules[place_head].dump
    shown = head or ModuleDump(name=module.head.name, kind=DumpKind.HLO)
    tail = _paths(diff)
    return Subject(
        analysis=shown.stating(limits_estimate=True, is_quick=True),
        title=shown.title,
        command_tail=tail,
        pair_tail=tail,
        base=None if base is None else base.stating(limits_estimate=True, is_quick=True),
        diff=module,
        computations=_side_by_side(module, base, head),
    )


def _paths(diff: DumpDiff) -> str:
    """Return the paths of both sides as words of a command."""
    return " ".join(shell_word(side.path or "PATH") for side in (diff.base, diff.head))


def _side_by_side(
    module: ModuleDiff, base: ModuleDump | None, head: ModuleDump | None
) -> Sequence[ComputationPair]:
    """Return the computations with changes; none where a side has no HLO text."""
    from hlo_lens.questions.diff.matching.program_diff import side_by_side

    if module.program is None or base is None or head is None:
        return ()
    if base.hlo is None or head.hlo is None:
        return ()
    return side_by_side(module.program, base.hlo, head.hlo)
