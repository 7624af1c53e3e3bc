"""Data of the view Loops: the levels of the program, as ``hlo-lens loops -f json`` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.collectives.loop_levels import loops
from hlo_lens.render.result import sum_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.questions.report.html.page import Strings, Subject

ORDER = 50
KINDS = ("report", "check")

MOST_LEVELS = 500
"""Levels that are listed; the others are summed."""


def view_data(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return the levels of a program with loops or branches; None where it has none."""
    del strings
    analysis = subject.analysis
    if not analysis.has_hlo or len(loops(analysis).levels) < 2:
        return None
    levels = loops(analysis).levels
    rows = zip(loops(analysis).objects(), levels[:MOST_LEVELS], strict=False)
    others = levels[MOST_LEVELS:]
    return {
        "levels": [{**row, "collectives": level.groups.objects()} for row, level in rows],
        "others": len(others),
        "others_wire_bytes_per_run": sum_of(one.wire_bytes_per_run for one in others),
    }
