"""Attempts to fit one module: at several places, with changes, as long as there is time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.load.devices import Target, parse_target
from hlo_lens.questions.plans.fit_places import places
from hlo_lens.questions.plans.fitting import Attempt, FittedModule, Place, chosen_plans, closest
from hlo_lens.questions.plans.plan_search import search, worth_trying
from hlo_lens.questions.what_if.api import changed_module
from hlo_lens.questions.what_if.arguments import EntryArrays
from hlo_lens.questions.what_if.candidates import Candidates, candidates
from hlo_lens.questions.what_if.process.process import side_by_side
from hlo_lens.questions.what_if.program_changes import edited
from hlo_lens.questions.what_if.recompiled import Change
from hlo_lens.questions.what_if.recompiling import Base, Compiler, Means, compiled_base
from hlo_lens.text.errors import UsageError
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.what_if.candidates import Candidate
    from hlo_lens.questions.what_if.recompiled import Recompiled

_DONATED_PLACES = 2
"""Places of one slice, those that need least, at which donations are tried too."""

_NAMES_SHOWN = 4


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


class Fitting:
    """Attempts to fit one module."""

    def __init__(
        self,
        dump: ModuleDump,
        wanted: Wanted,
        targets: Sequence[Target],
        pool: Compiler,
        means: Means,
    ) -> None:
        self.wanted = wanted
        self.pool = pool
        self.means = means
        self.base: Base = compiled_base(dump, [one.name for one in targets], pool)
        self.places = places(self.base, targets)
        self.attempts: list[Attempt] = []
        self.skipped: list[str] = list(self.places.skipped)
        self.late: list[str] = []
        self.versions: dict[str, str] = {}
        self.state: Candidates | None = None

    def fitted(self) -> FittedModule:
        """Return the plans."""
        if self.base.program is None or self.base.program.obstacle or self._is_unknown:
            first = Attempt(place=Place(), why_not=self.base.refusal)
        else:
            first = self._searched()
        plans = chosen_plans(self.attempts)
        place = (
            first.place if not self.places.is_open else (plans or self.attempts or [first])[0].place
        )
        target = self._target(place)
        limit, source = self._limit(place)
        state = self.state or Candidates(candidates=())
        return FittedModule(
            name=self.base.dump.title,
            module_option=self.base.dump.module_option,
            limit_bytes=limit,
            limit_source=source if target is not None or self.wanted.limit_bytes else "",
            base=first,
            is_open=self.places.is_open,
            is_compiled=True,
            reproduced=self.base.reproduction.is_equal,
            plans=plans,
            attempts=tuple(self.attempts),
            skipped=(*self.skipped, *self._late_text()),
            optimizer_state=() if self.wanted.dtypes else state.optimizer_state,
            optimizer_bytes=state.optimizer_bytes,
            optimizer_pattern=state.optimizer_pattern,
            versions=tuple(self.versions.items()),
            notes=self.base.notes,
        )

    def _late_text(self) -> tuple[str, ...]:
        if not self.late:
            return ()
        names = listed(list(dict.fromkeys(self.late)), _NAMES_SHOWN)
        return (f"{names}: no time left (--minutes {self.means.minutes:g})",)

    def _searched(self) -> Attempt:
        """Make the attempts; return the first, which is the program without changes."""
        for group in self.places.groups:
            if self._is_too_small(group[0]):
                continue
            made = self._compiled([(place, ()) for place in group])
            self.attempts += made
            if any(one.fits for one in made):
                break
            if self.places.is_open:
                self._donate_at(closest(made, _DONATED_PLACES))
        if not self.attempts:
            return Attempt(place=Place(), why_not="no time")
        first = self._as_it_is() if self.places.is_open else self.attempts[0]
        if not chosen_plans(self.attempts):
            self._search_at(closest([one for one in self.attempts if not one.changes], 1)[0])
        if not chosen_plans(self.attempts):
            made = self._compiled([(place, ()) for place in self.places.others])
            self.attempts += made
            if not chosen_plans(made):
                self._donate_at(closest(made, 1))
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

    def _as_it_is(self) -> Attempt:
        """Return the program on the target of its dump, which others are compared with."""
        known = self.base.figures or self.base.own
        return Attempt(place=Place(), figures=known, total_bytes=known.total_bytes)

    @property
    def _is_unknown(self) -> bool:
        """Whether neither the dump nor the user names a target."""
        return self.base.target is None and not self.wanted.targets

    def _donate_at(self, bases: Sequence[Attempt]) -> None:
        """Try all donations together: they cost no communication."""
        tried = []
        for one in bases:
            found = self._candidates(one.place).candidates
            donated = tuple(change for change in found if change.kind == "donate")
            if donated:
                tried.append((one.place, donated))
        self.attempts += self._compiled(tried)

    def _search_at(self, base: Attempt) -> None:
        """Try changes of arguments and results at one place."""
        limit, _ = self._limit(base.place)
        if limit is None:
            return
        self.state = self._candidates(base.place)
        chosen, small = worth_trying(base, self.state.candidates, limit)
        if small:
            count = plural(len(small), "change")
            self.skipped.append(f"{count} of arrays of less than 1 % of the missing bytes")

        def compile_(combinations: Sequence[Sequence[Candidate]]) -> list[Attempt | None]:
            return self._attempts([(base.place, tuple(one)) for one in combinations])

        made, left = search(base, chosen, limit, compile_)
        self.attempts += made
        if left:
            names = listed([one.change for one in left], _NAMES_SHOWN)
            self.skipped.append(f"{names}: enough plans fit")

    def _candidates(self, place: Place) -> Candidates:
        program = self.base.program
        assert program is not None  # checked by `fitted`
        changes = [Change(kind="mesh", target=place.mesh)] if place.mesh else []
        module, _ = edited(program.module, changes, self.base.dump.lowered_meshes)
        return candidates(EntryArrays.of(module).table, dtypes=self.wanted.dtypes)

    # ---- compiles ------------------------------------------------------------------------------

    def _compiled(self, wanted: Sequence[tuple[Place, tuple[Candidate, ...]]]) -> list[Attempt]:
        return [one for one in self._attempts(wanted) if one is not None]

    def _attempts(
        self, wanted: Sequence[tuple[Place, tuple[Candidate, ...]]]
    ) -> list[Attempt | None]:
        """Return attempts in the order asked for; None for those that there is no time for."""
        self.pool.expect(len(wanted))
        with ThreadPoolExecutor(side_by_side()) as workers:
            found = list(workers.map(lambda one: self._attempt(*one), wanted))
        late = [one for one, made in zip(wanted, found, strict=True) if made is None]
        for place, changes in late:
            words = (*(value for _, value in place.options), *(one.change for one in changes))
            self.late.append(" ".join(words))
        return found

    def _is_late(self) -> bool:
        return self.means.until is not None and time.monotonic() > self.means.until

    def _attempt(self, place: Place, changes: tuple[Candidate, ...]) -> Attempt | None:
        if self._is_late():
            return None
        asked = [Change(kind=kind, target=value) for kind, value in place.options]
        asked += [Change(kind=c.kind, target=text) for c in changes for text in c.requests]
        try:
            row = changed_module(self.base, tuple(asked), self.pool)
        except UsageError as error:
            return Attempt(place=place, changes=changes, why_not=str(error))
        self.versions = self.versions or dict(row.versions)
        return self._of_row(place, changes, row)

    def _of_row(self, place: Place, changes: tuple[Candidate, ...], row: Recompiled) -> Attempt:
        """Return the attempt that a compile was."""
        known = row.predicted if row.changes else self.base.figures
        total = row.needed_bytes if known is None else known.total_bytes
        limit, _ = self._limit(place)
        fits = None if total is None or limit is None else total <= limit
        is_made = not changes or any(one.applies for one in row.changes)
        return Attempt(
            place=place,
            changes=changes,
            figures=known if is_made else None,
            total_bytes=total if is_made else None,
            fits=(False if row.shortage else fits) if is_made else None,
            why_not="" if known is not None and is_made else _why_not(row),
            applied=row.changes,
            dump=row.dump,
        )

    def _target(self, place: Place) -> Target | None:
        return parse_target(place.target) if place.target else self.base.target

    def _limit(self, place: Place) -> tuple[int | None, str]:
        """Return the limit at a place, and its source."""
        if self.wanted.limit_bytes is not None:
            return self.wanted.limit_bytes, "--limit"
        target = self._target(place)
        return (None, "") if target is None else (target.memory_bytes, target.memory_source)


def _why_not(row: Recompiled) -> str:
    """Return why a program with changes has no figures."""
    if row.shortage:
        return f"XLA refuses it: {', '.join(f'{name} {size}' for name, size in row.shortage[:2])}"
    refused = [f"{one.target}: {one.why_not}" for one in row.changes if not one.applies]
    return row.refusal or "; ".join(refused)
