"""Pairs of the modules of two dumps.

Two dumps of one module each are a pair whatever their names. Otherwise modules are paired if they
have one name (without the number that some frameworks add) and one signature, the shapes of
parameters and results. Several of one name and signature are paired if their programs are equal,
then in order if both sides have as many different ones. A name that both sides have once is a pair
whatever its signature, with a note. All others are added or removed: another retrace of a name is
no partner. Copies of a program, such as the text of ``compiled.as_text()`` next to the files that
XLA wrote of the same compile, count once on each side.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot

_NUMBER = re.compile(r"(?:\.\d+)+$")
_FILE_NUMBER = re.compile(r"^(?:.*\.)?module_\d{4,}\.")

SIGNATURE_DIFFERS = "paired by name; shapes of parameters or results differ"
IN_ORDER = "one of {count} modules of this name and signature, paired in their order"
ONLY_ONES = "names differ; each side has one module"

_NONE: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulePairs:
    """Modules by their indices on each side.

    Attributes:
        pairs: Index in the base, index in the head, and a note or an empty text.
        removed: Indices in the base alone.
        added: Indices in the head alone.
        base_copies: Indices in the base of modules left out as copies of another.
        head_copies: The same in the head.
    """

    pairs: tuple[tuple[int, int, str], ...]
    removed: tuple[int, ...]
    added: tuple[int, ...]
    base_copies: tuple[int, ...] = ()
    head_copies: tuple[int, ...] = ()


def plain_name(name: str) -> str:
    """Return a module's name without numbers that change from compile to compile.

    >>> plain_name("SyncTensorsGraph.1234"), plain_name("module_0012.jit_step")
    ('SyncTensorsGraph', 'jit_step')
    """
    return _NUMBER.sub("", _FILE_NUMBER.sub("", name)) or name


def pair_modules(
    base: Sequence[ModuleSnapshot],
    head: Sequence[ModuleSnapshot],
    *,
    base_copies: Mapping[int, int] = _NONE,
    head_copies: Mapping[int, int] = _NONE,
) -> ModulePairs:
    """Return the pairs of the modules of two dumps.

    Args:
        base: Modules before.
        head: Modules after.
        base_copies: Indices of known copies in the base, each with that of the module it repeats;
            modules with equal fingerprints are copies without being named here.
        head_copies: The same in the head.
    """
    one, other = _Side(base, base_copies), _Side(head, head_copies)
    left, right = one.distinct(range(len(base))), other.distinct(range(len(head)))
    pairs: list[tuple[int, int, str]] = []
    if len(left) == 1 == len(right):
        same = plain_name(base[left[0]].name) == plain_name(head[right[0]].name)
        if not same or len(base) == 1 == len(head):
            pairs.append((left[0], right[0], "" if same else ONLY_ONES))
    if not pairs:
        mine, yours = _by_name(base), _by_name(head)
        for name, places in mine.items():
            if name in yours:
                pairs += _of_one_name(one, other, places, yours[name])
        pairs.sort()
    removed, fewer = one.alone([pair[0] for pair in pairs])
    added, more = other.alone([pair[1] for pair in pairs])
    return ModulePairs(
        pairs=tuple(pairs), removed=removed, added=added, base_copies=fewer, head_copies=more
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """Modules of one side, and which are known as copies of others."""

    modules: Sequence[ModuleSnapshot]
    copies: Mapping[int, int]

    def is_copy(self, one: int, other: int) -> bool:
        """Return whether two modules are one program with the same memory.

        Memory from different sources (a dump, a text that the program printed) is not compared.
        """
        if self.copies.get(one) == other or self.copies.get(other) == one:
            return True
        mine, yours = self.modules[one], self.modules[other]
        identity = _identity(mine)
        if identity is None or identity != _identity(yours):
            return False
        return _weight(mine) != _weight(yours) or mine.facts.memory == yours.facts.memory

    def distinct(self, places: Iterable[int]) -> list[int]:
        """Return one place for each distinct program, the one with the best known memory, in order.

        Copies of a program are one unless their memory differs.
        """
        chosen: list[int] = []
        known: dict[object, list[int]] = defaultdict(list)
        for place in sorted(places, key=lambda place: (-_weight(self.modules[place]), place)):
            same = known[_identity(self.modules[self.copies.get(place, place)])]
            if not any(self.is_copy(place, one) for one in same):
                same.append(place)
                chosen.append(place)
        return sorted(chosen)

    def alone(self, paired: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the places of programs without partner, and those of copies."""
        chosen = set(paired)
        rest = [place for place in range(len(self.modules)) if place not in chosen]
        others = [place for place in rest if not any(self.is_copy(place, one) for one in paired)]
        left = self.distinct(others)
        return tuple(left), tuple(sorted({*rest} - {*left}))


def _identity(module: ModuleSnapshot) -> tuple[str, str | None, str] | None:
    if module.fingerprint is None:
        return None
    return plain_name(module.name), module.signature, module.fingerprint


def _by_name(modules: Sequence[ModuleSnapshot]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for place, module in enumerate(modules):
        found[plain_name(module.name)].append(place)
    return found


def _of_one_name(
    base: _Side,
    head: _Side,
    mine: Sequence[int],
    yours: Sequence[int],
) -> Iterator[tuple[int, int, str]]:
    """Yield the pairs among modules of one name."""
    left, right = base.distinct(mine), head.distinct(yours)
    if len(left) == 1 == len(right):
        same = base.modules[left[0]].signature == head.modules[right[0]].signature
        if not same or len(mine) == 1 == len(yours):
            yield left[0], right[0], "" if same else SIGNATURE_DIFFERS
            return
    for signature in dict.fromkeys(base.modules[place].signature for place in mine):
        if signature is None:
            continue
        left = [place for place in mine if base.modules[place].signature == signature]
        right = [place for place in yours if head.modules[place].signature == signature]
        yield from _of_one_signature(base, head, left, right)


def _of_one_signature(
    base: _Side,
    head: _Side,
    left: list[int],
    right: list[int],
) -> Iterator[tuple[int, int, str]]:
    """Yield the pairs among modules of one name and signature."""
    if len(left) == 1 == len(right):
        yield left[0], right[0], ""
        return
    count = max(len(left), len(right))
    while (pair := _equal(base.modules, head.modules, left, right)) is not None:
        one, other = pair
        left = [p for p in left if p != one and not base.is_copy(p, one)]
        right = [p for p in right if p != other and not head.is_copy(p, other)]
        yield one, other, ""
    left, right = base.distinct(left), head.distinct(right)
    if len(left) == 1 == len(right):
        yield left[0], right[0], ""
    elif len(left) == len(right):
        left.sort(key=lambda place: (-_weight(base.modules[place]), place))
        right.sort(key=lambda place: (-_weight(head.modules[place]), place))
        for one, other in zip(left, right, strict=True):
            yield one, other, IN_ORDER.format(count=count)


def _equal(
    base: Sequence[ModuleSnapshot],
    head: Sequence[ModuleSnapshot],
    left: Sequence[int],
    right: Sequence[int],
) -> tuple[int, int] | None:
    """Return a pair of equal programs, preferably with memory of one source and equal.

    A program may have copies with less known of its memory, such as a text that it printed itself;
    if no two sources are the same, the best of each side are paired.
    """
    programs = {base[place].fingerprint for place in left} - {None}
    common = programs & {head[place].fingerprint for place in right}
    first = next(
        (base[place].fingerprint for place in left if base[place].fingerprint in common), None
    )
    if first is None:
        return None
    return min(
        (
            (one, other)
            for one in left
            for other in right
            if base[one].fingerprint == first == head[other].fingerprint
        ),
        key=lambda pair: (
            _weight(base[pair[0]]) != _weight(head[pair[1]]),
            -_weight(base[pair[0]]) - _weight(head[pair[1]]),
            base[pair[0]].facts.memory != head[pair[1]].facts.memory,
            pair,
        ),
    )


def _weight(module: ModuleSnapshot) -> int:
    """Return how much is known of a module's memory: 2 as XLA assigned it, 1 estimated, 0."""
    memory = module.facts.memory
    return 0 if memory is None else 2 if memory.source == "buffer-assignment" else 1
