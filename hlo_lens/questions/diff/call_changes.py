"""Calls of functions that came, went, or run another number of times.

Instructions of a function that is called once more are on the lines of the function, which nobody
edited: their call stacks have the line of the call. A line calls for all instructions that have it
in their stacks, but not innermost. The call changed if only one side has it, if it calls for other
lines or no longer for a function, or if all of its instructions are there more often, most of them
as many times as often. Of several such lines of a stack the outermost one is the cause. If all
calls of a function grew alike, the function was edited, and none changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.questions.diff.line_partners import line_partners

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

Stack: TypeAlias = tuple[str, ...]
"""Lines of the user's program, innermost first."""

Stacks: TypeAlias = "Mapping[Stack, Counter[str]]"
"""Opcodes of the operations with each stack."""

_Made: TypeAlias = "Counter[tuple[str, str]]"
"""Number of operations by line and opcode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallChange:
    """Change of the calls of a line.

    Attributes:
        is_other_number: Whether both sides have the call, another number of times.
        added: Opcodes by line of the operations that only the head has, because of it.
        removed: Those that only the base has.
    """

    is_other_number: bool
    added: Mapping[str, Counter[str]]
    removed: Mapping[str, Counter[str]]

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of the called functions whose operations came or went."""
        return tuple(sorted({*self.added, *self.removed}))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallChanges:
    """Changes of calls.

    Attributes:
        callers: Lines that call to their changes.
        lines: Lines of called functions that have more or fewer operations only because of them.
    """

    callers: Mapping[str, CallChange]
    lines: frozenset[str]


NO_CALLS = CallChanges(callers={}, lines=frozenset())


def call_changes(
    before: Stacks,
    after: Stacks,
    votes: Counter[tuple[str, str]],
    names: Mapping[str, str],
    known: Collection[str],
    functions: Mapping[str, str],
) -> CallChanges:
    """Return the changes of calls.

    Args:
        before: Stacks of the operations of the base.
        after: Those of the head.
        votes: Calling lines of base and head of unchanged instructions, with their number.
        names: Lines of the base to their names in the head.
        known: Names of lines that have instructions of their own on one side only.
        functions: Function that a line is in.
    """
    before = _renamed(before, names, _caller_names(before, after, votes, names, known))
    ratios = _ratios(before, after)
    one_sided = _one_sided(before, after, functions)
    found: dict[str, tuple[dict[str, Counter[str]], dict[str, Counter[str]]]] = {}
    explained: dict[str, bool] = {}
    for stack in dict.fromkeys((*before, *after)):
        one, other = (stacks.get(stack, Counter[str]()) for stacks in (before, after))
        line = stack[0]
        if line in known or one == other:
            continue
        function = functions.get(line, "")
        callers = (c for c in reversed(stack[1:]) if c in ratios or (c, function) in one_sided)
        caller = next(callers, None)
        explained[line] = caller is not None and explained.get(line, True)
        if caller is not None:
            added, removed = found.setdefault(caller, (defaultdict(Counter), defaultdict(Counter)))
            added[line] += other - one
            removed[line] += one - other
    return CallChanges(
        callers={
            caller: CallChange(
                is_other_number=bool(ratios.get(caller)), added=added, removed=removed
            )
            for caller, (added, removed) in found.items()
        },
        lines=frozenset(line for line, is_known in explained.items() if is_known),
    )


_FEWEST = 2
"""Fewest kinds of operations of a function that show how often it is called."""


def _ratios(before: Stacks, after: Stacks) -> dict[str, Fraction | None]:
    """Return the lines with changed calls: how many times as often they call; None for others."""
    (mine, yours), (base, head) = zip(*map(_made, (before, after)), strict=True)
    found: dict[str, Fraction | None] = {}
    for caller in dict.fromkeys((*mine, *yours)):
        one, other = mine.get(caller, Counter()), yours.get(caller, Counter())
        if {line for line, _ in one}.isdisjoint(line for line, _ in other):
            if _is_more(other, base, head) or _is_more(one, head, base):
                found[caller] = None
            continue
        ratio = _usual_ratio(one, other) if len(one) >= _FEWEST else None
        if ratio is None:
            continue
        rest = [
            Counter({key: whole[key] - part[key] for key in part if whole[key] > part[key]})
            for whole, part in ((base, one), (head, other))
        ]
        if not rest[0] or _usual_ratio(*rest) != ratio:
            found[caller] = ratio
    return found


def _one_sided(before: Stacks, after: Stacks, functions: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the lines that call for a function on one side only, with the function.

    The other side has all of its operations, by other calls: else the function was edited.
    """
    (mine, base), (yours, head) = map(_made, (before, after))
    one, other = (_by_function(made, functions) for made in (mine, yours))
    return {
        key
        for here, there, many, few in ((one, other, base, head), (other, one, head, base))
        for key, part in here.items()
        if key not in there and all(map(few.__getitem__, part)) and _is_more(part, few, many)
    }


def _by_function(
    made: Mapping[str, _Made], functions: Mapping[str, str]
) -> dict[tuple[str, str], _Made]:
    """Return the operations that each line calls for, by function."""
    found: dict[tuple[str, str], _Made] = defaultdict(Counter)
    for caller, operations in made.items():
        for key, count in operations.items():
            found[caller, functions.get(key[0], "")][key] += count
    return found


def _is_more(part: _Made, few: _Made, many: _Made) -> bool:
    """Return whether a side has more operations than the other, by most of some that it has.

    Else only their stacks differ: versions of JAX print other frames for equal programs.
    """
    return bool(part) and 2 * sum(many[key] - few[key] for key in part) >= part.total()


def _usual_ratio(base: _Made, head: _Made) -> Fraction | None:
    """Return the ratio of most numbers of operations; None if not all have grown, or shrunk."""
    if base.keys() != head.keys():
        return None
    ratios = Counter(Fraction(head[key], base[key]) for key in base)
    if min(ratios) <= 1 <= max(ratios):
        return None
    ratio, count = ratios.most_common(1)[0]
    return ratio if 2 * count >= len(base) else None


def _made(stacks: Stacks) -> tuple[dict[str, _Made], _Made]:
    """Return the operations that each line calls for, and those of all lines."""
    found: dict[str, _Made] = defaultdict(Counter)
    whole: _Made = Counter()
    for stack, opcodes in stacks.items():
        for opcode, count in opcodes.items():
            whole[stack[0], opcode] += count
            for caller in set(stack[1:]):
                found[caller][stack[0], opcode] += count
    return dict(found), whole


def _caller_names(
    before: Stacks,
    after: Stacks,
    votes: Counter[tuple[str, str]],
    names: Mapping[str, str],
    known: Collection[str],
) -> dict[str, str]:
    """Return the names in the head of lines of the base that call."""
    kept = {mine: yours for mine, yours in names.items() if yours not in known}
    own = {*kept.values()}
    mine = {caller: _texts(made, names) for caller, made in _made(before)[0].items()}
    yours = {caller: _texts(made, {}) for caller, made in _made(after)[0].items()}
    partner = line_partners(votes, mine, yours)
    partner = {one: other for one, other in partner.items() if other not in own} | kept
    there = {line for stack in after for line in stack}
    return {
        caller: partner.get(caller)
        or names.get(caller)
        or (f"{caller} (base)" if caller in there else caller)
        for caller in mine
    }


def _texts(made: _Made, names: Mapping[str, str]) -> frozenset[str]:
    return frozenset(f"{names.get(line, line)} {opcode}" for line, opcode in made)


def _renamed(
    stacks: Stacks, names: Mapping[str, str], callers: Mapping[str, str]
) -> dict[Stack, Counter[str]]:
    """Return stacks of the base with the names of their lines in the head."""
    found: dict[Stack, Counter[str]] = defaultdict(Counter)
    for stack, opcodes in stacks.items():
        outer = tuple(callers[caller] for caller in stack[1:])
        found[(names.get(stack[0], stack[0]), *outer)] += opcodes
    return dict(found)


def caller_votes(pairs: Iterator[tuple[Stack, Stack]]) -> Counter[tuple[str, str]]:
    """Return the calling lines of stacks of base and head, with their number."""
    return Counter(
        two
        for one, other in pairs
        if len(one) == len(other)
        for two in zip(one[1:], other[1:], strict=True)
    )
