"""Page of plans with which programs fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.questions.findings.finding import savings_text
from hlo_lens.questions.plans.plans import size_key
from hlo_lens.questions.what_if.recompiling import RECOMPILED
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.render.to_json import envelope
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes, format_delta, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.plans.plans import Attempt, FittedModule
    from hlo_lens.questions.what_if.recompiling import Figures

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
