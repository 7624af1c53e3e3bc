"""ModuleSnapshot: what is kept of a compile to compare others with it, without its text.

A snapshot has the numbers of the report, and as rows what a comparison attributes them to: groups
of values alive at the peaks, collectives, parameters and outputs, annotations. Names that differ
from compile to compile (of instructions, channels, computations) and paths of the machine are not
in it; source files keep their last two names, what lies in site-packages its place there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from hlo_lens.model.snapshot.writing import entry_tables, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION = 1
KIND = "snapshot"

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3[.\d]*/")
_KEPT_NAMES = 2


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
        return self._coverage("gaps")

    @property
    def undefined_count(self) -> int:
        """How many names its HLO text uses and does not define."""
        return self._coverage("undefined")

    def _coverage(self, name: str) -> int:
        found = (self.section("coverage") or {}).get(name)
        return found if isinstance(found, int) else 0

    def to_dict(self) -> dict[str, object]:
        """Return the object as files have it: rows sorted, equal ones once with their number."""
        return {
            "name": self.name,
            "target": self.target,
            "toolchain": self.toolchain,
            "signature": self.signature,
            "fingerprint": self.fingerprint,
            "report": _sorted(self.report),
            "peaks": [_peak_object(peak) for peak in self.peaks],
            "collectives": table_of(CollectiveFact, self.collectives, is_sorted=True),
            **entry_tables(self.entries),
            "annotations": table_of(AnnotationFact, self.annotations, is_sorted=True),
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
    return {**found, "groups": table_of(AliveGroup, peak.groups)}
