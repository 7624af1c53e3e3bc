"""Page of HTML on a judged compile: verdicts, then the views of its modules and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.diff.html_page import pair_subject
from hlo_lens.questions.diff.page import module_object
from hlo_lens.questions.plans.proof import with_sifted_findings
from hlo_lens.questions.report.html.page import module_subjects, page_of_modules, section_object
from hlo_lens.questions.report.page import page_of_module
from hlo_lens.render.table import Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.questions.diff.dump_diff import Diff
    from hlo_lens.questions.diff.sides import LoadedSide
    from hlo_lens.questions.report.html.page import Subject

_ROWS = 50
"""Rows of the tables of verdicts and their causes."""


def check_page(
    head: LoadedSide, diff: Diff | None, report: Report, command: str
) -> Mapping[str, object]:
    """Return the data of the page on a judged compile.

    Args:
        head: The compile; of a snapshot there are only verdicts.
        diff: Changes against the baseline, programs included; None without one.
        report: Report on the verdicts.
        command: Command that prints it.
    """
    sections = [
        section_object(one, _ROWS, is_leading=True, command="" if number else command)
        for number, one in enumerate(report.pages)
    ]
    title = report.pages[0].title if report.pages else "check"
    dumps = [one.dump for one in head.modules]
    known = with_sifted_findings(
        [
            one.stating(limits_estimate=True, is_quick=True)
            for one in dumps
            if one is not None and one.log is None
        ]
    )
    if not known:
        return page_of_modules("check", title, (), sections)
    subjects, others = module_subjects(known, range(len(known)))
    places = [place for place, one in enumerate(dumps) if one is not None and one.log is None]
    pairs = {} if diff is None else {other: k for k, (_, other) in enumerate(diff.places)}
    found = [(k, _judged(subject, diff, pairs.get(places[k]))) for k, subject in subjects]
    return page_of_modules("check", title, found, [*sections, *others])


def _judged(subject: Subject, diff: Diff | None, number: int | None) -> Subject:
    """Return a module with its changes, and its JSON objects, which verdicts do not have."""
    objects: dict[str, object] = {"report": _plain(page_of_module(subject.analysis).make_object())}
    if diff is None or number is None:
        return subject._replace(objects=objects)
    pair = pair_subject(diff, number)
    return subject._replace(
        base=pair.base,
        diff=pair.diff,
        computations=pair.computations,
        pair_tail=pair.pair_tail,
        objects={**objects, "diff": _plain(module_object(diff.modules[number]))},
    )


def _plain(data: Mapping[str, object]) -> Mapping[str, object]:
    """Return a JSON object without sequences that are made on access."""
    return Report(kind="", sections=(), data=data).to_dict()
