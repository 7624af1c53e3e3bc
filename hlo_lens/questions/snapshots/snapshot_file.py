"""Snapshots: figures of a compile to compare other compiles with, and its program, packed.

A snapshot holds the figures of each module, and the rows that a comparison attributes them to:
groups of values alive at the peaks, collectives, parameters and outputs, annotations. Names that
differ from compile to compile (of instructions, channels, computations) and paths of the machine
are left out; source files keep their last two names, files in site-packages their path in there.
The program (`program`) is unpacked only when causes of changes are asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import EnumType
from functools import lru_cache
from itertools import chain, groupby
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
from hlo_lens.questions.collectives.collective import Collective, CollectiveTotals
from hlo_lens.questions.findings.finding import Finding
from hlo_lens.questions.findings.findings import FindingsBasis
from hlo_lens.questions.memory.statement import MemoryStatement
from hlo_lens.questions.sharding.annotations import Annotation
from hlo_lens.questions.snapshots import figures
from hlo_lens.questions.snapshots.figures import (
    AliveGroup,
    EntryFact,
    ModuleFacts,
    ShardingFacts,
    SpacePeak,
)
from hlo_lens.questions.snapshots.program import SavedProgram
from hlo_lens.render.result import facts_object, plain_value, saved_fields, saved_names
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.version import SCHEMA_VERSION, SNAPSHOT_VERSION

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSnapshot:
    """Snapshot of one module.

    Attributes:
        target: GPU architecture or TPU topology that it was compiled for, if the files name it.
        toolchain: Compiler, if the files name it.
        signature: Digest of the shapes of parameters and results.
        fingerprint: Digest of the program without names, ids and metadata; None without HLO text.
        facts: Its figures.
        peaks: One for each memory space that has allocations.
        annotations: Sharding annotations inside the program.
        program: Its program, in which causes of changes are found; None if it was not asked for, or
            in snapshots without it.
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
    program: SavedProgram | None = None
    path: str = field(default="", compare=False)

    @property
    def collectives(self) -> tuple[Collective, ...] | None:
        """Collectives in the order of the text, sorted if read from a file; None without text."""
        return None if self.facts.collectives is None else self.facts.collectives.rows

    @property
    def entries(self) -> tuple[EntryFact, ...] | None:
        """Parameters, then outputs; None without HLO text."""
        return None if self.facts.sharding is None else self.facts.sharding.rows

    @property
    def gap_count(self) -> int:
        return 0 if self.facts.coverage is None else self.facts.coverage.gaps

    @property
    def is_truncated(self) -> bool:
        return self.facts.coverage is not None and self.facts.coverage.is_truncated

    @property
    def undefined_count(self) -> int:
        return 0 if self.facts.coverage is None else self.facts.coverage.undefined


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Snapshots of the modules of a dump.

    `path`, where it comes from, is no part of a file; `selection` is the regular expression that
    chose the modules among others, None for all of them.
    """

    path: str
    modules: tuple[ModuleSnapshot, ...]
    selection: str | None = None

    def to_dict(self, *, tool_version: str) -> dict[str, object]:
        """Return the JSON object of a snapshot file."""
        return snapshot_object(self, tool_version=tool_version)


KIND = "snapshot"

_TEXTS = ("target", "toolchain", "signature", "fingerprint")

_SIDES = (("parameters", "parameter"), ("outputs", "output"))

_APART = ("rows", "sharding")

_TALL = ("modules", "rows", "peaks", "texts")

_LONG = 200
"""Characters of a text that a file has once: a sharding that lists many devices."""


def snapshot_text(snapshot: Snapshot, *, tool_version: str) -> str:
    """Return the text of a snapshot file: ASCII, one row on each line."""
    return "".join(_pieces(snapshot_object(snapshot, tool_version=tool_version), "")) + "\n"


def snapshot_object(snapshot: Snapshot, *, tool_version: str) -> dict[str, object]:
    """Return the JSON object of a file: modules by name, then by signature and content."""
    objects = [_module_object(module) for module in snapshot.modules]
    objects.sort(key=lambda module: (str(module["name"]), str(module["signature"]), repr(module)))
    return {
        "schema_version": SNAPSHOT_VERSION,
        "kind": KIND,
        "tool_version": tool_version,
        **({} if snapshot.selection is None else {"selection": snapshot.selection}),
        "modules": objects,
    }


def _module_object(module: ModuleSnapshot) -> dict[str, object]:
    entries, program = module.entries, module.program
    long = {e.sharding for e in entries or () if len(e.sharding or "") > _LONG}
    texts = {text: number for number, text in enumerate(sorted(long, key=str))}
    sides = {}
    for name, kind in _SIDES:
        of_kind = None if entries is None else [one for one in entries if one.kind == kind]
        sides[name] = _table(EntryFact, of_kind, texts=texts)
    saved = {}
    if program is not None:
        packed = program.packed
        saved["program"] = {"left_out": program.reason} if packed is None else {"packed": packed}
    return {
        **{name: getattr(module, name) for name in ("name", *_TEXTS)},
        "report": _sorted(facts_object(module.facts, leave_out=_APART)),
        "peaks": [
            {**dict(saved_fields(p)), "groups": _table(AliveGroup, p.groups)} for p in module.peaks
        ],
        "collectives": _table(Collective, module.collectives, is_sorted=True),
        "texts": list(texts),
        **sides,
        "annotations": _table(Annotation, module.annotations, is_sorted=True),
        **saved,
    }


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _table(
    kind: type[DataclassInstance],
    records: Sequence[object] | None,
    *,
    is_sorted: bool = False,
    texts: Mapping[str | None, int] | None = None,
) -> dict[str, object] | None:
    if records is None:
        return None
    names = saved_names(kind)
    known = texts or {}
    cells = [
        [
            {"text": known[cell]} if isinstance(cell, str) and cell in known else cell
            for cell in (plain_value(getattr(record, name)) for name in names)
        ]
        for record in records
    ]
    counts = [1] * len(cells)
    if is_sorted:
        grouped = [[*group] for _, group in groupby(sorted(cells, key=repr))]
        cells, counts = [group[0] for group in grouped], [*map(len, grouped)]
    columns: dict[str, list[object]] = {"n": [*counts]}
    columns |= {name: [row[k] for row in cells] for k, name in enumerate(names)}
    same = {n: c[0] for n, c in columns.items() if len(c) > 1 and c.count(c[0]) == len(c)}
    kept = [name for name in columns if name not in same]
    rows = zip(*(columns[name] for name in kept), strict=True)
    return {"same": same, "columns": kept, "rows": [list(row) for row in rows]}


def _pieces(value: object, indent: str, *, is_tall: bool = True) -> Iterator[str]:
    deeper = f"{indent} "
    if isinstance(value, dict) and value and is_tall:
        yield "{\n"
        for place, (key, item) in enumerate(value.items()):
            yield (",\n" if place else "") + f"{deeper}{json.dumps(key)}: "
            has_lines = (isinstance(item, dict) and key != "same") or key in _TALL
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

_MOST_EQUAL = 1 << 20
"""Equal rows beyond this number are damage."""

LINT = "lint"
"""Kind of the JSON of ``hlo-lens lint``, which has findings as snapshots have them."""


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
        DumpSyntaxError: If it is no snapshot, damaged, or of another version.
    """
    begins = "this begins like JSON, but is"
    try:
        data = json.loads(read_source(path).text, parse_constant=_finite, parse_float=_finite)
    except json.JSONDecodeError as error:
        message = f"{begins} none: {error.msg}"
        place = (error.lineno, error.colno)
        raise DumpSyntaxError(message, path=path, line=place[0], column=place[1]) from error
    except RecursionError as error:
        raise DumpSyntaxError(f"{begins} nested too deeply", path=path) from error
    except ValueError as error:  # also from int(), of more digits than Python reads
        raise DumpSyntaxError(f"the snapshot is damaged: {error}", path=path) from error
    return read_snapshot(data, path)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


def read_snapshot(data: object, path: str) -> Snapshot:
    """Return the snapshot of a file.

    Raises:
        DumpSyntaxError: If it is no snapshot, of another version, or damaged.
    """
    if not isinstance(data, dict) or data.get("kind") != KIND:
        what = data.get("kind") if isinstance(data, dict) else None
        found = f"found a {what!r}" if isinstance(what, str) else "found JSON of another kind"
        raise DumpSyntaxError(f"expected a snapshot that hlo-lens save wrote, {found}", path=path)
    version = data.get("schema_version")
    if version != SNAPSHOT_VERSION or isinstance(version, bool):
        is_newer = isinstance(version, int) and version > SNAPSHOT_VERSION
        message = (
            f"the snapshot has schema version {version}, this hlo-lens reads {SNAPSHOT_VERSION}; "
            f"it was written by hlo-lens {data.get('tool_version')}: "
            f"{'update hlo-lens, or ' * is_newer}save it again with this version, from its dump"
        )
        raise DumpSyntaxError(message, path=path)
    reader = _Reader(path)
    listed = reader.objects(data.get("modules"), "modules")
    modules = tuple(reader.module(one, f"modules[{k}]") for k, one in enumerate(listed))
    selection = reader.value(str | None, data.get("selection"), "selection")
    return Snapshot(path=path, modules=modules, selection=selection)


def read_findings(data: Mapping[str, object], path: str) -> list[tuple[str, tuple[Finding, ...]]]:
    """Return the name and the findings of each module in the JSON of ``lint``.

    Raises:
        DumpSyntaxError: If it is of a newer version, or damaged.
    """
    version = data.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        message = f"it has schema version {version}, this hlo-lens reads up to {SCHEMA_VERSION}"
        raise DumpSyntaxError(message, path=path)
    reader = _Reader(path, is_lenient=True)
    listed = reader.objects(data.get("modules"), "modules")
    return [
        (
            reader.value(str, one.get("name"), f"modules[{k}].name"),
            reader.value(tuple[Finding, ...], one.get("findings") or [], f"modules[{k}].findings"),
        )
        for k, one in enumerate(listed)
    ]


class _Field(NamedTuple):
    """A field: its type, the JSON types that it takes unchanged, whether it has a default."""

    hint: Any
    scalars: frozenset[type]
    has_default: bool


@lru_cache(maxsize=32)
def _fields(kind: Any) -> Mapping[str, _Field]:
    names = {
        "Mapping": Mapping,
        "Finding": Finding,
        "Coverage": Coverage,
        "CollectiveTotals": CollectiveTotals,
        "FindingsBasis": FindingsBasis,
        "MemoryStatement": MemoryStatement,
        **vars(figures),
    }
    hints = get_type_hints(kind, localns=names)
    return {
        one.name: _Field(
            hint=hints[one.name],
            scalars=_scalars(hints[one.name]),
            has_default=one.default is not MISSING or one.default_factory is not MISSING,
        )
        for one in fields(kind)
        if one.metadata.get("is_saved", True)
    }


def _scalars(hint: Any) -> frozenset[type]:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    found = {part for part in parts if part in (str, int, float, bool, NoneType)}
    return frozenset(found | ({int} if float in found else set()))


class _Reader:
    """Reader of one file: JSON to records, with the place of any damage.

    A figure that is absent, which a version before it did not write, is refused unless lenient.
    """

    def __init__(self, path: str, *, is_lenient: bool = False) -> None:
        self._path = path
        self._is_lenient = is_lenient
        self._texts: Sequence[str] = ()

    def _fail(self, where: str, what: str) -> DumpSyntaxError:
        message = f"the snapshot is damaged: {where} {what}; save it again from its dump"
        return DumpSyntaxError(message, path=self._path)

    def objects(self, value: object, where: str) -> list[dict[str, object]]:
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._fail(where, "is no list of objects")
        return value

    def module(self, data: Mapping[str, object], where: str) -> ModuleSnapshot:
        self._texts = self.value(tuple[str, ...], data.get("texts"), f"{where}.texts")
        facts = self._object(ModuleFacts, data.get("report"), f"{where}.report")
        known, rows = facts.collectives, self._rows(Collective, data, "collectives", where)
        if known is not None and rows is not None:
            facts = replace(facts, collectives=replace(known, rows=rows))
        sides = [self._rows(EntryFact, data, name, where) for name, _ in _SIDES]
        if None not in sides:
            sharding = ShardingFacts(rows=tuple(chain(*filter(None, sides))))
            facts = replace(facts, sharding=sharding)
        peaks = []
        for place, one in enumerate(self.objects(data.get("peaks"), f"{where}.peaks")):
            at = f"{where}.peaks[{place}]"
            groups = self._rows(AliveGroup, one, "groups", at) or ()
            peak = self._object(SpacePeak, {**one, "groups": []}, at)
            if sum(group.size_bytes for group in groups) != peak.bytes:
                raise self._fail(at, "has groups that do not sum to its bytes")
            peaks.append(replace(peak, groups=groups))
        saved, program = data.get("program"), None
        if isinstance(saved, dict):
            packed, reason = (
                self.value(str | None, saved.get(name), f"{where}.program.{name}")
                for name in ("packed", "left_out")
            )
            program = SavedProgram(packed=packed, reason=reason or "", path=self._path)
        elif saved is not None:
            raise self._fail(f"{where}.program", "is no object")
        return ModuleSnapshot(
            name=self.value(str, data.get("name"), f"{where}.name"),
            **{n: self.value(str | None, data.get(n), f"{where}.{n}") for n in _TEXTS},
            facts=facts,
            peaks=tuple(peaks),
            annotations=self._rows(Annotation, data, "annotations", where),
            program=program,
        )

    def _object(self, kind: type[R], data: object, where: str) -> R:
        if not isinstance(data, dict):
            raise self._fail(where, "is no object")
        values: dict[str, object] = {}
        for name, one in _fields(kind).items():  # type: ignore[arg-type] # hashable
            if name in data:
                value = data[name]
                if type(value) not in one.scalars:
                    value = self.value(one.hint, value, f"{where}.{name}")
                values[name] = value
            elif not one.has_default or not (self._is_lenient or name in _APART):
                raise self._fail(f"{where}.{name}", "is missing")
        return kind(**values)

    def value(self, hint: Any, value: object, where: str) -> Any:
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

    def _rows(
        self, kind: type[R], data: Mapping[str, object], name: str, where: str
    ) -> tuple[R, ...] | None:
        where = f"{where}.{name}"
        table = data.get(name)
        if name in data and table is None:
            return None
        parts = table if isinstance(table, dict) else {}
        same, columns, rows = (parts.get(k) for k in ("same", "columns", "rows"))
        if not (isinstance(columns, list) and isinstance(rows, list) and isinstance(same, dict)):
            raise self._fail(where, "is no table")
        found: list[R] = []
        for place, row in enumerate(rows):
            at = f"{where}.rows[{place}]"
            if not isinstance(row, list) or len(row) != len(columns):
                raise self._fail(at, "has not one cell for each column")
            cells = {**same, **dict(zip(map(str, columns), row, strict=True))}
            count = cells.pop("n", None)
            if not isinstance(count, int) or not 0 < count <= _MOST_EQUAL:
                raise self._fail(at, "has no number of equal rows")
            for column, cell in cells.items():
                if isinstance(cell, dict):  # the number of a text
                    number = cell.get("text")
                    if type(number) is not int or number not in range(len(self._texts)):
                        raise self._fail(f"{at}.{column}", f"is {number!r}")
                    cells[column] = self._texts[number]
            found += [self._object(kind, cells, at)] * count
        return tuple(found)
