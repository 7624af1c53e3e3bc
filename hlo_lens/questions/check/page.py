"""Page and JSON of ``hlo-lens check``: verdicts, then contributors to failures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NamedTuple

from hlo_lens.program.pages import with_marks
from hlo_lens.questions.check.judge import FAIL, PASS, UNDECIDED, Judgement, Verdict
from hlo_lens.questions.collectives.page import at_most_text
from hlo_lens.questions.diff.page import MOST_CHARACTERS, cause_text
from hlo_lens.questions.findings.finding import savings_text
from hlo_lens.questions.findings.page import finding_facts
from hlo_lens.render.result import Cell, Row, columns_of, facts_object
from hlo_lens.render.table import Report, Section, Table
from hlo_lens.render.to_json import envelope
from hlo_lens.render.to_markdown import Annotation
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import MARGIN, Kind, format_bytes, format_change, format_ratio, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.questions.check.judge import Contributors, Judgement, Verdict
    from hlo_lens.questions.diff.causes import Cause
    from hlo_lens.questions.diff.module_diff import DumpDiff


_NO_CAUSES: Mapping[int, tuple[Cause, ...]] = MappingProxyType({})
_NONE: Mapping[int, str] = MappingProxyType({})
_ESTIMATE = (
    f"~ marks an estimate, which decides no limit within {format_ratio(MARGIN)} of it "
    "(hlo-lens help estimates)"
)


class VerdictRow(NamedTuple):
    """The verdict of a rule on a module."""

    status: Annotated[str, "pass, fail or undecided"]
    informational: Annotated[bool, "whether the rule fails no check"]
    module: Annotated[str | None, "module"]
    metric: Annotated[str, "path in the report"]
    name: Annotated[str | None, "name of the rule"]
    base: Annotated[Cell, "value in the baseline"]
    head: Annotated[Cell, "value"]
    delta: Annotated[Cell, "difference"]
    change: Annotated[str, "difference in percent"]
    fails_if: Annotated[Cell, "conditions of failure"]
    reason: Annotated[str | None, "failed condition, or why the rule is undecided"]
    rule: Annotated[str, "place of the rule"]
    base_is_at_most: Annotated[bool, "whether base is an upper bound"]
    head_is_at_most: Annotated[bool, "whether head is an upper bound"]
    base_is_estimate: Annotated[bool, "whether base is an estimate"]
    head_is_estimate: Annotated[bool, "whether head is an estimate"]

    @classmethod
    def of(cls, verdict: Verdict) -> VerdictRow:
        """Return the row of a verdict; whole numbers are integers."""
        rule, base, head = verdict.rule, verdict.base.number, verdict.head.number
        delta = None if base is None or head is None else head - base
        whole = [n if n is None or n != int(n) else int(n) for n in (base, head, delta)]
        change = "" if base is None or head is None else format_change(round(base), round(head))
        kinds = verdict.base.kind, verdict.head.kind
        cells = (
            *(verdict.status, rule.is_informational, verdict.module),
            *(rule.metric.text, rule.name or None),
            *(*whole, change, tuple(map(str, rule.fails)), verdict.reason or None, rule.place),
            *(kind is Kind.AT_MOST for kind in kinds),
            *(kind is Kind.ESTIMATE for kind in kinds),
        )
        return cls._make(cells)


def check_report(
    judgement: Judgement,
    facts: Sequence[tuple[str, str]] = (),
    *,
    dumps: Mapping[int, str] = _NONE,
    base: str = "",
    causes: Mapping[int, tuple[Cause, ...]] = _NO_CAUSES,
) -> Report:
    """Return the report on rules."""
    verdicts = judgement.verdicts
    has_estimate = any(Kind.ESTIMATE in (one.base.kind, one.head.kind) for one in verdicts)
    section = Section(
        title=f"hlo-lens check: {outcome(judgement)}",
        facts=(*facts, ("rules", _counts(verdicts))),
        tables=(_table(verdicts), *_contributor_tables(verdicts)),
        notes=(_ESTIMATE,) if has_estimate else (),
    )
    return Report(
        kind="check",
        sections=(section, *_finding_sections(verdicts, dumps, base)),
        data=check_object(judgement, causes),
        most_characters=MOST_CHARACTERS,
    )


def outcome(judgement: Judgement) -> str:
    """Return the outcome in one word."""
    if judgement.is_failed:
        return "failed"
    return "undecided" if judgement.is_undecided else "passed"


def _counts(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(map(_status_text, verdicts))
    words = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    return f"{plural(len(verdicts), 'verdict')}: {words}" if verdicts else "none"


def _status_text(verdict: Verdict) -> str:
    is_soft = verdict.rule.is_informational and verdict.status != PASS
    return f"{verdict.status} (informational)" if is_soft else verdict.status


_ORDER = {FAIL: 0, UNDECIDED: 1, PASS: 2}
_MOST_WHOLE = 50


def _table(verdicts: Sequence[Verdict]) -> Table:
    order = sorted(verdicts, key=lambda v: _ORDER.get(v.status, 3))
    shown = ["status", "metric", "base", "head", "change", "fails_if", "reason"]
    if len({verdict.module for verdict in verdicts}) > 1:
        shown.insert(1, "module")
    if all(verdict.base.number is None for verdict in verdicts):
        shown = [name for name in shown if name not in ("base", "change")]
    if all(not verdict.reason or verdict.status == FAIL for verdict in verdicts):
        shown.remove("reason")
    return Table(
        name="verdicts",
        title="Rules",
        columns=columns_of(VerdictRow),
        read_rows=lambda: map(VerdictRow.of, order),
        row_count=len(order),
        shown=tuple(shown),
        is_whole=len(order) <= _MOST_WHOLE,
        read_shown=lambda: map(_shown_row, order),
        text_only=("change",),
        kept=("base", "change"),
    )


def _shown_row(verdict: Verdict) -> Row:
    base, head = amount_texts(verdict)
    status = _status_text(verdict)
    row = VerdictRow.of(verdict)
    return row._replace(status=status, base=base, head=head, fails_if=verdict.limit)


def amount_texts(verdict: Verdict) -> tuple[str, str]:
    """Return the values in the baseline and in the head as text, marked by `Amount`."""
    metric = verdict.rule.metric
    return metric.amount_text(verdict.base), metric.amount_text(verdict.head)


def _contributor_tables(verdicts: Sequence[Verdict]) -> Iterator[Table]:
    causes: dict[tuple[str | None, Contributors], list[str]] = {}
    for verdict in verdicts:
        found = verdict.contributors
        if found is not None and found.contributors:
            causes.setdefault((verdict.module, found), []).append(verdict.rule.metric.text)
    for (module, found), metrics in causes.items():
        title = f"Contributors to {', '.join(dict.fromkeys(metrics))}"
        shown = ("delta_bytes", "change", "source", "what", "op_name")
        title = f"{title} of {module}" if module else title
        table = Table.of(found, title=title, shown=shown)
        rows = partial(_shown_contributors, found)
        wrapped = ("what", "change")
        yield with_marks(replace(table, read_shown=rows, wrapped=wrapped, kept=("source",)))


def _shown_contributors(found: Contributors) -> Iterator[Row]:
    place = found.place_of("delta_bytes")
    for row, one in zip(found.rows(), found.contributors, strict=True):
        text = at_most_text(one.delta_bytes, one.is_at_most)
        yield row if text is None else (*row[:place], text, *row[place + 1 :])


def _finding_sections(
    verdicts: Sequence[Verdict], dumps: Mapping[int, str], base: str
) -> Iterator[Section]:
    for verdict in verdicts:
        if not verdict.findings:
            continue
        metric = verdict.rule.metric
        where = f" of {verdict.module}" if verdict.module else ""
        known = f" --baseline {shell_word(base)}" if base and metric.counts_changes else ""
        dump = None if verdict.place is None else dumps.get(verdict.place)
        command = () if dump is None else (("next", f"hlo-lens lint {dump}{known}"),)
        facts = (*finding_facts(verdict.findings), *command)
        yield Section(title=f"{metric.text}{where}", facts=facts)


def check_object(
    judgement: Judgement, causes: Mapping[int, tuple[Cause, ...]] = _NO_CAUSES
) -> dict[str, object]:
    """Return the JSON object of ``hlo-lens check``; failed rules have the causes of the change."""
    return envelope(
        "check",
        outcome=outcome(judgement),
        passed=not judgement.is_failed and not judgement.is_undecided,
        rules=[_object(verdict, causes) for verdict in judgement.verdicts],
    )


def _object(verdict: Verdict, causes: Mapping[int, tuple[Cause, ...]]) -> Mapping[str, object]:
    row: dict[str, object] = VerdictRow.of(verdict)._asdict()
    del row["change"]
    found = verdict.contributors
    return {
        **row,
        "contributors": [] if found is None else found.objects(),
        "findings": [facts_object(one) for one in verdict.findings],
        "causes": [cause.to_dict() for cause in _causes_of(verdict, causes)],
    }


def _causes_of(verdict: Verdict, causes: Mapping[int, tuple[Cause, ...]]) -> tuple[Cause, ...]:
    is_change = verdict.status == "fail" and verdict.base.number is not None
    return causes.get(verdict.place, ()) if is_change and verdict.place is not None else ()


def cause_annotations(diff: DumpDiff) -> list[Annotation]:
    """Return a note on each cause that costs memory or bytes sent, at its line."""
    return _merged(
        [
            Annotation(
                level="warning",
                title="hlo-lens diff",
                message=f"{cause_text(replace(cause, sources=()))} in {module.head.name}",
                source=next(iter(cause.sources), None),
            )
            for module in diff.modules
            for cause in (() if module.lines is None else module.lines.causes)
            if (cause.delta_bytes or 0) > 0 or (cause.delta_wire_bytes or 0) > 0
        ]
    )


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


def check_annotations(
    judgement: Judgement, causes: Mapping[int, tuple[Cause, ...]] = _NO_CAUSES, command: str = ""
) -> list[Annotation]:
    """Return failed and undecided rules, at the line of the cause, else of the largest contributor.

    A rule on findings has one for each of them, at its line.
    """
    found: list[Annotation] = []
    for verdict in sorted(judgement.verdicts, key=lambda verdict: not verdict.is_failure):
        if verdict.status not in (FAIL, UNDECIDED):
            continue
        metric = verdict.rule.metric.text
        text = f"{metric}{f' of {verdict.module}' if verdict.module else ''}: "
        if verdict.status == UNDECIDED:
            text += f"{verdict.status}: {verdict.reason}"
        else:
            values = " -> ".join(filter(None, amount_texts(verdict)[bool(verdict.findings) :]))
            text += f"{values}, fails if {verdict.reason}"
        level = "error" if verdict.is_failure or verdict.is_undecided else "warning"
        for one in verdict.findings:
            saves = savings_text(one.saves, one.share, one.share_of)
            message = f"{one.message}{f' ({saves})' if saves else ''}; {one.fix}; {text}"
            name = f"{one.code} {one.name}"
            found.append(Annotation(level=level, title=name, message=message, source=one.source))
        if verdict.findings:
            continue
        rows = () if verdict.contributors is None else verdict.contributors.contributors
        sources = [one.source for one in rows if one.source is not None]
        cause = next(iter(_causes_of(verdict, causes)), None)
        if cause is not None:
            text += f"; cause: {cause.what}{f'; {command}' if command else ''}"
            sources = [*cause.sources, *sources]
        elif rows and rows[0].delta_bytes is not None:
            named = " ".join(part for part in (rows[0].what, rows[0].op_name) if part)
            text += f"; most by {named}, {format_bytes(rows[0].delta_bytes)}"
        title = verdict.rule.name or f"hlo-lens: {metric}"
        source = next(iter(sources), None)
        found.append(Annotation(level=level, title=title, message=text, source=source))
    return _merged(found)
