"""Pairs of the items of two lists with equal keys, strictest key first.

At each stage, items of equal key are paired in a given order, as many as both sides have.
Exchanging the sides exchanges the members of each pair and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

from hlo_lens.text.names import plain_name, split_source

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from _typeshed import DataclassInstance

    from hlo_lens.questions.snapshots.figures import SpacePeak
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot


T = TypeVar("T")


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
    left, right = dict(enumerate(base)), dict(enumerate(head))
    pairs: list[tuple[T | None, T | None]] = []
    for key_of in stages:
        if not left or not right:
            break
        mine, yours = _by_key(left, key_of, order), _by_key(right, key_of, order)
        for key, places in mine.items():
            for one, other in zip(places, yours.get(key, ()), strict=False):
                pairs.append((left.pop(one), right.pop(other)))
    return [
        *pairs,
        *((one, None) for one in left.values()),
        *((None, one) for one in right.values()),
    ]


def _by_key(
    items: dict[int, T],
    key_of: Callable[[T], Hashable],
    order: Callable[[T], tuple[object, ...]],
) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for place, item in items.items():
        key = key_of(item)
        if key not in (None, ""):
            found.setdefault(key, []).append(place)
    for places in found.values():
        if len(places) > 1:
            places.sort(key=lambda place: _comparable(order(items[place])))
    return found


def _comparable(parts: tuple[object, ...]) -> tuple[tuple[bool, bool, object], ...]:
    """Return a sort key: None before numbers before text."""
    return tuple(
        (part is not None, isinstance(part, str), 0 if part is None else part) for part in parts
    )


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


_PACKAGE = "__init__.py"
"""File name that all packages have."""


def renamed_files(base: Iterable[str], head: Iterable[str]) -> dict[str, str]:
    """Return the head's file of each file of the base that is in a folder of another name.

    >>> renamed_files(["main/train.py", "lib/ops.py"], ["feature/train.py", "lib/ops.py"])
    {'main/train.py': 'feature/train.py'}
    """
    mine, yours = set(base), set(head)
    before, after = _by_name(mine - yours), _by_name(yours - mine)
    return {
        found[0]: after[name][0]
        for name, found in sorted(before.items())
        if len(found) == len(after.get(name, ())) == 1 and name != _PACKAGE
    }


def _by_name(files: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for file in files:
        found[file.rpartition("/")[2]].append(file)
    return found


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
    facts = base.facts
    if facts.collectives is not None:
        rows = tuple(
            replace(row, source_file=files.get(row.source_file or "", row.source_file))
            for row in facts.collectives.rows
        )
        facts = replace(facts, collectives=replace(facts.collectives, rows=rows))
    annotations = base.annotations
    if annotations is not None:
        annotations = tuple(
            replace(one, source=renamed_source(one.source, files)) for one in annotations
        )
    peaks = tuple(_renamed_peak(peak, files) for peak in base.peaks)
    return replace(base, facts=facts, annotations=annotations, peaks=peaks)


def _renamed_peak(peak: SpacePeak, files: Mapping[str, str]) -> SpacePeak:
    groups = tuple(replace(one, source=renamed_source(one.source, files)) for one in peak.groups)
    return replace(peak, source=renamed_source(peak.source, files), groups=groups)


def _files(module: ModuleSnapshot) -> Iterator[str]:
    """Yield the files of a module's sources."""
    sources = [one.source for one in module.annotations or ()]
    for peak in module.peaks:
        sources += [peak.source, *(one.source for one in peak.groups)]
    for source in sources:
        file, _ = split_source(source)
        if file is not None:
            yield file
    yield from (row.source_file for row in module.collectives or () if row.source_file)


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
        mine, yours = _module_pairs_by_name(base), _module_pairs_by_name(head)
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


def _module_pairs_by_name(modules: Sequence[ModuleSnapshot]) -> dict[str, list[int]]:
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
