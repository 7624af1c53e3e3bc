"""Annotations of the user's source lines with figures that got worse."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.questions.check.page import amount_texts
from hlo_lens.questions.diff.page import detail_text
from hlo_lens.questions.diff.sections import donation_text
from hlo_lens.render.savings import savings_text
from hlo_lens.render.to_github import Annotation
from hlo_lens.text.units import format_bytes, format_delta

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.questions.check.judge import Judgement, Verdict
    from hlo_lens.questions.diff.collectives import CollectiveRow
    from hlo_lens.questions.diff.module_diff import DumpDiff, ModuleDiff

LEAST_BYTES = 1 << 10
"""Smaller increases at a peak get no annotation."""


def diff_annotations(diff: DumpDiff) -> list[Annotation]:
    """Return what got worse in all modules, most costly first, one for each line and title."""
    found = [item for module in diff.modules for item in _of_module(module)]
    found.sort(key=lambda item: (-item[0], item[1].source or "", item[1].message))
    return _merged([annotation for _, annotation in found])


def _merged(annotations: list[Annotation]) -> list[Annotation]:
    """Return the first annotation of each line and title, with the number of the others.

    GitHub shows ten of a step; a line that many modules share would take all of them.
    """
    alike: dict[object, list[Annotation]] = {}
    for one in annotations:
        key = (one.level, one.title, one.source or one.message)
        alike.setdefault(key, []).append(one)
    return [
        replace(first, message=f"{first.message}; {len(rest):,} more on this line")
        if rest
        else first
        for first, *rest in alike.values()
    ]


def _of_module(diff: ModuleDiff) -> Iterator[tuple[int, Annotation]]:
    """Yield the bytes to sort by, and the annotation."""
    name = diff.head.name
    for peak in () if diff.memory is None else diff.memory.peaks:
        if peak.delta_bytes <= 0:
            continue
        for row in peak.changed:
            if row.delta_bytes >= LEAST_BYTES and row.source is not None:
                text = (
                    f"{format_delta(row.delta_bytes)} at the peak of {peak.space} in {name}: "
                    f"{row.change} {row.shape} ({row.one.op_name or row.one.opcode})"
                )
                yield row.delta_bytes, _warning("more memory", text, row.source)
    lost = diff.donations
    if lost is not None and any(row[0] == "lost" for row in lost.rows()):
        text = f"{name}: {donation_text(lost)}"
        yield lost.bytes_of("lost"), _warning("donation lost", text)
    for change in () if diff.collectives is None else diff.collectives.changed:
        if change.is_worse:
            yield change.delta_wire_bytes or 0, _collective(change, name)


def _warning(title: str, message: str, source: str | None = None) -> Annotation:
    return Annotation(level="warning", title=title, message=message, source=source)


def _collective(row: CollectiveRow, module: str) -> Annotation:
    one = row.one
    size = "?" if one.payload_bytes is None else format_bytes(one.payload_bytes)
    count = f"{row.count} x " if row.count > 1 else ""
    what = ", ".join((row.change, *map(detail_text, row.changes)))
    text = f"{count}{one.kind} over {one.axis} of {size} in {module}: {what}"
    return _warning(f"{one.kind} {row.change}", text, one.source)


def check_annotations(judgement: Judgement) -> list[Annotation]:
    """Return failed and undecided rules, at the line of their largest contributor.

    A rule on findings has one for each of them, at its line.
    """
    found: list[Annotation] = []
    for verdict in sorted(judgement.verdicts, key=lambda verdict: not verdict.is_failure):
        if verdict.status not in ("fail", "undecided"):
            continue
        is_hard = verdict.is_failure or verdict.is_undecided
        if verdict.findings:
            found += _counted_findings(verdict)
            continue
        rows = () if verdict.contributors is None else verdict.contributors.contributors
        source = next((one.source for one in rows if one.source is not None), None)
        metric = verdict.rule.metric.text
        where = f" of {verdict.module}" if verdict.module else ""
        text = f"{metric}{where}: {verdict.status}: {verdict.reason}"
        if verdict.status == "fail":
            values = amount_texts(verdict)
            text = (
                f"{metric}{where}: {' -> '.join(v for v in values if v)}, fails if {verdict.reason}"
            )
        one = rows[0] if rows else None
        if one is not None and one.delta_bytes is not None:
            named = " ".join(part for part in (one.what, one.op_name) if part)
            text += f"; most by {named}, {format_bytes(one.delta_bytes)}"
        found.append(
            Annotation(
                level="error" if is_hard else "warning",
                title=verdict.rule.name or f"hlo-lens: {metric}",
                message=text,
                source=source,
            )
        )
    return _merged(found)


def _counted_findings(verdict: Verdict) -> Iterator[Annotation]:
    """Yield the findings that a failed rule counts, most saving first."""
    where = f" of {verdict.module}" if verdict.module else ""
    count = amount_texts(verdict)[1]
    rule = f"{verdict.rule.metric.text}{where}: {count}, fails if {verdict.reason}"
    for one in verdict.findings:
        saves = savings_text(one.saves, one.share)
        yield Annotation(
            level="error" if verdict.is_failure else "warning",
            title=f"{one.code} {one.name}",
            message=f"{one.message}{f' (saves {saves})' if saves else ''}; {one.fix}; {rule}",
            source=one.source,
        )
