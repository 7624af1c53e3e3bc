"""Changes of a module by line of the user's program, and their descriptions.

Each line has the instructions that it gained and lost, its bytes at the peak of the default memory
space, and the bytes on the wire of its collectives. Lines are those of the head (`line_edits`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

from hlo_lens.questions.diff.line_edits import CONSTRAINT, LineEdits, main_opcodes
from hlo_lens.questions.diff.shardings import REMOVED
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.result import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.diff.collectives import CollectiveDiff, CollectiveRow
    from hlo_lens.questions.diff.line_edits import ProgramLines
    from hlo_lens.questions.diff.memory import MemoryDiff, PeakRow

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

OPERATION_PROPERTIES = frozenset(
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


def line_rows(
    program: ProgramLines | None, memory: MemoryDiff | None, collectives: CollectiveDiff | None
) -> list[LineRow]:
    """Return the lines that changed: most bytes first, then most instructions.

    Arguments that are None are not known.
    """
    lines = {} if program is None else program.lines
    shifted = {} if program is None else program.shifted
    peak = None if memory is None else _peak_bytes(memory, shifted)
    wire = None if collectives is None else _wire_bytes(collectives, shifted)
    places = dict.fromkeys((*lines, *(peak or ()), *(wire or ())))
    unknown = {place for place, size in (wire or {}).items() if size is None}
    rows = [line_row(place, program, peak, wire) for place in places]
    kept = (r for r in rows if r.count or r.delta_peak_bytes or r.delta_wire_bytes)
    return sorted(dict.fromkeys((*kept, *(r for r in rows if r.source in unknown))), key=_order)


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
    one_sided = one_sided_text(program, place)
    return LineRow(
        source=place,
        added=edits.kinds["added"],
        removed=edits.kinds["removed"],
        changed=edits.kinds["changed"],
        moved=edits.kinds["moved"],
        recomputed=edits.recomputed,
        delta_peak_bytes=sizes[0],
        delta_wire_bytes=sizes[1],
        what=(edits_text(edits) if one_sided is None else one_sided) or None,
    )


def _order(row: LineRow) -> tuple[object, ...]:
    sizes = [abs(size or 0) for size in (row.delta_peak_bytes, row.delta_wire_bytes)]
    large = [-size if size >= LEAST else 0 for size in sizes]
    return (row.source is None, *large, -row.count, -sum(sizes), row.source or "")


def _peak_bytes(memory: MemoryDiff, shifted: Mapping[str, str]) -> Sizes:
    """Return the increase of bytes at the peak of the default memory space by line."""
    sizes: Counter[str | None] = Counter()
    for peak in memory.peaks:
        for row in peak.changed if peak.color == DEFAULT_SPACE else ():
            sizes[line_of(row, shifted)] += row.delta_bytes
    return sizes


def _wire_bytes(collectives: CollectiveDiff, shifted: Mapping[str, str]) -> Sizes:
    """Return the increase of bytes on the wire in one run by line; None where it is not known."""
    sizes: dict[str | None, int | None] = {}
    for row in collectives.changed:
        line, delta = line_of(row, shifted), row.delta_wire_bytes
        size = sizes.get(line, 0)
        sizes[line] = None if size is None or delta is None else size + delta
    return sizes


def line_of(row: PeakRow | CollectiveRow, shifted: Mapping[str, str]) -> str | None:
    """Return the line of the head, also of what is gone."""
    source = row.source
    is_gone = row.change in ("gone", REMOVED)
    return shifted.get(source, source) if is_gone and source is not None else source


def one_sided_text(program: ProgramLines, place: str | None) -> str | None:
    """Return the description of a line that only one side has; None for others."""
    for word, lines in (("new", program.new), ("gone", program.gone)):
        if place is not None and place in lines:
            return f"{word} line: {opcodes_text(lines[place])}"
    return None


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
        if what in OPERATION_PROPERTIES:
            of_one[what, base, head] += count
        elif _OPERANDS.match(what):
            operands += count
    for (what, base, head), count in of_one.most_common(1):
        is_short = _NUMBERS.match(base) and _NUMBERS.match(head)
        yield f"{what} {base} -> {head} ({count})" if is_short else f"{what} changed ({count})"
    if operands and not of_one:
        yield f"operands changed ({operands})"
