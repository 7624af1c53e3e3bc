"""Records of searches: changes that could help, attempts and plans, steps of a bisection.

Donations are grouped by argument of the function, as ``donate_argnums`` names them; shardings by
shape, type and present sharding, so that the moments of an optimizer are divided with their
parameter. Their savings are those of arguments and results alone.

"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeVar

from hlo_lens.questions.findings.findings import keep_answer, kept_answer
from hlo_lens.questions.sharding.savings import (
    DonationStatus,
    donations,
    memory_pairs,
    replicated_bytes,
)
from hlo_lens.questions.what_if.arguments import (
    argument_root,
    covering_patterns,
    is_optimizer_state,
    result_name,
)
from hlo_lens.render.result import Unit
from hlo_lens.shapes.named_sharding import axes_of_entry, spec_of_axes, written_spec
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.sharding.placement import ShardedValue, ShardingTable
    from hlo_lens.questions.sharding.savings import Saving
    from hlo_lens.questions.what_if.edits import Change
    from hlo_lens.questions.what_if.recompiling import Figures

MOST_PLANS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Hardware and sizes of the mesh axes; empty for those of the dump."""

    target: str = ""
    mesh: str = ""

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Options of ``what-if`` and their values."""
        named = (("target", self.target), ("mesh", self.mesh))
        return tuple((name, value) for name, value in named if value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A program compiled with some changes of arguments and results.

    `total_bytes` is that of the figures, else of XLA's message, rounded up.
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

    @property
    def title(self) -> str:
        """Its place, where that is not the program's own, and its changes."""
        mesh = f"mesh {self.place.mesh}" if self.place.mesh else ""
        changes = self.description if self.changes or not self.place.options else ""
        return " with ".join(filter(None, (" ".join((self.place.target, mesh)).strip(), changes)))


def chosen_plans(attempts: Iterable[Attempt], most: int = MOST_PLANS) -> tuple[Attempt, ...]:
    """Return the plans that fit, the cheapest first: least sent.

    Left out is a plan with more changes than another of the same place, unless it sends less, and
    one that another beats: not dearer in anything, and cheaper in something.
    """
    fitting = [one for one in attempts if one.fits]
    kept = [
        one
        for one in fitting
        if not any(
            _beats(other, one)
            or (
                other.place == one.place
                and set(other.changes) < set(one.changes)
                and _cost(other)[0] <= _cost(one)[0]
            )
            for other in fitting
        )
    ]
    return tuple(sorted(kept, key=_cost)[:most])


def _beats(one: Attempt, other: Attempt) -> bool:
    costs = _cost(one), _cost(other)
    return costs[0] != costs[1] and all(a <= b for a, b in zip(*costs, strict=True))


def _cost(one: Attempt) -> tuple[float, ...]:
    """Return bytes sent (unknown is most), changes, bytes that fit."""
    sent = math.inf if one.figures is not None and one.wire_bytes is None else one.wire_bytes or 0
    return sent, len(one.changes), one.total_bytes or 0


def closest(attempts: Iterable[Attempt], most: int = 3) -> tuple[Attempt, ...]:
    """Return the attempts that need the least memory, those of known size first."""
    return tuple(sorted(attempts, key=size_key)[:most])


def size_key(one: Attempt) -> tuple[bool, int]:
    """Return the key that orders attempts by the memory they need, those of unknown size last."""
    return one.total_bytes is None, one.total_bytes or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModule:
    """Plans for one module.

    `base` is the program without changes, as compiled or as the dump has it; where several targets
    were to be tried it is on none of them. `plans` are attempts that fit, the base too;
    `by_hand` are findings that save memory by changes of the Python code.
    """

    dump: ModuleDump
    limit_bytes: int | None
    limit_source: str
    base: Attempt
    is_compiled: bool
    reproduced: bool | None = None
    plans: tuple[Attempt, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    skipped: tuple[str, ...] = ()
    by_hand: tuple[Finding, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return bool(self.plans)

    @property
    def is_undecided(self) -> bool:
        """Whether nothing is known of what the program needs: no compile, or none with a size."""
        return not self.plans and all(one.total_bytes is None for one in self.attempts)

    @property
    def excess_bytes(self) -> int | None:
        """Bytes that the base is over the limit, negative if it fits; None if not known."""
        total, limit = self.base.total_bytes, self.limit_bytes
        return None if total is None or limit is None else total - limit

    @property
    def closest(self) -> tuple[Attempt, ...]:
        """The attempts that need least, if none fits."""
        return () if self.plans else closest(self.attempts)


_MOST_GROUPS = 8
_SMALL = 1000
"""Values that save less than this part of what an axis could are not divided with the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One change: an option of ``what-if``, and its values, all given together."""

    kind: Annotated[str, "donate or shard"]
    change: Annotated[str, "description of the change"]
    values: Annotated[tuple[str, ...], "arguments and results that it changes"]
    requests: Annotated[tuple[str, ...], "values of the option of what-if"]
    saves_bytes: Annotated[int, Unit.BYTES, "bytes of each device that these arrays shrink"]

    def conflicts_with(self, other: Candidate) -> bool:
        """Whether both set the same property of a value."""
        return self.kind == other.kind and not set(self.values).isdisjoint(other.values)


def candidates(table: ShardingTable) -> tuple[Candidate, ...]:
    """Return the changes that could lower the memory of a program, largest saving first."""
    changes = [*_donations(table), *_Divisions(table).candidates()]
    return tuple(sorted(changes, key=lambda one: -one.saves_bytes))


def _name(value: ShardedValue) -> str:
    return result_name(value) if value.value.kind == "output" else str(value.value.name)


def _bytes_of(values: Iterable[ShardedValue]) -> int:
    return sum(value.device_bytes or 0 for value in values)


def _followers(table: ShardingTable) -> dict[str, ShardedValue]:
    """Return the results that are updated arguments but have memory of their own, by argument."""
    free = [value for value in table.parameters if value.value.aliased_with is None]
    return {_name(one): output for one, output in memory_pairs(free, table)}


def _donations(table: ShardingTable) -> Iterator[Candidate]:
    groups: dict[str, list[ShardedValue]] = defaultdict(list)
    for one in donations(table).of(DonationStatus.DONATABLE):
        groups[argument_root(_name(one.value))].append(one.value)
    roots = sorted(groups, key=lambda root: -_bytes_of(groups[root]))
    titled: dict[str, tuple[str, ...]] = {
        f"donate {root}": (root,) for root in roots[:_MOST_GROUPS]
    }
    if rest := tuple(roots[_MOST_GROUPS:]):
        titled[f"donate {plural(len(rest), 'other argument')}"] = rest
    for title, requests in titled.items():
        values = [value for root in requests for value in groups[root]]
        yield Candidate(
            kind="donate",
            change=title,
            values=tuple(map(_name, values)),
            requests=requests,
            saves_bytes=_bytes_of(values),
        )


def _divided_spec(one: Saving) -> str:
    shape = one.value.global_shape
    axes = [axes_of_entry(entry) for entry in one.value.spec or ()]
    axes += [()] * ((0 if shape is None else shape.rank) - len(axes))
    axes[one.dimension] = (*axes[one.dimension], one.axis)
    return written_spec(spec_of_axes(axes))


class _Divisions:
    """Candidates that divide the replicated values of a program."""

    def __init__(self, table: ShardingTable) -> None:
        self.followers = _followers(table)
        self.names = [_name(value) for value in table.parameters]
        self.savings = [one for one in replicated_bytes(table).savings if one.saved_bytes > 0]

    def candidates(self) -> Iterator[Candidate]:
        groups: dict[object, list[Saving]] = defaultdict(list)
        by_axis: dict[str, list[Saving]] = defaultdict(list)
        for one in self.savings:
            by_axis[one.axis].append(one)
            if (shape := one.value.global_shape) is not None:
                alike = (shape.dimensions, shape.element_type, one.value.spec_text, one.axis)
                groups[alike].append(one)
        sized = sorted(groups.values(), key=lambda group: -sum(one.saved_bytes for one in group))
        yield from map(self._candidate, sized[:_MOST_GROUPS])
        for axis, savings in by_axis.items():
            total = sum(one.saved_bytes for one in savings)
            large = [one for one in savings if one.saved_bytes * _SMALL >= total]
            which = "all" if len(large) == len(savings) else "large"
            if len(large) > 1:
                yield self._candidate(large, f"{which} replicated values over {axis}")
            state = [one for one in large if is_optimizer_state(_name(one.value))]
            if 1 < len(state) < len(large):
                yield self._candidate(state, f"optimizer state over {axis}")

    def _candidate(self, savings: Sequence[Saving], title: str = "") -> Candidate:
        own = [_name(one.value) for one in savings]
        specs, saved = dict[str, str](), 0
        for name, one in zip(own, savings, strict=True):
            names, follower = [name], self.followers.get(name)
            if follower is not None and follower.sharding is not None:
                names.append(_name(follower))
            specs |= dict.fromkeys(names, _divided_spec(one))
            saved += one.saved_bytes * len(names)
        if not title:
            covering = covering_patterns(own, self.names)
            what = covering[0] if len(covering) == 1 else f"{own[0]} and {len(own) - 1} alike"
            title = f"{what} over {savings[0].axis} in dimension {savings[0].dimension}"
        by_spec: dict[str, list[str]] = defaultdict(list)
        for name, text in specs.items():
            by_spec[text].append(name)
        requests = (
            f"{pattern}={text}"
            for text, names in by_spec.items()
            for pattern in covering_patterns(names, self.names)
        )
        return Candidate(
            kind="shard",
            change=f"shard {title}",
            values=tuple(specs),
            requests=tuple(requests),
            saves_bytes=saved,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Answer of an earlier ``fit`` on a program that does not fit: best plan, or least bytes."""

    fits: bool
    changes: str
    total_bytes: int | None
    sent_bytes: int | None
    options: Sequence[tuple[str, str]]

    @property
    def text(self) -> str:
        """The answer in words, without the command."""
        size = "size not known" if self.total_bytes is None else format_bytes(self.total_bytes)
        if not self.fits:
            return f"no plan of hlo-lens fit fits; the least is {size}, with {self.changes}"
        more = "more" if (self.sent_bytes or 0) > 0 else "less"
        sent = f", sends {format_bytes(abs(self.sent_bytes))} {more}" if self.sent_bytes else ""
        return f"fits with {self.changes}: {size}{sent}"

    @property
    def words(self) -> str:
        """The options as arguments of a command."""
        return " ".join(f"--{name} {shell_word(value)}" for name, value in self.options)


def keep_verdict(dump: ModuleDump, fitted: FittedModule) -> None:
    """Keep the answer on a module that does not fit as it is, if it is known."""
    best = next(iter(fitted.plans or fitted.closest), None)
    if best is None or best.total_bytes is None or fitted.base.fits or not fitted.is_compiled:
        return
    known = None not in (best.wire_bytes, fitted.base.wire_bytes)
    verdict = Verdict(
        fits=fitted.fits,
        changes=best.title,
        total_bytes=best.total_bytes,
        sent_bytes=(best.wire_bytes or 0) - (fitted.base.wire_bytes or 0) if known else None,
        options=best.options,
    )
    keep_answer(dump, ["fit", fitted.limit_bytes], asdict(verdict))


def kept_verdict(dump: ModuleDump, limit_bytes: int | None) -> Verdict | None:
    """Return the answer that the cache has for a module and a limit; None without one."""
    fields = kept_answer(dump, ["fit", limit_bytes])
    with suppress(TypeError):
        return None if fields is None else Verdict(**fields)
    return None


GOOD, BAD, SKIPPED = "good", "bad", "skipped"

Item = TypeVar("Item")


def first_bad(count: int, outcome_of: Callable[[int], str]) -> tuple[int, int]:
    """Return the positions of the last good and the first bad step, skipped ones between them.

    Of the `count` steps the first is known to be good, the last to be bad.
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
    """Return a bad set of items of which none can be left out; all together are bad.

    Source: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
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
