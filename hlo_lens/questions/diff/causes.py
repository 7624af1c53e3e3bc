"""Causes of the changes of a module, and its changes by line of the user's program.

A kind of cause is a type with its description, and one function that finds it, which stands in
`FINDERS`: the ranking. A finder sees the causes that rank before it, and leaves out what follows
from them: a program gives its arguments other shapes with another batch or number of layers, and
divides them in other ways with other PartitionSpecs; no line of the program needs to change.

Each line has the instructions that it gained and lost, its bytes at the peak of the default memory
space, and the bytes on the wire of its collectives. Lines are those of the head (`line_edits`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias, TypeVar

from hlo_lens.questions.diff.line_edits import CONSTRAINT, LineEdits, ProgramLines, main_opcodes
from hlo_lens.questions.diff.shardings import ADDED, REMOVED, RESHAPED, RESHARDED, label_of
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.roles import RECOMPUTED
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.questions.diff.collectives import CollectiveDiff, CollectiveRow
    from hlo_lens.questions.diff.line_edits import CallChange, ProgramLines
    from hlo_lens.questions.diff.memory import MemoryDiff, PeakRow
    from hlo_lens.questions.diff.shardings import (
        DonationDiff,
        EntryRow,
        ShardingDiff,
        ShardingRow,
    )

Sizes: TypeAlias = "Mapping[str | None, int | None]"
"""Increase of bytes by line; None where it is not known."""

FEW = 3
"""Most opcodes and names in the description of a line or cause."""

REWRITTEN = "rewritten, with as many of each opcode"
"""Description of lines whose instructions were not matched, and that have equal opcodes."""

LEAST = 1 << 10
"""Fewer bytes do not rank a line."""

TYPE, SHAPE, OPCODE = "element type", "shape", "opcode"
"""Changed properties that describe a line."""

_OPERANDS = re.compile(r"operand \d+$|order of operands$")
_NUMBERS = re.compile(r"[\w.+-]+$|\{[^{}]*\}$")
"""Values of properties that are shown: numbers, words, and lists of them."""

_OPERATION_PROPERTIES = frozenset(
    {
        *("algorithm", "batch_group_count", "collapsed_slice_dims", "dim_labels", "dimensions"),
        *("direction", "distribution", "dynamic_slice_sizes", "feature_group_count", "fft_length"),
        *("fft_type", "index_vector_dim", "indices_are_sorted", "inserted_window_dims"),
        *("iota_dimension", "is_stable", "left_side", "lhs_batch_dims", "lhs_contracting_dims"),
        *("lower", "offset_dims", "operand_precision", "padding", "permutation", "replica_groups"),
        *("rhs_batch_dims", "rhs_contracting_dims", "scatter_dims_to_operand_dims", "slice"),
        *("slice_sizes", "source_target_pairs", "start_index_map", "transpose_a"),
        *("unique_indices", "unit_diagonal", "update_window_dims", "value", "window"),
    }
)
"""Properties of operations that only the user's program decides, before optimizations."""


# ---- lines -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """Changes of one line; None if they are not known."""

    source: Annotated[str | None, "place in the user's program; none if it is not known"]
    added: Annotated[int | None, Unit.COUNT, "instructions that only the head has"] = None
    removed: Annotated[int | None, Unit.COUNT, "instructions that only the base has"] = None
    changed: Annotated[int | None, Unit.COUNT, "instructions that both have and that differ"] = None
    moved: Annotated[int | None, Unit.COUNT, "instructions in another computation"] = None
    recomputed: Annotated[
        int | None, Unit.COUNT, "increase of instructions computed again (remat)"
    ] = None
    delta_peak_bytes: Annotated[int | None, Unit.BYTES_DELTA, "increase of its bytes at the peak"]
    delta_wire_bytes: Annotated[int | None, Unit.BYTES_DELTA, "increase of its bytes on the wire"]
    what: Annotated[str | None, "what changed"] = None

    @property
    def is_small(self) -> bool:
        """Whether it has hardly any bytes: passes of the compiler also change such lines."""
        return max(abs(self.delta_peak_bytes or 0), abs(self.delta_wire_bytes or 0)) < LEAST

    @property
    def count(self) -> int:
        """Number of edits; 0 if they are not known."""
        return sum(n or 0 for n in (self.added, self.removed, self.changed, self.moved))


@dataclass(frozen=True, kw_only=True)
class LineDiff(Records[LineRow]):
    """Changes by line: most bytes first, then most instructions.

    Attributes:
        lines: The lines.
        causes: Causes of the changes.
        is_source: Whether instructions are those before optimizations; None if not known.
        is_source_equal: Whether these are equal on both sides.
    """

    KIND: ClassVar[str] = "line-diff"
    lines: tuple[LineRow, ...] = field(repr=False)
    causes: tuple[Cause, ...]
    is_source: bool | None
    is_source_equal: bool = False


def line_diff(
    program: ProgramLines | None,
    memory: MemoryDiff | None,
    collectives: CollectiveDiff | None,
    shardings: ShardingDiff | None,
    donations: DonationDiff | None,
) -> LineDiff:
    """Return the changes of a module by line; arguments that are None are not known."""
    lines = {} if program is None else program.lines
    shifted = {} if program is None else program.shifted
    peak = None if memory is None else _peak_bytes(memory, shifted)
    wire = None if collectives is None else _wire_bytes(collectives, shifted)
    places = dict.fromkeys((*lines, *(peak or ()), *(wire or ())))
    rows = [line_row(place, program, peak, wire) for place in places]
    unknown = {place for place, size in (wire or {}).items() if size is None}
    rows = [
        row
        for row in rows
        if row.count or row.delta_peak_bytes or row.delta_wire_bytes or row.source in unknown
    ]
    rows.sort(key=_line_order)
    causes = find_causes(
        Changes(program=program, rows=rows, shardings=shardings, donations=donations)
    )
    if len(causes) == 1:  # a single one explains all of the changes
        total = _ranked(None if memory is None else memory.metrics["total_bytes"].delta)
        causes[0] = replace(
            causes[0],
            delta_bytes=total,
            delta_bytes_of=None if total is None else "total_bytes",
            delta_wire_bytes=None if collectives is None else collectives.wire_bytes.delta or None,
        )
    return LineDiff(
        lines=tuple(rows),
        causes=tuple(causes),
        is_source=None if program is None else program.is_source,
        is_source_equal=program is not None and program.is_source and not program.lines,
    )


def line_row(
    place: str | None,
    program: ProgramLines | None,
    peak: Sizes | None,
    wire: Sizes | None,
) -> LineRow:
    """Return the changes of a line; arguments that are None are not known."""
    sizes = [None if found is None else found.get(place, 0) for found in (peak, wire)]
    if program is None:
        return LineRow(source=place, delta_peak_bytes=sizes[0], delta_wire_bytes=sizes[1])
    edits = program.lines.get(place, LineEdits())
    one_sided = _one_sided(program, place)
    return LineRow(
        source=place,
        added=edits.kinds["added"],
        removed=edits.kinds["removed"],
        changed=edits.kinds["changed"],
        moved=edits.kinds["moved"],
        recomputed=edits.recomputed,
        delta_peak_bytes=sizes[0],
        delta_wire_bytes=sizes[1],
        what=(edits_text(edits) if one_sided is None else one_sided.what) or None,
    )


def _line_order(row: LineRow) -> tuple[object, ...]:
    sizes = [abs(size or 0) for size in (row.delta_peak_bytes, row.delta_wire_bytes)]
    large = [-size if size >= LEAST else 0 for size in sizes]
    return (row.source is None, *large, -row.count, -sum(sizes), row.source or "")


def _peak_bytes(memory: MemoryDiff, shifted: Mapping[str, str]) -> Sizes:
    """Return the increase of bytes at the peak of the default memory space by line."""
    sizes: Counter[str | None] = Counter()
    for peak in memory.peaks:
        for row in peak.changed if peak.color == DEFAULT_SPACE else ():
            sizes[_line_of(row, shifted)] += row.delta_bytes
    return sizes


def _wire_bytes(collectives: CollectiveDiff, shifted: Mapping[str, str]) -> Sizes:
    """Return the increase of bytes on the wire in one run by line; None where it is not known."""
    sizes: dict[str | None, int | None] = {}
    for row in collectives.changed:
        line, delta = _line_of(row, shifted), row.delta_wire_bytes
        size = sizes.get(line, 0)
        sizes[line] = None if size is None or delta is None else size + delta
    return sizes


def _line_of(row: PeakRow | CollectiveRow, shifted: Mapping[str, str]) -> str | None:
    """Return the line of the head, also of what is gone."""
    source = row.source
    is_gone = row.change in ("gone", REMOVED)
    return shifted.get(source, source) if is_gone and source is not None else source


def edits_text(edits: LineEdits) -> str:
    """Return the edits of a line in words, changed properties first."""
    parts = [*_change_texts(edits)] or [*_property_texts(edits)]
    net = ((kind, edits.net(kind)) for kind in edits.opcodes)
    parts += [f"{opcodes_text(counts)} {kind}" for kind, counts in net if counts]
    if edits.recomputed:
        way = "more" if edits.recomputed > 0 else "fewer"
        parts.append(f"{abs(edits.recomputed)} {way} recomputed")
    if not parts and edits.opcodes["added"]:
        return REWRITTEN
    return "; ".join(parts)


def opcodes_text(counts: Counter[str]) -> str:
    """Return the first few opcodes with their number, and the number of others."""
    first = main_opcodes(counts)[:FEW]
    more = counts.total() - sum(count for _, count in first)
    texts = [
        name if count == 1 else f"{count} {name}{'s' * (name == CONSTRAINT)}"
        for name, count in first
    ]
    return ", ".join([*texts, *([f"{more} more"] if more else [])])


def _change_texts(edits: LineEdits) -> Iterator[str]:
    """Yield the changed properties, those that name a cause first."""
    of_one: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for (what, base, head), count in edits.changes.items():
        of_one[what][base, head] += count
    if CONSTRAINT in of_one:
        yield f"{CONSTRAINT} changed"
    for what in (TYPE, OPCODE, SHAPE):
        for (base, head), count in of_one[what].most_common(1):
            if what != SHAPE or 2 * count > edits.kinds["changed"]:
                yield f"{what} {base} -> {head} ({count})"


def _property_texts(edits: LineEdits) -> Iterator[str]:
    """Yield the most frequent change of a property of the operations, or of their operands."""
    of_one: Counter[tuple[str, str, str]] = Counter()
    operands = 0
    for (what, base, head), count in edits.changes.items():
        if what in _OPERATION_PROPERTIES:
            of_one[what, base, head] += count
        elif _OPERANDS.match(what):
            operands += count
    for (what, base, head), count in of_one.most_common(1):
        is_short = _NUMBERS.match(base) and _NUMBERS.match(head)
        yield f"{what} {base} -> {head} ({count})" if is_short else f"{what} changed ({count})"
    if operands and not of_one:
        yield f"operands changed ({operands})"


# ---- causes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of the changes of a module; what changed is its type.

    Attributes:
        sources: Lines of the user's program; empty if it has none.
        delta_bytes: Increase of the memory that it explains; None if that is not known.
        delta_bytes_of: Figure that increases: ``total_bytes`` (must fit), ``peak_bytes`` or
            ``argument_bytes``.
        delta_wire_bytes: Increase of the bytes on the wire in one run that it explains.
    """

    sources: tuple[str, ...] = ()
    delta_bytes: int | None = None
    delta_bytes_of: str | None = None
    delta_wire_bytes: int | None = None

    @property
    def what(self) -> str:
        """Its description."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object."""
        names = ("sources", "what", "delta_bytes", "delta_bytes_of", "delta_wire_bytes")
        return {name: getattr(self, name) for name in names}


C = TypeVar("C", bound=Cause)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes of a module in which causes are found; None where they are not known.

    Attributes:
        program: Edits of the program by line.
        rows: Changes by line.
        shardings: Changes of arguments, results and annotations.
        donations: Aliases lost and gained.
    """

    program: ProgramLines | None = None
    rows: Sequence[LineRow] = ()
    shardings: ShardingDiff | None = None
    donations: DonationDiff | None = None

    @cached_property
    def row_of(self) -> Mapping[str | None, LineRow]:
        """Changes of each line."""
        return {row.source: row for row in self.rows}

    def times(self, once: str, repeated: str) -> int:
        """Return how often most lines repeat instructions that one side has once; 0 if not."""
        lines = {} if self.program is None else self.program.lines
        edited = [(edits.kinds[once], edits.kinds[repeated]) for edits in lines.values()]
        both = [(few, many) for few, many in edited if few and many]
        ratios = Counter(many // few for few, many in both if many % few == 0)
        grown = sum(many >= 2 * few for few, many in both)  # many repeat all but what loops share
        return ratios.most_common(1)[0][0] if ratios and 2 * grown > len(both) else 0

    @cached_property
    def is_repeated(self) -> bool:
        """Whether instructions of loops are repeated on one side only."""
        program = self.program
        if program is None:
            return False
        return any(map(program.is_unrolled, program.trips)) or any(
            edits.net(once)["while"] and self.times(once, repeated) > 1
            for edits in program.lines.values()
            for once, repeated in (("removed", "added"), ("added", "removed"))
        )

    @cached_property
    def called_lines(self) -> set[str]:
        """Lines whose edits all follow from changed calls."""
        if self.program is None:
            return set()
        lines = self.program.lines
        return {
            line
            for line in self.program.calls.lines
            if line in lines and not lines[line].changes_of(TYPE, OPCODE, *_OPERATION_PROPERTIES)
        }


def find_causes(changes: Changes) -> list[Cause]:
    """Return the causes of the changes of a module, in the order of `FINDERS`."""
    causes: list[Cause] = []
    for find in FINDERS:
        causes += list(find(changes, causes))
    return causes


def _has(causes: Iterable[Cause], *kinds: type[Cause]) -> bool:
    return any(isinstance(cause, kinds) for cause in causes)


def _ranked(size: int | None) -> int | None:
    """Return a number of bytes that ranks a cause, else None."""
    return size if size is not None and abs(size) >= LEAST else None


def _with_bytes(cause: C, peak: int | None, wire: int | None) -> C:
    """Return a cause with its bytes at the peak and on the wire."""
    return replace(
        cause,
        delta_bytes=_ranked(peak),
        delta_bytes_of=None if _ranked(peak) is None else "peak_bytes",
        delta_wire_bytes=_ranked(wire),
    )


def _with_row(cause: C, changes: Changes) -> C:
    """Return a cause with the bytes of its line."""
    row = changes.row_of.get(cause.sources[0])
    return cause if row is None else _with_bytes(cause, row.delta_peak_bytes, row.delta_wire_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DonationChanged(Cause):
    """Results no longer reuse the memory of arguments, or newly do.

    Temporaries change too, so that the total need not change by their size.
    """

    change: str
    names: Sequence[str]
    size_bytes: int

    @property
    def what(self) -> str:
        """Its description."""
        arguments = f"{plural(len(self.names), 'argument')} of {format_bytes(self.size_bytes)}"
        return f"donation {self.change} for {arguments}: {listed(self.names, FEW)}"


def _donations(changes: Changes, earlier: Sequence[Cause]) -> Iterator[DonationChanged]:
    del earlier
    for change in ("lost", "gained") if changes.donations is not None else ():
        assert changes.donations is not None
        names = changes.donations.names_of(change)
        if names:
            size = changes.donations.bytes_of(change)
            yield DonationChanged(change=change, names=names, size_bytes=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsChanged(Cause):
    """Arguments were added, removed, reshaped or resharded."""

    change: str
    rows: Sequence[EntryRow]

    @property
    def what(self) -> str:
        """Its description, with the first of spec and shapes that differs on both sides."""
        first = self.rows[0]
        base, head, values = first.base, first.head, ""
        if base is not None and head is not None:
            parts = (base.device_shape, head.device_shape)
            pairs = [(base.global_shape, head.global_shape), parts]
            if self.change == RESHARDED:  # equal specs, other sizes of mesh axes: the parts differ
                specs = (base.spec, head.spec)
                pairs = [specs, *reversed(pairs), (base.sharding, head.sharding)]
            pair = next(((b, h) for b, h in pairs if b and h and b != h), None)
            if pair is not None:
                values = f" {pair[0]} -> {pair[1]}"
                is_part = self.change == RESHARDED and pair[1] == head.device_shape
                values += " on each device" * is_part
        names = [f"{first.name}{values}", *(str(row.name) for row in self.rows[1:])]
        return f"{plural(len(names), 'argument')} {self.change}: {listed(names, 1)}"


def _arguments(changes: Changes, earlier: Sequence[Cause]) -> Iterator[ArgumentsChanged]:
    del earlier
    changed: dict[str, list[EntryRow]] = defaultdict(list)
    for row in () if changes.shardings is None else changes.shardings.entries:
        if row.kind == "parameter":
            changed[row.change].append(row)
    for change in (ADDED, REMOVED, RESHAPED, RESHARDED):
        rows = changed[change]
        sizes = [_padded_delta(row) for row in rows]
        size = _ranked(None if None in sizes else sum(one or 0 for one in sizes))
        if rows:
            yield ArgumentsChanged(
                change=change,
                rows=rows,
                delta_bytes=size,
                delta_bytes_of=None if size is None else "argument_bytes",
            )


def _padded_delta(row: EntryRow) -> int | None:
    """Return the increase of an argument on each device, with the padding of tiles."""
    sides = (row.base, row.head)
    before, after = (0 if one is None else one.padded_device_bytes for one in sides)
    return row.delta_bytes if before is None or after is None else after - before


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsReordered(Cause):
    """Arguments have the same names in another order."""

    names: Sequence[str]

    @property
    def what(self) -> str:
        """Its description."""
        return f"{plural(len(self.names), 'argument')} in another order: {listed(self.names, 1)}"


def _order(changes: Changes, earlier: Sequence[Cause]) -> Iterator[ArgumentsReordered]:
    if changes.shardings is None or _adds_arguments(earlier):
        return
    names = [
        label_of(head)
        for base, head in changes.shardings.pairs
        if base.kind == "parameter" and base.name and base.name == head.name
        if base.number != head.number
    ]
    if names:
        yield ArgumentsReordered(names=names)


def _adds_arguments(causes: Iterable[Cause]) -> bool:
    """Return whether arguments were added or removed, as with another number of layers."""
    changed = (one.change for one in causes if isinstance(one, ArgumentsChanged))
    return any(change in (ADDED, REMOVED) for change in changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputationChanged(Cause):
    """Recomputation is gone or new, all of it or most; numbers of instructions."""

    before: int
    after: int

    @property
    def what(self) -> str:
        """Its description."""
        way = "gone" if self.before > self.after else "new"
        number = plural(max(self.before, self.after), "instruction")
        if self.before and self.after:
            number = f"{abs(self.before - self.after)} of {number}"
        return f"recomputation {way}: {number} in {RECOMPUTED}"


def _recomputation(changes: Changes, earlier: Sequence[Cause]) -> Iterator[RecomputationChanged]:
    del earlier
    before, after = (0, 0) if changes.program is None else changes.program.recomputed
    if 2 * min(before, after) > max(before, after) or before == after:
        return
    if before and after and changes.is_repeated:  # with the bodies of the loops
        return
    rows = [row for row in changes.rows if row.recomputed and row.source is not None]
    rows.sort(key=lambda row: (-abs(row.recomputed or 0), row.source or ""))
    sources = tuple(row.source for row in rows if row.source is not None)
    yield RecomputationChanged(sources=sources, before=before, after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopsChanged(Cause):
    """Loops that were unrolled, or put around instructions that were repeated `times` times."""

    loops: int
    is_gone: bool
    times: int

    @property
    def what(self) -> str:
        """Its description."""
        text = "gone" if self.is_gone else "new"
        if self.times > 1 and self.is_gone:
            text = f"unrolled: instructions in the body appear {self.times} times"
        elif self.times > 1:
            text = f"new: instructions that appeared {self.times} times are its body"
        return f"{'loop' if self.loops == 1 else f'{self.loops} loops'} {text}"


def _loops(changes: Changes, earlier: Sequence[Cause]) -> Iterator[LoopsChanged]:
    del earlier
    program = changes.program
    if program is None:
        return
    sides = (("removed", "added"), ("added", "removed"))
    times = [changes.times(*side) for side in sides]
    for source, edits in program.lines.items():
        for (kind, _), repeats in zip(sides, times, strict=True):
            loops = edits.net(kind)["while"]
            if loops and (repeats > 1 or _one_sided(program, source) is None):
                yield LoopsChanged(
                    sources=() if source is None else (source,),
                    loops=loops,
                    is_gone=kind == "removed",
                    times=repeats,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class TripsChanged(Cause):
    """Loops have other trip counts: unrolled in part, or of another number of layers."""

    before: Sequence[int]
    after: Sequence[int]
    growth: int

    @property
    def what(self) -> str:
        """Its description."""
        pairs = sorted({p for p in zip(self.before, self.after, strict=True) if p[0] != p[1]})
        base, head = (" and ".join(map(str, numbers)) for numbers in zip(*pairs, strict=True))
        loops = "loop" if len(self.before) == 1 else f"{len(self.before)} loops"
        text = f"{loops} of {head} iterations instead of {base}"
        if self.growth > 1:
            text += f": unrolled, instructions in the body appear {self.growth} times"
        return text


def _trips(changes: Changes, earlier: Sequence[Cause]) -> Iterator[TripsChanged]:
    del earlier
    program = changes.program
    if program is None:
        return
    for place, (before, after) in program.trips.items():
        growth = program.growth if program.is_unrolled(place) else 1
        cause = TripsChanged(sources=(place,), before=before, after=after, growth=growth)
        yield _with_row(cause, changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsChanged(Cause):
    """A line calls functions more or less often."""

    change: CallChange

    @property
    def what(self) -> str:
        """Its description."""
        parts = [
            f"{opcodes_text(sum(counts.values(), Counter[str]()))} {kind}"
            for kind, counts in (("added", self.change.added), ("removed", self.change.removed))
            if any(counts.values())
        ]
        text = "another number of calls" if self.change.is_other_number else "new call"
        if not self.change.is_other_number and not any(self.change.added.values()):
            text = "call gone"
        return f"{text}: {'; '.join(parts)} in {listed(self.change.lines, FEW)}"


def _calls(changes: Changes, earlier: Sequence[Cause]) -> Iterator[CallsChanged]:
    """Yield the lines with changed calls, with the bytes of the functions that only they call."""
    program = changes.program
    if program is None or changes.is_repeated or _has(earlier, RecomputationChanged):
        return
    users: Counter[str | None] = Counter(
        line for change in program.calls.callers.values() for line in change.lines
    )
    for caller, change in program.calls.callers.items():
        if _one_sided(program, caller) is not None:
            continue
        if change.is_other_number and _adds_arguments(earlier):
            continue
        own = [
            changes.row_of[line]
            for line in change.lines
            if line in changes.row_of and line in changes.called_lines and users[line] == 1
        ]
        sent = [row.delta_wire_bytes for row in own]
        peak = sum(row.delta_peak_bytes or 0 for row in own)
        wire = None if None in sent else sum(size or 0 for size in sent)
        yield _with_bytes(CallsChanged(sources=(caller,), change=change), peak, wire)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSidedLine(Cause):
    """A line that only one side has, with its opcodes."""

    is_new: bool
    opcodes: Counter[str]

    @property
    def what(self) -> str:
        """Its description."""
        return f"{'new' if self.is_new else 'gone'} line: {opcodes_text(self.opcodes)}"


def _one_sided(program: ProgramLines, place: str | None) -> OneSidedLine | None:
    for is_new, lines in ((True, program.new), (False, program.gone)):
        if place is not None and place in lines:
            return OneSidedLine(sources=(place,), is_new=is_new, opcodes=lines[place])
    return None


def _one_sided_lines(changes: Changes, earlier: Sequence[Cause]) -> Iterator[OneSidedLine]:
    """Yield the lines that only one side has: new ones, gone ones, each by bytes at the peak."""
    del earlier
    program = changes.program
    if program is None:
        return

    def order(source: str) -> tuple[int, str]:
        row = changes.row_of.get(source)
        size = 0 if row is None or row.is_small else abs(row.delta_peak_bytes or 0)
        return -size, source

    for source in (*sorted(program.new, key=order), *sorted(program.gone, key=order)):
        cause = _one_sided(program, source)
        assert cause is not None
        yield _with_row(cause, changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChanged(Cause):
    """A line whose instructions changed by themselves."""

    text: str

    @property
    def what(self) -> str:
        """Its description."""
        return self.text


def _changed_lines(changes: Changes, earlier: Sequence[Cause]) -> Iterator[LineChanged]:
    """Yield the lines that changed by themselves, not with the loop, call or argument around."""
    program = changes.program
    if program is None:
        return
    annotations = () if changes.shardings is None else changes.shardings.annotations
    explained = {*program.new, *program.gone, *changes.called_lines}
    explained.update(
        s for c in earlier if isinstance(c, LoopsChanged | TripsChanged) for s in c.sources
    )
    is_recomputed = _has(earlier, RecomputationChanged)
    follows_arguments = _has(earlier, ArgumentsChanged, ArgumentsReordered, TripsChanged)
    has_others = any(not isinstance(cause, DonationChanged) for cause in earlier)
    for row in sorted(
        changes.rows, key=lambda r: (-abs(r.delta_peak_bytes or 0), -r.count, r.source or "")
    ):
        edits = program.lines.get(row.source)
        if row.source is None or row.source in explained or edits is None:
            continue
        if edits.is_recomputation or (_is_placement(edits) and not program.is_source):
            continue
        is_own = _is_own(edits, annotations)
        is_novel = row.source in program.novel and not is_recomputed
        if changes.is_repeated or is_recomputed:
            is_own |= is_novel
        elif follows_arguments:
            has_edits = bool(edits.net("added") or edits.net("removed"))
            is_own |= has_edits and (is_novel or not _adds_arguments(earlier))
        elif program.is_source or not row.is_small:
            is_own |= not (has_others and edits.follows)
        text = _constraint_text(edits, annotations) or row.what
        if text not in (None, REWRITTEN) and is_own:
            has_others = True
            yield _with_row(LineChanged(sources=(row.source,), text=text), changes)


_TRANSFERS = frozenset({"copy-start", "copy-done", "slice-start", "slice-done"})
_AROUND_TRANSFERS = frozenset({"bitcast", "copy", "custom-call", "fusion"})
"""Opcodes that come and go with the transfers of a value in parts."""


def _is_placement(edits: LineEdits) -> bool:
    """Return whether only the compiler's transfers between memories came or went."""
    if edits.changes_of(TYPE, OPCODE, SHAPE):
        return False
    opcodes = {*edits.net("added"), *edits.net("removed")}
    started = opcodes & _TRANSFERS
    return bool(started) and opcodes - started <= _AROUND_TRANSFERS


def _is_own(edits: LineEdits, annotations: Sequence[ShardingRow]) -> bool:
    """Return whether a line changed by itself, not only with the loop or block around it."""
    if 2 * edits.changes_of(TYPE, OPCODE) > edits.count - abs(edits.recomputed):
        return True
    names = {what for what, _, _ in edits.changes}.union(*edits.opcodes.values())
    return bool(annotations) and CONSTRAINT in names


def _constraint_text(edits: LineEdits, annotations: Sequence[ShardingRow]) -> str:
    """Return the change of sharding constraints with their specs; empty if it is not known."""
    if edits.changes_of(CONSTRAINT):
        both = [row for row in annotations if row.change not in (ADDED, REMOVED)]
        specs = {(row.base_spec, row.head_spec) for row in both}
        if len(specs) == 1:
            ((base, head),) = specs
            return f"{CONSTRAINT} {base} -> {head}"
    return ""


FINDERS: tuple[Callable[[Changes, Sequence[Cause]], Iterator[Cause]], ...] = (
    _donations,
    _arguments,
    _order,
    _recomputation,
    _loops,
    _trips,
    _calls,
    _one_sided_lines,
    _changed_lines,
)
"""Functions that find causes, in the order of the ranking; each is given those found before."""
