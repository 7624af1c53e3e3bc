"""Plans with which a program fits in a memory limit: attempts, and those chosen of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.what_if.candidates import Candidate
    from hlo_lens.questions.what_if.edits import Change
    from hlo_lens.questions.what_if.figures import Figures

MOST_PLANS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Hardware, and the devices of the mesh on it.

    Attributes:
        target: Name of the target; empty for that of the dump.
        mesh: Sizes of the mesh axes; empty for those of the program.
        devices: Devices that the program runs on; None if not known.
    """

    target: str = ""
    mesh: str = ""
    devices: int | None = None

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Options of ``what-if`` and their values."""
        named = (("target", self.target), ("mesh", self.mesh))
        return tuple((name, value) for name, value in named if value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A program compiled with some changes.

    Attributes:
        place: Hardware and mesh.
        changes: Changes of arguments and results.
        figures: Its figures; None if XLA refused it.
        total_bytes: Bytes that must fit: of the figures, else of XLA's message, rounded up; None if
            neither is known.
        fits: Whether they fit; None if not known.
        why_not: Why there are no figures; empty if there are.
        applied: The single changes, with whether they apply.
        dump: Folder of the new dump; None without one.
    """

    place: Place
    changes: tuple[Candidate, ...] = ()
    figures: Figures | None = None
    total_bytes: int | None = None
    fits: bool | None = None
    why_not: str = ""
    applied: tuple[Change, ...] = field(default=(), repr=False)
    dump: str | None = None

    @property
    def wire_bytes(self) -> int | None:
        """Bytes that leave each device in one run; None if not known."""
        return None if self.figures is None else self.figures.wire_bytes_per_device

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Options of ``what-if`` that compile it, and their values."""
        own = ((one.kind, text) for one in self.changes for text in one.requests)
        return (*self.place.options, *own)

    @property
    def description(self) -> str:
        """Its changes in one line; the place is not part of it."""
        return ", ".join(one.change for one in self.changes) or "no changes"


def chosen_plans(attempts: Iterable[Attempt], most: int = MOST_PLANS) -> tuple[Attempt, ...]:
    """Return the plans that fit, the cheapest first: same numerics, fewest devices, least sent.

    Left out is a plan with more changes than another of the same place, unless it sends less, and
    one that another beats: not dearer in anything, and cheaper in something.
    """
    fitting = [one for one in attempts if one.fits]
    kept = [
        one
        for one in fitting
        if not any(_beats(other, one) for other in fitting)
        and not any(
            other.place == one.place
            and set(other.changes) < set(one.changes)
            and _cost(other)[2] <= _cost(one)[2]
            for other in fitting
        )
    ]
    return tuple(sorted(kept, key=_cost)[:most])


def _beats(one: Attempt, other: Attempt) -> bool:
    costs = list(zip(_cost(one), _cost(other), strict=True))
    return all(a <= b for a, b in costs) and any(a < b for a, b in costs)


def _cost(one: Attempt) -> tuple[float, ...]:
    """Return changed numerics, devices, bytes sent (unknown is most), changes, bytes that fit."""
    numerics = sum(change.kind == "dtype" for change in one.changes)
    sent = math.inf if one.figures is not None and one.wire_bytes is None else one.wire_bytes or 0
    return numerics, one.place.devices or 0, sent, len(one.changes), one.total_bytes or 0


def closest(attempts: Iterable[Attempt], most: int = 3) -> tuple[Attempt, ...]:
    """Return the attempts that need the least memory, those of known size first."""
    return tuple(sorted(attempts, key=size_key)[:most])


def size_key(one: Attempt) -> tuple[bool, int]:
    """Return the key that orders attempts by the memory they need, those of unknown size last."""
    return one.total_bytes is None, one.total_bytes or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModule:
    """Plans for one module.

    Attributes:
        name: Name of the module.
        module_option: Option with which commands on the dump read it alone; may be empty.
        limit_bytes: Memory that it must fit in; None if not known.
        limit_source: Source of that number.
        base: The program without changes: as compiled, or as the dump has it.
        is_open: Whether several targets were to be tried; `base` is on none of them.
        is_compiled: Whether `base` was compiled, and not read from the dump.
        reproduced: Whether the program compiled again equals the dump; None if not known.
        plans: Attempts that fit, at most five; the base if that fits.
        attempts: All attempts, in the order of compiling.
        skipped: What was not tried, and why.
        optimizer_state: Arguments in f32 that look like optimizer state; empty where their element
            type may change, and was tried.
        optimizer_bytes: Their bytes on each device.
        optimizer_pattern: Pattern that matches them.
        by_hand: Findings that save memory by changes of the Python code, which nothing compiles.
        versions: Versions of the packages that compiled.
        notes: Limits of the answer.
    """

    name: str
    limit_bytes: int | None
    limit_source: str
    base: Attempt
    is_compiled: bool
    module_option: str = ""
    is_open: bool = False
    reproduced: bool | None = None
    plans: tuple[Attempt, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    skipped: tuple[str, ...] = ()
    optimizer_state: tuple[str, ...] = ()
    optimizer_bytes: int = 0
    optimizer_pattern: str = ""
    by_hand: tuple[Finding, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it fits, with a plan or without."""
        return bool(self.plans)

    @property
    def is_undecided(self) -> bool:
        """Whether nothing is known of what the program needs: no compile, or none with a size."""
        return not self.plans and all(one.total_bytes is None for one in self.attempts)

    @property
    def excess_bytes(self) -> int | None:
        """Bytes that the base is over the limit, negative if it fits; None if not known."""
        if self.is_open or self.base.total_bytes is None or self.limit_bytes is None:
            return None
        return self.base.total_bytes - self.limit_bytes

    @property
    def closest(self) -> tuple[Attempt, ...]:
        """The attempts that need least, if none fits."""
        return () if self.plans else closest(self.attempts)
