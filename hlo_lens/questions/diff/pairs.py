"""Pairs of the items of two lists with equal keys, strictest key first.

At each stage, items of equal key are paired in a given order, as many as both sides have.
Exchanging the sides exchanges the members of each pair and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields, replace
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from hlo_lens.text.names import plain_name, split_source

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from _typeshed import DataclassInstance

    from hlo_lens.questions.sharding.annotations import Annotation
    from hlo_lens.questions.snapshots.figures import AliveGroup, SpacePeak
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot


T = TypeVar("T")
Sourced = TypeVar("Sourced", "Annotation", "AliveGroup", "SpacePeak")


def pair_items(
    base: Sequence[T],
    head: Sequence[T],
    stages: Sequence[Callable[[T], Hashable]],
    order: Callable[[T], tuple[object, ...]],
) -> list[tuple[T | None, T | None]]:
    """Return the pairs of two lists, then the items of one side with None, in order.

    Args:
        base: Items of one side.
        head: Items of the other.
        stages: Key functions, strictest first; None or "" excludes an item from a stage.
        order: Sort key of items with equal keys; equal for equal items.
    """
    unpaired = dict(enumerate(base)), dict(enumerate(head))
    pairs: list[tuple[T | None, T | None]] = []
    for key_of in stages:
        if not unpaired[0] or not unpaired[1]:
            break
        before, after = (_by_key(items, key_of, order) for items in unpaired)
        for key, indices in before.items():
            for mine, yours in zip(indices, after.get(key, ()), strict=False):
                pairs.append((unpaired[0].pop(mine), unpaired[1].pop(yours)))
    pairs += [(item, None) for item in unpaired[0].values()]
    pairs += [(None, item) for item in unpaired[1].values()]
    return pairs


def _by_key(
    items: Mapping[int, T],
    key_of: Callable[[T], Hashable],
    order: Callable[[T], tuple[object, ...]],
) -> dict[Hashable, list[int]]:
    """Return the indices of items by key, those of equal keys in order; None before numbers."""
    indices: dict[Hashable, list[int]] = {}
    for index, item in items.items():
        key = key_of(item)
        if key not in (None, ""):
            indices.setdefault(key, []).append(index)

    def comparable(index: int) -> list[tuple[object, ...]]:
        cells = order(items[index])
        return [(c is not None, isinstance(c, str), 0 if c is None else c) for c in cells]

    for same in indices.values():
        if len(same) > 1:
            same.sort(key=comparable)
    return indices


@dataclass(frozen=True, slots=True)
class Delta:
    """A number before and after; None if it is not known.

    Attributes:
        base: Before.
        head: After.
        is_comparable: Whether the two mean the same.
        is_at_most: Whether a number is an upper bound.
    """

    base: int | None
    head: int | None
    is_comparable: bool = True
    is_at_most: bool = False

    @property
    def delta(self) -> int | None:
        """Head minus base; None if either is not known, or they do not mean the same."""
        if self.base is None or self.head is None or not self.is_comparable:
            return None
        return self.head - self.base

    @property
    def is_changed(self) -> bool:
        """Whether the numbers differ."""
        return self.base != self.head

    def to_dict(self) -> dict[str, int | None]:
        """Return the JSON object."""
        return {"base": self.base, "head": self.head, "delta": self.delta}


R = TypeVar("R")


def pair_record(record: type[R], base: object, head: object, **own: object) -> R:
    """Return a record of an item before and after, of which one may be None.

    Fields that are not given have the value of the item's field of that name, with the prefix
    ``base_`` or ``head_`` that of one side, else that of the head, or of the base if it was
    removed. They are None where there is no such item, or no such field.
    """
    items = {"base": base, "head": head}
    for field in fields(cast("type[DataclassInstance]", record)):
        side, _, name = field.name.partition("_")
        if field.name in items:
            own[field.name] = items[side]
        elif field.name not in own and side in items:
            own[field.name] = getattr(items[side], name, None)
        elif field.name not in own:
            own[field.name] = getattr(head or base, field.name, None)
    return cast("Callable[..., R]", record)(**own)


# ---- files in folders of other names -----------------------------------------------------------

_PACKAGE = "__init__.py"
"""File name that all packages have."""


def renamed_files(base: Iterable[str], head: Iterable[str]) -> dict[str, str]:
    """Return the head's file of each file of the base that is in a folder of another name.

    >>> renamed_files(["main/train.py", "lib/ops.py"], ["feature/train.py", "lib/ops.py"])
    {'main/train.py': 'feature/train.py'}
    """
    mine, yours = set(base), set(head)
    before, after = (defaultdict[str, list[str]](list) for _ in range(2))
    for names, files in ((before, mine - yours), (after, yours - mine)):
        for file in files:
            names[file.rpartition("/")[2]].append(file)
    return {
        files[0]: after[name][0]
        for name, files in sorted(before.items())
        if len(files) == len(after.get(name, ())) == 1 and name != _PACKAGE
    }


def renamed_source(source: str | None, files: Mapping[str, str]) -> str | None:
    """Return ``file:line`` with the file's new name, if it has one."""
    file, line = split_source(source)
    if file is None or file not in files:
        return source
    return files[file] if line is None else f"{files[file]}:{line}"


def with_folders_of(base: ModuleSnapshot, head: ModuleSnapshot) -> ModuleSnapshot:
    """Return the base with its files as the head has them."""
    files = renamed_files(_files(base), _files(head))
    if not files:
        return base

    def moved(item: Sourced) -> Sourced:
        return replace(item, source=renamed_source(item.source, files))

    facts, annotations = base.facts, base.annotations
    if facts.collectives is not None:
        rows = tuple(
            replace(row, source_file=files.get(row.source_file or "", row.source_file))
            for row in facts.collectives.rows
        )
        facts = replace(facts, collectives=replace(facts.collectives, rows=rows))
    return replace(
        base,
        facts=facts,
        annotations=None if annotations is None else tuple(map(moved, annotations)),
        peaks=tuple(
            replace(moved(peak), groups=tuple(map(moved, peak.groups))) for peak in base.peaks
        ),
    )


def _files(module: ModuleSnapshot) -> Iterator[str]:
    """Yield the files of a module's sources."""
    groups = [group.source for peak in module.peaks for group in peak.groups]
    annotations = [annotation.source for annotation in module.annotations or ()]
    for source in (*annotations, *(peak.source for peak in module.peaks), *groups):
        file, _ = split_source(source)
        if file is not None:
            yield file
    yield from (row.source_file for row in module.collectives or () if row.source_file)


# ---- modules of two dumps ----------------------------------------------------------------------

SIGNATURE_DIFFERS = "paired by name; shapes of parameters or results differ"
IN_ORDER = "one of {count} modules of this name and signature, paired in their order"
ONLY_ONES = "names differ; each side has one module"

_NONE: Mapping[int, int] = MappingProxyType({})

_Pair: TypeAlias = tuple[int, int, str]
"""Index in the base, index in the head, and a note or an empty text."""


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

    pairs: tuple[_Pair, ...]
    removed: tuple[int, ...]
    added: tuple[int, ...]
    base_copies: tuple[int, ...] = ()
    head_copies: tuple[int, ...] = ()


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
        base_copies: Indices of copies in the base, each with that of the module it repeats; modules
            with equal fingerprints are copies without being named here.
        head_copies: The same in the head.
    """
    sides = _Side(base, base_copies), _Side(head, head_copies)
    every = list(range(len(base))), list(range(len(head)))
    pairs = [*_only_pair(sides, every, lambda module: plain_name(module.name), ONLY_ONES)]
    if not pairs:
        mine, yours = (side.by_name() for side in sides)
        for name in mine.keys() & yours.keys():
            pairs += _pairs_of_name(sides, (mine[name], yours[name]))
        pairs.sort()
    removed, fewer = sides[0].alone([pair[0] for pair in pairs])
    added, more = sides[1].alone([pair[1] for pair in pairs])
    return ModulePairs(
        pairs=tuple(pairs), removed=removed, added=added, base_copies=fewer, head_copies=more
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """Modules of one side, by index, and which are copies of others."""

    modules: Sequence[ModuleSnapshot]
    copies: Mapping[int, int]

    def by_name(self) -> dict[str, list[int]]:
        """Return the modules of each name."""
        names: dict[str, list[int]] = defaultdict(list)
        for index, module in enumerate(self.modules):
            names[plain_name(module.name)].append(index)
        return names

    def memory_rank(self, index: int) -> int:
        """Return how much is known of a module's memory: 2 as XLA assigned it, 1 estimated, 0."""
        memory = self.modules[index].facts.memory
        return 0 if memory is None else 2 if memory.source == "buffer-assignment" else 1

    def identity(self, index: int) -> tuple[str, str | None, str] | None:
        """Return what modules of one program share; None if the program is not known."""
        module = self.modules[index]
        if module.fingerprint is None:
            return None
        return plain_name(module.name), module.signature, module.fingerprint

    def is_copy(self, index: int, other: int) -> bool:
        """Return whether two modules are one program with the same memory.

        Memory from different sources (a dump, a text that the program printed) is not compared.
        """
        if self.copies.get(index) == other or self.copies.get(other) == index:
            return True
        identity = self.identity(index)
        if identity is None or identity != self.identity(other):
            return False
        memory, memory_of_other = (self.modules[k].facts.memory for k in (index, other))
        return self.memory_rank(index) != self.memory_rank(other) or memory == memory_of_other

    def best_first(self, indices: Iterable[int]) -> list[int]:
        """Return modules, those with the best known memory first."""
        return sorted(indices, key=lambda index: (-self.memory_rank(index), index))

    def distinct(self, indices: Iterable[int]) -> list[int]:
        """Return one index for each distinct program, the one with the best known memory, in order.

        Copies of a program are one unless their memory differs.
        """
        chosen: dict[object, list[int]] = defaultdict(list)
        for index in self.best_first(indices):
            same = chosen[self.identity(self.copies.get(index, index))]
            if not any(self.is_copy(index, other) for other in same):
                same.append(index)
        return sorted(index for same in chosen.values() for index in same)

    def alone(self, paired: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the indices of programs without partner, and those of copies."""
        rest = {*range(len(self.modules))}.difference(paired)
        alone = self.distinct(k for k in rest if not any(self.is_copy(k, p) for p in paired))
        return tuple(alone), tuple(sorted(rest.difference(alone)))


_Sides: TypeAlias = tuple[_Side, _Side]
_Indices: TypeAlias = tuple[list[int], list[int]]


def _only_pair(
    sides: _Sides, indices: _Indices, key: Callable[[ModuleSnapshot], object], note: str
) -> Iterator[_Pair]:
    """Yield the only programs of both sides, with a note if their keys differ.

    Of several copies with equal keys those of like memory are paired, elsewhere.
    """
    only = [side.distinct(some) for side, some in zip(sides, indices, strict=True)]
    if [len(one) for one in only] == [1, 1]:
        (mine,), (yours,) = only
        is_same = key(sides[0].modules[mine]) == key(sides[1].modules[yours])
        if not is_same or [len(some) for some in indices] == [1, 1]:
            yield mine, yours, "" if is_same else note


def _pairs_of_name(sides: _Sides, indices: _Indices) -> Iterator[_Pair]:
    """Yield the pairs among modules of one name."""
    pairs = [*_only_pair(sides, indices, lambda module: module.signature, SIGNATURE_DIFFERS)]
    yield from pairs
    modules = sides[0].modules, sides[1].modules
    signatures = dict.fromkeys(modules[0][k].signature for k in indices[0])
    for signature in () if pairs else signatures:
        if signature is not None:
            mine = [k for k in indices[0] if modules[0][k].signature == signature]
            yours = [k for k in indices[1] if modules[1][k].signature == signature]
            yield from _pairs_of_signature(sides, mine, yours)


def _pairs_of_signature(sides: _Sides, mine: list[int], yours: list[int]) -> Iterator[_Pair]:
    """Yield the pairs among modules of one name and signature."""
    base, head = sides
    if len(mine) == 1 == len(yours):
        yield mine[0], yours[0], ""
        return
    count = max(len(mine), len(yours))
    while (pair := _equal_programs(sides, mine, yours)) is not None:
        mine = [k for k in mine if k != pair[0] and not base.is_copy(k, pair[0])]
        yours = [k for k in yours if k != pair[1] and not head.is_copy(k, pair[1])]
        yield *pair, ""
    mine, yours = base.distinct(mine), head.distinct(yours)
    if len(mine) == 1 == len(yours):
        yield mine[0], yours[0], ""
    elif len(mine) == len(yours):
        for before, after in zip(base.best_first(mine), head.best_first(yours), strict=True):
            yield before, after, IN_ORDER.format(count=count)


def _equal_programs(sides: _Sides, mine: list[int], yours: list[int]) -> tuple[int, int] | None:
    """Return a pair of equal programs, preferably with memory of one source and equal.

    A program may have copies with less known of its memory, such as a text that it printed itself;
    if no two sources are the same, the best of each side are paired.
    """
    base, head = sides
    common = {head.modules[k].fingerprint for k in yours} - {None}
    prints = [base.modules[k].fingerprint for k in mine]
    first = next((fingerprint for fingerprint in prints if fingerprint in common), None)
    if first is None:
        return None

    def order(pair: tuple[int, int]) -> tuple[object, ...]:
        ranks = base.memory_rank(pair[0]), head.memory_rank(pair[1])
        memory = base.modules[pair[0]].facts.memory, head.modules[pair[1]].facts.memory
        return ranks[0] != ranks[1], -sum(ranks), memory[0] != memory[1], pair

    mine = [k for k in mine if base.modules[k].fingerprint == first]
    yours = [k for k in yours if head.modules[k].fingerprint == first]
    return min(product(mine, yours), key=order)
