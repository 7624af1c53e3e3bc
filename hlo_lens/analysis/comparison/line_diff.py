"""Changes of a module by source line of the user's program, and the causes of its changes.

Each line has the instructions that it gained and lost, its bytes at the peak of the default memory
space, and the bytes on the wire of its collectives. Lines are those of the head (`line_edits`).

Causes are, in this order: donations lost or gained, recomputation that is gone or new, loops that
were unrolled, then lines whose instructions differ, most bytes first. Lines that only follow from
recomputation or an unrolled loop are no causes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.comparison.line_edits import (
    CONSTRAINT,
    RECOMPUTED,
    LineEdits,
    ProgramLines,
    main_opcodes,
)
from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.analysis.comparison.annotation_diff import AnnotationRow
    from hlo_lens.analysis.comparison.collective_diff import CollectiveDiff, CollectiveRow
    from hlo_lens.analysis.comparison.donation_diff import DonationDiff
    from hlo_lens.analysis.comparison.memory_diff import MemoryDiff
    from hlo_lens.analysis.comparison.peak_diff import PeakRow
    from hlo_lens.analysis.comparison.sharding_diff import ShardingDiff

    _Sizes = Mapping[str | None, int | None]

_FEW = 3
REWRITTEN = "rewritten, with as many of each opcode"
"""Description of lines whose instructions were not matched, and that have equal opcodes."""

_LEAST = 1 << 10
"""Fewer bytes do not rank a line."""

_DEFAULT = 0
"""Color of the default memory space."""

_TYPE, _SHAPE, _OPCODE = "element type", "shape", "opcode"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """Changes of one line; fields are the columns of `LineDiff`, None if they are not known."""

    source: str | None
    added: int | None = None
    removed: int | None = None
    changed: int | None = None
    moved: int | None = None
    recomputed: int | None = None
    delta_peak_bytes: int | None
    delta_wire_bytes: int | None
    what: str | None = None

    @property
    def count(self) -> int:
        """Number of edits; 0 if they are not known."""
        return sum(n or 0 for n in (self.added, self.removed, self.changed, self.moved))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause of the changes of a module.

    Attributes:
        sources: Lines of the user's program; empty if it has none.
        delta_bytes: Increase of the memory that it explains; None if that is not known.
        delta_wire_bytes: Increase of the bytes on the wire in one run that it explains.
        what: Its description.
    """

    sources: tuple[str, ...]
    what: str
    delta_bytes: int | None = None
    delta_wire_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class LineDiff(Result):
    """Changes by line: most bytes first, then most instructions.

    Attributes:
        lines: The lines.
        causes: Causes of the changes.
        is_source: Whether instructions are those before optimizations; None if not known.
        is_source_equal: Whether these are equal on both sides.
    """

    KIND: ClassVar[str] = "line-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("source", Unit.NONE, "place in the user's program; none if it is not known"),
        Column("added", Unit.COUNT, "instructions that only the head has"),
        Column("removed", Unit.COUNT, "instructions that only the base has"),
        Column("changed", Unit.COUNT, "instructions that both have and that differ"),
        Column("moved", Unit.COUNT, "instructions in another computation"),
        Column("recomputed", Unit.COUNT, "increase of instructions computed again (remat)"),
        Column("delta_peak_bytes", Unit.BYTES_DELTA, "increase of its bytes at the peak"),
        Column("delta_wire_bytes", Unit.BYTES_DELTA, "increase of its bytes on the wire"),
        Column("what", Unit.NONE, "what changed"),
    )
    RECORDS: ClassVar[str] = "lines"
    lines: tuple[LineRow, ...] = field(repr=False)
    causes: tuple[Cause, ...]
    is_source: bool | None
    is_source_equal: bool = False

    def rows(self) -> Iterator[Row]:
        """Yield the lines."""
        for line in self.lines:
            yield tuple(getattr(line, column.name) for column in self.COLUMNS)


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
    rows = [_row(place, program, peak, wire) for place in places]
    unknown = {place for place, size in (wire or {}).items() if size is None}
    rows = [
        row
        for row in rows
        if row.count or row.delta_peak_bytes or row.delta_wire_bytes or row.source in unknown
    ]
    rows.sort(key=_order)
    causes = [*_donations(donations)]
    if program is not None:
        causes += _program_causes(program, rows, shardings)
    return LineDiff(
        lines=tuple(rows),
        causes=tuple(_with_total(causes, memory, collectives)),
        is_source=None if program is None else program.is_source,
        is_source_equal=program is not None and program.is_source and not program.lines,
    )


def _order(row: LineRow) -> tuple[object, ...]:
    sizes = [abs(size or 0) for size in (row.delta_peak_bytes, row.delta_wire_bytes)]
    large = [-size if size >= _LEAST else 0 for size in sizes]
    return (row.source is None, *large, -row.count, -sum(sizes), row.source or "")


def _peak_bytes(memory: MemoryDiff, shifted: Mapping[str, str]) -> _Sizes:
    """Return the increase of bytes at the peak of the default memory space by line."""
    found: Counter[str | None] = Counter()
    for peak in memory.peaks:
        for row in peak.changed if peak.color == _DEFAULT else ():
            found[_line_of(row, shifted)] += row.delta_bytes
    return found


def _wire_bytes(collectives: CollectiveDiff, shifted: Mapping[str, str]) -> _Sizes:
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


def _row(
    place: str | None,
    program: ProgramLines | None,
    peak: _Sizes | None,
    wire: _Sizes | None,
) -> LineRow:
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
        what=_line_text(program, place) or what_text(edits) or None,
    )


# ---- words -------------------------------------------------------------------------------------


def what_text(edits: LineEdits) -> str:
    """Return the edits of a line in words."""
    parts = [*_change_texts(edits)]
    net = ((kind, edits.net(kind)) for kind in edits.opcodes)
    parts += [f"{opcodes_text(counts)} {kind}" for kind, counts in net if counts]
    if edits.recomputed:
        way = "more" if edits.recomputed > 0 else "fewer"
        parts.append(f"{abs(edits.recomputed)} {way} recomputed")
    if not parts and edits.opcodes["added"]:
        return REWRITTEN
    return "; ".join(parts)


def _line_text(program: ProgramLines, place: str | None) -> str:
    """Return the instructions of a line that only one side has; empty for other lines."""
    for word, found in (("new", program.new), ("gone", program.gone)):
        if place is not None and place in found:
            return f"{word} line: {opcodes_text(found[place])}"
    return ""


def opcodes_text(counts: Counter[str]) -> str:
    """Return the first few opcodes with their number, and the number of others."""
    first = main_opcodes(counts)[:_FEW]
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
    for what in (_TYPE, _OPCODE, _SHAPE):
        for (base, head), count in of_one[what].most_common(1):
            if what != _SHAPE or 2 * count > edits.kinds["changed"]:
                yield f"{what} {base} -> {head} ({count})"


# ---- causes ------------------------------------------------------------------------------------


def _donations(donations: DonationDiff | None) -> Iterator[Cause]:
    """Yield the donations that were lost and gained."""
    for change in ("lost", "gained") if donations is not None else ():
        assert donations is not None
        names = [str(row[1]) for row in donations.rows() if row[0] == change]
        if names:
            size = donations.bytes_of(change)
            more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
            yield Cause(
                sources=(),
                delta_bytes=size if change == "lost" else -size,
                what=f"donation {change} for {plural(len(names), 'argument')}: "
                f"{', '.join(names[:_FEW])}{more}",
            )


def _program_causes(
    program: ProgramLines, rows: Sequence[LineRow], shardings: ShardingDiff | None
) -> Iterator[Cause]:
    """Yield the causes in the program: recomputation, loops, then lines."""
    structural = [*_recomputation(program, rows), *_loops(program)]
    yield from structural
    yield from _other_lines(program, rows)
    annotations = () if shardings is None else shardings.annotations
    known = {*program.new, *program.gone}
    for row in sorted(rows, key=_cause_order):
        edits = program.lines.get(row.source)
        if row.source is None or row.source in known or edits is None or edits.is_recomputation:
            continue
        what = _constraint_text(edits, annotations) or row.what
        is_own = _is_own(edits, annotations)
        if what not in (None, REWRITTEN) and (
            is_own or not (structural or (_is_small(row) and not program.is_source))
        ):
            yield _cause(row, what)


def _is_small(row: LineRow) -> bool:
    """Return whether a line has hardly any bytes: passes of the compiler also change such lines."""
    return max(abs(row.delta_peak_bytes or 0), abs(row.delta_wire_bytes or 0)) < _LEAST


def _cause(row: LineRow, what: str) -> Cause:
    sizes = [
        size if size is not None and abs(size) >= _LEAST else None
        for size in (row.delta_peak_bytes, row.delta_wire_bytes)
    ]
    return Cause(
        sources=() if row.source is None else (row.source,),
        delta_bytes=sizes[0],
        delta_wire_bytes=sizes[1],
        what=what,
    )


def _cause_order(row: LineRow) -> tuple[object, ...]:
    return -abs(row.delta_peak_bytes or 0), -row.count, row.source or ""


def _is_own(edits: LineEdits, annotations: Sequence[AnnotationRow]) -> bool:
    """Return whether a line changed by itself, not only with the loop or block around it."""
    if 2 * edits.changes_of(_TYPE, _OPCODE) > edits.count - abs(edits.recomputed):
        return True
    names = {what for what, _, _ in edits.changes}.union(*edits.opcodes.values())
    return bool(annotations) and CONSTRAINT in names


def _other_lines(program: ProgramLines, rows: Sequence[LineRow]) -> Iterator[Cause]:
    """Yield the lines that only one side has."""
    known = {row.source: row for row in rows}

    def order(source: str) -> tuple[int, str]:
        row = known.get(source)
        size = 0 if row is None or _is_small(row) else abs(row.delta_peak_bytes or 0)
        return -size, source

    for source in (*sorted(program.new, key=order), *sorted(program.gone, key=order)):
        row, what = known.get(source), _line_text(program, source)
        yield Cause(sources=(source,), what=what) if row is None else _cause(row, what)


def _recomputation(program: ProgramLines, rows: Sequence[LineRow]) -> Iterator[Cause]:
    """Yield recomputation that is gone or new."""
    before, after = program.recomputed
    if bool(before) == bool(after):
        return
    found = [row for row in rows if row.recomputed and row.source is not None]
    found.sort(key=lambda row: (-abs(row.recomputed or 0), row.source or ""))
    way, count = ("gone", before) if before else ("new", after)
    yield Cause(
        sources=tuple(row.source for row in found if row.source is not None),
        what=f"recomputation {way}: {plural(count, 'instruction')} in {RECOMPUTED}",
    )


def _loops(program: ProgramLines) -> Iterator[Cause]:
    """Yield loops that were unrolled, or put around repeated instructions."""
    for source, edits in program.lines.items():
        for kind, other, words in (
            ("removed", "added", "unrolled: instructions in the body appear {} times"),
            ("added", "removed", "new: instructions that appeared {} times are its body"),
        ):
            net, times = edits.net(kind)["while"], _times(program, kind, other)
            if net:
                text = words.format(times) if times > 1 else "gone" if kind == "removed" else "new"
                yield Cause(
                    sources=() if source is None else (source,),
                    what=f"{'loop' if net == 1 else f'{net} loops'} {text}",
                )


def _times(program: ProgramLines, once: str, repeated: str) -> int:
    """Return how often most lines repeat instructions that one side has once."""
    ratios: Counter[int] = Counter()
    for edits in program.lines.values():
        few, many = edits.kinds[once], edits.kinds[repeated]
        if few and many and many % few == 0:
            ratios[many // few] += 1
    return ratios.most_common(1)[0][0] if ratios else 0


def _constraint_text(edits: LineEdits, annotations: Sequence[AnnotationRow]) -> str:
    """Return the change of sharding constraints with their specs; empty if it is not known."""
    if edits.changes_of(CONSTRAINT):
        specs = {(row.base_spec, row.head_spec) for row in annotations if row.base and row.head}
        if len(specs) == 1:
            ((base, head),) = specs
            return f"{CONSTRAINT} {base} -> {head}"
    return ""


def _with_total(
    causes: Sequence[Cause], memory: MemoryDiff | None, collectives: CollectiveDiff | None
) -> Iterator[Cause]:
    """Yield the causes; a single one explains all of the changes."""
    if len(causes) != 1:
        yield from causes
        return
    total = None if memory is None else memory.metrics["total_bytes"].delta
    total = total if total is not None and abs(total) >= _LEAST else None
    sent = None if collectives is None else collectives.wire_bytes.delta
    yield replace(causes[0], delta_bytes=total, delta_wire_bytes=sent or None)
