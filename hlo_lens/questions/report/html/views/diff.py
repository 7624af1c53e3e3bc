"""Data of the view Changes: both schedules, memory at both peaks by group, texts side by side.

Figures and rows of the diff are in the object of ``-f json``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, NAME
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.diff.page import module_section
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.peak import PARAMETERS, nameless_group
from hlo_lens.questions.memory.results import memory_results, peak_by
from hlo_lens.questions.memory.statement import space_name
from hlo_lens.questions.report.html.data import View, differences, section_object
from hlo_lens.text.errors import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.diff.module_diff import ModuleDiff
    from hlo_lens.questions.memory.layout import MemoryLayout
    from hlo_lens.questions.report.html.data import Strings, Subject
    from hlo_lens.questions.snapshots.figures import SpacePeak

MOST_INSTANTS = 1500
"""Instants of a schedule that are stored; each is the largest of its neighbours."""

MOST_GROUPS = 800
"""Groups of values that are stored of both sides; the others are summed."""

MOST_CHARACTERS = 600_000
"""Characters of the lines side by side."""

LONGEST_LINE = 1500
"""Characters of one line."""

_ROWS = 30
"""Rows of its tables."""

_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*\}')
"""Metadata of an instruction, with strings and one level of braces."""


def _view_data(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return both schedules, groups at both peaks, and lines side by side; None outside a diff.

    Of a snapshot only the groups at the peak are known; its figures are in the JSON object.
    """
    base, head, found = subject.base, subject.analysis, subject.diff
    if found is None:
        return None
    is_whole = base is not None and has_texts(head)
    spaces: list[Mapping[str, object]] = []
    if base is not None and is_whole:
        spaces = _spaces(base, head, strings)
    return {
        "snapshots": [
            side for side, is_known in (("base", base), ("head", has_texts(head))) if not is_known
        ],
        "section": _section(found),
        "spaces": spaces,
        "groups": {
            by: _groups(base, head, by, strings)
            if base is not None and is_whole
            else _kept_groups(found, by, strings)
            for by in ("op", "source")
        },
        "computations": _computations(subject),
        "computation_count": len(subject.computations),
    }


def _section(diff: ModuleDiff) -> Mapping[str, object]:
    """Return the text of the diff without what the view draws: causes and instructions."""
    whole = module_section(diff)
    facts = tuple(one for one in whole.facts if one[0] not in ("cause", "memory"))
    tables = tuple(one for one in whole.tables if one.name != "program-diff")
    return section_object(replace(whole, facts=facts, tables=tables), _ROWS)


def has_texts(analysis: ModuleDump) -> bool:
    """Return whether texts of a module are known, not only its snapshot."""
    return bool(analysis.files) or analysis.has_hlo


def _spaces(base: ModuleDump, head: ModuleDump, strings: Strings) -> list[Mapping[str, object]]:
    """Return the bytes held over both schedules, for each memory space with any."""
    memories = memory_results(base), memory_results(head)
    if memories[0] is None or memories[1] is None:
        return []
    colors = sorted({*memories[0].layout.colors, *memories[1].layout.colors})
    found: list[Mapping[str, object]] = []
    for color in colors:
        sides = [_side(one.layout, color, strings) for one in memories if one]
        if any(side is not None and side["largest"] for side in sides):
            name = space_name(color, memories[1].backend)
            found.append({"color": color, "name": name, "base": sides[0], "head": sides[1]})
    return found


def _side(layout: MemoryLayout, color: int, strings: Strings) -> dict[str, object] | None:
    """Return the largest instants of a schedule; None where live ranges are not known."""
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
    base: ModuleDump, head: ModuleDump, by: str, strings: Strings
) -> Mapping[str, object] | None:
    """Return label, bytes before and bytes after of each group of values at the peaks."""
    sides = [peak_by(one, by) for one in (base, head)]
    if sides[0] is None or sides[1] is None:
        return None
    mine, yours = ({group[0]: group[1] for group in side.groups} for side in sides if side)
    return _listed_groups(mine, yours, strings)


def _kept_groups(diff: ModuleDiff, by: str, strings: Strings) -> Mapping[str, object] | None:
    """Return the same of the values at the peak that snapshots keep."""
    sides = (diff.base, diff.head)
    peaks = [next((p for p in one.peaks if p.color == DEFAULT_SPACE), None) for one in sides]
    if peaks[0] is None or peaks[1] is None:
        return None
    if not (peaks[0].is_peak and peaks[1].is_peak):
        return None
    mine, yours = (_kept_bytes(one, by) for one in peaks if one is not None)
    return _listed_groups(mine, yours, strings)


def _kept_bytes(peak: SpacePeak, by: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in peak.groups:
        name = (one.op_name if by == "op" else one.source) or nameless_group(one.category)
        label = PARAMETERS if one.category == "argument" else name
        found[label] = found.get(label, 0) + one.size_bytes
    return found


def _listed_groups(
    mine: Mapping[str, int], yours: Mapping[str, int], strings: Strings
) -> Mapping[str, object]:
    """Return the largest groups of both sides, and the sums of the others."""
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
    modules = hlo_text(base), hlo_text(subject.analysis)
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


VIEWS = (View("diff", 15, _view_data, ("diff", "check")),)
