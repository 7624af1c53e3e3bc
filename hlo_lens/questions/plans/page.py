"""Pages of plans with which programs fit, and of searches for what made a program worse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.questions.check.page import amount_texts, check_object
from hlo_lens.questions.findings.finding import savings_text
from hlo_lens.questions.plans.plans import BAD, SKIPPED, size_key
from hlo_lens.questions.what_if.recompiling import RECOMPILED
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.render.to_json import envelope
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes, format_delta, format_seconds, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.plans.plans import Attempt, Bisection, FittedModule, Step
    from hlo_lens.questions.what_if.recompiling import Figures

# ---- fit ---------------------------------------------------------------------------------------

_MOST_BY_HAND = 3
_ATTEMPT_COLUMNS = (
    Column("target", Unit.NONE, "hardware"),
    Column("mesh", Unit.NONE, "sizes of the mesh axes"),
    Column("changes", Unit.NONE, "changes of arguments and results"),
    Column("total_bytes", Unit.BYTES, "bytes of one device that must fit"),
    Column("delta_bytes", Unit.BYTES_DELTA, "difference to the program without changes"),
    Column("wire_bytes_per_device", Unit.BYTES, "bytes that leave each device in one run"),
    Column("wire_delta_bytes", Unit.BYTES_DELTA, "difference to the program without changes"),
    Column("why_not", Unit.NONE, "why there are no figures"),
)
_SHOWN = tuple(column.name for column in _ATTEMPT_COLUMNS[2:7])


def fit_report(modules: Sequence[FittedModule], path: str) -> Report:
    """Return the report on the plans for some modules."""
    pages = [_FitPage(one, path) for one in modules]
    return Report(
        kind="fit",
        sections=[page.section() for page in pages],
        data=envelope("fit", modules=[page.json_object() for page in pages]),
    )


class _FitPage:
    """Page of one module."""

    def __init__(self, module: FittedModule, path: str) -> None:
        self.module = module
        self.dump = f"{shell_word(path or 'PATH')} {module.dump.module_option}".rstrip()

    def section(self) -> Section:
        module = self.module
        return Section(
            title=module.dump.title,
            facts=tuple(self._facts()),
            tables=tuple(self._tables()),
            notes=(*(f"not tried: {one}" for one in module.skipped), *module.notes),
        )

    def _facts(self) -> Iterator[tuple[str, str]]:
        module, base = self.module, self.module.base
        yield "fits", self._fits_text()
        if base.why_not and module.is_compiled:
            yield "as it is", base.why_not
        plan = module.plans[0] if module.plans else None
        if plan is not None and (plan.changes or plan.place != base.place):
            yield "best plan", self._plan_text(plan)
            yield "shown by", self._command(plan)
        elif plan is not None:
            yield "next", f"hlo-lens memory {self.dump}"
        elif module.attempts:
            yield from self._obstacles()
        if plan is None and not module.is_undecided:
            for one in module.by_hand[:_MOST_BY_HAND]:
                place = f"{one.source}: " if one.source else ""
                saves = savings_text(one.saves, one.share, one.share_of)
                yield "by hand", f"{one.code} {saves}; {place}{one.fix}"
        if module.is_compiled:
            equal = {True: "reproduced, every figure equal", False: "not reproduced exactly"}
            count = sum(one.total_bytes is not None for one in module.attempts)
            versions = (f"{name} {version}" for name, version in module.versions.items())
            parts = (f"{plural(count, 'program')} compiled", *versions)
            known = [equal[module.reproduced]] if module.reproduced is not None else []
            yield "basis", ", ".join((*known, *parts))

    def _fits_text(self) -> str:
        module, base = self.module, self.module.base
        limit = "the limit" if module.limit_bytes is None else format_bytes(module.limit_bytes)
        source = f" ({module.limit_source})" if module.limit_source else ""
        no = "not known" if module.is_undecided else "no"
        if base.total_bytes is None:
            answer = "with changes" if module.plans else no
            return f"{answer}: what must fit in {limit}{source} is not known without changes"
        excess = module.excess_bytes or 0
        text = f"{format_bytes(base.total_bytes)} must fit in {limit}{source}"
        if excess <= 0 and base.fits:
            return f"yes: {text}, {format_bytes(-excess)} free"
        more = f", {format_bytes(excess)} too much" if excess > 0 else ""
        return f"{'with changes' if module.plans else 'no'}: {text}{more}"

    def _plan_text(self, plan: Attempt) -> str:
        words = []
        if plan.total_bytes is not None:
            free = _minus(self.module.limit_bytes, plan.total_bytes)
            room = "" if free is None else f" ({format_bytes(free)} free)"
            words.append(f"{format_bytes(plan.total_bytes)}{room}")
        if plan.wire_bytes is not None:
            change = _minus(plan.wire_bytes, self.module.base.wire_bytes)
            more = "" if change is None else f" ({format_delta(change)})"
            words.append(f"sent by each device {format_bytes(plan.wire_bytes)}{more}")
        return f"{plan.title}: {', '.join(words)}"

    def _obstacles(self) -> Iterator[tuple[str, str]]:
        best = self.module.closest[0]
        if best.total_bytes is None:
            return
        excess = _minus(best.total_bytes, self.module.limit_bytes)
        over = "" if excess is None else f", {format_bytes(excess)} too much"
        yield "closest", f"{best.title}: {format_bytes(best.total_bytes)}{over}"
        if best.figures is not None:
            yield "in the way", _parts_text(best.figures)
        if best.dump is not None:
            yield "next", f"hlo-lens memory {shell_word(best.dump)} --by source"

    def _command(self, plan: Attempt) -> str:
        words = (f"--{name} {shell_word(value)}" for name, value in plan.options)
        return " ".join((f"hlo-lens what-if {self.dump}", *words))

    def _tables(self) -> Iterator[Table]:
        module = self.module
        plans = [one for one in module.plans if one.changes or one.place != module.base.place]
        others = sorted((one for one in module.attempts if one not in module.plans), key=size_key)
        title = "Tried, none compiled" if module.is_undecided else "Compiled, none fits"
        for name, title_, attempts in (
            ("plans", "Plans that fit, cheapest first", plans),
            ("attempts", "Also compiled" if plans else title, others),
        ):
            rows = [self._row(one) for one in attempts]
            lead = ("mesh",) if any(one.place.mesh for one in attempts) else ()
            shown = (*lead, *_SHOWN)
            if rows:
                yield table_of(
                    name, title_, _ATTEMPT_COLUMNS, rows, shown=shown, if_filled=("why_not",)
                )

    def _row(self, one: Attempt) -> Row:
        made: dict[str, Any] = {**self._attempt_object(one), "changes": one.description}
        made["wire_bytes_per_device"] = one.wire_bytes
        return tuple(made[column.name] for column in _ATTEMPT_COLUMNS)

    def json_object(self) -> dict[str, object]:
        module = self.module
        return {
            "name": module.dump.title,
            "fits": module.fits,
            "fits_now": module.base.fits,
            "limit_bytes": module.limit_bytes,
            "limit_source": module.limit_source or None,
            "excess_bytes": module.excess_bytes,
            "reproduced": module.reproduced,
            "base": None if module.base.figures is None else module.base.figures.to_dict(),
            "plans": [self._attempt_object(one) for one in module.plans],
            "closest": [self._attempt_object(one) for one in module.closest],
            "attempts": [self._attempt_object(one) for one in module.attempts],
            "not_tried": list(module.skipped),
            "by_hand": [
                {"code": o.code, "fix": o.fix, "source": o.source, "saves_bytes": o.saves.bytes}
                for o in module.by_hand
            ],
            "versions": dict(module.versions),
            "notes": list(module.notes),
        }

    def _attempt_object(self, one: Attempt) -> dict[str, object]:
        return {
            "changes": [change.to_dict() for change in one.applied],
            "description": one.description,
            "target": one.place.target or None,
            "mesh": one.place.mesh or None,
            "fits": one.fits,
            "predicted": None if one.figures is None else one.figures.to_dict(),
            "basis": RECOMPILED if self.module.is_compiled else "dump",
            "total_bytes": one.total_bytes,
            "delta_bytes": _minus(one.total_bytes, self.module.base.total_bytes),
            "free_bytes": _minus(self.module.limit_bytes, one.total_bytes),
            "wire_delta_bytes": _minus(one.wire_bytes, self.module.base.wire_bytes),
            "wire_by_axis": None if one.figures is None else dict(one.figures.wire_by_axis),
            "why_not": one.why_not or None,
            "command": self._command(one),
            "dump": one.dump,
        }


def _minus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def _parts_text(figures: Figures) -> str:
    results = _minus(figures.output_bytes, figures.alias_bytes)
    parts = (
        (figures.temp_bytes or 0, "temporaries"),
        (figures.argument_bytes or 0, "arguments"),
        (results or 0, "results"),
    )
    sized = sorted((part for part in parts if part[0]), key=lambda one: -one[0])
    text = ", ".join(f"{name} {format_bytes(size)}" for size, name in sized)
    return text if figures.peak_source is None else f"{text}; the peak is at {figures.peak_source}"


# ---- bisect ------------------------------------------------------------------------------------

_STEP_COLUMNS = (
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


def bisect_report(search: Bisection) -> Report:
    """Return the report on a search."""
    answer = "no answer"
    if search.first_bad is not None:
        answer = f"first bad {search.first_bad.name}"
        if search.subject == "flags":
            answer = f"{plural(len(search.flags), 'flag')} of those that differ"
    steps = [_step_row(step) for step in search.steps]
    tables = [table_of("steps", "Steps, in the order of their compiles", _STEP_COLUMNS, steps)]
    if search.flags or search.unknown:
        flags: list[Row] = [(name, good, bad, "") for name, (good, bad) in search.flags.items()]
        flags += [(name, None, None, why) for name, why in search.unknown.items()]
        title = "Flags: the cause, and those not tried"
        shown = ("flag", "good", "bad", *(("why_not",) if search.unknown else ()))
        tables.append(table_of("flags", title, _FLAG_COLUMNS, flags, shown=shown))
    section = Section(
        title=f"hlo-lens bisect: {answer}",
        facts=tuple(_search_facts(search)),
        tables=tuple(tables),
    )
    return Report(
        kind="bisect",
        sections=(section,),
        data=_search_object(search),
    )


def _search_facts(search: Bisection) -> Iterator[tuple[str, str]]:
    good, bad = search.last_good, search.first_bad
    if search.problem:
        yield "no answer", search.problem
    if search.subject == "flags" and bad is not None:
        yield "cause", bad.name
    elif good is not None and bad is not None:
        yield "first bad", f"{bad.name}: {bad.reason}"
        yield "last good", good.name
    if search.candidates:
        names = listed(list(search.candidates), 8)
        yield "not known", f"{names} between them could not be judged; any may be the first bad one"
    yield "rules", ", ".join(search.rules)
    skipped = sum(step.outcome == SKIPPED for step in search.steps)
    seconds = format_seconds(sum(step.seconds for step in search.steps))
    yield "compiled", f"{plural(len(search.steps), 'step')}, {skipped} skipped, {seconds}"
    if good is not None and bad is not None and good.dump and bad.dump:
        yield "next", f"hlo-lens diff {shell_word(good.dump)} {shell_word(bad.dump)}"


def _step_row(step: Step) -> Row:
    good, value = "", ""
    if step.judgement is not None and step.judgement.verdicts:
        verdicts = step.judgement.verdicts
        worst = next((one for one in verdicts if one.is_failure), verdicts[0])
        good, value = amount_texts(worst)
    reason = "" if step.outcome == BAD and step.reason == value else step.reason
    return step.name, step.outcome, good, value, step.seconds, reason


def _search_object(search: Bisection) -> dict[str, object]:
    good, bad = search.last_good, search.first_bad
    return envelope(
        "bisect",
        subject=search.subject,
        rules=list(search.rules),
        first_bad=None if bad is None else bad.name,
        last_good=None if good is None else good.name,
        candidates=list(search.candidates),
        flags=[{"name": name, "good": a, "bad": b} for name, (a, b) in search.flags.items()],
        flags_not_tried=[{"name": n, "why_not": why} for n, why in search.unknown.items()],
        steps=[
            {
                "name": step.name,
                "outcome": step.outcome,
                "reason": step.reason or None,
                "rules": [] if step.judgement is None else check_object(step.judgement)["rules"],
                "versions": dict(step.versions),
                "seconds": step.seconds,
                "dump": step.dump,
            }
            for step in search.steps
        ],
        problem=search.problem or None,
        dumps={
            "last_good": None if good is None else good.dump,
            "first_bad": None if bad is None else bad.dump,
        },
    )
