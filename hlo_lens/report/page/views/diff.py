"""Data of the view Changes: both schedules, memory at both peaks by group, texts side by side.

Figures and rows of the diff are in the object of ``-f json``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.analysis.memory.statement import space_name
from hlo_lens.model.hlo.columns import END, NAME
from hlo_lens.report.page.payload import differences
from hlo_lens.text.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.report.page.payload import Strings, Subject

ORDER = 15
KINDS = ("diff",)

MOST_INSTANTS = 1500
"""Instants of a schedule that are stored; each is the largest of its neighbours."""

MOST_GROUPS = 800
"""Groups of values that are stored of both sides; the others are summed."""

MOST_CHARACTERS = 600_000
"""Characters of the lines side by side."""

LONGEST_LINE = 1500
"""Characters of one line."""

_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*\}')
"""Metadata of an instruction, with strings and one level of braces."""


def view_data(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return both schedules, groups at both peaks, and lines side by side; None without a base."""
    base, head = subject.base, subject.analysis
    if base is None:
        return None
    has_memory = base.memory is not None and head.memory is not None
    return {
        "spaces": _spaces(base, head, strings) if has_memory else [],
        "groups": {by: _groups(base, head, by, strings) for by in ("op", "source")},
        "computations": _computations(subject),
        "computation_count": len(subject.computations),
    }


def _spaces(
    base: ModuleAnalysis, head: ModuleAnalysis, strings: Strings
) -> list[Mapping[str, object]]:
    """Return the bytes held over both schedules, for each memory space with any."""
    assert base.memory is not None
    assert head.memory is not None
    colors = sorted({*base.memory.layout.colors, *head.memory.layout.colors})
    found: list[Mapping[str, object]] = []
    for color in colors:
        sides = [_side(one, color, strings) for one in (base, head)]
        if any(side is not None and side["largest"] for side in sides):
            name = space_name(color, head.memory.backend)
            found.append({"color": color, "name": name, "base": sides[0], "head": sides[1]})
    return found


def _side(analysis: ModuleAnalysis, color: int, strings: Strings) -> dict[str, object] | None:
    """Return the largest instants of a schedule; None where live ranges are not known."""
    assert analysis.memory is not None
    layout = analysis.memory.layout
    held, schedule = layout.held_series(color), layout.schedule
    if held is None or schedule is None:
        return None
    step = -(-len(held) // MOST_INSTANTS)
    ranges = (range(k, min(k + step, len(held))) for k in range(0, len(held), step))
    instants = [max(one, key=held.__getitem__) for one in ranges]
    last = len(schedule)
    return {
        "length": len(held),
        "largest": max(held),
        "instants": differences(instants),
        "held": [held[k] for k in instants],
        "schedule": strings.numbers(schedule[k] if k < last else None for k in instants),
    }


def _groups(
    base: ModuleAnalysis, head: ModuleAnalysis, by: str, strings: Strings
) -> Mapping[str, object] | None:
    """Return label, bytes before and bytes after of each group of values at the peaks."""
    sides = [one.peak_by(by) for one in (base, head)]
    if sides[0] is None or sides[1] is None:
        return None
    mine, yours = ({group[0]: group[1] for group in side.groups} for side in sides if side)
    labels = sorted(
        {*mine, *yours}, key=lambda one: (-max(mine.get(one, 0), yours.get(one, 0)), one)
    )
    listed, others = labels[:MOST_GROUPS], labels[MOST_GROUPS:]
    return {
        "label": strings.numbers(listed),
        "base": [mine.get(one, 0) for one in listed],
        "head": [yours.get(one, 0) for one in listed],
        "others": len(others),
        "others_base": sum(mine.get(one, 0) for one in others),
        "others_head": sum(yours.get(one, 0) for one in others),
    }


def _computations(subject: Subject) -> list[Mapping[str, object]]:
    """Return the lines of computations with edits, as far as the limit allows."""
    base = subject.base
    if base is None or not base.has_hlo or not subject.analysis.has_hlo:
        return []
    modules = base.module, subject.analysis.module
    left = MOST_CHARACTERS
    found: list[Mapping[str, object]] = []
    for pair in subject.computations:
        lines = [
            (one.kind, one.base, None)
            if one.kind == "left out"
            else (one.kind, _line(modules[0], one.base), _line(modules[1], one.head))
            for one in pair.lines
        ]
        left -= sum(len(str(text)) for line in lines for text in line[1:] if text)
        if left < 0:
            break
        found.append({"base": printable(pair.base), "head": printable(pair.head), "lines": lines})
    return found


def _line(module: HloModule, row: int | None) -> str | None:
    """Return the text of an instruction without its metadata, cut."""
    if row is None:
        return None
    text = module.columns.text(row, NAME, END)
    text = _METADATA.sub("", text, count=1)
    cut = f" ... [{len(text) - LONGEST_LINE:,} more]" if len(text) > LONGEST_LINE else ""
    return printable(text[:LONGEST_LINE]) + cut
