"""Snapshots: figures of a compile, without its text, to compare other compiles with.

A snapshot holds the figures of each module, and the rows that a comparison attributes them to:
groups of values alive at the peaks, collectives, parameters and outputs, annotations. Names that
differ from compile to compile (of instructions, channels, computations) and paths of the machine
are left out; source files keep their last two names, files in site-packages their path in there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.render.result import facts_object, plain_value, saved_fields, saved_names
from hlo_lens.text.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from hlo_lens.questions.sharding.annotations import Annotation
    from hlo_lens.questions.snapshots.facts import ModuleFacts
    from hlo_lens.questions.snapshots.rows import CollectiveFact, EntryFact, SpacePeak


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
    from hlo_lens.questions.snapshots.rows import AliveGroup, CollectiveFact

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
