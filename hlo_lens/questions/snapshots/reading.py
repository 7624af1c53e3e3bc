"""Reader of snapshot files: JSON to typed facts, with the place of any damage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import EnumType
from functools import lru_cache
from types import NoneType, UnionType
from typing import (
    Any,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from hlo_lens.program.summary import Coverage
from hlo_lens.questions.findings.finding import Finding
from hlo_lens.questions.memory.statement import MemoryStatement
from hlo_lens.questions.sharding.annotations import Annotation
from hlo_lens.questions.snapshots import facts, rows
from hlo_lens.questions.snapshots.facts import ModuleFacts, ShardingFacts
from hlo_lens.questions.snapshots.module_snapshot import (
    APART,
    ENTRY_TABLES,
    KIND,
    LAYOUT,
    TEXTS,
    ModuleSnapshot,
    Snapshot,
)
from hlo_lens.questions.snapshots.rows import AliveGroup, CollectiveFact, EntryFact, SpacePeak
from hlo_lens.render.result import SINCE
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.version import SCHEMA_VERSION

R = TypeVar("R")
T = TypeVar("T")

_PLACE = re.compile(r"^modules\[\d+\]\.(?:report\.)?|\[\d+\]")
"""Parts of a place in a file that the path of a figure does not have."""

_JUDGED_BY_WORK = 3
"""Schema version from which hidden collectives are known to have work beside them."""

_MOST_EQUAL = 1 << 20
"""Equal rows beyond this number are damage."""


def read_snapshot(data: object, path: str) -> Snapshot:
    """Return the snapshot of a file.

    Raises:
        DumpSyntaxError: If it is no snapshot, of a newer version, or damaged.
    """
    if not isinstance(data, dict) or data.get("kind") != KIND:
        what = data.get("kind") if isinstance(data, dict) else None
        found = f"found a {what!r}" if isinstance(what, str) else "found JSON of another kind"
        raise DumpSyntaxError(f"expected a snapshot that hlo-lens save wrote, {found}", path=path)
    version = data.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise DumpSyntaxError("the snapshot has no schema_version", path=path)
    if version > SCHEMA_VERSION:
        message = (
            f"the snapshot has schema version {version}, this hlo-lens reads up to "
            f"{SCHEMA_VERSION}; it was written by hlo-lens {data.get('tool_version')}: update "
            "hlo-lens, or save the snapshot again"
        )
        raise DumpSyntaxError(message, path=path)
    reader = _Reader(path, version)
    listed = reader.objects(data.get("modules"), "modules")
    modules = tuple(reader.module(one, f"modules[{k}]") for k, one in enumerate(listed))
    return Snapshot(path=path, modules=modules)


LINT = "lint"
"""Kind of the JSON of ``hlo-lens lint``, which has findings as snapshots have them."""


def read_findings(data: Mapping[str, object], path: str) -> list[tuple[str, tuple[Finding, ...]]]:
    """Return the name and the findings of each module in the JSON of ``lint``.

    Raises:
        DumpSyntaxError: If it is of a newer version, or damaged.
    """
    version = data.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        message = f"it has schema version {version}, this hlo-lens reads up to {SCHEMA_VERSION}"
        raise DumpSyntaxError(message, path=path)
    reader = _Reader(path, version)
    listed = reader.objects(data.get("modules"), "modules")
    return [
        (
            reader.value(str, one.get("name"), f"modules[{k}].name"),
            reader.value(tuple[Finding, ...], one.get("findings") or [], f"modules[{k}].findings"),
        )
        for k, one in enumerate(listed)
    ]


class _Field(NamedTuple):
    """A field: its type, the JSON types that it takes unchanged, whether it has a default.

    Files of a schema version before `since` have it by another definition.
    """

    hint: Any
    scalars: frozenset[type]
    has_default: bool
    since: int


@lru_cache(maxsize=32)
def _fields(kind: Any) -> Mapping[str, _Field]:
    """Return the fields of a dataclass by name."""
    names = {
        **vars(facts),
        **vars(rows),
        "Mapping": Mapping,
        "Finding": Finding,
        "Coverage": Coverage,
        "MemoryStatement": MemoryStatement,
    }
    hints = get_type_hints(kind, localns=names)
    return {
        field.name: _Field(
            hint=hints[field.name],
            scalars=_scalars(hints[field.name]),
            has_default=field.default is not MISSING or field.default_factory is not MISSING,
            since=field.metadata.get(SINCE, 1),
        )
        for field in fields(kind)
        if field.metadata.get("is_saved", True)
    }


def _scalars(hint: Any) -> frozenset[type]:
    """Return the types of JSON numbers and texts that a type takes."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    found = {part for part in parts if part in (str, int, float, bool, NoneType)}
    return frozenset(found | ({int} if float in found else set()))


class _Reader:
    """Reader of one file."""

    def __init__(self, path: str, version: int) -> None:
        self._path = path
        self._version = version
        self._outdated: list[str] = []

    def _fail(self, where: str, what: str) -> DumpSyntaxError:
        message = f"the snapshot is damaged: {where} {what}; save it again from its dump"
        return DumpSyntaxError(message, path=self._path)

    def objects(self, value: object, where: str) -> list[dict[str, object]]:
        """Return a list of objects."""
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._fail(where, "is no list of objects")
        return value

    def module(self, data: Mapping[str, object], where: str) -> ModuleSnapshot:
        """Return one module."""
        self._outdated = []
        facts = self._facts(data, where)
        peaks = self.objects(data.get("peaks"), f"{where}.peaks")
        return ModuleSnapshot(
            name=self.value(str, data.get("name"), f"{where}.name"),
            **{n: self.value(str | None, data.get(n), f"{where}.{n}") for n in TEXTS},
            facts=facts,
            peaks=tuple(self._peak(one, f"{where}.peaks[{k}]") for k, one in enumerate(peaks)),
            annotations=self._rows(Annotation, data.get("annotations"), f"{where}.annotations"),
            outdated=tuple(dict.fromkeys(self._outdated)),
        )

    def _facts(self, data: Mapping[str, object], where: str) -> ModuleFacts:
        """Return the figures, with collectives and entry values from their tables."""
        found = self._object(ModuleFacts, data.get("report"), f"{where}.report")
        memory = found.memory
        if memory is not None and memory.source == "estimate":  # earlier versions called some exact
            memory = replace(memory, is_exact=False)
        rows = self._rows(CollectiveFact, data.get("collectives"), f"{where}.collectives")
        entries = self._entries(data, where)
        collectives = None
        if found.collectives is not None and rows is not None:
            if self._version < _JUDGED_BY_WORK:
                rows = tuple(replace(row, is_exposed=row.is_exposed or None) for row in rows)
            collectives = replace(found.collectives, rows=rows)
        sharding = None if entries is None else ShardingFacts(rows=entries)
        return replace(found, memory=memory, collectives=collectives, sharding=sharding)

    # ---- typed values ----------------------------------------------------------------------

    def _object(self, kind: type[R], data: object, where: str) -> R:
        """Return an object as a dataclass; absent values get defaults.

        These, and values of another definition, are outdated.
        """
        if not isinstance(data, dict):
            raise self._fail(where, "is no object")
        values: dict[str, object] = {}
        for name, field in _fields(kind).items():  # type: ignore[arg-type] # hashable
            is_given = name in data or not field.has_default
            if is_given:
                value = data.get(name)
                if type(value) not in field.scalars:
                    value = self.value(field.hint, value, f"{where}.{name}")
                values[name] = value
            if self._version < field.since or (not is_given and name not in APART):
                self._outdated.append(_PLACE.sub("", f"{where}.{name}"))
        return kind(**values)

    def value(self, hint: Any, value: object, where: str) -> Any:
        """Return a JSON value as the type of a field."""
        origin, parts = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return None if value is None else self.value(parts[0], value, where)
        if is_dataclass(hint):
            return self._object(hint, value, where)  # type: ignore[arg-type] # a type
        if origin is tuple and isinstance(value, list):
            if Ellipsis in parts or len(parts) == len(value):
                items = enumerate(value)
                return tuple(self.value(parts[0], one, f"{where}[{k}]") for k, one in items)
        elif origin is Mapping and isinstance(value, dict):
            return {k: self.value(parts[1], one, f"{where}.{k}") for k, one in value.items()}
        elif isinstance(hint, EnumType) and value in hint._value2member_map_:
            return hint(value)
        elif type(value) in _scalars(hint):
            return value
        raise self._fail(where, f"is {value!r}")

    # ---- tables ----------------------------------------------------------------------------

    def _peak(self, data: Mapping[str, object], where: str) -> SpacePeak:
        groups = self._rows(AliveGroup, data.get("groups"), f"{where}.groups") or ()
        peak = self._object(SpacePeak, {**data, "groups": []}, where)
        if sum(group.size_bytes for group in groups) != peak.bytes:
            raise self._fail(where, "has groups that do not sum to its bytes")
        return replace(peak, groups=groups)

    def _rows(self, kind: type[R], data: object, where: str) -> tuple[R, ...] | None:
        """Return the rows of a table; None where it is null."""
        if data is None:
            return None
        found: list[R] = []
        for place, cells in enumerate(self._cells(data, where)):
            count = cells.pop("n", None)
            if not isinstance(count, int) or not 0 < count <= _MOST_EQUAL:
                raise self._fail(f"{where}.rows[{place}]", "has no number of equal rows")
            found += [self._object(kind, cells, f"{where}.rows[{place}]")] * count
        return tuple(found)

    def _cells(self, data: object, where: str) -> Iterator[dict[str, object]]:
        """Yield the cells of each row of a table by column."""
        columns = data.get("columns") if isinstance(data, dict) else None
        rows = data.get("rows") if isinstance(data, dict) else None
        if not isinstance(columns, list) or not isinstance(rows, list):
            raise self._fail(where, "is no table")
        names = [str(column) for column in columns]
        for place, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != len(names):
                raise self._fail(f"{where}.rows[{place}]", "has not one cell for each column")
            yield dict(zip(names, row, strict=True))

    def _entries(self, data: Mapping[str, object], where: str) -> tuple[EntryFact, ...] | None:
        """Return parameters and outputs, each with its row of the layouts."""
        tables = {name: data.get(name) for name in ("layouts", *ENTRY_TABLES)}
        missing = [name for name in tables if name not in data]
        if missing:
            raise self._fail(f"{where}.{missing[0]}", "is missing")
        if all(table is None for table in tables.values()):
            return None
        texts: tuple[str, ...] = self.value(
            tuple[str, ...], data.get("shardings"), f"{where}.shardings"
        )
        layouts = [*self._cells(tables["layouts"], f"{where}.layouts")]
        for place, layout in enumerate(layouts):
            at = f"{where}.layouts.rows[{place}].sharding"
            layout["sharding"] = self._at(texts, layout.get("sharding"), at)
        found: list[EntryFact] = []
        for name, kind in ENTRY_TABLES.items():
            for place, cells in enumerate(self._cells(tables[name], f"{where}.{name}")):
                at = f"{where}.{name}.rows[{place}]"
                common = self._at(layouts, cells.pop(LAYOUT, None), f"{at}.{LAYOUT}") or {}
                values = {"kind": kind, "index": "", **cells, **common}
                found.append(self._object(EntryFact, values, at))
        return tuple(found)

    def _at(self, listed: Sequence[T], place: object, where: str) -> T | None:
        """Return the item of a list that a cell refers to; None for null."""
        if place is None:
            return None
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(listed):
            raise self._fail(where, f"is {place!r}")
        return listed[place]
