"""Reads a snapshot back from the JSON of its file, and says where the file is damaged."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar, get_type_hints

from hlo_lens.model.snapshot.facts import (
    KIND,
    SCHEMA_VERSION,
    AliveGroup,
    AnnotationFact,
    CollectiveFact,
    EntryFact,
    ModuleSnapshot,
    Snapshot,
    SpacePeak,
)
from hlo_lens.model.snapshot.writing import KINDS, LAYOUT
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

R = TypeVar("R")
T = TypeVar("T")


def read_snapshot(data: object, path: str) -> Snapshot:
    """Return what a snapshot file holds.

    Args:
        data: The file as JSON gives it.
        path: Its name, for messages.

    Raises:
        DumpSyntaxError: If it is no snapshot, of a newer version, or damaged.
    """
    if not isinstance(data, dict) or data.get("kind") != KIND:
        what = data.get("kind") if isinstance(data, dict) else None
        found = f"found a {what!r}" if isinstance(what, str) else "found JSON of another kind"
        message = f"expected a snapshot that hlo-lens save wrote, {found}"
        raise DumpSyntaxError(message, path=path)
    version = data.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        message = "the snapshot has no schema_version"
        raise DumpSyntaxError(message, path=path)
    if version > SCHEMA_VERSION:
        message = (
            f"the snapshot has schema version {version}, this hlo-lens reads up to "
            f"{SCHEMA_VERSION}; it was written by hlo-lens {data.get('tool_version')}: update "
            "hlo-lens, or save the snapshot anew"
        )
        raise DumpSyntaxError(message, path=path)
    reader = _Reader(path)
    listed = reader.objects(data.get("modules"), "modules")
    modules = tuple(reader.module(one, f"modules[{k}]") for k, one in enumerate(listed))
    return Snapshot(path=path, modules=modules)


@lru_cache(maxsize=16)
def _types(kind: type) -> dict[str, str]:
    """Return the field names of a row type with their types as text."""
    return {name: str(hint) for name, hint in get_type_hints(kind).items()}


_CHECKS = {
    "str": (str,),
    "<class 'str'>": (str,),
    "<class 'int'>": (int,),
    "<class 'bool'>": (bool,),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "bool | None": (bool, type(None)),
    "tuple[str, ...]": (list,),
    "tuple[str, ...] | None": (list, type(None)),
}


class _Reader:
    """Reads rows back; says where a file is damaged."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _fail(self, where: str, what: str) -> DumpSyntaxError:
        message = f"the snapshot is damaged: {where} {what}; save it anew from its dump"
        return DumpSyntaxError(message, path=self._path)

    def objects(self, value: object, where: str) -> list[dict[str, object]]:
        """Return a list of objects."""
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._fail(where, "is no list of objects")
        return value

    def module(self, data: Mapping[str, object], where: str) -> ModuleSnapshot:
        """Return one module."""
        report = data.get("report")
        if not isinstance(report, dict):
            raise self._fail(f"{where}.report", "is no object")
        peaks = self.objects(data.get("peaks"), f"{where}.peaks")
        name = data.get("name")
        if not isinstance(name, str):
            raise self._fail(f"{where}.name", "is no text")
        collectives = self.rows(CollectiveFact, data.get("collectives"), f"{where}.collectives")
        return ModuleSnapshot(
            name=name,
            target=self._text(data, "target", where),
            toolchain=self._text(data, "toolchain", where),
            signature=self._text(data, "signature", where),
            fingerprint=self._text(data, "fingerprint", where),
            report=report,
            peaks=tuple(self._peak(one, f"{where}.peaks[{k}]") for k, one in enumerate(peaks)),
            collectives=collectives,
            entries=self._entries(data, where),
            annotations=self.rows(AnnotationFact, data.get("annotations"), f"{where}.annotations"),
        )

    def _entries(self, data: Mapping[str, object], where: str) -> tuple[EntryFact, ...] | None:
        """Return parameters and outputs, with what many of them have in common."""
        tables = {name: data.get(name) for name in ("layouts", *KINDS)}
        missing = [name for name in tables if name not in data]
        if missing:
            raise self._fail(f"{where}.{missing[0]}", "is missing")
        if all(table is None for table in tables.values()):
            return None
        texts = data.get("shardings")
        if not isinstance(texts, list):
            raise self._fail(f"{where}.shardings", "is no list")
        layouts = [*self.cells(tables["layouts"], f"{where}.layouts")]
        for place, layout in enumerate(layouts):
            at = f"{where}.layouts.rows[{place}].sharding"
            layout["sharding"] = self._at(texts, layout.get("sharding"), at)
        found: list[EntryFact] = []
        for name, kind in KINDS.items():
            for place, cells in enumerate(self.cells(tables[name], f"{where}.{name}")):
                at = f"{where}.{name}.rows[{place}]"
                common = self._at(layouts, cells.pop(LAYOUT, None), f"{at}.{LAYOUT}") or {}
                values = {"kind": kind, "index": "", **cells, **common}
                found.append(self._row(EntryFact, values, at))
        return tuple(found)

    def _at(self, listed: Sequence[T], place: object, where: str) -> T | None:
        """Return the item of a list that a cell means; None for null."""
        if place is None:
            return None
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(listed):
            raise self._fail(where, f"is {place!r}")
        return listed[place]

    def _text(self, data: Mapping[str, object], name: str, where: str) -> str | None:
        value = data.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self._fail(f"{where}.{name}", "is no text")

    def _peak(self, data: Mapping[str, object], where: str) -> SpacePeak:
        values = {name: data.get(name) for name in _types(SpacePeak) if name != "groups"}
        groups = self.rows(AliveGroup, data.get("groups"), f"{where}.groups") or ()
        peak = self._row(SpacePeak, values, where)
        found = SpacePeak(**{**{n: getattr(peak, n) for n in values}, "groups": groups})
        if sum(group.size_bytes for group in groups) != found.bytes:
            raise self._fail(where, "has groups that do not sum to its bytes")
        return found

    def rows(self, kind: type[R], data: object, where: str) -> tuple[R, ...] | None:
        """Return the rows of a table; None where it is null."""
        if data is None:
            return None
        found: list[R] = []
        for place, cells in enumerate(self.cells(data, where)):
            count = cells.pop("n", None)
            if not isinstance(count, int) or not 0 < count <= _MOST_EQUAL:
                raise self._fail(f"{where}.rows[{place}]", "has no number of equal rows")
            found += [self._row(kind, cells, f"{where}.rows[{place}]")] * count
        return tuple(found)

    def cells(self, data: object, where: str) -> Iterator[dict[str, object]]:
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

    def _row(self, kind: type[R], cells: Mapping[str, object], where: str) -> R:
        types: dict[str, str] = _types(kind)  # type: ignore[arg-type] # classes are hashable
        values: dict[str, object] = {}
        for name, hint in types.items():
            if name == "groups" and kind is SpacePeak:
                continue
            value = cells.get(name)
            allowed = _CHECKS[hint]
            if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
                raise self._fail(f"{where}.{name}", f"is {value!r}")
            values[name] = tuple(map(str, value)) if isinstance(value, list) else value
        return kind(**values)


_MOST_EQUAL = 1 << 20
"""Equal rows of a file beyond this number are no program's."""
