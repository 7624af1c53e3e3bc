"""The memory of two compiles: the statement line by line, and which values make the difference.

The peak of each memory space is explained by groups of values of one origin and shape: each byte
that is occupied at the peak belongs to one group, so that the differences of all groups sum to the
difference of the peaks. Where no live ranges are known, what is explained is all that is allocated,
each byte given to the largest value that lies there, and free bytes to `FRAGMENTATION`.

Groups are matched by kind, operation path, source line and shape; then without the line number,
which an edit further up moves; then without the place; then by the last scope of the path; then
without the shape, so that an array that became larger, or of another type, stands in one row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.diff.multiset import pair_items
from hlo_lens.analysis.diff.paths import last_scopes
from hlo_lens.analysis.result import Column, Result, Unit

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.result import Row
    from hlo_lens.model.snapshot import AliveGroup, EntryFact, ModuleSnapshot, SpacePeak

METRICS = (
    "argument_bytes",
    "output_bytes",
    "alias_bytes",
    "temp_bytes",
    "constant_bytes",
    "thread_local_bytes",
    "total_bytes",
)
"""Lines of the statement of one device, as in the report's MEMORY object."""

SPACE_METRICS = (
    "argument_bytes",
    "output_bytes",
    "alias_bytes",
    "temp_bytes",
    "constant_bytes",
    "thread_local_bytes",
    "total_bytes",
    "peak_bytes",
    "fragmentation_bytes",
    "padding_bytes",
)
"""Lines of the statement of one memory space."""

PEAK = "peak.bytes"

_LINE = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A number before and after; None where it is not known.

    Attributes:
        base: Before.
        head: After.
        is_comparable: Whether the two mean the same.
    """

    base: int | None
    head: int | None
    is_comparable: bool = True

    @property
    def delta(self) -> int | None:
        """Head minus base; None where either is not known, or they do not mean the same."""
        if self.base is None or self.head is None or not self.is_comparable:
            return None
        return self.head - self.base

    @property
    def is_changed(self) -> bool:
        """Whether anything is different."""
        return self.base != self.head

    def to_dict(self) -> dict[str, int | None]:
        """Return the object that scripts rely on."""
        return {"base": self.base, "head": self.head, "delta": self.delta}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRow:
    """Values of one origin at the peaks of both sides.

    Attributes:
        base: Their group in the base; None where they are new.
        head: Their group in the head; None where they are gone.
    """

    base: AliveGroup | None
    head: AliveGroup | None

    @property
    def one(self) -> AliveGroup:
        """The group of the head, or of the base where they are gone."""
        group = self.head or self.base
        if group is None:
            message = "a row has a group"
            raise AssertionError(message)
        return group

    @property
    def delta_bytes(self) -> int:
        """Bytes of the head minus those of the base."""
        return _size(self.head) - _size(self.base)

    @property
    def change(self) -> str:
        """``new``, ``gone``, ``grown``, ``shrunk`` or ``=``."""
        if self.base is None:
            return "new"
        if self.head is None:
            return "gone"
        if self.delta_bytes:
            return "grown" if self.delta_bytes > 0 else "shrunk"
        return "="

    @property
    def shape(self) -> str:
        """Shape and number: ``bf16[64,32768] x 9``, with an arrow between if they differ."""
        texts = [shape_text(group) for group in (self.base, self.head) if group is not None]
        return " -> ".join(dict.fromkeys(texts))

    @property
    def source(self) -> str | None:
        """Place in the head's program, in the base's where they are gone."""
        return self.one.source


def shape_text(group: AliveGroup) -> str:
    """Return shape and number of values, which is left out for one."""
    return group.shape if group.values == 1 else f"{group.shape} x {group.values}"


def _size(group: AliveGroup | None) -> int:
    return 0 if group is None else group.size_bytes


@dataclass(frozen=True, kw_only=True)
class PeakDiff(Result):
    """What makes the difference of one memory space's peaks, largest first.

    Attributes:
        color: Number of the space.
        space: What users call it.
        is_peak: Whether values alive at the peak are compared; else all that is allocated.
        base: The base's side; None where the space has nothing there.
        head: The head's side.
        changed: Rows that differ.
        unchanged_groups: How many groups are the same on both sides.
    """

    KIND: ClassVar[str] = "memory-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("space", Unit.NONE, "memory space"),
        Column("delta_bytes", Unit.BYTES_DELTA, "bytes of the head minus those of the base"),
        Column("base_bytes", Unit.BYTES, "bytes at the base's peak"),
        Column("head_bytes", Unit.BYTES, "bytes at the head's peak"),
        Column("change", Unit.NONE, "new, gone, grown or shrunk"),
        Column("source", Unit.NONE, "place in the user's program"),
        Column("shape", Unit.NONE, "shape and number of values"),
        Column("op_name", Unit.NONE, "operation path, or name of the argument"),
        Column("category", Unit.NONE, "what their allocations are for"),
        Column("opcode", Unit.NONE, "what makes them"),
        Column("base_values", Unit.COUNT, "how many values in the base"),
        Column("head_values", Unit.COUNT, "how many values in the head"),
        Column("base_shape", Unit.NONE, "shape in the base"),
        Column("head_shape", Unit.NONE, "shape in the head"),
        Column("base_source", Unit.NONE, "place in the base's program"),
        Column("head_source", Unit.NONE, "place in the head's program"),
    )
    color: int
    space: str
    is_peak: bool
    base: SpacePeak | None
    head: SpacePeak | None
    changed: tuple[PeakRow, ...] = field(repr=False)
    unchanged_groups: int

    @property
    def delta_bytes(self) -> int:
        """Difference of the peaks: the sum over all rows."""
        return (self.head.bytes if self.head else 0) - (self.base.bytes if self.base else 0)

    def rows(self) -> Iterator[Row]:
        """Yield the rows that differ, the largest difference first."""
        for row in self.changed:
            base, head = row.base, row.head
            yield (
                self.space,
                row.delta_bytes,
                None if base is None else base.size_bytes,
                None if head is None else head.size_bytes,
                row.change,
                row.source,
                row.shape,
                row.one.op_name,
                row.one.category,
                row.one.opcode,
                0 if base is None else base.values,
                0 if head is None else head.values,
                None if base is None else base.shape,
                None if head is None else head.shape,
                None if base is None else base.source,
                None if head is None else head.source,
            )

    @property
    def row_count(self) -> int:
        """Number of rows that differ."""
        return len(self.changed)

    def totals(self) -> Mapping[str, int]:
        """Return the difference of the peaks."""
        return {"delta_bytes": self.delta_bytes}

    @property
    def has_moved(self) -> bool:
        """Whether the peak is at another place of the program."""
        if self.base is None or self.head is None or not self.is_peak:
            return False
        return _moment(self.base) != _moment(self.head)


def _moment(peak: SpacePeak) -> tuple[str | None, ...]:
    """Return where a peak is, without line numbers and the scopes around it."""
    return last_scopes(peak.op_name), _LINE.sub("", peak.source or ""), peak.opcode


@dataclass(frozen=True, kw_only=True)
class DonationDiff(Result):
    """Parameters whose memory a result has on one side only, largest first.

    Attributes:
        entries: The parameter in the base and in the head.
    """

    KIND: ClassVar[str] = "donation-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("change", Unit.NONE, "lost or gained: whether a result has the argument's memory"),
        Column("name", Unit.NONE, "argument"),
        Column("device_bytes", Unit.BYTES, "bytes of one device's part"),
        Column("device_shape", Unit.NONE, "shape of one device's part"),
        Column("base_output", Unit.NONE, "result that has its memory in the base"),
        Column("head_output", Unit.NONE, "result that has its memory in the head"),
        Column("base_donation", Unit.NONE, "how the base's program donates it"),
        Column("head_donation", Unit.NONE, "how the head's program donates it"),
    )
    entries: tuple[tuple[EntryFact, EntryFact], ...]

    def rows(self) -> Iterator[Row]:
        """Yield the parameters, those that lost their alias first."""
        for base, head in self.entries:
            yield (
                "gained" if base.aliased_with is None else "lost",
                head.name or base.name,
                _bytes_of(head),
                head.device_shape,
                base.aliased_with,
                head.aliased_with,
                base.donation,
                head.donation,
            )

    @property
    def row_count(self) -> int:
        """Number of parameters."""
        return len(self.entries)

    def bytes_of(self, change: str) -> int:
        """Return the bytes of all parameters of one change, as far as they are known."""
        return sum(
            int(str(row[2])) for row in self.rows() if row[0] == change and row[2] is not None
        )


def _bytes_of(entry: EntryFact) -> int | None:
    return entry.device_bytes if entry.padded_device_bytes is None else entry.padded_device_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiff:
    """What changed in the memory of one module.

    Attributes:
        metrics: Line of the statement, as a path into MEMORY, to its values.
        base_source: ``buffer-assignment``, ``estimate``, or None where nothing is known.
        head_source: The same of the head.
        peaks: One for each memory space of either side; none where the sides cannot be compared.
        problem: Why they cannot be; empty where they can.
    """

    metrics: Mapping[str, Delta]
    base_source: str | None
    head_source: str | None
    peaks: tuple[PeakDiff, ...] = ()
    problem: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether any line or any group of values differs."""
        lines = any(delta.is_changed for delta in self.metrics.values())
        return lines or any(peak.changed for peak in self.peaks)


def memory_diff(
    base: ModuleSnapshot, head: ModuleSnapshot, *, is_forced: bool = False
) -> MemoryDiff | None:
    """Return what changed in the memory of a module; None where neither side knows anything.

    Args:
        base: Before.
        head: After.
        is_forced: Whether to compare an estimate with what XLA assigned.
    """
    mine, yours = base.section("memory"), head.section("memory")
    if mine is None and yours is None:
        return None
    sources = (_source(mine), _source(yours))
    problem = memory_problem(base, head)
    is_comparable = not problem or (is_forced and None not in sources)
    return MemoryDiff(
        metrics=dict(_metrics(mine or {}, yours or {}, is_comparable=is_comparable)),
        base_source=sources[0],
        head_source=sources[1],
        peaks=_peaks(base, head) if is_comparable else (),
        problem=problem,
    )


def memory_problem(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return why the memory of two modules cannot be compared; empty where it can."""
    mine, yours = _source(base.section("memory")), _source(head.section("memory"))
    if mine is None or yours is None:
        which = "base" if mine is None else "head"
        return f"the memory of the {which} is not known: no buffer assignment and no schedule"
    if mine == yours:
        return ""
    which = "base" if mine == "estimate" else "head"
    return (
        f"the memory of the {which} is an estimate, that of the other as XLA assigned it: not "
        "compared; dump the buffer assignment of both, or give --force"
    )


def _source(memory: Mapping[str, object] | None) -> str | None:
    found = None if memory is None else memory.get("source")
    return found if isinstance(found, str) else None


def _metrics(
    mine: Mapping[str, object], yours: Mapping[str, object], *, is_comparable: bool
) -> Iterator[tuple[str, Delta]]:
    """Yield path and values of all lines of the statement."""

    def delta(one: Mapping[str, object], other: Mapping[str, object], name: str) -> Delta:
        return Delta(base=_int(one, name), head=_int(other, name), is_comparable=is_comparable)

    for name in METRICS:
        yield name, delta(mine, yours, name)
    yield PEAK, delta(_object(mine, "peak"), _object(yours, "peak"), "bytes")
    left, right = _spaces(mine), _spaces(yours)
    absent: Mapping[str, object] = dict.fromkeys(SPACE_METRICS, 0)
    for color in sorted({*left, *right}):
        one, other = left.get(color), right.get(color)
        label = str((other or one or {}).get("name"))
        for name in SPACE_METRICS:
            # a space in which nothing lies is not listed: its bytes are 0 if the others are known
            values = (one or (absent if left else {}), other or (absent if right else {}))
            yield f"spaces[{label}].{name}", delta(*values, name)


def _spaces(memory: Mapping[str, object]) -> dict[int, Mapping[str, object]]:
    listed = memory.get("spaces")
    spaces = listed if isinstance(listed, (list, tuple)) else ()
    found = [space for space in spaces if isinstance(space, dict)]
    return {space["color"]: space for space in found if isinstance(space.get("color"), int)}


def _object(data: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _int(data: Mapping[str, object], name: str) -> int | None:
    found = data.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


# ---- the peaks ---------------------------------------------------------------------------------


def _peaks(base: ModuleSnapshot, head: ModuleSnapshot) -> tuple[PeakDiff, ...]:
    left = {peak.color: peak for peak in base.peaks}
    right = {peak.color: peak for peak in head.peaks}
    found: list[PeakDiff] = []
    for color in sorted({*left, *right}):
        one, other = left.get(color), right.get(color)
        if one is not None and other is not None and one.is_peak != other.is_peak:
            continue
        found.append(peak_diff(one, other))
    return tuple(found)


def peak_diff(base: SpacePeak | None, head: SpacePeak | None) -> PeakDiff:
    """Return what makes the difference of two peaks; None stands for a space with nothing in it."""
    known = head or base
    if known is None:
        message = "one side has a peak"
        raise AssertionError(message)
    rows = _rows(base.groups if base else (), head.groups if head else ())
    changed = [row for row in rows if row.delta_bytes]
    changed.sort(key=_row_order)
    return PeakDiff(
        color=known.color,
        space=known.name,
        is_peak=known.is_peak,
        base=base,
        head=head,
        changed=tuple(changed),
        unchanged_groups=len(rows) - len(changed),
    )


def _row_order(row: PeakRow) -> tuple[object, ...]:
    one = row.one
    return (-abs(row.delta_bytes), one.op_name or "", one.source or "", row.shape, one.category)


def _rows(base: Sequence[AliveGroup], head: Sequence[AliveGroup]) -> list[PeakRow]:
    found = pair_items(base, head, _STAGES, _order)
    rows = [PeakRow(base=one, head=other) for one, other, _ in found.pairs]
    rows += [PeakRow(base=one, head=None) for one in found.removed]
    rows += [PeakRow(base=None, head=one) for one in found.added]
    return rows


def _file(group: AliveGroup) -> str:
    return _LINE.sub("", group.source or "")


def _dims(shape: str) -> str:
    """Return a shape without its element type."""
    return shape[shape.find("[") :]


def _has_origin(group: AliveGroup) -> bool:
    return group.op_name is not None


def _by_all(group: AliveGroup) -> Hashable:
    return (group.category, group.op_name, group.source, group.opcode, group.shape)


def _without_opcode(group: AliveGroup) -> Hashable:
    return (group.category, group.op_name, group.source, group.shape)


def _without_line(group: AliveGroup) -> Hashable:
    return (group.category, group.op_name, _file(group), group.shape)


def _without_place(group: AliveGroup) -> Hashable:
    return (group.category, group.op_name, group.shape)


def _without_category(group: AliveGroup) -> Hashable:
    return (group.op_name, group.shape) if _has_origin(group) else None


def _without_scopes(group: AliveGroup) -> Hashable:
    name = last_scopes(group.op_name)
    return (group.category, name, group.source, group.shape) if name and group.source else None


def _without_scopes_and_line(group: AliveGroup) -> Hashable:
    name = last_scopes(group.op_name)
    return (group.category, name, _file(group), group.shape) if name and group.source else None


def _without_type(group: AliveGroup) -> Hashable:
    if not _has_origin(group):
        return None
    return (group.category, group.op_name, _file(group), _dims(group.shape))


def _without_shape(group: AliveGroup) -> Hashable:
    if not _has_origin(group):
        return None
    return (group.category, group.op_name, _file(group), group.shape.count(","))


_STAGES = (
    _by_all,
    _without_opcode,
    _without_line,
    _without_place,
    _without_scopes,
    _without_scopes_and_line,
    _without_category,
    _without_type,
    _without_shape,
)


def _order(group: AliveGroup) -> tuple[object, ...]:
    line = (group.source or "").rpartition(":")[2]
    return (
        int(line) if line.isdecimal() else None,
        group.size_bytes,
        group.shape,
        group.category,
        group.opcode,
        group.source,
    )


# ---- donation ----------------------------------------------------------------------------------


def donation_diff(pairs: Sequence[tuple[EntryFact, EntryFact]]) -> DonationDiff:
    """Return which of the matched parameters lost or gained an alias."""
    found = [
        (one, other)
        for one, other in pairs
        if one.kind == "parameter" and (one.aliased_with is None) != (other.aliased_with is None)
    ]
    found.sort(
        key=lambda pair: (
            pair[0].aliased_with is None,
            -max(_bytes_of(pair[0]) or 0, _bytes_of(pair[1]) or 0),
            pair[1].name or "",
        )
    )
    return DonationDiff(entries=tuple(found))
