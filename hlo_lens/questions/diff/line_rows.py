"""Changes of one source line: numbers of its instructions, bytes, and what changed in words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.line_edits import CONSTRAINT, LineEdits, ProgramLines, main_opcodes
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.diff.call_changes import CallChange

    Sizes = Mapping[str | None, int | None]

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
