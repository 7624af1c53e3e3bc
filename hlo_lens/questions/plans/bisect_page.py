"""Page of a search for what made a program worse: the answer, its steps, the neighbours' diff."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.check.page import amount_texts, check_object
from hlo_lens.questions.plans.bisection import BAD, SKIPPED
from hlo_lens.render.envelope import envelope
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_seconds, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.questions.plans.bisection import Bisection, Step

_COLUMNS = (
    Column("step", Unit.NONE, "version, or flags with the value of the bad dump"),
    Column("outcome", Unit.NONE, "good, bad or skipped"),
    Column("good_end", Unit.NONE, "value of the rule's figure at the good end"),
    Column("value", Unit.NONE, "its value in this step"),
    Column("seconds", Unit.SECONDS, "time of the compile"),
    Column("reason", Unit.NONE, "rule that failed, or why the step is skipped"),
)
_FLAG_COLUMNS = (
    Column("flag", Unit.NONE, "name of the flag"),
    Column("good", Unit.NONE, "value in the good dump; empty for the default"),
    Column("bad", Unit.NONE, "value in the bad dump"),
    Column("why_not", Unit.NONE, "why it cannot be set; empty for the cause"),
)


def bisect_report(found: Bisection, diff: Report | None) -> Report:
    """Return the report on a search.

    Args:
        found: The search.
        diff: Report on the changes from the last good step to the first bad one; None without.
    """
    tables = [_steps_table(found.steps)]
    if found.flags or found.unknown:
        tables.append(_flags_table(found))
    section = Section(
        title=f"hlo-lens bisect: {_answer(found)}",
        facts=tuple(_facts(found)),
        tables=tuple(tables),
        notes=found.notes,
    )
    return Report(
        kind="bisect",
        sections=(section, *(() if diff is None else diff.sections)),
        data=_object(found, diff),
    )


def _answer(found: Bisection) -> str:
    if found.first_bad is None:
        return "no answer"
    if found.subject == "flags":
        return f"{plural(len(found.flags), 'flag')} of those that differ"
    return f"first bad {found.first_bad.name}"


def _facts(found: Bisection) -> Iterator[tuple[str, str]]:
    one, other = found.last_good, found.first_bad
    if found.problem:
        yield "no answer", found.problem
    if found.subject == "flags" and other is not None:
        yield "cause", other.name
    elif one is not None and other is not None:
        yield "first bad", f"{other.name}: {other.reason}"
        yield "last good", one.name
    if found.candidates:
        names = listed(list(found.candidates), 8)
        yield "not known", f"{names} between them could not be judged; any may be the first bad one"
    yield "rules", ", ".join(found.rules)
    skipped = sum(step.outcome == SKIPPED for step in found.steps)
    text = plural(len(found.steps), "step")
    seconds = format_seconds(sum(step.seconds for step in found.steps))
    yield "compiled", f"{text}, {skipped} skipped, {seconds}"
    if one is not None and other is not None and one.dump and other.dump:
        yield "next", f"hlo-lens diff {shell_word(one.dump)} {shell_word(other.dump)}"


def _steps_table(steps: tuple[Step, ...]) -> Table:
    return table_of(
        "steps",
        "Steps, in the order of their compiles",
        _COLUMNS,
        [_row(step) for step in steps],
        shown=("step", "outcome", "good_end", "value", "seconds", "reason"),
    )


def _row(step: Step) -> Row:
    good, value = "", ""
    if step.judgement is not None and step.judgement.verdicts:
        verdicts = step.judgement.verdicts
        worst = next((one for one in verdicts if one.is_failure), verdicts[0])
        good, value = amount_texts(worst)
    reason = "" if step.outcome == BAD and step.reason == value else step.reason
    return step.name, step.outcome, good, value, step.seconds, reason


def _flags_table(found: Bisection) -> Table:
    rows: list[Row] = [(name, good, bad, "") for name, (good, bad) in found.flags.items()]
    rows += [(name, None, None, why) for name, why in found.unknown.items()]
    shown = ("flag", "good", "bad", *(("why_not",) if found.unknown else ()))
    title = "Flags: the cause, and those not tried"
    return table_of("flags", title, _FLAG_COLUMNS, rows, shown=shown)


def _object(found: Bisection, diff: Report | None) -> dict[str, object]:
    one, other = found.last_good, found.first_bad
    return envelope(
        "bisect",
        subject=found.subject,
        rules=list(found.rules),
        first_bad=None if other is None else other.name,
        last_good=None if one is None else one.name,
        candidates=list(found.candidates),
        flags=[
            {"name": name, "good": good, "bad": bad} for name, (good, bad) in found.flags.items()
        ],
        flags_not_tried=[{"name": n, "why_not": why} for n, why in found.unknown.items()],
        steps=[_step_object(step) for step in found.steps],
        problem=found.problem or None,
        notes=list(found.notes),
        dumps={
            "last_good": None if one is None else one.dump,
            "first_bad": None if other is None else other.dump,
        },
        diff=None if diff is None else diff.data,
    )


def _step_object(step: Step) -> dict[str, object]:
    judged = step.judgement
    return {
        "name": step.name,
        "outcome": step.outcome,
        "reason": step.reason or None,
        "rules": [] if judged is None else check_object(judged)["rules"],
        "versions": dict(step.versions),
        "seconds": step.seconds,
        "dump": step.dump,
    }
