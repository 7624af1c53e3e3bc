"""Page of the plans with which programs fit: the best plan, its cost, and all that was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.what_if.recompiling import RECOMPILED
from hlo_lens.render.envelope import envelope
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes, format_delta, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.plans.fitting import Attempt, FittedModule
    from hlo_lens.questions.what_if.figures import Figures

FROM_DUMP = "dump"
"""Basis of figures that are those of the dump."""

_MOST_COMMAND = 300
_COLUMNS = (
    Column("target", Unit.NONE, "hardware"),
    Column("mesh", Unit.NONE, "sizes of the mesh axes"),
    Column("changes", Unit.NONE, "changes of arguments and results"),
    Column("total_bytes", Unit.BYTES, "bytes of one device that must fit"),
    Column("delta_bytes", Unit.BYTES_DELTA, "difference to the program without changes"),
    Column("free_bytes", Unit.BYTES, "memory left below the limit"),
    Column("temp_bytes", Unit.BYTES, "temporaries"),
    Column("wire_bytes_per_device", Unit.BYTES, "bytes that leave each device in one run"),
    Column("wire_delta_bytes", Unit.BYTES_DELTA, "difference to the program without changes"),
    Column("sent", Unit.NONE, "bytes that leave each device, by mesh axes"),
    Column("fits", Unit.NONE, "whether it fits"),
    Column("why_not", Unit.NONE, "why there are no figures"),
)
_SHOWN = ("changes", "total_bytes", "delta_bytes", "wire_bytes_per_device", "wire_delta_bytes")


def fit_report(modules: Sequence[FittedModule], path: str) -> Report:
    """Return the report on the plans for some modules; one section for each module."""
    is_only = len(modules) == 1
    pages = [_Page(one, path) for one in modules]
    large = [page for page in pages if not page.module.base.fits or is_only]
    small = [page.module for page in pages if page not in large]
    sections = [page.section() for page in large]
    return Report(
        kind="fit",
        sections=(*sections, *([_fitting(small, path)] if small else [])),
        data=envelope("fit", modules=[page.json_object() for page in pages]),
    )


def _fitting(modules: Sequence[FittedModule], path: str) -> Section:
    """Return the section on modules that fit as they are, largest first."""
    ordered = sorted(modules, key=lambda one: -(one.base.total_bytes or 0))
    columns = (
        Column("module", Unit.NONE, "name of the module"),
        Column("total_bytes", Unit.BYTES, "bytes of one device that must fit"),
        Column("limit_bytes", Unit.BYTES, "memory of one device"),
    )
    rows = [(one.name, one.base.total_bytes, one.limit_bytes) for one in ordered]
    return Section(
        title=f"{plural(len(modules), 'module')} that fit as they are",
        facts=(("next", f"hlo-lens ls {shell_word(path or 'PATH')}"),),
        tables=(table_of("fitting", "Modules that fit", columns, rows),),
    )


class _Page:
    """Page of one module."""

    def __init__(self, module: FittedModule, path: str) -> None:
        self.module = module
        self.path = path or "PATH"

    # ---- text ----------------------------------------------------------------------------------

    def section(self) -> Section:
        """Return the section for people."""
        found = self.module
        return Section(
            title=found.name,
            facts=tuple(self._facts()),
            tables=tuple(self._tables()),
            notes=tuple(self._notes()),
        )

    def _facts(self) -> Iterator[tuple[str, str]]:
        found, base = self.module, self.module.base
        yield "fits", self._fits_text()
        if base.why_not and found.is_compiled:
            yield "as it is", base.why_not
        plan = found.plans[0] if found.plans else None
        if plan is not None and (plan.changes or plan.place != base.place):
            yield "best plan", self._plan_text(plan)
            yield "shown by", self._command_text(plan)
        elif plan is None and found.attempts:
            yield from self._obstacles()
        elif plan is not None:
            yield "next", f"hlo-lens memory {shell_word(self.path)}{self._module_option()}"
        if found.is_compiled:
            versions = ", ".join(f"{name} {version}" for name, version in found.versions)
            made = sum(one.total_bytes is not None for one in found.attempts)
            compiled = f"{plural(made, 'program')} compiled"
            yield "basis", ", ".join(filter(None, (self._reproduced(), compiled, versions)))

    def _fits_text(self) -> str:
        found, base = self.module, self.module.base
        limit = "the limit" if found.limit_bytes is None else format_bytes(found.limit_bytes)
        source = f" ({found.limit_source})" if found.limit_source else ""
        no = "not known" if found.is_undecided else "no"
        if found.is_open:
            places = len({one.place for one in found.attempts})
            tried = (
                f"{plural(places, 'slice')} with its mesh tried"
                if places == 1
                else (f"{places} slices and meshes tried")
            )
            answer = f"on {found.plans[0].place.target}" if found.plans else no
            return f"{answer}: {limit} of a device{source}, {tried}"
        if base.total_bytes is None:
            answer = "with changes" if found.plans else no
            return f"{answer}: what must fit in {limit}{source} is not known without changes"
        size, excess = format_bytes(base.total_bytes), found.excess_bytes or 0
        text = f"{size} must fit in {limit}{source}"
        if excess <= 0 and base.fits:
            return f"yes: {text}, {format_bytes(-excess)} free"
        more = f", {format_bytes(excess)} too much" if excess > 0 else ""
        return f"{'with changes' if found.plans else 'no'}: {text}{more}"

    def _plan_text(self, plan: Attempt) -> str:
        base = self.module.base
        where = [text for text in (plan.place.target, plan.place.mesh) if text]
        words = [" ".join((*where, "with", plan.description)) if where else plan.description]
        if plan.total_bytes is not None:
            free = self._free(plan)
            room = "" if free is None else f" ({format_bytes(free)} free)"
            words.append(f"{format_bytes(plan.total_bytes)}{room}")
        if plan.wire_bytes is not None:
            change = _minus(plan.wire_bytes, base.wire_bytes)
            more = "" if change is None else f" ({format_delta(change)})"
            words.append(f"sent by each device {format_bytes(plan.wire_bytes)}{more}")
        return ": ".join((words[0], ", ".join(words[1:])))

    def _obstacles(self) -> Iterator[tuple[str, str]]:
        """Yield the attempt that needs least, and the parts of its memory."""
        best = self.module.closest[0]
        limit = self.module.limit_bytes
        if best.total_bytes is None:
            return
        over = "" if limit is None else f", {format_bytes(best.total_bytes - limit)} too much"
        where = " ".join(filter(None, (best.place.target, best.place.mesh)))
        text = f"{where + ': ' if where else ''}{best.description}"
        yield "closest", f"{text}: {format_bytes(best.total_bytes)}{over}"
        if best.figures is not None:
            yield "in the way", _parts_text(best.figures)
        if best.dump is not None:
            yield "next", f"hlo-lens memory {shell_word(best.dump)} --by source"

    def _command(self, plan: Attempt) -> str:
        words = [f"--{name} {shell_word(value)}" for name, value in plan.options]
        words = [f"hlo-lens what-if {shell_word(self.path)}{self._module_option()}", *words]
        return " ".join(words)

    def _command_text(self, plan: Attempt) -> str:
        text = self._command(plan)
        if len(text) <= _MOST_COMMAND:
            return text
        return f"what-if with {plural(len(plan.options), 'option')}: command in -f json"

    def _module_option(self) -> str:
        option = self.module.module_option
        return option and f" {option}"

    def _reproduced(self) -> str:
        names = {True: "reproduced, every figure equal", False: "not reproduced exactly"}
        return names.get(self.module.reproduced, "")  # type: ignore[arg-type] # None has none

    def _tables(self) -> Iterator[Table]:
        found = self.module
        plans = [one for one in found.plans if one.changes or one.place != found.base.place]
        others = [one for one in found.attempts if one not in found.plans]
        others.sort(key=lambda one: (one.total_bytes is None, one.total_bytes or 0))
        for name, title, attempts in (
            ("plans", "Plans that fit, cheapest first", plans),
            ("attempts", self._others_title(plans), others),
        ):
            if attempts:
                yield table_of(
                    name,
                    title,
                    _COLUMNS,
                    [self._row(one) for one in attempts],
                    shown=self._shown(attempts),
                    if_filled=("why_not",),
                )

    def _others_title(self, plans: Sequence[Attempt]) -> str:
        if plans:
            return "Also compiled"
        return "Tried, none compiled" if self.module.is_undecided else "Compiled, none fits"

    def _shown(self, attempts: Sequence[Attempt]) -> list[str]:
        places = [one.place for one in attempts]
        lead = ["target"] if any(one.target for one in places) else []
        lead += ["mesh"] if any(one.mesh for one in places) else []
        return [*lead, *_SHOWN]

    def _row(self, one: Attempt) -> Row:
        base, known = self.module.base, one.figures
        axes = {} if known is None else known.wire_by_axis
        sent = (f"{axis} {'?' if n is None else format_bytes(n)}" for axis, n in axes.items())
        return (
            one.place.target or None,
            one.place.mesh or None,
            one.description,
            one.total_bytes,
            _minus(one.total_bytes, base.total_bytes),
            self._free(one),
            None if known is None else known.temp_bytes,
            one.wire_bytes,
            _minus(one.wire_bytes, base.wire_bytes),
            ", ".join(sent) or None,
            {True: "yes", False: "no", None: None}[one.fits],
            one.why_not or None,
        )

    def _free(self, one: Attempt) -> int | None:
        return _minus(self.module.limit_bytes, one.total_bytes)

    def _notes(self) -> Iterator[str]:
        found = self.module
        for one in found.skipped:
            yield f"not tried: {one}"
        if found.optimizer_state and not _fits_now(found):
            count = plural(len(found.optimizer_state), "argument")
            yield (
                f"not tried: element types, which change the numerics: {count} of optimizer state "
                f"have {format_bytes(found.optimizer_bytes)} in f32; "
                f"--allow-dtype '{found.optimizer_pattern}=bf16' tries them"
            )
        yield from self._temporaries_notes()
        if any(one.total_bytes is not None and one.figures is None for one in found.attempts):
            yield "where XLA refused a program, its size is that of XLA's message, rounded up"
        yield from found.notes

    def _temporaries_notes(self) -> Iterator[str]:
        """Yield advice on temporaries where they alone exceed the limit."""
        for one in self.module.closest[:1]:
            known, limit = one.figures, self.module.limit_bytes
            if known is None or limit is None or (known.temp_bytes or 0) <= limit:
                continue
            yield (
                "temporaries alone are more than the limit, so that no change of arguments makes "
                "it fit: save less for the gradients (jax.checkpoint), or take a smaller batch"
            )

    # ---- JSON ----------------------------------------------------------------------------------

    def json_object(self) -> dict[str, object]:
        """Return the JSON object."""
        found = self.module
        return {
            "name": found.name,
            "fits": found.fits,
            "fits_now": found.base.fits,
            "limit_bytes": found.limit_bytes,
            "limit_source": found.limit_source or None,
            "excess_bytes": found.excess_bytes,
            "reproduced": found.reproduced,
            "base": None if found.base.figures is None else found.base.figures.to_dict(),
            "plans": [self._attempt_object(one) for one in found.plans],
            "closest": [self._attempt_object(one) for one in found.closest],
            "attempts": [self._attempt_object(one) for one in found.attempts],
            "not_tried": list(found.skipped),
            "optimizer_state": list(found.optimizer_state),
            "optimizer_bytes": found.optimizer_bytes,
            "versions": dict(found.versions),
            "notes": list(found.notes),
        }

    def _attempt_object(self, one: Attempt) -> dict[str, object]:
        is_compiled = self.module.is_compiled
        return {
            "changes": [
                {
                    "kind": change.kind,
                    "target": change.target,
                    "applies": change.applies,
                    "why_not": change.why_not,
                }
                for change in one.applied
            ],
            "description": one.description,
            "target": one.place.target or None,
            "mesh": one.place.mesh or None,
            "devices": one.place.devices,
            "fits": one.fits,
            "predicted": None if one.figures is None else one.figures.to_dict(),
            "basis": RECOMPILED if is_compiled else FROM_DUMP,
            "total_bytes": one.total_bytes,
            "delta_bytes": _minus(one.total_bytes, self.module.base.total_bytes),
            "free_bytes": self._free(one),
            "wire_delta_bytes": _minus(one.wire_bytes, self.module.base.wire_bytes),
            "wire_by_axis": None if one.figures is None else dict(one.figures.wire_by_axis),
            "why_not": one.why_not or None,
            "command": self._command(one),
            "dump": one.dump,
        }


def _fits_now(found: FittedModule) -> bool:
    return bool(found.base.fits)


def _minus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def _parts_text(known: Figures) -> str:
    """Return the parts of what must fit, largest first, and the line of the peak."""
    parts = (("temporaries", known.temp_bytes), ("arguments", known.argument_bytes))
    own = _minus(known.output_bytes, known.alias_bytes)
    sized = [(name, size) for name, size in (*parts, ("results", own)) if size]
    sized.sort(key=lambda part: -part[1])
    text = ", ".join(f"{name} {format_bytes(size)}" for name, size in sized)
    return text if known.peak_source is None else f"{text}; the peak is at {known.peak_source}"
