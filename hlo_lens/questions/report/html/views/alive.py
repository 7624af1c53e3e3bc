"""Data of the view What is alive: it shows the values of the view Memory over the schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.report.html.views import memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.questions.report.html.page import Strings, Subject

ORDER = 30
KINDS = ("report", "check")


def view_data(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return the name of the view whose data it shows; None where that has none."""
    del strings
    return {"values_of": "memory"} if memory.has_schedule(subject.analysis) else None
