"""Snapshots: figures of a compile, without its text, to compare other compiles with.

A snapshot holds the figures of each module, and the rows that a comparison attributes them to:
groups of values alive at the peaks, collectives, parameters and outputs, annotations. Names that
differ from compile to compile (of instructions, channels, computations) and paths of the machine
are left out; source files keep their last two names, files in site-packages their path in there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import EnumType
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from hlo_lens.load import read_source
from hlo_lens.load.files import DiskFile, head_of
from hlo_lens.program.summary import Coverage
from hlo_lens.questions.findings.finding import Finding
from hlo_lens.questions.memory.statement import MemoryStatement
from hlo_lens.questions.sharding.annotations import Annotation
from hlo_lens.questions.snapshots import figures
from hlo_lens.questions.snapshots.figures import (
    AliveGroup,
    CollectiveFact,
    EntryFact,
    ModuleFacts,
    ShardingFacts,
    SpacePeak,
)
from hlo_lens.render.result import SINCE, facts_object, plain_value, saved_fields, saved_names
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSnapshot:
    """Snapshot of one module.

    Attributes:
        name: Name of the module.
        target: GPU architecture or TPU topology that it was compiled for, if the files name it.
        toolchain: Compiler, if the files name it.
        signature: Digest of the shapes of parameters and results.
        fingerprint: Digest of the program without names, ids and metadata; None without HLO text.
        facts: Its figures.
        peaks: One for each memory space that has allocations.
        annotations: Sharding annotations inside the program.
        outdated: Paths of figures that the file lacks, or has by an older definition; those of
            `peaks` begin with ``peaks.``.
        path: File, folder or archive that it was read from; empty if unknown, as in a saved
            snapshot.
    """

    name: str
    target: str | None
    toolchain: str | None
    signature: str | None
    fingerprint: str | None
    facts: ModuleFacts
    peaks: tuple[SpacePeak, ...]
    annotations: tuple[Annotation, ...] | None
    outdated: tuple[str, ...] = ()
    path: str = field(default="", compare=False)

    @property
    def collectives(self) -> tuple[CollectiveFact, ...] | None:
        """Collectives in the order of the text, sorted if read from a file; None without text."""
        return None if self.facts.collectives is None else self.facts.collectives.rows

    @property
    def entries(self) -> tuple[EntryFact, ...] | None:
        """Parameters, then outputs; None without HLO text."""
        return None if self.facts.sharding is None else self.facts.sharding.rows

    @property
    def has_old_peaks(self) -> bool:
        """Whether its file has peaks by an older definition."""
        return "peaks.bytes" in self.outdated

    @property
    def gap_count(self) -> int:
        """Number of places of its HLO text that could not be read."""
        return 0 if self.facts.coverage is None else self.facts.coverage.gaps

    @property
    def is_truncated(self) -> bool:
        """Whether its HLO text ends too early."""
        return self.facts.coverage is not None and self.facts.coverage.is_truncated

    @property
    def undefined_count(self) -> int:
        """Number of names that its HLO text uses and does not define."""
        return 0 if self.facts.coverage is None else self.facts.coverage.undefined


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Snapshots of the modules of a dump.

    Attributes:
        path: Where it comes from, for messages; not part of a file.
        modules: Snapshot of each module.
    """

    path: str
    modules: tuple[ModuleSnapshot, ...]

    def to_dict(self, *, tool_version: str) -> dict[str, object]:
        """Return the JSON object of a snapshot file."""
        return snapshot_object(self, tool_version=tool_version)


KIND = "snapshot"

Table = dict[str, object]
"""``columns``, a list of names, and ``rows``, a list of lists with one cell for each."""

ENTRY_TABLES = {"parameters": "parameter", "outputs": "output"}
"""Tables of entry values, and the `kind` of their rows."""

LAYOUT = "layout"
_LAYOUT_COLUMNS = (
    "global_shape",
    "device_shape",
    "device_bytes",
    "padded_device_bytes",
    "spec",
    "sharding",
    "replication_factor",
)
_ENTRY_COLUMNS = ("number", "index", "name", LAYOUT, "donation", "aliased_with")

TEXTS = ("target", "toolchain", "signature", "fingerprint")
"""Fields of a module that are texts, or null."""

APART = ("rows", "sharding")
"""Fields of the facts that have tables of their own."""

_TALL = ("modules", "rows", "peaks", "shardings")
"""Lists with one item on each line of the file."""


def snapshot_text(snapshot: Snapshot, *, tool_version: str) -> str:
    """Return the text of a snapshot file: ASCII, one row on each line."""
    return "".join(_pieces(snapshot_object(snapshot, tool_version=tool_version), "")) + "\n"


def snapshot_object(snapshot: Snapshot, *, tool_version: str) -> dict[str, object]:
    """Return the JSON object of a file: modules by name, then by signature and content."""
    objects = [_module_object(module) for module in snapshot.modules]
    objects.sort(key=lambda one: (str(one["name"]), str(one["signature"]), repr(one)))
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "tool_version": tool_version,
        "modules": objects,
    }


def _module_object(module: ModuleSnapshot) -> dict[str, object]:
    """Return the JSON object of a module: rows sorted, equal ones once with their number."""
    from hlo_lens.questions.sharding.annotations import Annotation
    from hlo_lens.questions.snapshots.figures import AliveGroup, CollectiveFact

    return {
        **{name: getattr(module, name) for name in ("name", *TEXTS)},
        "report": _sorted(facts_object(module.facts, leave_out=APART)),
        "peaks": [
            {**dict(saved_fields(p)), "groups": _table(AliveGroup, p.groups)} for p in module.peaks
        ],
        "collectives": _table(CollectiveFact, module.collectives, is_sorted=True),
        **_entry_tables(module.entries),
        "annotations": _table(Annotation, module.annotations, is_sorted=True),
    }


def _sorted(value: object) -> object:
    """Return a JSON value whose objects have their keys in order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _table(
    kind: type[DataclassInstance], rows: Sequence[object] | None, *, is_sorted: bool = False
) -> Table | None:
    """Return columns and rows; if sorted, equal rows once with their number."""
    if rows is None:
        return None
    names = saved_names(kind)
    cells = [[plain_value(getattr(row, name)) for name in names] for row in rows]
    if is_sorted:
        cells.sort(key=repr)
    counted: list[list[object]] = []
    for row in cells:
        if counted and counted[-1][1:] == row and is_sorted:
            counted[-1][0] = int(str(counted[-1][0])) + 1
        else:
            counted.append([1, *row])
    return {"columns": ["n", *names], "rows": counted}


# ---- entry values ------------------------------------------------------------------------------


def _entry_tables(entries: Sequence[EntryFact] | None) -> dict[str, object]:
    """Return the tables of parameters and outputs, and of the layouts that they share.

    Shardings that list many devices are long: layouts hold their indices in a list of texts.
    """
    if entries is None:
        return dict.fromkeys(("shardings", "layouts", *ENTRY_TABLES))
    texts = sorted({entry.sharding for entry in entries if entry.sharding is not None})
    place_of = {text: place for place, text in enumerate(texts)}

    def layout(entry: EntryFact) -> tuple[object, ...]:
        sharding = None if entry.sharding is None else place_of[entry.sharding]
        return tuple(
            sharding if name == "sharding" else getattr(entry, name) for name in _LAYOUT_COLUMNS
        )

    layouts = [layout(entry) for entry in entries]
    distinct = sorted(set(layouts), key=repr)
    number_of = {cells: place for place, cells in enumerate(distinct)}
    tables: dict[str, object] = {
        "shardings": texts,
        "layouts": {"columns": list(_LAYOUT_COLUMNS), "rows": [list(cells) for cells in distinct]},
    }
    for table, kind in ENTRY_TABLES.items():
        rows = (
            [
                number_of[cells] if name == LAYOUT else getattr(entry, name)
                for name in _ENTRY_COLUMNS
            ]
            for entry, cells in zip(entries, layouts, strict=True)
            if entry.kind == kind
        )
        tables[table] = _without_empty(rows)
    return tables


def _without_empty(rows: Iterable[Sequence[object]]) -> Table:
    """Return a table of entry values without its empty columns."""
    listed = list(rows)
    kept = [
        place
        for place, name in enumerate(_ENTRY_COLUMNS)
        if name == LAYOUT or any(row[place] not in (None, "") for row in listed)
    ]
    return {
        "columns": [_ENTRY_COLUMNS[place] for place in kept],
        "rows": [[row[place] for place in kept] for row in listed],
    }


# ---- the text ----------------------------------------------------------------------------------


def _pieces(value: object, indent: str, *, is_tall: bool = True) -> Iterator[str]:
    deeper = f"{indent} "
    if isinstance(value, dict) and value and is_tall:
        yield "{\n"
        for place, (key, item) in enumerate(value.items()):
            yield (",\n" if place else "") + f"{deeper}{json.dumps(key)}: "
            has_lines = isinstance(item, dict) or key in _TALL
            yield from _pieces(item, deeper, is_tall=has_lines)
        yield f"\n{indent}}}"
    elif isinstance(value, list) and value and is_tall:
        yield "[\n"
        for place, item in enumerate(value):
            yield (",\n" if place else "") + f"{deeper}"
            yield from _pieces(item, deeper, is_tall=isinstance(item, dict))
        yield f"\n{indent}]"
    else:
        yield json.dumps(value)


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
        **vars(figures),
        "Mapping": Mapping,
        "Finding": Finding,
        "Coverage": Coverage,
        "MemoryStatement": MemoryStatement,
    }
    hints = get_type_hints(kind, localns=names)
    return {
        one.name: _Field(
            hint=hints[one.name],
            scalars=_scalars(hints[one.name]),
            has_default=one.default is not MISSING or one.default_factory is not MISSING,
            since=one.metadata.get(SINCE, 1),
        )
        for one in fields(kind)
        if one.metadata.get("is_saved", True)
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
        for name, one in _fields(kind).items():  # type: ignore[arg-type] # hashable
            is_given = name in data or not one.has_default
            if is_given:
                value = data.get(name)
                if type(value) not in one.scalars:
                    value = self.value(one.hint, value, f"{where}.{name}")
                values[name] = value
            if self._version < one.since or (not is_given and name not in APART):
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


def is_snapshot_file(path: str) -> bool:
    """Return whether a file begins like JSON with a kind; texts of XLA do not."""
    if not Path(path).is_file():
        return False
    head = head_of(DiskFile(path)).lstrip(b"\xef\xbb\xbf \t\r\n")
    return head.startswith(b"{") and (b'"kind"' in head or b'"schema_version"' in head)


def read_snapshot_file(path: str) -> Snapshot:
    """Return the snapshot in a file.

    Raises:
        UnreadableError: If it cannot be read.
        DumpSyntaxError: If it is no snapshot, damaged, or of a newer version.
    """
    try:
        data = json.loads(read_source(path).text, parse_constant=_finite, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise DumpSyntaxError(
            f"this begins like JSON, but is none: {error.msg}",
            path=path,
            line=error.lineno,
            column=error.colno,
        ) from error
    except RecursionError as error:
        raise DumpSyntaxError(
            "this begins like JSON, but is nested too deeply", path=path
        ) from error
    except ValueError as error:  # also from int(), of more digits than Python reads
        raise DumpSyntaxError(f"the snapshot is damaged: {error}", path=path) from error
    return read_snapshot(data, path)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number
