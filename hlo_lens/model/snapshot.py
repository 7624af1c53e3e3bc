"""ModuleSnapshot: what is kept of a compile to compare others with it, without its text.

A snapshot has the numbers of the report, and as rows what a comparison attributes them to: groups
of values alive at the peaks, collectives, parameters and outputs, annotations. Names that differ
from compile to compile (of instructions, channels, computations) and paths of the machine are not
in it; source files keep their last two names, what lies in site-packages its place there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar, get_type_hints

from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA_VERSION = 1
KIND = "snapshot"

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3[.\d]*/")
_KEPT_NAMES = 2

R = TypeVar("R")


def portable_path(file: str) -> str:
    """Return a source file's path as it is on any machine.

    >>> portable_path("/home/me/project/train.py"), portable_path("src/train.py")
    ('project/train.py', 'src/train.py')
    """
    path = file.replace("\\", "/")
    short = _PACKAGES.sub("", path)
    if short != path or not (path.startswith("/") or re.match(r"[A-Za-z]:/", path)):
        return short
    return "/".join(path.split("/")[-_KEPT_NAMES:])


@dataclass(frozen=True, slots=True, kw_only=True)
class AliveGroup:
    """Values alive at one instant that have one origin and shape.

    Attributes:
        category: What their allocations are for.
        op_name: Operation path of what made them; of arguments the argument's name.
        source: Place in the user's program, ``file:line``.
        opcode: What made them.
        shape: Shape without layout.
        values: How many.
        size_bytes: Bytes that belong to them; those of all groups sum to the peak.
    """

    category: str
    op_name: str | None
    source: str | None
    opcode: str | None
    shape: str
    values: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacePeak:
    """What is alive at the peak of one memory space, or lies in it where no schedule is known.

    Attributes:
        color: Number of the memory space.
        name: What users call it.
        is_peak: Whether groups are alive at the peak; else they are all that is allocated, each
            byte given to the largest value that lies there.
        bytes: Sum over all groups.
        op_name: Operation path of the instruction that runs then.
        source: Its place in the user's program.
        opcode: Its opcode.
        groups: Largest first.
    """

    color: int
    name: str
    is_peak: bool
    bytes: int
    op_name: str | None
    source: str | None
    opcode: str | None
    groups: tuple[AliveGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveFact:
    """One collective, without names of instructions.

    Attributes:
        kind: As in the report; so the fields below that the report has too.
        axis: Mesh axes as people read them; ``?`` if unknown.
        are_axes_named: Whether a text or the user names them; inferred ones are called ``axis_0``.
        groups: Digest of the devices of all groups, or of sources and targets.
        loops: Enclosing loops, outermost first: operation path and trip count.
        depth: How many loops that is.
        is_exposed: Whether nothing runs meanwhile; None if not known.
    """

    kind: str
    axis: str
    axes: tuple[str, ...] | None
    are_axes_named: bool
    groups: str | None
    group_size: int | None
    num_groups: int | None
    payload_bytes: int | None
    wire_bytes_per_device: int | None
    element_type: str | None
    dynamic_count: int | None
    is_at_most: bool
    loops: tuple[str, ...]
    is_async: bool
    is_exposed: bool | None
    op_name: str | None
    source_file: str | None
    source_line: int | None

    @property
    def source(self) -> str | None:
        """Place in the user's program, or None."""
        if self.source_file is None or self.source_line is None:
            return self.source_file
        return f"{self.source_file}:{self.source_line}"

    @property
    def wire_bytes_per_run(self) -> int | None:
        """Bytes that leave each device in one run; None if not known."""
        if self.wire_bytes_per_device == 0 or self.dynamic_count == 0:
            return 0
        if self.wire_bytes_per_device is None or self.dynamic_count is None:
            return None
        return self.wire_bytes_per_device * self.dynamic_count


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFact:
    """One parameter or output, or a leaf of one; fields as in the report's sharding rows."""

    kind: str
    number: int | None
    index: str
    name: str | None
    global_shape: str | None
    device_shape: str | None
    device_bytes: int | None
    padded_device_bytes: int | None
    spec: str | None
    sharding: str | None
    replication_factor: int | None
    donation: str | None
    aliased_with: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationFact:
    """One place where the program says something about shardings."""

    annotation: str
    shape: str | None
    sharding: str | None
    spec: str | None
    manual_axes: str | None
    source: str | None
    op_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSnapshot:
    """What is kept of one module.

    Attributes:
        name: Name of the module.
        target: What it was compiled for, as far as the files tell: GPU architecture, TPU topology.
        toolchain: Compiler, as far as the files tell.
        signature: Digest of the shapes of parameters and results.
        fingerprint: Digest of the program without names, ids and metadata; None without HLO text.
        report: The numbers of the module's object in the report, without rows.
        peaks: One for each memory space that has allocations.
        collectives: In the order of the text, or sorted where read from a file.
        entries: Parameters, then outputs.
        annotations: What the program says inside of it.
    """

    name: str
    target: str | None
    toolchain: str | None
    signature: str | None
    fingerprint: str | None
    report: Mapping[str, object]
    peaks: tuple[SpacePeak, ...]
    collectives: tuple[CollectiveFact, ...] | None
    entries: tuple[EntryFact, ...] | None
    annotations: tuple[AnnotationFact, ...] | None

    def section(self, name: str) -> Mapping[str, object] | None:
        """Return an object of the report, such as ``memory``; None where nothing is known."""
        found = self.report.get(name)
        return found if isinstance(found, dict) else None

    def number(self, name: str) -> int | None:
        """Return a number of the report, such as ``num_partitions``; None if not known."""
        found = self.report.get(name)
        return found if isinstance(found, int) else None

    @property
    def backend(self) -> str | None:
        """``cpu``, ``gpu``, ``tpu`` or None."""
        found = self.report.get("backend")
        return found if isinstance(found, str) else None

    @property
    def gap_count(self) -> int:
        """How many places of its HLO text were not understood."""
        coverage = self.section("coverage") or {}
        gaps = coverage.get("gaps")
        return gaps if isinstance(gaps, int) else 0

    def to_dict(self) -> dict[str, object]:
        """Return the object as files have it: rows sorted, equal ones once with their number."""
        texts = {entry.sharding for entry in self.entries or () if entry.sharding is not None}
        shardings = sorted(texts)
        return {
            "name": self.name,
            "target": self.target,
            "toolchain": self.toolchain,
            "signature": self.signature,
            "fingerprint": self.fingerprint,
            "report": _sorted(self.report),
            "peaks": [_peak_object(peak) for peak in self.peaks],
            "collectives": _rows_object(CollectiveFact, self.collectives, is_sorted=True),
            "shardings": shardings,
            "entries": _with_places(_rows_object(EntryFact, self.entries), shardings),
            "annotations": _rows_object(AnnotationFact, self.annotations, is_sorted=True),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is kept of a dump.

    Attributes:
        path: Where it comes from, for messages; not part of a file.
        modules: What is kept of each module.
    """

    path: str
    modules: tuple[ModuleSnapshot, ...]

    def to_dict(self, *, tool_version: str) -> dict[str, object]:
        """Return the object of a file: modules by name, then by signature and content."""
        objects = [module.to_dict() for module in self.modules]
        objects.sort(key=lambda one: (str(one["name"]), str(one["signature"]), repr(one)))
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "tool_version": tool_version,
            "modules": objects,
        }


def _sorted(value: object) -> object:
    """Return a JSON value whose objects have their keys in order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    return value


def _peak_object(peak: SpacePeak) -> dict[str, object]:
    found = {field.name: getattr(peak, field.name) for field in fields(SpacePeak)}
    return {**found, "groups": _rows_object(AliveGroup, peak.groups)}


def _rows_object(
    kind: type[R], rows: Sequence[R] | None, *, is_sorted: bool = False
) -> dict[str, object] | None:
    """Return columns and rows; equal rows that follow one another once, with their number."""
    if rows is None:
        return None
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type] # they are dataclasses
    cells = [[_plain(getattr(row, name)) for name in names] for row in rows]
    if is_sorted:
        cells.sort(key=repr)
    counted: list[list[object]] = []
    for row in cells:
        if counted and counted[-1][1:] == row and is_sorted:
            counted[-1][0] = int(str(counted[-1][0])) + 1
        else:
            counted.append([1, *row])
    return {"columns": ["n", *names], "rows": counted}


def _with_places(
    table: dict[str, object] | None, shardings: Sequence[str]
) -> dict[str, object] | None:
    """Return the table of entries with the place of each sharding in a list.

    Shardings that list many devices are long, and few differ.
    """
    if table is None:
        return None
    columns, rows = table["columns"], table["rows"]
    if not isinstance(columns, list) or not isinstance(rows, list):
        return None
    place = columns.index("sharding")
    places = {text: number for number, text in enumerate(shardings)}
    for row in rows:
        row[place] = None if row[place] is None else places[row[place]]
    return table


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


# ---- reading -----------------------------------------------------------------------------------


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
        return DumpSyntaxError(f"the snapshot is damaged: {where} {what}", path=self._path)

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
        """Return parameters and outputs, with the texts of their shardings."""
        table, texts = data.get("entries"), data.get("shardings")
        if table is None:
            return None
        columns = table.get("columns") if isinstance(table, dict) else None
        rows = table.get("rows") if isinstance(table, dict) else None
        if not isinstance(rows, list) or not isinstance(columns, list) or "sharding" not in columns:
            raise self._fail(f"{where}.entries", "is no table")
        if not isinstance(texts, list):
            raise self._fail(f"{where}.shardings", "is no list")
        place = columns.index("sharding")
        listed = [list(row) if isinstance(row, list) else row for row in rows]
        for row in listed:
            number = row[place] if isinstance(row, list) and len(row) > place else None
            if isinstance(number, int) and 0 <= number < len(texts):
                row[place] = texts[number]
        whole = {"columns": columns, "rows": listed}
        return self.rows(EntryFact, whole, f"{where}.entries")

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
        columns = data.get("columns") if isinstance(data, dict) else None
        rows = data.get("rows") if isinstance(data, dict) else None
        if not isinstance(columns, list) or not isinstance(rows, list) or "n" not in columns:
            raise self._fail(where, "is no table")
        found: list[R] = []
        for place, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != len(columns):
                raise self._fail(f"{where}.rows[{place}]", "has not one cell for each column")
            cells = dict(zip(map(str, columns), row, strict=True))
            count = cells.pop("n")
            if not isinstance(count, int) or not 0 < count <= _MOST_EQUAL:
                raise self._fail(f"{where}.rows[{place}]", "has no number of equal rows")
            found += [self._row(kind, cells, f"{where}.rows[{place}]")] * count
        return tuple(found)

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
