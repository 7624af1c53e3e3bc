"""Search for changes and hardware with which a program fits in a memory limit, by compiling it.

Hardware comes first, the smallest slice on which the program fits; then the fixes of findings and
single changes of arguments and results, then combinations of those that saved most, then other
meshes.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.devices import Target, all_slices, device_count, parse_target
from hlo_lens.program.pages import meant_modules
from hlo_lens.program.summary import own_target
from hlo_lens.questions.findings.findings import changes_text, module_findings
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.plans.page import fit_report
from hlo_lens.questions.plans.plans import (
    Attempt,
    Candidate,
    Candidates,
    FittedModule,
    Place,
    candidates,
    chosen_plans,
    closest,
    keep_verdict,
)
from hlo_lens.questions.what_if.arguments import EntryArrays
from hlo_lens.questions.what_if.compiling import compile_threads
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.recompiling import (
    EDITS,
    Compiler,
    Means,
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
from hlo_lens.text.units import format_bytes, listed, parse_size, plural

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Program, Progress
    from hlo_lens.questions.what_if.recompiling import Base, Recompiled
    from hlo_lens.render.table import Report

# ---- combinations of changes -------------------------------------------------------------------

_ENOUGH_PLANS = 3
_MOST_SAVERS = 8
_MOST_COMBINATIONS = 6
_SMALL_SHARE = 0.01
_AT_ONCE = 4
"""Changes compiled alone before it is checked whether there are enough plans."""


Compile = Callable[[Sequence[Sequence[Candidate]]], list[Attempt | None]]
"""Compiles combinations of changes side by side; None for those that there is no time for."""


def search(
    base: Attempt, candidates: Sequence[Candidate], limit_bytes: int, compile_: Compile
) -> tuple[list[Attempt], list[Candidate]]:
    """Return the attempts made to fit a program in a limit, and changes that were not needed.

    Args:
        base: The program without changes.
        candidates: Changes to try.
        limit_bytes: Bytes that it must fit in.
        compile_: Compiles combinations.
    """
    state = _Search(base, limit_bytes, compile_)
    rest = state.run(candidates)
    return state.attempts, rest


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


class _Search:
    """State of one search: the attempts, and what each change saved alone."""

    def __init__(self, base: Attempt, limit_bytes: int, compile_: Compile) -> None:
        self.base = base
        self.limit_bytes = limit_bytes
        self.compile = compile_
        self.attempts: list[Attempt] = []
        self.saved: dict[Candidate, int] = {}

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
        if (wanted := self._missing_plans()) > 0:
            self._try(self._likely(savers)[: min(_MOST_COMBINATIONS, 2 * wanted)])
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
            if len(rest) > 1 and self._may_fit(rest):
                made = self._try([rest])
                kept = rest if made and made[0].fits else kept

    def _may_fit(self, combination: Sequence[Candidate]) -> bool:
        """Return whether a combination fits if the savings of its changes add up."""
        if self.base.total_bytes is None:
            return True
        saved = sum(self.saved.get(one, 0) for one in combination)
        return self.base.total_bytes - saved <= self.limit_bytes

    def _likely(self, savers: Sequence[Candidate]) -> list[tuple[Candidate, ...]]:
        """Return pairs and triples that may fit and have no part that fits.

        Those of fewest changes are first, of these those that save most.
        """
        fitting = [set(one.changes) for one in self.attempts if one.fits]
        likely = [
            one
            for count in (2, 3)
            for one in itertools.combinations(savers[:_MOST_SAVERS], count)
            if not any(a.conflicts_with(b) for a, b in itertools.combinations(one, 2))
            and self._may_fit(one)
            and not any(part <= set(one) for part in fitting)
        ]
        return sorted(likely, key=lambda one: (len(one), -sum(self.saved[part] for part in one)))


# ---- hardware and meshes -----------------------------------------------------------------------

_MOST_MESHES = 6
"""Meshes of one slice, those nearest to the program's."""

_NAMES_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Places to compile a program for.

    Attributes:
        groups: Places of one slice each, in the order of trying.
        skipped: Places that are left out, and why.
        is_open: Whether larger slices follow that may fit without other changes.
        others: Other meshes of the same devices, for a program that nothing else makes fit.
    """

    groups: tuple[tuple[Place, ...], ...] = ()
    skipped: tuple[str, ...] = ()
    is_open: bool = False
    others: tuple[Place, ...] = ()


def expanded_targets(names: Sequence[str]) -> list[Target]:
    """Return the targets of some names; ``v5e:*`` stands for all slices, smallest first.

    Raises:
        UnknownNameError: If there is no such device.
        UsageError: If a topology is malformed.
    """
    groups = (all_slices(name) if name.endswith(":*") else [parse_target(name)] for name in names)
    return list(itertools.chain(*groups))


def places(base: Base, targets: Sequence[Target]) -> Places:
    """Return the places to compile a program for.

    Args:
        base: The program.
        targets: Targets; none for that of the dump.
    """
    if base.program is None:
        return Places()
    finder = _PlaceFinder(base)
    own = finder.devices
    if not targets:
        meshes = [] if finder.mesh is None or own == 1 else finder.meshes(finder.mesh, own)[0]
        others = tuple(Place(mesh=one, devices=own) for one in meshes)
        return Places(groups=((Place(devices=own),),), others=others)
    groups: list[tuple[Place, ...]] = []
    skipped: dict[str, list[str]] = {}
    for target in targets:
        group, reason = finder.of_target(target, is_only=len(targets) == 1)
        if reason:
            skipped.setdefault(reason, []).append(target.name)
        if group:
            groups.append(group)
    return Places(
        groups=tuple(groups) or ((Place(target=targets[-1].name, devices=own),),),
        skipped=tuple(f"{listed(names, _NAMES_SHOWN)}: {why}" for why, names in skipped.items()),
        is_open=len(targets) > 1,
    )


class _PlaceFinder:
    """Places of a program on targets.

    Attributes:
        devices: Devices that the program is for.
        mesh: Its mesh; None if it has none, several, or replicas.
    """

    def __init__(self, base: Base) -> None:
        assert base.program is not None  # checked by `places`
        self._module = base.program.module
        self._known = base.dump.lowered_meshes
        self.devices = self._module.num_partitions * self._module.replica_count
        self.mesh: Mesh | None = None
        if self._module.replica_count == 1:
            try:
                self.mesh = program_mesh(self._module, self._known)
            except UsageError:
                self.mesh = None
        arguments = EntryArrays.of(self._module).arguments
        self._argument_bytes = sum(one.global_bytes or 0 for one in arguments)
        self._with_enough: set[str] = set()

    def of_target(self, target: Target, *, is_only: bool) -> tuple[tuple[Place, ...], str]:
        """Return the places of a target, and what is left out of it and why."""
        count = device_count(target) or self.devices
        as_is = Place(target=target.name, devices=self.devices)
        if self.mesh is None:
            if count < self.devices:
                text = f"the program is for {self.devices} devices, and has no mesh to change"
                return (), text
            kind = target.name.partition(":")[0]
            is_first = kind not in self._with_enough
            self._with_enough.add(kind)
            return ((as_is,) if is_first or is_only else ()), ""
        limit = target.memory_bytes
        if limit is not None and self._argument_bytes > limit * count:
            part = format_bytes(self._argument_bytes // count)
            return (), f"the arguments alone are {part} of each device"
        is_own = count == self.devices or (is_only and count > self.devices)
        made, reason = self.meshes(self.mesh, count)
        group = [as_is] if is_own else []
        group += [Place(target=target.name, mesh=one, devices=count) for one in made]
        return tuple(group), "" if group else reason

    def meshes(self, mesh: Mesh, count: int) -> tuple[list[str], str]:
        """Return splits of devices, those nearest to the program's first; or why there is none."""
        shift = math.log2(count / mesh.size) / len(mesh.axis_names)
        wanted = [math.log2(size) + shift for size in mesh.axis_sizes]

        def distance(text: str) -> float:
            sizes = map(math.log2, Mesh.from_sizes_text(text).axis_sizes)
            return sum(abs(one - size) for one, size in zip(wanted, sizes, strict=True))

        splits: list[str] = []
        reason = ""
        for one in sorted(mesh_splits(self._module, self._known, devices=count), key=distance):
            if one == mesh_text(mesh.axis_names, mesh.axis_sizes):
                continue
            change = Change(kind="mesh", target=one)
            _, (change,) = edited(self._module, [change], self._known)
            if change.applies:
                splits.append(one)
            reason = reason or change.why_not or ""
            if len(splits) == _MOST_MESHES:
                break
        return splits, reason


# ---- one module --------------------------------------------------------------------------------

_DONATED_PLACES = 2
"""Places of one slice, those that need least, at which donations are tried too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a program must fit in, and what may be changed.

    Attributes:
        limit_bytes: Memory of one device; None for that of the target.
        targets: Targets; none for that of the dump; ``v5e:*`` for all slices of a kind.
        dtypes: Element types that are allowed: ``opt/**=bf16``.
    """

    limit_bytes: int | None = None
    targets: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    def limit(self, target: Target | None) -> tuple[int | None, str]:
        """Return the limit on a target, and its source."""
        if self.limit_bytes is not None:
            return self.limit_bytes, "--limit"
        return (None, "") if target is None else (target.memory_bytes, target.memory_source)


class Fitting:
    """Attempts to fit one module."""

    def __init__(
        self, dump: ModuleDump, wanted: Wanted, targets: Sequence[Target], pool: Compiler
    ) -> None:
        self.wanted = wanted
        self.pool = pool
        self.base = compiled_base(base_of(dump, [one.name for one in targets]), pool)
        self.places = places(self.base, targets)
        self.attempts: list[Attempt] = []
        self.skipped: list[str] = list(self.places.skipped)
        self.late: list[str] = []
        self.versions: dict[str, str] = {}
        self.state = Candidates(candidates=())
        self.findings = module_findings(dump).counted if dump.has_hlo else ()

    def fitted(self) -> FittedModule:
        """Return the plans."""
        base, is_open = self.base, self.places.is_open
        is_unknown = base.target is None and not self.wanted.targets
        if base.program is None or base.program.obstacle or is_unknown:
            first = Attempt(place=Place(), why_not=base.refusal)
        else:
            first = self._searched()
        plans = chosen_plans(self.attempts)
        shown = (plans or self.attempts or [first])[0] if is_open else first
        limit, source = self._limit(shown.place)
        if self.late:
            names = listed(list(dict.fromkeys(self.late)), _NAMES_SHOWN)
            self.skipped.append(f"{names}: no time left (--minutes {self.pool.means.minutes:g})")
        return FittedModule(
            name=base.dump.title,
            module_option=base.dump.module_option,
            limit_bytes=limit,
            limit_source=source,
            base=first,
            is_open=is_open,
            is_compiled=True,
            reproduced=base.reproduction.is_equal,
            plans=plans,
            attempts=tuple(self.attempts),
            skipped=tuple(self.skipped),
            optimizer_state=() if self.wanted.dtypes else self.state.optimizer_state,
            optimizer_bytes=self.state.optimizer_bytes,
            optimizer_pattern=self.state.optimizer_pattern,
            by_hand=tuple(
                one for one in self.findings if not one.changes and (one.saves.bytes or 0) > 0
            ),
            versions=self.versions,
            notes=base.notes,
        )

    def _searched(self) -> Attempt:
        """Make the attempts; return the first, which is the program without changes."""
        for group in self.places.groups:
            if self._is_too_small(group[0]):
                continue
            made = self._compiled([(place, ()) for place in group])
            if any(one.fits for one in made):
                break
            if self.places.is_open:
                self._donate_at(closest(made, _DONATED_PLACES))
        if not self.attempts:
            return Attempt(place=Place(), why_not="no time")
        first = self.attempts[0]
        if self.places.is_open:  # others are compared with the program on the dump's own target
            own = self.base.figures or self.base.own
            first = Attempt(place=Place(), figures=own, total_bytes=own.total_bytes)
        if not chosen_plans(self.attempts):
            self._search_at(closest([one for one in self.attempts if not one.changes], 1)[0])
        if not chosen_plans(self.attempts):
            best = closest(self.attempts, 1)[0].changes
            made = self._compiled([(place, ()) for place in self.places.others])
            if not chosen_plans(made):
                self._donate_at(closest(made, 1), best)
        return first

    def _is_too_small(self, place: Place) -> bool:
        """Whether a program that is divided by all further devices would not fit at a place."""
        limit, _ = self._limit(place)
        for one in closest(self.attempts, 1):
            devices, total = one.place.devices, one.total_bytes
            if limit is None or not devices or not place.devices or total is None:
                return False
            least = total * devices // place.devices
            if place.devices > devices and least > limit:
                self.skipped.append(
                    f"{place.target}: {format_bytes(total)} on {plural(devices, 'device')}, if "
                    f"divided by all, would be {format_bytes(least)} there"
                )
                return True
        return False

    def _donate_at(self, bases: Sequence[Attempt], others: Sequence[Candidate] = ()) -> None:
        """Try all donations together, which cost no communication, with some other changes."""
        tried = []
        for one in bases:
            donated = [c for c in self._candidates(one.place).candidates if c.kind == "donate"]
            if changes := tuple(dict.fromkeys((*donated, *others))):
                tried.append((one.place, changes))
        self._compiled(tried)

    def _search_at(self, base: Attempt) -> None:
        """Try changes of arguments and results at one place."""
        limit, _ = self._limit(base.place)
        if limit is None:
            return
        fixes, self.state = self._fixes(), self._candidates(base.place)
        known = {one.requests for one in fixes}
        others = [one for one in self.state.candidates if one.requests not in known]
        chosen, small = worth_trying(base, others, limit)
        chosen = [*fixes, *chosen]
        if small:
            count = plural(len(small), "change")
            self.skipped.append(f"{count} of arrays of less than 1 % of the missing bytes")

        def compile_(combinations: Sequence[Sequence[Candidate]]) -> list[Attempt | None]:
            return self._attempts([(base.place, tuple(one)) for one in combinations])

        made, rest = search(base, chosen, limit, compile_)
        self.attempts += made
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

    def _candidates(self, place: Place) -> Candidates:
        assert self.base.program is not None  # checked by `fitted`
        changes = [Change(kind="mesh", target=place.mesh)] if place.mesh else []
        module, _ = edited(self.base.program.module, changes, self.base.dump.lowered_meshes)
        return candidates(EntryArrays.of(module).table, dtypes=self.wanted.dtypes)

    # ---- compiles ------------------------------------------------------------------------------

    def _compiled(self, wanted: Sequence[tuple[Place, tuple[Candidate, ...]]]) -> list[Attempt]:
        """Make attempts; return those that there was time for."""
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
        self.versions = self.versions or dict(row.versions)
        if changes and not any(one.applies for one in row.changes):
            return replace(attempt, why_not=_why_not(row), applied=row.changes, dump=row.dump)
        made = row.predicted if row.changes else self.base.figures
        total = row.needed_bytes if made is None else made.total_bytes
        limit, _ = self._limit(place)
        fits = None if total is None or limit is None else total <= limit
        return replace(
            attempt,
            figures=made,
            total_bytes=total,
            fits=False if row.shortage else fits,
            why_not="" if made is not None else _why_not(row),
            applied=row.changes,
            dump=row.dump,
        )

    def _limit(self, place: Place) -> tuple[int | None, str]:
        """Return the limit at a place, and its source."""
        return self.wanted.limit(parse_target(place.target) if place.target else self.base.target)


def _why_not(row: Recompiled) -> str:
    """Return why a program with changes has no figures."""
    if row.shortage:
        return f"XLA refuses it: {', '.join(f'{name} {size}' for name, size in row.shortage[:2])}"
    refused = [f"{one.target}: {one.why_not}" for one in row.changes if not one.applies]
    return row.refusal or "; ".join(refused)


# ---- all modules -------------------------------------------------------------------------------

_MOST_MODULES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Plans for the modules of a dump.

    Attributes:
        path: The dump.
        modules: One for each module.
    """

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
    target: str | Sequence[str] = (),
    allow_dtype: str | Sequence[str] = (),
    module: str | None = None,
    minutes: float = 30.0,
    python: str = sys.executable,
) -> Fit:
    """Find changes with which a program fits in a device's memory, by compiling it with each.

    Args:
        program: A dump with texts from before optimizations, or a program of `from_lowered`.
        limit: Memory of one device: ``"16GiB"``, or bytes; None for that of the target.
        target: Device and topology, ``"v5e:4x4"``; ``"v5e:*"`` for the smallest slices; a sequence
            for alternatives; none for the dump's own.
        allow_dtype: Element types of stored arguments that are allowed: ``"opt/**=bf16"``.
        module: Regular expression to find in the names of the modules wanted; None for all.
        minutes: Longest time of all compiles together.
        python: Interpreter whose jax compiles.

    Raises:
        MissingPackageError: If that interpreter has no jax.
        UnknownNameError: If there is no such module or target.
        UsageError: If no limit is known.
    """
    wanted = Wanted(
        limit_bytes=None if limit is None else parse_size(limit),
        targets=(target,) if isinstance(target, str) else tuple(target),
        dtypes=(allow_dtype,) if isinstance(allow_dtype, str) else tuple(allow_dtype),
    )
    modules = meant_modules(program, module)
    path = str(program) if isinstance(program, str | Path) else modules[0].path
    return fit_modules(modules, wanted, means=Means(python=python, minutes=minutes), path=path)


def fit_modules(
    modules: Sequence[ModuleDump],
    wanted: Wanted,
    *,
    means: Means,
    path: str = "",
    progress: Progress | None = None,
) -> Fit:
    """Return plans for some modules.

    Args:
        modules: The modules; those without a program are left out if others have one.
        wanted: Limit, targets and allowed changes.
        means: Interpreter, and the time for all compiles together.
        path: The dump, for messages.
        progress: Called with compiles done and compiles in all.

    Raises:
        UsageError: If no limit is known, or too many modules do not fit.
    """
    modules = [one for one in modules if one.has_program] or modules
    if wanted.limit_bytes is not None:
        modules = [one.stating(limit_bytes=wanted.limit_bytes) for one in modules]
    targets = expanded_targets(wanted.targets)
    known = [None if targets else _known_to_fit(one, wanted) for one in modules]
    missing = sum(one is None for one in known)
    if missing > _MOST_MODULES:
        raise UsageError(f"there are {missing} modules to compile; choose some with --module")
    pool = Compiler(means.within(), progress)
    fitted = []
    for one, dump in zip(known, modules, strict=True):
        made = one or Fitting(dump, wanted, targets, pool).fitted()
        if not (wanted.targets or wanted.dtypes) and (made.fits or not pool.means.is_late):
            keep_verdict(dump, made)
        fitted.append(made)
    return Fit(path=path, modules=tuple(fitted))


def _known_to_fit(dump: ModuleDump, wanted: Wanted) -> FittedModule | None:
    """Return the answer for a module that fits by the figures of its dump; else None."""
    if wanted.limit_bytes == 0:
        raise UsageError("the limit is 0: give a size, such as 16GiB")
    limit, source = wanted.limit(own_target(dump))
    if limit is None:
        raise UsageError("the dump names no device whose memory is known: give --limit 16GiB")
    own = figures(dump) if memory_results(dump) is not None else None
    if own is None or not own.is_exact or own.total_bytes is None or own.total_bytes > limit:
        return None
    base = Attempt(place=Place(), figures=own, total_bytes=own.total_bytes, fits=True)
    return FittedModule(
        name=dump.title,
        module_option=dump.module_option,
        limit_bytes=limit,
        limit_source=source,
        base=base,
        is_compiled=False,
        plans=(base,),
    )
