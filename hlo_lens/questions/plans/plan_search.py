"""Search of the changes with which a program fits: each alone, then combined.

The order of combination is that of the measured savings. Sums of savings choose which combinations
are worth a compile; whether one fits is only taken from its compile.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

from hlo_lens.questions.plans.fitting import chosen_plans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.plans.fitting import Attempt
    from hlo_lens.questions.what_if.candidates import Candidate

_ENOUGH_PLANS = 3
_MOST_SAVERS = 8
_MOST_COMBINATIONS = 6
_SMALL_SHARE = 0.01
_AT_ONCE = 4
"""Changes compiled alone before it is checked whether there are enough plans."""


class Compile(Protocol):
    """Compiles combinations of changes side by side; None for those that there is no time for."""

    def __call__(self, combinations: Sequence[Sequence[Candidate]]) -> list[Attempt | None]:
        """Return the attempts, in the order of the combinations."""


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
    found = _Search(base, limit_bytes, compile_)
    left = found.run(candidates)
    return found.attempts, left


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
    """State of one search."""

    def __init__(self, base: Attempt, limit_bytes: int, compile_: Compile) -> None:
        self.base = base
        self.limit_bytes = limit_bytes
        self.compile = compile_
        self.attempts: list[Attempt] = []
        self.saved: dict[Candidate, int] = {}

    def run(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Make the attempts; return the candidates that were not needed."""
        left = list(candidates)
        while left and self._plans() < _ENOUGH_PLANS:
            now, left = left[:_AT_ONCE], left[_AT_ONCE:]
            for one in self._try([(candidate,) for candidate in now]):
                self.saved[one.changes[0]] = self._saved(one)
        savers = [one for one in self.saved if self.saved[one] > 0]
        savers.sort(key=lambda one: -self.saved[one])
        if not self._plans():
            self._combine_greedily(savers)
        wanted = _ENOUGH_PLANS - self._plans()
        if wanted > 0:
            self._try(self._estimated(savers)[: min(_MOST_COMBINATIONS, 2 * wanted)])
        return left

    def _plans(self) -> int:
        return len(chosen_plans(self.attempts))

    def _try(self, combinations: Sequence[Sequence[Candidate]]) -> list[Attempt]:
        done = {frozenset(one.changes) for one in self.attempts}
        new = [one for one in combinations if frozenset(one) not in done]
        made = [one for one in self.compile(new) if one is not None] if new else []
        self.attempts += made
        return made

    def _saved(self, one: Attempt) -> int:
        """Return the bytes that an attempt saves; for unknown totals those of its arrays."""
        if one.total_bytes is None or self.base.total_bytes is None:
            is_known = one.total_bytes is not None
            return sum(change.saves_bytes for change in one.changes) if is_known else 0
        return self.base.total_bytes - one.total_bytes

    def _combine_greedily(self, savers: Sequence[Candidate]) -> None:
        """Add the changes one by one, keeping those that save, until the program fits."""
        if not savers:
            return
        kept: tuple[Candidate, ...] = (savers[0],)
        best = self.saved[savers[0]]
        for one in savers[1:]:
            if any(one.conflicts_with(other) for other in kept):
                continue
            made = self._try([(*kept, one)])
            if not made:
                continue
            saved = self._saved(made[0])
            if saved > best:
                kept, best = (*kept, one), saved
            if made[0].fits:
                self._reduce(kept)
                return

    def _reduce(self, kept: tuple[Candidate, ...]) -> None:
        """Leave out changes that the others may not need; the last was needed to fit."""
        for one in kept[-2::-1]:
            rest = tuple(other for other in kept if other != one)
            if len(rest) < 2 or not self._may_fit(rest):
                continue
            made = self._try([rest])
            if made and made[0].fits:
                kept = rest

    def _may_fit(self, combination: Sequence[Candidate]) -> bool:
        if self.base.total_bytes is None:
            return True
        saved = sum(self.saved.get(one, 0) for one in combination)
        return self.base.total_bytes - saved <= self.limit_bytes

    def _estimated(self, savers: Sequence[Candidate]) -> list[tuple[Candidate, ...]]:
        """Return the combinations that fit by the sum of their savings, and have no part that fits.

        Those of fewest changes are first, of these those that save most.
        """
        fitting = [set(one.changes) for one in self.attempts if one.fits]
        found = [
            one
            for one in _combinations(savers[:_MOST_SAVERS])
            if self._may_fit(one) and not any(part <= set(one) for part in fitting)
        ]
        found.sort(key=lambda one: (len(one), -sum(self.saved[part] for part in one)))
        return found


def _combinations(savers: Sequence[Candidate]) -> Iterator[tuple[Candidate, ...]]:
    """Yield pairs and triples of changes that can be made together."""
    for count in (2, 3):
        for one in itertools.combinations(savers, count):
            if not any(a.conflicts_with(b) for a, b in itertools.combinations(one, 2)):
                yield one
