"""Search for the first bad of ordered steps, and for the smallest bad set of differences.

Steps that cannot be judged are skipped, as by ``git bisect skip``: the answer is then the first
step known to be bad, and the skipped ones before it may be bad too. The smallest set is that of
delta debugging: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from hlo_lens.render.result import Records, Unit

if TYPE_CHECKING:
    from hlo_lens.questions.check.judge import Judgement

GOOD, BAD, SKIPPED = "good", "bad", "skipped"

Item = TypeVar("Item")


def first_bad(count: int, outcome_of: Callable[[int], str]) -> tuple[int, int]:
    """Return the positions of the last good and the first bad step.

    Steps between them are those that were skipped.

    Args:
        count: Number of steps; the first is known to be good, the last to be bad.
        outcome_of: Returns ``good``, ``bad`` or ``skipped`` of a step.
    """
    good, bad = 0, count - 1
    skipped: set[int] = set()
    while open_steps := [place for place in range(good + 1, bad) if place not in skipped]:
        middle = (good + bad) // 2
        step = min(open_steps, key=lambda one: abs(one - middle))
        outcome = outcome_of(step)
        if outcome == SKIPPED:
            skipped.add(step)
        elif outcome == GOOD:
            good = step
        else:
            bad = step
    return good, bad


def smallest_bad(
    items: Sequence[Item], is_bad: Callable[[Sequence[Item]], bool]
) -> tuple[Item, ...]:
    """Return a bad set of items of which none can be left out.

    Args:
        items: All items, which together are bad; none of them is not.
        is_bad: Whether a set of items is known to be bad.
    """
    smallest, parts = list(items), 2
    while len(smallest) > 1:
        size = -(-len(smallest) // parts)
        chunks = [smallest[start : start + size] for start in range(0, len(smallest), size)]
        rests = [[one for one in smallest if one not in chunk] for chunk in chunks]
        if (chunk := next((one for one in chunks if is_bad(one)), None)) is not None:
            smallest, parts = chunk, 2
        elif parts > 2 and (rest := next((one for one in rests if is_bad(one)), None)):
            smallest, parts = rest, max(parts - 1, 2)
        elif parts >= len(smallest):
            break
        else:
            parts = min(len(smallest), 2 * parts)
    return tuple(smallest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a search.

    Attributes:
        judgement: Verdicts of the rules; None for a step that is skipped before them.
        versions: Versions of the packages that compiled.
        dump: Folder of its dump; None where there is none.
    """

    name: Annotated[str, "version, or flags with their values"]
    outcome: Annotated[str, "good, bad or skipped"]
    seconds: Annotated[float, Unit.SECONDS, "time of the compile, now or when it was cached"] = 0.0
    reason: Annotated[str, "rule that failed, or why the step is skipped"] = ""
    judgement: Judgement | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    dump: str | None = None


@dataclass(frozen=True, kw_only=True)
class Bisection(Records[Step]):
    """Steps of a search, in the order of their compiles.

    Attributes:
        subject: ``version`` or ``flags``.
        rules: Rules that make a step bad.
        last_good: The last good step; None if there is none.
        first_bad: The first bad one; None if there is none.
        candidates: Steps between both that were skipped, any of which may be the first bad one.
        flags: Flags of the smallest bad set: name to both values, None for the default.
        unknown: Flags that differ and cannot be set, with the reason.
        problem: Why there is no answer; empty if there is one.
        notes: Limits of the answer.
    """

    KIND: ClassVar[str] = "bisect"
    steps: tuple[Step, ...] = ()
    subject: str
    rules: tuple[str, ...]
    last_good: Step | None = None
    first_bad: Step | None = None
    candidates: tuple[str, ...] = ()
    flags: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    notes: tuple[str, ...] = ()
