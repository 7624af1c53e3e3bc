"""Pairs of the items of two lists with equal keys, strictest key first.

At each stage, items of equal key are paired in a given order, as many as both sides have.
Exchanging the sides exchanges the members of each pair and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields, replace
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

    Stages are keys, strictest first, of which None or "" excludes an item; `order` sorts items with
    equal keys.
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
    """A number before and after; None if it is not known."""

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
        return self.base != self.head

    def to_dict(self) -> dict[str, int | None]:
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
    sources = [one.source for one in module.annotations or ()]
    for peak in module.peaks:
        sources += [peak.source, *(group.source for group in peak.groups)]
    yield from (file for file, _ in map(split_source, sources) if file is not None)
    yield from (row.source_file for row in module.collectives or () if row.source_file)


SIGNATURE_DIFFERS = "paired by name; shapes of parameters or results differ"
IN_ORDER = "one of {count} modules of this name and signature, paired in their order"
ONLY_ONES = "names differ; each side has one module"

_Pair: TypeAlias = tuple[int, int, str]
"""Index in the base, index in the head, and a note or an empty text."""

_Module: TypeAlias = "tuple[int, ModuleSnapshot]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulePairs:
    """Modules by their indices on each side; pairs have a note, or an empty text.

    Modules without partner are removed or added, or copies of another one of their side.
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
    base_copies: Mapping[int, int] | None = None,
    head_copies: Mapping[int, int] | None = None,
) -> ModulePairs:
    """Return the pairs of the modules of two dumps.

    Modules with equal fingerprints are copies, and those named here with the one that they repeat.
    """
    mine, yours = _distinct(base, base_copies or {}), _distinct(head, head_copies or {})
    names = {plain_name(one.name) for _, one in mine}, {plain_name(one.name) for _, one in yours}
    pairs: list[_Pair] = []
    if len(mine) == 1 == len(yours):
        pairs.append((mine[0][0], yours[0][0], "" if names[0] == names[1] else ONLY_ONES))
    else:
        for name in names[0] & names[1]:
            sides = [[m for m in side if plain_name(m[1].name) == name] for side in (mine, yours)]
            pairs += _pairs_of_name(*sides)
    paired = {one for one, _, _ in pairs}, {other for _, other, _ in pairs}
    known = {place for place, _ in mine}, {place for place, _ in yours}
    return ModulePairs(
        pairs=tuple(sorted(pairs)),
        removed=tuple(sorted(known[0] - paired[0])),
        added=tuple(sorted(known[1] - paired[1])),
        base_copies=tuple(place for place in range(len(base)) if place not in known[0]),
        head_copies=tuple(place for place in range(len(head)) if place not in known[1]),
    )


def _distinct(modules: Sequence[ModuleSnapshot], copies: Mapping[int, int]) -> list[_Module]:
    """Return one module for each distinct program, the one with the best known memory.

    Memory as XLA assigned it is better known than an estimate. Copies of a program are one unless
    their memory differs, which is from one source.
    """
    memories = [module.facts.memory for module in modules]
    rank = [
        0 if memory is None else 2 if memory.source == "buffer-assignment" else 1
        for memory in memories
    ]
    chosen: dict[object, list[int]] = defaultdict(list)
    for place in sorted(range(len(modules)), key=lambda place: -rank[place]):
        root = copies.get(place, place)
        name, print_of = plain_name(modules[root].name), modules[root].fingerprint
        same = chosen[(name, modules[root].signature, print_of) if print_of else root]
        is_copy = any(
            k == root
            or copies.get(k) == place
            or rank[k] != rank[place]
            or memories[k] == memories[place]
            for k in same
        )
        if not is_copy:
            same.append(place)
    return [(k, modules[k]) for k in sorted(k for same in chosen.values() for k in same)]


def _pairs_of_name(mine: list[_Module], yours: list[_Module]) -> Iterator[_Pair]:
    if len(mine) == 1 == len(yours):
        is_same = mine[0][1].signature == yours[0][1].signature
        yield mine[0][0], yours[0][0], "" if is_same else SIGNATURE_DIFFERS
        return
    for signature in dict.fromkeys(one.signature for _, one in mine if one.signature is not None):
        before, after = (
            [one for one in side if one[1].signature == signature] for side in (mine, yours)
        )
        found = pair_items(before, after, _EQUAL_PROGRAMS, lambda one: one[:1])
        yield from ((one[0], other[0], "") for one, other in found if one and other)
        rest = (
            [one for one, other in found if one and not other],
            [other for one, other in found if other and not one],
        )
        if len(rest[0]) == len(rest[1]):
            count = max(len(before), len(after))
            note = "" if count == 1 else IN_ORDER.format(count=count)
            for one, other in zip(*rest, strict=True):
                yield one[0], other[0], note


_EQUAL_PROGRAMS: tuple[Callable[[_Module], Hashable], ...] = (
    lambda one: one[1].fingerprint and (one[1].fingerprint, repr(one[1].facts.memory)),
    lambda one: one[1].fingerprint,
)
