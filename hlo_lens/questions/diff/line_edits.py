"""Edits of a program by line of the user's program.

Lines are those of the head: a line of the base is paired with one of the head by the unchanged
instructions of both, then by equal operations (`line_partners`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING, Annotated, TypeAlias

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import InstructionTable
from hlo_lens.program.origins import origins_of
from hlo_lens.program.trip_counts import trip_counts
from hlo_lens.questions.diff.edit_flow import (
    NO_FLOW,
    OUT_OF,
    PLUMBING,
    UNROLLED,
    EditFlow,
    LoopChange,
    Nest,
    edit_flow,
    loop_change,
    nests,
)
from hlo_lens.questions.diff.pairs import renamed_files, renamed_source
from hlo_lens.questions.diff.shardings import REMOVED
from hlo_lens.questions.matching.edits import Added, Changed, Removed, in_head
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.roles import BACKWARD, RECOMPUTED, Differentiation
from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.render.result import Unit
from hlo_lens.text.names import portable_path, portable_source, split_source
from hlo_lens.text.source_files import is_library_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.questions.diff.collectives import CollectiveDiff, CollectiveRow
    from hlo_lens.questions.diff.memory import MemoryDiff, PeakRow
    from hlo_lens.questions.matching.edits import Edit
    from hlo_lens.questions.matching.program_diff import ProgramDiff


SUM = "/add_any"
"""Operation that JAX adds for the gradient of a value with several uses."""

AROUND_LOOPS = PLUMBING | frozenset(
    {
        *("while", "dynamic-slice", "dynamic-update-slice", "slice", "pad", "concatenate"),
        *("reshape", "broadcast", "iota", "compare", "convert", "copy", "bitcast", "add"),
        *("opt-barrier", "reduce-precision", "select", "optimization-barrier", "conditional"),
    }
)
"""Opcodes that come and go with loops, recomputation and saved values."""

Place: TypeAlias = "str | None"
"""``file:line``, portable; None for instructions without a known line."""


class ModuleLines:
    """Source lines of one module; `files` has the names in the head of files that it renames."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.origins = origins_of(module)
        self.files: Mapping[str, str] = {}
        self._names = cache(
            lambda file, line: renamed_source(portable_source(file, line), self.files)
        )

    def named_files(self) -> set[str]:
        frames = self.module.stack_frames
        if frames:
            return {portable_path(file) for file in frames.file_names}
        places = map(self.origins.places.innermost, range(len(self.module.opcodes)))
        return {portable_path(place.file) for place in places if place is not None}

    def name(self, place: SourceLocation | None) -> Place:
        return None if place is None else self._names(place.file, place.line)

    def line(self, row: int) -> Place:
        return self.name(self.origins.places.innermost(row))

    def opcodes_by_line(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = defaultdict(Counter)
        keys = map(self.origins.places.key, range(len(self.module.opcodes)))
        for (key, opcode), count in Counter(zip(keys, self.module.opcodes, strict=True)).items():
            line = self.name(self.origins.places.innermost_of(key))
            if line is not None:
                found[line][opcode] += count
        return found

    def nested(self, names: Mapping[str, str]) -> dict[str, Counter[tuple[Nest, bool]]]:
        """Return the operations of each line by the loops around them, and if they are products."""
        links, opcodes = self.module.links, self.module.opcodes
        around, keys = nests(self.module), self.origins.places.key
        rows: Counter[tuple[str | None, Nest, bool]] = Counter()
        for row, (place, opcode) in enumerate(zip(links.owners, opcodes, strict=True)):
            if opcode not in AROUND_LOOPS:
                nest, times = around[place]
                rows[keys(row), nest, opcode_traits(opcode).is_contraction] += times
        found: dict[str, Counter[tuple[Nest, bool]]] = defaultdict(Counter)
        for (key, nest, is_product), count in rows.items():
            line = self.name(self.origins.places.innermost_of(key))
            if line is not None:
                found[names.get(line, line)][nest, is_product] += count
        return found

    def loops(self) -> Counter[tuple[str, int | None]]:
        rows = self.module.opcodes.places_of({"while"})
        counts = trip_counts(InstructionTable(self.module)).loops
        pairs = ((self.line(r), c.trip_count) for r, c in zip(rows, counts, strict=True))
        return Counter((line, count) for line, count in pairs if line is not None)

    def place(self, instruction: HloInstruction, edited: Mapping[Place, int]) -> Place:
        """Return the line of an instruction, inferred if it has none of its own.

        Of a constraint that shares its line with others, which are not edited (a helper of the
        user's program adds it), it is that of the caller.
        """
        row = instruction.row
        line = self.line(row)
        if is_constraint(instruction) and self._constraints[line] > edited.get(line, 0):
            stack = [p for p in self.origins.places.stack(row) if not is_library_file(p.file)]
            return (self.name(stack[1]) if len(stack) > 1 else None) or line
        return self.name(self.origins.place(row))

    @cached_property
    def _constraints(self) -> Counter[Place]:
        rows = self.module.opcodes.places_of({"custom-call"})
        return Counter(
            self.line(row) for row in rows if is_constraint(self.module.instruction(row))
        )


def is_constraint(instruction: HloInstruction) -> bool:
    """Return whether an instruction is a sharding constraint."""
    return instruction.opcode == "custom-call" and custom_call_target(instruction) == "Sharding"


def is_of_shardy(instruction: HloInstruction) -> bool:
    """Return whether an instruction is an annotation of Shardy."""
    is_call = instruction.opcode == "custom-call"
    return is_call and custom_call_target(instruction).startswith("xla.sdy.")


Votes: TypeAlias = "Counter[tuple[str, str]]"
"""Line of the base and line of the head of unchanged instructions, with their number."""

Operations: TypeAlias = "Mapping[str, frozenset[str]]"


def line_partners(votes: Votes, before: Operations, after: Operations) -> dict[str, str]:
    """Return the line of the head for lines of the base."""
    found: dict[str, str] = {}
    kept: set[str] = set()

    def add(pairs: Iterable[tuple[str, str]]) -> None:
        for mine, yours in pairs:
            if mine not in found and yours not in kept:
                found[mine] = yours
                kept.add(yours)

    def order(pair: tuple[str, str]) -> tuple[object, ...]:  # that of the mirrored pair, too
        return -votes[pair], pair[0] != pair[1], min(pair), max(pair)

    add(sorted(votes, key=order))
    add([*_alike(found, before, after)])
    add([*_shifted(found, before, after)])
    add((place, place) for place in before if place in after)
    return found


def _alike(
    found: Mapping[str, str], before: Operations, after: Operations
) -> Iterator[tuple[str, str]]:
    pairs = {yours: mine for mine, yours in found.items()}
    others = _by_file(after)
    for file, lines in _by_file(before).items():
        mine = [f"{file}:{line}" for line in lines]
        yours = [f"{file}:{line}" for line in others.get(file, ())]
        keys: list[object] = [one if one in found else before[one] for one in mine]
        other_keys: list[object] = [pairs.get(one) or after[one] for one in yours]
        for one, other, size in SequenceMatcher(
            None, keys, other_keys, autojunk=False
        ).get_matching_blocks():
            yield from zip(mine[one : one + size], yours[other : other + size], strict=True)


def _shifted(
    found: Mapping[str, str], before: Operations, after: Operations
) -> Iterator[tuple[str, str]]:
    shifts: dict[str, dict[int, int]] = defaultdict(dict)
    for mine, yours in found.items():
        (file, line), (other_file, other) = split_source(mine), split_source(yours)
        if file is not None and file == other_file and line and other:
            shifts[file][line] = other - line
    known = {file: sorted(lines) for file, lines in shifts.items()}
    for place in before:
        file, line = split_source(place)
        lines = known.get(file or "", [])
        at = bisect_left(lines, line or 0)
        around = {shifts[file or ""][one] for one in lines[max(0, at - 1) : at + 1]}
        if line is not None and 0 < at < len(lines) and len(around) == 1:
            yours = f"{file}:{line + around.pop()}"
            if yours in after:
                yield place, yours


def _by_file(places: Operations) -> dict[str, Sequence[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for file, line in map(split_source, places):
        if file is not None and line is not None:
            found[file].append(line)
    return {file: sorted(lines) for file, lines in found.items()}


CONSTRAINT = "sharding constraint"

_MOST_VOTES = 20_000
"""Limit on the unchanged instructions that vote for the line in the head, and show whether files
are in folders of other names."""


@dataclass(slots=True)
class LineEdits:
    """Edits of the instructions of one line.

    Attributes:
        products: Number of products of the forward pass among the edits.
        kinds: Number of instructions that were added, removed, changed or moved.
        recomputed: Recomputed instructions of the head minus those of the base.
        again: Opcodes of recomputed operations of the head minus those of the base.
        opcodes: Opcodes of added and of removed instructions, without recomputed ones and without
            those that JAX adds around operations (`PLUMBING`).
        sums: Number of added and of removed sums of gradients, which are among the opcodes.
        changes: Property that changed, with both values, to the number of instructions.
    """

    products: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    recomputed: int = 0
    again: Counter[str] = field(default_factory=Counter)
    opcodes: Mapping[str, Counter[str]] = field(
        default_factory=lambda: {"added": Counter(), "removed": Counter()}
    )
    sums: Counter[str] = field(default_factory=Counter)
    changes: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, edit: Edit) -> None:
        kind, instruction = edit.kind, in_head(edit)
        self.kinds[kind] += 1
        if opcode_traits(instruction.opcode).is_contraction:
            path = instruction.op_name or ""
            self.products += BACKWARD not in path and RECOMPUTED not in path
        opcode = CONSTRAINT if is_constraint(instruction) else instruction.opcode
        if kind in self.opcodes:
            text = instruction.computation.module.columns.attributes_text(instruction.row)
            if RECOMPUTED in text:
                sign = 1 if kind == "added" else -1
                self.recomputed += sign
                self.again[opcode] += sign * (opcode not in AROUND_LOOPS)
            elif opcode not in PLUMBING and not is_of_shardy(instruction):
                self.opcodes[kind][opcode] += 1
                self.sums[kind] += SUM in text
        for change in edit.changes:
            what = CONSTRAINT if opcode == CONSTRAINT and change.what == "sharding" else change.what
            self.changes[what, change.base or "(none)", change.head or "(none)"] += 1

    def net(self, kind: str) -> Counter[str]:
        """Return the opcodes of one kind beyond those of the other: the rest was not matched."""
        other = "removed" if kind == "added" else "added"
        return self.opcodes[kind] - self.opcodes[other]

    @property
    def nets(self) -> set[str]:
        return {*self.net("added"), *self.net("removed")}

    @property
    def follows(self) -> bool:
        """Whether it only has operations that JAX adds for those of other lines.

        These are broadcasts of constants, one of all equal ones, and sums of gradients.
        """
        is_of_others = all(
            opcode == "broadcast" or (opcode == "add" and number <= self.sums[kind])
            for kind in self.opcodes
            for opcode, number in self.net(kind).items()
        )
        return is_of_others and bool(self.nets) and not self.changes

    @property
    def count(self) -> int:
        return self.kinds.total()

    def changes_of(self, *names: str) -> int:
        return sum(count for (what, _, _), count in self.changes.items() if what in names)

    @property
    def types(self) -> Counter[tuple[str, str]]:
        """Number of instructions by the element types of base and head, where these differ."""
        return Counter({(b, h): n for (what, b, h), n in self.changes.items() if what == TYPE})

    @property
    def is_recomputation(self) -> bool:
        edits = self.kinds["added"] + self.kinds["removed"]
        return bool(self.recomputed) and abs(self.recomputed) == edits and not self.kinds["changed"]


@dataclass(frozen=True, kw_only=True)
class ProgramLines:
    """Edits of a program by line.

    Lines are those of the head; `shifted` has those of the base where they differ. `new` and `gone`
    lines are of one side alone, with the opcodes of their instructions; `novel` are opcodes of
    operations that only one side has, besides those around loops. `recomputed` are numbers of
    instructions in base and head. `loop` is a change of the loop around most operations.
    """

    lines: Mapping[Place, LineEdits]
    is_source: bool
    recomputed: tuple[int, int]
    shifted: Mapping[str, str]
    new: Mapping[str, Counter[str]] = field(default_factory=dict)
    gone: Mapping[str, Counter[str]] = field(default_factory=dict)
    novel: frozenset[str] = frozenset()
    flow: EditFlow = NO_FLOW
    loop: LoopChange | None = None
    loop_lines: tuple[str, ...] = ()


def program_lines(
    diff: ProgramDiff, base: HloModule, head: HloModule, *, is_source: bool
) -> ProgramLines:
    """Return the edits of two programs by line."""
    sides = ModuleLines(base), ModuleLines(head)
    rows = diff.matched_rows
    matched = [*islice(rows.items(), 0, None, max(1, len(rows) // _MOST_VOTES))]
    innermost = [side.origins.places.innermost for side in sides]
    pairs = ((innermost[0](mine), innermost[1](yours)) for mine, yours in matched)
    unchanged = [(one, other) for one, other in pairs if one is not None and other is not None]
    if len(rows) < _MOST_VOTES or any(mine.file != yours.file for mine, yours in unchanged):
        sides[0].files = renamed_files(*(side.named_files() for side in sides))
    before, after = (side.opcodes_by_line() if is_source else {} for side in sides)
    voted = ((sides[0].name(one), sides[1].name(other)) for one, other in unchanged)
    votes = Counter((one, other) for one, other in voted if one and other)
    operations = (
        {place: frozenset(counts) - PLUMBING for place, counts in side.items()}
        for side in (before, after)
    )
    partner = line_partners(votes, *operations)
    edits = _edits_by_line(_split(diff.edits, sides, partner), sides)
    joined, split = _joined(votes, partner, (before, after), edits)
    kept = {*partner.values(), *split}
    partner.update(joined)
    gone = {p: f"{p} (base)" if p in after else p for p in before if p not in partner}
    names = {**partner, **gone}
    lines: dict[Place, LineEdits] = defaultdict(LineEdits)
    named: list[tuple[Edit, Place]] = []
    for (side, place), of_line in edits.items():
        name = names.get(place, place) if side == 0 and place is not None else place
        for edit in of_line:
            lines[name].add(edit)
            named.append((edit, name))
    recomputed = [
        sum(1 for _ in module.columns.rows_with_attribute_text(RECOMPUTED))
        for module in (base, head)
    ]
    loop = loop_change(sides[0].nested(names), sides[1].nested({})) if is_source else None
    return ProgramLines(
        lines=dict(lines),
        new={place: counts for place, counts in after.items() if place not in kept},
        gone={gone[place]: counts for place, counts in before.items() if place in gone},
        is_source=is_source,
        recomputed=(recomputed[0], recomputed[1]),
        shifted={mine: yours for mine, yours in names.items() if mine != yours},
        novel=frozenset({*base.opcodes} ^ {*head.opcodes}) - AROUND_LOOPS,
        flow=_flow(named, sides) if is_source else NO_FLOW,
        loop=loop,
        loop_lines=() if loop is None else _loop_lines(loop, sides, names),
    )


def _split(
    edits: Sequence[Edit], sides: tuple[ModuleLines, ModuleLines], partner: Mapping[str, str]
) -> list[Edit]:
    """Return edits without pairs of one opcode whose lines and operands differ: others' partners.

    An operation that is gone matches the next one of its kind that was added.
    """
    found: list[Edit] = []
    for edit in edits:
        is_apart = False
        if isinstance(edit, Changed):
            mine, yours = sides[0].line(edit.base.row), sides[1].line(edit.head.row)
            has_others = any(change.what.startswith("operand") for change in edit.changes)
            is_apart = None not in (mine, yours) and partner.get(mine or "", mine) != yours
            if is_apart and has_others:
                found += (Removed(base=edit.base), Added(head=edit.head))
                continue
        found.append(edit)
    return found


def _flow(edits: Sequence[tuple[Edit, Place]], sides: tuple[ModuleLines, ModuleLines]) -> EditFlow:
    passes = [Differentiation(side.module, side.origins.places) for side in sides]

    def is_backward(edit: Edit) -> bool:
        return passes[edit.head is not None].is_forward(in_head(edit).row) is False

    own = [(edit, line) for edit, line in edits if not _is_placed_otherwise(edit)]
    return edit_flow(own, (sides[0].module, sides[1].module), is_backward)


def _is_placed_otherwise(edit: Edit) -> bool:
    instruction = in_head(edit)
    if is_constraint(instruction) or instruction.opcode == "parameter":
        return False
    whats = {change.what for change in edit.changes}
    is_placement = bool(whats) and whats <= {"sharding", "frontend_attributes"}
    return is_placement or is_of_shardy(instruction)


def _loop_lines(
    loop: LoopChange, sides: tuple[ModuleLines, ModuleLines], names: Mapping[str, str]
) -> tuple[str, ...]:
    mine = Counter({(names.get(k[0], k[0]), k[1]): n for k, n in sides[0].loops().items()})
    yours = sides[1].loops()
    differ = (mine - yours) if loop.kind in (UNROLLED, OUT_OF) else (yours - mine)
    trips = {loop.trips, loop.trips_after, loop.trips * loop.trips_after}
    lines = Counter(line for line, count in differ.elements() if count in trips)
    if lines:
        return tuple(line for line, _ in lines.most_common())

    def place(line: str) -> tuple[str, int]:
        file, number = split_source(line)
        return file or "", number or 0

    return tuple(sorted(loop.lines, key=place))  # a loop without line: those of its operations


def _edits_by_line(
    edits: Sequence[Edit], sides: tuple[ModuleLines, ModuleLines]
) -> dict[tuple[int, Place], list[Edit]]:
    found: dict[tuple[int, Place], list[Edit]] = defaultdict(list)
    edited: Counter[Place] = Counter()  # constraints by their own line
    for edit in edits:
        instruction = in_head(edit)
        if is_constraint(instruction):
            edited[sides[edit.head is not None].line(instruction.row)] += 1
    for edit in edits:
        side = int(edit.head is not None)
        found[side, sides[side].place(in_head(edit), edited)].append(edit)
    return found


def _joined(
    votes: Mapping[tuple[str, str], int],
    partner: Mapping[str, str],
    sides: Sequence[Mapping[str, Counter[str]]],
    edits: Mapping[tuple[int, Place], Sequence[Edit]],
) -> tuple[dict[str, str], set[str]]:
    """Return lines without partner whose instructions are on another line now, mostly unchanged.

    The first are those of the base with their line in the head, the second those of the head.
    """
    most: tuple[dict[str, str], dict[str, str]] = ({}, {})
    taken = partner, frozenset(partner.values())
    for pair, _ in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
        for side, other in ((0, pair[1]), (1, pair[0])):
            place = pair[side]
            total = sides[side].get(place, Counter()).total()
            is_edited = (side, place) in edits and 0 < total <= 2 * len(edits[side, place])
            if place not in taken[side] and not is_edited:
                most[side].setdefault(place, other)
    return most[0], set(most[1])


Sizes: TypeAlias = "Mapping[str | None, int | None]"

FEW = 3

REWRITTEN = "rewritten, with as many of each opcode"
"""Description of lines whose instructions were not matched, and that have equal opcodes."""

LEAST = 1 << 10

TYPE, SHAPE, OPCODE = "element type", "shape", "opcode"

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
    rows = []
    for place in dict.fromkeys((*lines, *(peak or ()), *(wire or ()))):
        edits = lines.get(place, LineEdits())
        known: dict[str, int | str | None] = {}
        if program is not None:
            known = {kind: edits.kinds[kind] for kind in ("added", "removed", "changed", "moved")}
            known["recomputed"] = edits.recomputed
            known["what"] = one_sided_text(program, place) or edits_text(edits) or None
        row = LineRow(
            source=place,
            delta_peak_bytes=None if peak is None else peak.get(place, 0),
            delta_wire_bytes=None if wire is None else wire.get(place, 0),
            **known,  # type: ignore[arg-type] # fields by name
        )
        is_unknown = wire is not None and row.delta_wire_bytes is None
        if row.count or row.delta_peak_bytes or row.delta_wire_bytes or is_unknown:
            rows.append(row)
    return sorted(rows, key=_order)


def _order(row: LineRow) -> tuple[object, ...]:
    sizes = [abs(size or 0) for size in (row.delta_peak_bytes, row.delta_wire_bytes)]
    large = [-size if size >= LEAST else 0 for size in sizes]
    return (row.source is None, *large, -row.count, -sum(sizes), row.source or "")


def _peak_bytes(memory: MemoryDiff, shifted: Mapping[str, str]) -> Sizes:
    sizes: Counter[str | None] = Counter()
    for peak in memory.peaks:
        for row in peak.changed if peak.color == DEFAULT_SPACE else ():
            sizes[line_of(row, shifted)] += row.delta_bytes
    return sizes


def _wire_bytes(collectives: CollectiveDiff, shifted: Mapping[str, str]) -> Sizes:
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


def one_sided_text(program: ProgramLines, place: str | None) -> str:
    """Return the description of a line that only one side has; empty for others."""
    for word, lines in (("new", program.new), ("gone", program.gone)):
        if place is not None and place in lines:
            return f"{word} line: {opcodes_text(lines[place])}"
    return ""


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


_TELLING = frozenset({"dot", "convolution", "convert", "reduce", "sort", "gather", "scatter"})


def opcodes_text(counts: Counter[str]) -> str:
    """Return the first few opcodes with their number, and the number of others.

    Those that name an operation of the user are first.
    """

    def order(opcode: str) -> tuple[object, ...]:
        traits = opcode_traits(opcode)
        is_other = opcode != CONSTRAINT, not traits.is_control_flow, traits.collective_kind is None
        return *is_other, opcode not in _TELLING, traits.is_trivial, -counts[opcode], opcode

    first = sorted(counts, key=order)[:FEW]
    more = counts.total() - sum(counts[name] for name in first)
    texts = [
        name if counts[name] == 1 else f"{counts[name]} {name}{'s' * (name == CONSTRAINT)}"
        for name in first
    ]
    return ", ".join([*texts, *([f"{more} more"] if more else [])])


def _change_texts(edits: LineEdits) -> Iterator[str]:
    if edits.changes_of(CONSTRAINT):
        yield f"{CONSTRAINT} changed"
    for what in (TYPE, OPCODE, SHAPE):
        pairs = Counter({(b, h): n for (name, b, h), n in edits.changes.items() if name == what})
        for (base, head), count in pairs.most_common(1):
            if what != SHAPE or 2 * count > edits.kinds["changed"]:
                yield f"{what} {base} -> {head} ({count})"


def _property_texts(edits: LineEdits) -> Iterator[str]:
    items = edits.changes.items()
    own = Counter({key: count for key, count in items if key[0] in OPERATION_PROPERTIES})
    operands = sum(count for key, count in items if _OPERANDS.match(key[0]))
    for (what, base, head), count in own.most_common(1):
        is_short = _NUMBERS.match(base) and _NUMBERS.match(head)
        yield f"{what} {base} -> {head} ({count})" if is_short else f"{what} changed ({count})"
    if operands and not own:
        yield f"operands changed ({operands})"
