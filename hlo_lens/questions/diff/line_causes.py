"""Causes of the changes of a module, in words of the user's program.

They are, in this order: donations lost or gained, other arguments (`argument_causes`),
recomputation that is gone or new, loops that were unrolled or have other trip counts, then lines
that call functions more or less often, lines that only one side has, and lines whose instructions
differ, most bytes first. Lines that only follow from other arguments, recomputation, another loop
or another call are no causes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.line_edits import CONSTRAINT
from hlo_lens.questions.diff.line_rows import (
    FEW,
    LEAST,
    OPCODE,
    REWRITTEN,
    SHAPE,
    TYPE,
    LineRow,
    call_text,
    has_other_property,
    line_text,
)
from hlo_lens.questions.memory.differentiation import RECOMPUTED
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hlo_lens.questions.diff.annotation_diff import AnnotationRow
    from hlo_lens.questions.diff.collective_diff import CollectiveDiff
    from hlo_lens.questions.diff.donation_diff import DonationDiff
    from hlo_lens.questions.diff.line_edits import LineEdits, ProgramLines
    from hlo_lens.questions.diff.memory_diff import MemoryDiff
    from hlo_lens.questions.diff.sharding_diff import ShardingDiff


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
        names = [str(row[1]) for row in donations.rows() if row[0] == change]
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
            causes.append(_cause(row, what))
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
        yield _cause(sizes, call_text(change))


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


def _cause(row: LineRow, what: str) -> Cause:
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
        yield Cause(sources=(source,), what=what) if row is None else _cause(row, what)


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
        yield Cause(sources=(place,), what=what) if row is None else _cause(row, what)


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
