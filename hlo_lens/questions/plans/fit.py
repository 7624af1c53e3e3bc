"""Search for changes and hardware with which a program fits in a memory limit, by compiling it.

The fixes of findings and single changes of arguments and results come first, then combinations of
those that saved most, then other meshes.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.devices import parse_target
from hlo_lens.program.pages import meant_modules
from hlo_lens.program.summary import own_target
from hlo_lens.questions.findings.findings import changes_text, module_findings
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.plans.page import fit_report
from hlo_lens.questions.plans.plans import (
    Attempt,
    Candidate,
    FittedModule,
    Place,
    candidates,
    chosen_plans,
    closest,
    keep_verdict,
)
from hlo_lens.questions.what_if.arguments import EntryArrays
from hlo_lens.questions.what_if.compiling import Means, compile_threads
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.recompiling import (
    EDITS,
    Compiler,
    base_of,
    changed_module,
    compiled_base,
    edited,
    figures,
    variant_of,
)
from hlo_lens.questions.what_if.shardings import mesh_splits, mesh_text, program_mesh
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.errors import UsageError
from hlo_lens.text.units import listed, parse_size, plural

if TYPE_CHECKING:
    from hlo_lens.load.devices import Target
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Program, Progress
    from hlo_lens.questions.what_if.recompiling import Base, Recompiled
    from hlo_lens.render.table import Report

_ENOUGH_PLANS = 3
_SMALL_SHARE = 0.01
_AT_ONCE = 4
"""Changes compiled alone before it is checked whether there are enough plans."""


Compile = Callable[[Sequence[Sequence[Candidate]]], list[Attempt | None]]
"""Compiles combinations of changes side by side; None for those that there is no time for."""


def worth_trying(
    base: Attempt, candidates: Sequence[Candidate], limit_bytes: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the candidates to compile, donations first, and those that save next to nothing.

    Small is less than a hundredth of what is missing.
    """
    missing = max(0, (base.total_bytes or 0) - limit_bytes)
    large = [one for one in candidates if one.saves_bytes >= missing * _SMALL_SHARE]
    small = [one for one in candidates if one not in large]
    return sorted(large, key=lambda one: (one.kind != "donate", -one.saves_bytes)), small


@dataclass(slots=True)
class Search:
    """Attempts to fit a program in a limit, and what each change saved alone.

    Attributes:
        base: The program without changes.
    """

    base: Attempt
    limit_bytes: int
    compile: Compile
    attempts: list[Attempt] = field(default_factory=list)
    saved: dict[Candidate, int] = field(default_factory=dict)

    def run(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Make the attempts; return the candidates that were not needed."""
        rest = list(candidates)
        while rest and self._missing_plans() > 0:
            now, rest = rest[:_AT_ONCE], rest[_AT_ONCE:]
            for one in self._try([(candidate,) for candidate in now]):
                self.saved[one.changes[0]] = self._saved(one)
        savers = [one for one in self.saved if self.saved[one] > 0]
        savers.sort(key=lambda one: -self.saved[one])
        if self._missing_plans() == _ENOUGH_PLANS:
            self._combine_greedily(savers)
        return rest

    def _missing_plans(self) -> int:
        return _ENOUGH_PLANS - len(chosen_plans(self.attempts))

    def _try(self, combinations: Sequence[Sequence[Candidate]]) -> list[Attempt]:
        done = {frozenset(one.changes) for one in self.attempts}
        new = [one for one in combinations if frozenset(one) not in done]
        made = [one for one in self.compile(new) if one is not None] if new else []
        self.attempts += made
        return made

    def _saved(self, one: Attempt) -> int:
        """Return the bytes that an attempt saves; where only its own are known, its arrays'."""
        if one.total_bytes is None:
            return 0
        if self.base.total_bytes is None:
            return sum(change.saves_bytes for change in one.changes)
        return self.base.total_bytes - one.total_bytes

    def _combine_greedily(self, savers: Sequence[Candidate]) -> None:
        """Add changes one by one, keeping those that save, until the program fits.

        Then leave out those that the others may not need; the last was needed to fit.
        """
        kept, best = tuple(savers[:1]), self.saved[savers[0]] if savers else 0
        total = self.base.total_bytes
        for one in savers[1:]:
            if any(one.conflicts_with(other) for other in kept):
                continue
            made = self._try([(*kept, one)])
            if made and self._saved(made[0]) > best:
                kept, best = (*kept, one), self._saved(made[0])
            if made and made[0].fits:
                break
        else:
            return
        for one in kept[-2::-1]:
            rest = tuple(other for other in kept if other != one)
            left = 0 if total is None else total - sum(self.saved[other] for other in rest)
            if len(rest) > 1 and left <= self.limit_bytes:
                made = self._try([rest])
                kept = rest if made and made[0].fits else kept


_MOST_MESHES = 6
"""Other meshes of the devices, those nearest to the program's."""

_NAMES_SHOWN = 4


def other_meshes(base: Base) -> list[str]:
    """Return other splits of a program's devices, those nearest to its mesh first."""
    if base.program is None or base.program.module.num_partitions == 1:
        return []
    module, known = base.program.module, base.dump.lowered_meshes
    try:
        mesh = program_mesh(module, known)
    except UsageError:  # none, or several
        return []
    own = mesh_text(mesh.axis_names, mesh.axis_sizes)

    def distance(text: str) -> float:
        sizes = zip(mesh.axis_sizes, Mesh.from_sizes_text(text).axis_sizes, strict=True)
        return sum(abs(math.log2(one) - math.log2(size)) for one, size in sizes)

    def applies(text: str) -> bool:
        return edited(module, [Change(kind="mesh", target=text)], known)[1][0].applies

    splits = sorted(mesh_splits(module, known), key=distance)
    return list(
        itertools.islice((one for one in splits if one != own and applies(one)), _MOST_MESHES)
    )


class Fitting:
    """Attempts to fit one module."""

    def __init__(
        self, dump: ModuleDump, limit: int | None, target: Target | None, pool: Compiler
    ) -> None:
        self.pool = pool
        self.base = compiled_base(base_of(dump, [] if target is None else [target.name]), pool)
        self.place = Place(target="" if target is None else target.name)
        self.limit, self.limit_source = _limit_of(limit, target or self.base.target)
        self.is_unknown = self.base.target is None and target is None
        self.attempts: list[Attempt] = []
        self.skipped: list[str] = []
        self.late: list[str] = []
        self.versions: dict[str, str] = {}
        self.findings = module_findings(dump).counted if dump.has_hlo else ()

    def fitted(self) -> FittedModule:
        """Return the plans."""
        base, first = self.base, Attempt(place=Place(), why_not=self.base.refusal)
        if base.program is not None and not base.program.obstacle and not self.is_unknown:
            first = self._searched()
        if self.late:
            names = listed(self.late, _NAMES_SHOWN)
            self.skipped.append(f"{names}: no time left (--minutes {self.pool.means.minutes:g})")
        by_hand = (o for o in self.findings if not o.changes and (o.saves.bytes or 0) > 0)
        return FittedModule(
            dump=base.dump,
            limit_bytes=self.limit,
            limit_source=self.limit_source,
            base=first,
            is_compiled=True,
            reproduced=base.reproduction.is_equal,
            plans=chosen_plans(self.attempts),
            attempts=tuple(self.attempts),
            skipped=tuple(self.skipped),
            by_hand=tuple(by_hand),
            versions=self.versions,
            notes=base.notes,
        )

    def _searched(self) -> Attempt:
        made = self._compiled([(self.place, ())])
        if not made:
            return Attempt(place=Place(), why_not="no time")
        if not made[0].fits:
            self._search_changes(made[0])
        if not chosen_plans(self.attempts):
            best = closest(self.attempts, 1)[0].changes
            places = [replace(self.place, mesh=one) for one in other_meshes(self.base)]
            others = self._compiled([(place, ()) for place in places])
            if others and not chosen_plans(others):  # all donations cost no communication
                place = closest(others, 1)[0].place
                donated = [c for c in self._candidates(place) if c.kind == "donate"]
                if changes := tuple(dict.fromkeys((*donated, *best))):
                    self._compiled([(place, changes)])
        return made[0]

    def _search_changes(self, base: Attempt) -> None:
        if (limit := self.limit) is None:
            return
        fixes = self._fixes()
        known = {one.requests for one in fixes}
        others = [one for one in self._candidates(base.place) if one.requests not in known]
        chosen, small = worth_trying(base, others, limit)
        if small:
            count = plural(len(small), "change")
            self.skipped.append(f"{count} of arrays of less than 1 % of the missing bytes")

        def compile_(combinations: Sequence[Sequence[Candidate]]) -> list[Attempt | None]:
            return self._attempts([(base.place, tuple(one)) for one in combinations])

        search = Search(base, limit, compile_)
        rest = search.run([*fixes, *chosen])
        self.attempts += search.attempts
        if rest:
            names = listed([one.change for one in rest], _NAMES_SHOWN)
            self.skipped.append(f"{names}: enough plans fit")

    def _fixes(self) -> list[Candidate]:
        """Return the fixes of findings, donations first: they cost no communication.

        Findings know the compiled program, which has donations that the text before lacks.
        """
        fixes = [
            Candidate(
                kind=one.changes[0].kind,
                change=changes_text(one.changes),
                values=tuple(c.target.rpartition("=")[0] or c.target for c in one.changes),
                requests=tuple(change.target for change in one.changes),
                saves_bytes=one.saves.bytes or 0,
            )
            for one in self.findings
            if len({change.kind for change in one.changes} & set(EDITS)) == 1
        ]
        return sorted(dict.fromkeys(fixes), key=lambda one: one.kind != "donate")

    def _candidates(self, place: Place) -> tuple[Candidate, ...]:
        assert self.base.program is not None  # checked by `fitted`
        changes = [Change(kind="mesh", target=place.mesh)] if place.mesh else []
        module, _ = edited(self.base.program.module, changes, self.base.dump.lowered_meshes)
        return candidates(EntryArrays(module).table)

    # ---- compiles ------------------------------------------------------------------------------

    def _compiled(self, wanted: Sequence[tuple[Place, tuple[Candidate, ...]]]) -> list[Attempt]:
        made = [one for one in self._attempts(wanted) if one is not None]
        self.attempts += made
        return made

    def _attempts(
        self, wanted: Sequence[tuple[Place, tuple[Candidate, ...]]]
    ) -> list[Attempt | None]:
        """Return attempts in the order asked for; None for those that there is no time for."""
        self.pool.expect(len(wanted))
        with compile_threads() as workers:
            made = list(workers.map(lambda one: self._attempt(one[0], one[1]), wanted))
        for (place, changes), attempt in zip(wanted, made, strict=True):
            if attempt is None:
                words = (*(value for _, value in place.options), *(one.change for one in changes))
                self.late.append(" ".join(words))
        return made

    def _attempt(self, place: Place, changes: tuple[Candidate, ...]) -> Attempt | None:
        if self.pool.means.is_late:
            return None
        attempt = Attempt(place=place, changes=changes)
        asked = tuple(Change(kind=kind, target=value) for kind, value in attempt.options)
        try:
            row = changed_module(self.base, variant_of(self.base, asked), self.pool)
        except UsageError as error:
            return replace(attempt, why_not=str(error))
        self.versions = self.versions or row.shown.versions_for(row.target)
        attempt = replace(attempt, applied=row.changes, dump=row.dump)
        if changes and not any(one.applies for one in row.changes):
            return replace(attempt, why_not=_why_not(row))
        made = row.predicted if row.changes else self.base.figures
        total = row.shown.needed_bytes if made is None else made.total_bytes
        fits = None if total is None or self.limit is None else total <= self.limit
        return replace(
            attempt,
            figures=made,
            total_bytes=total,
            fits=False if row.shown.shortage else fits,
            why_not="" if made is not None else _why_not(row),
        )


def _limit_of(limit_bytes: int | None, target: Target | None) -> tuple[int | None, str]:
    """Return the limit that is asked for, else that of a target, and its source."""
    if limit_bytes is not None:
        return limit_bytes, "--limit"
    return (None, "") if target is None else (target.memory_bytes, target.memory_source)


def _why_not(row: Recompiled) -> str:
    if shortage := row.shown.shortage[:2]:
        return f"XLA refuses it: {', '.join(f'{name} {size}' for name, size in shortage)}"
    refused = [f"{one.target}: {one.why_not}" for one in row.changes if not one.applies]
    return row.refusal or "; ".join(refused)


_MOST_MODULES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Plans for the modules of the dump `path`."""

    path: str
    modules: tuple[FittedModule, ...]

    @property
    def fits(self) -> bool:
        """Whether each module fits, as it is or with a plan."""
        return all(one.fits for one in self.modules)

    @property
    def is_undecided(self) -> bool:
        """Whether it is not known of a module whether it fits."""
        return any(one.is_undecided for one in self.modules)

    @property
    def report(self) -> Report:
        """The output of ``hlo-lens fit``."""
        return fit_report(self.modules, self.path)

    def __str__(self) -> str:
        return str(self.report)


def fit(
    program: Program,
    *,
    limit: int | str | None = None,
    target: str | None = None,
    module: str | None = None,
    minutes: float = 30.0,
    python: str = sys.executable,
) -> Fit:
    """Find changes with which a program fits in a device's memory, by compiling it with each.

    Args:
        program: A dump with texts from before optimizations, or a program of `from_lowered`.
        limit: Memory of one device: ``"16GiB"``, or bytes; None for that of the target.
        target: Device and topology, ``"v5e:4x4"``; None for the dump's own.
        module: Regular expression to find in the names of the modules wanted; None for all.
        minutes: Longest time of all compiles together.
        python: Interpreter whose jax compiles.

    Raises:
        MissingPackageError: If that interpreter has no jax.
        UnknownNameError: If there is no such module or target.
        UsageError: If no limit is known.
    """
    modules = meant_modules(program, module)
    path = str(program) if isinstance(program, str | Path) else modules[0].path
    return fit_modules(
        modules,
        limit=limit,
        target=target,
        means=Means(python=python, minutes=minutes),
        path=path,
    )


def fit_modules(
    modules: Sequence[ModuleDump],
    *,
    means: Means,
    limit: int | str | None = None,
    target: str | None = None,
    path: str = "",
    progress: Progress | None = None,
) -> Fit:
    """Return plans for some modules; those without a program are left out if others have one.

    `means` has the time for all compiles together.

    Raises:
        UsageError: If no limit is known, or too many modules do not fit.
    """
    modules = [one for one in modules if one.has_program] or modules
    limit_bytes = None if limit is None else parse_size(limit)
    if limit_bytes is not None:
        modules = [one.stating(limit_bytes=limit_bytes) for one in modules]
    wanted = None if target is None else parse_target(target)
    known = [None if wanted else _known_to_fit(one, limit_bytes) for one in modules]
    missing = sum(one is None for one in known)
    if missing > _MOST_MODULES:
        raise UsageError(f"there are {missing} modules to compile; choose some with --module")
    pool = Compiler(means.within(), progress)
    fitted = []
    for one, dump in zip(known, modules, strict=True):
        made = one or Fitting(dump, limit_bytes, wanted, pool).fitted()
        if wanted is None and (made.fits or not pool.means.is_late):
            keep_verdict(dump, made)
        fitted.append(made)
    return Fit(path=path, modules=tuple(fitted))


def _known_to_fit(dump: ModuleDump, limit_bytes: int | None) -> FittedModule | None:
    if limit_bytes == 0:
        raise UsageError("the limit is 0: give a size, such as 16GiB")
    limit, source = _limit_of(limit_bytes, own_target(dump))
    if limit is None:
        raise UsageError("the dump names no device whose memory is known: give --limit 16GiB")
    own = figures(dump) if memory_results(dump) is not None else None
    if own is None or not own.is_exact or own.total_bytes is None or own.total_bytes > limit:
        return None
    base = Attempt(place=Place(), figures=own, total_bytes=own.total_bytes, fits=True)
    return FittedModule(
        dump=dump,
        limit_bytes=limit,
        limit_source=source,
        base=base,
        is_compiled=False,
        plans=(base,),
    )
