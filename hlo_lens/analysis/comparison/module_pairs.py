"""Pairs of the modules of two dumps.

Two dumps of one module each are a pair whatever their names. Otherwise modules are paired if they
have one name (without the number that some frameworks add) and one signature, the shapes of
parameters and results. Several of one name and signature are paired if their programs are equal,
then in order if both sides have as many different ones. A name that both sides have once is a pair
whatever its signature, with a note. All others are added or removed: another retrace of a name is
no partner.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot

_NUMBER = re.compile(r"(?:\.\d+)+$")
_FILE_NUMBER = re.compile(r"^(?:.*\.)?module_\d{4,}\.")

SIGNATURE_DIFFERS = "paired by name; shapes of parameters or results differ"
IN_ORDER = "one of {count} modules of this name and signature, paired in their order"
ONLY_ONES = "names differ; each side has one module"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulePairs:
    """Modules by their indices on each side.

    Attributes:
        pairs: Index in the base, index in the head, and a note or an empty text.
        removed: Indices in the base alone.
        added: Indices in the head alone.
        base_copies: Indices in the base of modules left out as copies of one that has a partner.
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


def pair_modules(base: Sequence[ModuleSnapshot], head: Sequence[ModuleSnapshot]) -> ModulePairs:
    """Return the pairs of the modules of two dumps."""
    left, right = (_distinct(side, range(len(side))) for side in (base, head))
    pairs: list[tuple[int, int, str]] = []
    if len(left) == 1 == len(right):
        same = plain_name(base[left[0]].name) == plain_name(head[right[0]].name)
        if not same or len(base) == 1 == len(head):
            pairs.append((left[0], right[0], "" if same else ONLY_ONES))
    if not pairs:
        mine, yours = _by_name(base), _by_name(head)
        for name, places in mine.items():
            if name in yours:
                pairs += _of_one_name(base, head, places, yours[name])
        pairs.sort()
    removed, fewer = _alone(base, [pair[0] for pair in pairs])
    added, more = _alone(head, [pair[1] for pair in pairs])
    return ModulePairs(
        pairs=tuple(pairs), removed=removed, added=added, base_copies=fewer, head_copies=more
    )


def _alone(
    modules: Sequence[ModuleSnapshot], paired: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the places without partner, and those of copies of a paired module."""
    chosen = set(paired)
    rest = [place for place in range(len(modules)) if place not in chosen]
    copies = tuple(
        place for place in rest if any(_is_copy(modules[place], modules[one]) for one in paired)
    )
    return tuple(place for place in rest if place not in copies), copies


def _identity(module: ModuleSnapshot) -> tuple[str, str | None, str] | None:
    if module.fingerprint is None:
        return None
    return plain_name(module.name), module.signature, module.fingerprint


def _is_copy(one: ModuleSnapshot, other: ModuleSnapshot) -> bool:
    """Return whether two modules of one side are one program with the same memory.

    Memory from different sources (a dump, a text that the program printed) is not compared.
    """
    identity = _identity(one)
    if identity is None or identity != _identity(other):
        return False
    return _weight(one) != _weight(other) or one.facts.memory == other.facts.memory


def _by_name(modules: Sequence[ModuleSnapshot]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for place, module in enumerate(modules):
        found[plain_name(module.name)].append(place)
    return found


def _of_one_name(
    base: Sequence[ModuleSnapshot],
    head: Sequence[ModuleSnapshot],
    mine: Sequence[int],
    yours: Sequence[int],
) -> Iterator[tuple[int, int, str]]:
    """Yield the pairs among modules of one name."""
    if len(mine) == 1 == len(yours):
        same = base[mine[0]].signature == head[yours[0]].signature
        yield mine[0], yours[0], "" if same else SIGNATURE_DIFFERS
        return
    for signature in dict.fromkeys(base[place].signature for place in mine):
        if signature is None:
            continue
        left = [place for place in mine if base[place].signature == signature]
        right = [place for place in yours if head[place].signature == signature]
        yield from _of_one_signature(base, head, left, right)


def _of_one_signature(
    base: Sequence[ModuleSnapshot],
    head: Sequence[ModuleSnapshot],
    left: list[int],
    right: list[int],
) -> Iterator[tuple[int, int, str]]:
    """Yield the pairs among modules of one name and signature."""
    if len(left) == 1 == len(right):
        yield left[0], right[0], ""
        return
    count = max(len(left), len(right))
    while (pair := _equal(base, head, left, right)) is not None:
        one, other = pair
        left = [p for p in left if p != one and not _is_copy(base[p], base[one])]
        right = [p for p in right if p != other and not _is_copy(head[p], head[other])]
        yield one, other, ""
    left, right = _distinct(base, left), _distinct(head, right)
    if len(left) == 1 == len(right):
        yield left[0], right[0], ""
    elif len(left) == len(right):
        left.sort(key=lambda place: (-_weight(base[place]), place))
        right.sort(key=lambda place: (-_weight(head[place]), place))
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


def _distinct(modules: Sequence[ModuleSnapshot], places: Sequence[int]) -> list[int]:
    """Return one place for each distinct program, the one with the best known memory, in order.

    Copies of a program are one unless their memory differs.
    """
    chosen: list[int] = []
    known: dict[object, list[int]] = defaultdict(list)
    for place in sorted(places, key=lambda place: (-_weight(modules[place]), place)):
        same = known[_identity(modules[place])]
        if not any(_is_copy(modules[place], modules[one]) for one in same):
            same.append(place)
            chosen.append(place)
    return sorted(chosen)


def _weight(module: ModuleSnapshot) -> int:
    """Return how much is known of a module's memory: 2 as XLA assigned it, 1 estimated, 0."""
    memory = module.facts.memory
    return 0 if memory is None else 2 if memory.source == "buffer-assignment" else 1
