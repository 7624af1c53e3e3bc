"""Causes of the changes of a module, and its changes by line of the user's program.

Each line has the instructions that it gained and lost, its bytes at the peak of the default memory
space, and the bytes on the wire of its collectives. Lines are those of the head (`line_edits`).

A program gives its arguments other shapes with another batch or number of layers, and divides them
in other ways with other PartitionSpecs; no line of the program needs to change.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from hlo_lens.questions.diff.line_edits import CONSTRAINT, LineEdits, ProgramLines, main_opcodes
from hlo_lens.questions.diff.shardings import ADDED, REMOVED, RESHAPED, RESHARDED, label_of
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.roles import RECOMPUTED
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hlo_lens.questions.diff.collectives import CollectiveDiff, CollectiveRow
    from hlo_lens.questions.diff.line_edits import CallChange, ProgramLines
    from hlo_lens.questions.diff.memory import MemoryDiff, PeakRow
    from hlo_lens.questions.diff.shardings import (
        AnnotationRow,
        DonationDiff,
        EntryRow,
        ShardingDiff,
    )
    from hlo_lens.questions.snapshots.figures import EntryFact


_CHANGES = (ADDED, REMOVED, RESHAPED, RESHARDED)


def argument_causes(shardings: ShardingDiff | None) -> Iterator[Cause]:
    """Yield the changes of arguments, one cause for each kind of change."""
    if shardings is None:
        return
    changed: dict[str, list[EntryRow]] = defaultdict(list)
    for row in shardings.entries:
        if row.one.kind == "parameter":
            changed[row.change].append(row)
    for change in _CHANGES:
        if changed[change]:
            yield _cause(change, changed[change])
    if not changed[ADDED] and not changed[REMOVED]:
        yield from _order(shardings.pairs)


def _cause(change: str, rows: Sequence[EntryRow]) -> Cause:
    first = rows[0]
    before, after = _texts(first)
    values = f" {before} -> {after}" if before and after else ""
    if first.change == RESHARDED and values and first.head and after == first.head.device_shape:
        values += " on each device"
    names = [f"{first.name}{values}", *(row.name for row in rows[1:])]
    sizes = [_delta_bytes(row) for row in rows]
    size = None if None in sizes else sum(one or 0 for one in sizes)
    size = size if size is not None and abs(size) >= LEAST else None
    return Cause(
        sources=(),
        delta_bytes=size,
        delta_bytes_of=None if size is None else "argument_bytes",
        what=f"{plural(len(rows), 'argument')} {change}: {listed(names, 1)}",
    )


def _delta_bytes(row: EntryRow) -> int | None:
    """Return the increase of an argument on each device, with the padding of tiles."""
    sides = (row.base, row.head)
    before, after = (0 if one is None else one.padded_device_bytes for one in sides)
    return row.delta_bytes if before is None or after is None else after - before


def _texts(row: EntryRow) -> tuple[str | None, str | None]:
    """Return the first of spec and shapes that differs on both sides; None if none does."""
    base, head = row.base, row.head
    if base is None or head is None:
        return None, None
    pairs = [(base.global_shape, head.global_shape), (base.device_shape, head.device_shape)]
    if row.change == RESHARDED:  # equal specs, other sizes of mesh axes: the parts differ
        specs, parts = (base.spec, head.spec), (base.sharding, head.sharding)
        pairs = [specs, *reversed(pairs), parts]
    some = ((one, other) for one, other in pairs if one and other and one != other)
    return next(some, (None, None))


def _order(pairs: Sequence[tuple[EntryFact, EntryFact]]) -> Iterator[Cause]:
    """Yield the arguments that have the same names in another order."""
    moved = [
        other
        for one, other in pairs
        if one.kind == "parameter" and one.name and one.name == other.name
        if one.number != other.number
    ]
    if moved:
        names = listed([label_of(one) for one in moved], 1)
        what = f"{plural(len(moved), 'argument')} in another order: {names}"
        yield Cause(sources=(), what=what)


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
        "algorithm",
        "batch_group_count",
        "collapsed_slice_dims",
        "dim_labels",
        "dimensions",
        "direction",
        "distribution",
        "dynamic_slice_sizes",
        "feature_group_count",
        "fft_length",
        "fft_type",
        "index_vector_dim",
        "indices_are_sorted",
        "inserted_window_dims",
        "iota_dimension",
        "is_stable",
        "left_side",
        "lhs_batch_dims",
        "lhs_contracting_dims",
        "lower",
        "offset_dims",
        "operand_precision",
        "padding",
        "permutation",
        "replica_groups",
        "rhs_batch_dims",
        "rhs_contracting_dims",
        "scatter_dims_to_operand_dims",
        "slice",
        "slice_sizes",
        "source_target_pairs",
        "start_index_map",
        "transpose_a",
        "unique_indices",
        "unit_diagonal",
        "update_window_dims",
        "value",
        "window",
    }
)
"""Properties of operations that only the user's program decides, before optimizations."""


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
    return LineRow(
        source=place,
        added=edits.kinds["added"],
        removed=edits.kinds["removed"],
        changed=edits.kinds["changed"],
        moved=edits.kinds["moved"],
        recomputed=edits.recomputed,
        delta_peak_bytes=sizes[0],
        delta_wire_bytes=sizes[1],
        what=line_text(program, place) or what_text(edits) or None,
    )


def what_text(edits: LineEdits) -> str:
    """Return the edits of a line in words."""
    parts = [*_change_texts(edits)] or [*_property_texts(edits)]
    net = ((kind, edits.net(kind)) for kind in edits.opcodes)
    parts += [f"{opcodes_text(counts)} {kind}" for kind, counts in net if counts]
    if edits.recomputed:
        way = "more" if edits.recomputed > 0 else "fewer"
        parts.append(f"{abs(edits.recomputed)} {way} recomputed")
    if not parts and edits.opcodes["added"]:
        return REWRITTEN
    return "; ".join(parts)


def line_text(program: ProgramLines, place: str | None) -> str:
    """Return the instructions of a line that only one side has; empty for other lines."""
    for word, found in (("new", program.new), ("gone", program.gone)):
        if place is not None and place in found:
            return f"{word} line: {opcodes_text(found[place])}"
    return ""


def has_other_property(edits: LineEdits) -> bool:
    """Return whether an operation of a line has another type, opcode or property of its own."""
    return bool(edits.changes_of(TYPE, OPCODE, *_OPERATION_PROPERTIES))


def call_text(change: CallChange) -> str:
    """Return the change of the calls of a line in words."""
    parts = [
        f"{opcodes_text(sum(counts.values(), Counter[str]()))} {kind}"
        for kind, counts in (("added", change.added), ("removed", change.removed))
        if any(counts.values())
    ]
    what = "another number of calls" if change.is_other_number else "new call"
    if not change.is_other_number and not any(change.added.values()):
        what = "call gone"
    return f"{what}: {'; '.join(parts)} in {listed(change.lines, FEW)}"


def opcodes_text(counts: Counter[str]) -> str:
    """Return the first few opcodes with their number, and the number of others."""
    first = main_opcodes(counts)[:FEW]
    more = counts.total() - sum(count for _, count in first)
    named = [_counted(name, count) for name, count in first]
    return ", ".join([*named, *([f"{more} more"] if more else [])])


def _counted(name: str, count: int) -> str:
    if count == 1:
        return name
    return f"{count} {name}s" if name == CONSTRAINT else f"{count} {name}"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of the changes of a module.

    Attributes:
        sources: Lines of the user's program; empty if it has none.
        delta_bytes: Increase of the memory that it explains; None if that is not known.
        delta_bytes_of: Figure that increases: ``total_bytes`` (must fit), ``peak_bytes`` or
            ``argument_bytes``.
        delta_wire_bytes: Increase of the bytes on the wire in one run that it explains.
        what: Its description.
    """

    sources: tuple[str, ...]
    what: str
    delta_bytes: int | None = None
    delta_bytes_of: str | None = None
    delta_wire_bytes: int | None = None


def donation_causes(donations: DonationDiff | None) -> Iterator[Cause]:
    """Yield the donations that were lost and gained."""
    for change in ("lost", "gained") if donations is not None else ():
        assert donations is not None
        names = donations.names_of(change)
        if names:
            size = format_bytes(donations.bytes_of(change))
            yield Cause(  # temporaries change too, so that the total need not change by the size
                sources=(),
                what=f"donation {change} for {plural(len(names), 'argument')} of {size}: "
                f"{listed(names, FEW)}",
            )


def program_causes(
    program: ProgramLines,
    rows: Sequence[LineRow],
    shardings: ShardingDiff | None,
    *,
    has_other_arguments: bool = False,
    has_other_number: bool = False,
) -> Iterator[Cause]:
    """Yield the causes in the program: recomputation, loops, then lines.

    Args:
        program: Its edits by line.
        rows: Changes by line.
        shardings: Changes of shardings, if they are known.
        has_other_arguments: Whether arguments have other shapes or shardings.
        has_other_number: Whether arguments were added or removed, as with another number of layers.
    """
    recomputation, loops = [*_recomputation(program, rows)], [*_loops(program)]
    trips, called = [*_trips(program, rows)], _only_called(program)
    repeats = bool(recomputation or _is_repeated(program))
    calls = _calls(program, rows, called, has_other_number=has_other_number)
    others = _other_lines(program, rows)
    causes = [*recomputation, *loops, *trips, *(() if repeats else calls), *others]
    yield from causes
    annotations = () if shardings is None else shardings.annotations
    known = {*program.new, *program.gone, *called}
    known.update(source for cause in (*loops, *trips) for source in cause.sources)
    for row in sorted(rows, key=_cause_order):
        edits = program.lines.get(row.source)
        if row.source is None or row.source in known or edits is None or edits.is_recomputation:
            continue
        if _is_placement(edits) and not program.is_source:
            continue
        what = _constraint_text(edits, annotations) or row.what
        is_own = _is_own(edits, annotations)
        is_novel = row.source in program.novel and not recomputation
        if repeats:
            is_own |= is_novel
        elif has_other_arguments or trips:
            has_edits = bool(edits.net("added") or edits.net("removed"))
            is_own |= has_edits and (not has_other_number or is_novel)
        elif not (row.is_small and not program.is_source):
            is_own |= not (causes and edits.follows)
        if what not in (None, REWRITTEN) and is_own:
            causes.append(_line_cause(row, what))
            yield causes[-1]


def _is_repeated(program: ProgramLines) -> bool:
    """Return whether instructions of loops are repeated on one side only."""
    sides = ("removed", "added")
    return any(map(program.is_unrolled, program.trips)) or any(
        edits.net(one)["while"] and _times(program, one, other) > 1
        for edits in program.lines.values()
        for one, other in (sides, sides[::-1])
    )


def _only_called(program: ProgramLines) -> set[str]:
    """Return the lines whose edits all follow from changed calls."""
    return {
        line
        for line in program.calls.lines
        if line in program.lines and not has_other_property(program.lines[line])
    }


def _calls(
    program: ProgramLines,
    rows: Sequence[LineRow],
    called: Collection[str],
    *,
    has_other_number: bool,
) -> Iterator[Cause]:
    """Yield the lines that call functions more or less often, with the bytes of these functions."""
    known = {row.source: row for row in rows}
    users: Counter[str | None] = Counter(
        line for change in program.calls.callers.values() for line in change.lines
    )
    for caller, change in program.calls.callers.items():
        is_named = caller in program.new or caller in program.gone
        if is_named or (change.is_other_number and has_other_number):
            continue
        own = [known[line] for line in change.lines if line in known and line in called]
        own = [row for row in own if users[row.source] == 1]
        sent = [row.delta_wire_bytes for row in own]
        sizes = LineRow(
            source=caller,
            delta_peak_bytes=sum(row.delta_peak_bytes or 0 for row in own),
            delta_wire_bytes=None if None in sent else sum(size or 0 for size in sent),
        )
        yield _line_cause(sizes, call_text(change))


def _is_placement(edits: LineEdits) -> bool:
    """Return whether only the compiler's transfers between memories came or went."""
    if edits.changes_of(TYPE, OPCODE, SHAPE):
        return False
    opcodes = {*edits.net("added"), *edits.net("removed")}
    started = opcodes & _TRANSFERS
    return bool(started) and opcodes - started <= _AROUND_TRANSFERS


_TRANSFERS = frozenset({"copy-start", "copy-done", "slice-start", "slice-done"})
_AROUND_TRANSFERS = frozenset({"bitcast", "copy", "custom-call", "fusion"})
"""Opcodes that come and go with the transfers of a value in parts."""


def _line_cause(row: LineRow, what: str) -> Cause:
    sizes = [
        size if size is not None and abs(size) >= LEAST else None
        for size in (row.delta_peak_bytes, row.delta_wire_bytes)
    ]
    return Cause(
        sources=() if row.source is None else (row.source,),
        delta_bytes=sizes[0],
        delta_bytes_of=None if sizes[0] is None else "peak_bytes",
        delta_wire_bytes=sizes[1],
        what=what,
    )


def _cause_order(row: LineRow) -> tuple[object, ...]:
    return -abs(row.delta_peak_bytes or 0), -row.count, row.source or ""


def _is_own(edits: LineEdits, annotations: Sequence[AnnotationRow]) -> bool:
    """Return whether a line changed by itself, not only with the loop or block around it."""
    if 2 * edits.changes_of(TYPE, OPCODE) > edits.count - abs(edits.recomputed):
        return True
    names = {what for what, _, _ in edits.changes}.union(*edits.opcodes.values())
    return bool(annotations) and CONSTRAINT in names


def _other_lines(program: ProgramLines, rows: Sequence[LineRow]) -> Iterator[Cause]:
    """Yield the lines that only one side has."""
    known = {row.source: row for row in rows}

    def order(source: str) -> tuple[int, str]:
        row = known.get(source)
        size = 0 if row is None or row.is_small else abs(row.delta_peak_bytes or 0)
        return -size, source

    for source in (*sorted(program.new, key=order), *sorted(program.gone, key=order)):
        row, what = known.get(source), line_text(program, source)
        yield Cause(sources=(source,), what=what) if row is None else _line_cause(row, what)


def _recomputation(program: ProgramLines, rows: Sequence[LineRow]) -> Iterator[Cause]:
    """Yield recomputation that is gone or new, all of it or most."""
    before, after = program.recomputed
    if 2 * min(before, after) > max(before, after) or before == after:
        return
    if before and after and _is_repeated(program):  # with the bodies of the loops
        return
    found = [row for row in rows if row.recomputed and row.source is not None]
    found.sort(key=lambda row: (-abs(row.recomputed or 0), row.source or ""))
    way, count = ("gone", before) if before > after else ("new", after)
    which = f"of {plural(count, 'instruction')}" if before and after else ""
    number = f"{abs(before - after)} {which}" if which else plural(count, "instruction")
    yield Cause(
        sources=tuple(row.source for row in found if row.source is not None),
        what=f"recomputation {way}: {number} in {RECOMPUTED}",
    )


def _loops(program: ProgramLines) -> Iterator[Cause]:
    """Yield loops that were unrolled, or put around repeated instructions."""
    unrolled, rolled = _times(program, "removed", "added"), _times(program, "added", "removed")
    for source, edits in program.lines.items():
        for kind, times, words in (
            ("removed", unrolled, "unrolled: instructions in the body appear {} times"),
            ("added", rolled, "new: instructions that appeared {} times are its body"),
        ):
            net = edits.net(kind)["while"]
            is_named = source in program.new or source in program.gone  # with its opcodes
            if net and (times > 1 or not is_named):
                text = words.format(times) if times > 1 else "gone" if kind == "removed" else "new"
                yield Cause(
                    sources=() if source is None else (source,),
                    what=f"{'loop' if net == 1 else f'{net} loops'} {text}",
                )


def _trips(program: ProgramLines, rows: Sequence[LineRow]) -> Iterator[Cause]:
    """Yield loops with other trip counts: unrolled in part, or of another number of layers."""
    known = {row.source: row for row in rows}
    for place, (before, after) in program.trips.items():
        some = sorted({pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]})
        base, head = (_listed([pair[side] for pair in some]) for side in (0, 1))
        loops = "loop" if len(before) == 1 else f"{len(before)} loops"
        what = f"{loops} of {head} iterations instead of {base}"
        if program.is_unrolled(place):
            what += f": unrolled, instructions in the body appear {program.growth} times"
        row = known.get(place)
        yield Cause(sources=(place,), what=what) if row is None else _line_cause(row, what)


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


def _times(program: ProgramLines, once: str, repeated: str) -> int:
    """Return how often most lines repeat instructions that one side has once; 0 if they do not."""
    edited = [(edits.kinds[once], edits.kinds[repeated]) for edits in program.lines.values()]
    both = [(few, many) for few, many in edited if few and many]
    ratios = Counter(many // few for few, many in both if many % few == 0)
    grown = sum(many >= 2 * few for few, many in both)  # many repeat all but what loops share
    return ratios.most_common(1)[0][0] if ratios and 2 * grown > len(both) else 0


def _constraint_text(edits: LineEdits, annotations: Sequence[AnnotationRow]) -> str:
    """Return the change of sharding constraints with their specs; empty if it is not known."""
    if edits.changes_of(CONSTRAINT):
        specs = {(row.base_spec, row.head_spec) for row in annotations if row.base and row.head}
        if len(specs) == 1:
            ((base, head),) = specs
            return f"{CONSTRAINT} {base} -> {head}"
    return ""


def with_total(
    causes: Sequence[Cause], memory: MemoryDiff | None, collectives: CollectiveDiff | None
) -> Iterator[Cause]:
    """Yield the causes; a single one explains all of the changes."""
    if len(causes) != 1:
        yield from causes
        return
    total = None if memory is None else memory.metrics["total_bytes"].delta
    total = total if total is not None and abs(total) >= LEAST else None
    sent = None if collectives is None else collectives.wire_bytes.delta
    yield replace(
        causes[0],
        delta_bytes=total,
        delta_bytes_of=None if total is None else "total_bytes",
        delta_wire_bytes=sent or None,
    )


# ---- changes by line ----------------------------------------------------------------------------


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
    arguments = [*argument_causes(shardings)]
    causes = [*donation_causes(donations), *arguments]
    if program is not None:
        entries = () if shardings is None else shardings.entries
        causes += program_causes(
            program,
            rows,
            shardings,
            has_other_arguments=bool(arguments),
            has_other_number=any(
                row.one.kind == "parameter" and row.change in (ADDED, REMOVED) for row in entries
            ),
        )
    return LineDiff(
        lines=tuple(rows),
        causes=tuple(with_total(causes, memory, collectives)),
        is_source=None if program is None else program.is_source,
        is_source_equal=program is not None and program.is_source and not program.lines,
    )


def _line_order(row: LineRow) -> tuple[object, ...]:
    sizes = [abs(size or 0) for size in (row.delta_peak_bytes, row.delta_wire_bytes)]
    large = [-size if size >= LEAST else 0 for size in sizes]
    return (row.source is None, *large, -row.count, -sum(sizes), row.source or "")


def _peak_bytes(memory: MemoryDiff, shifted: Mapping[str, str]) -> Sizes:
    """Return the increase of bytes at the peak of the default memory space by line."""
    found: Counter[str | None] = Counter()
    for peak in memory.peaks:
        for row in peak.changed if peak.color == DEFAULT_SPACE else ():
            found[_line_of(row, shifted)] += row.delta_bytes
    return found


def _wire_bytes(collectives: CollectiveDiff, shifted: Mapping[str, str]) -> Sizes:
    """Return the increase of bytes on the wire in one run by line; None where it is not known."""
    found: dict[str | None, int | None] = {}
    for row in collectives.changed:
        line, delta = _line_of(row, shifted), row.delta_wire_bytes
        known = found.get(line, 0)
        found[line] = None if known is None or delta is None else known + delta
    return found


def _line_of(row: PeakRow | CollectiveRow, shifted: Mapping[str, str]) -> str | None:
    """Return the line of the head, also of what is gone."""
    source = row.one.source
    return source if row.head is not None or source is None else shifted.get(source, source)
