"""Edits of a program by source line of the user's program.

The text from before optimizations is compared if both sides have it: its instructions are those
that the user's lines made, without what the compiler's passes make of them. Lines are those of the
head; a line of the base is the one that most of its unchanged instructions have in the head, so
that lines which an edit further up has shifted are no change. A line that is gone has its number in
the base, marked if the head has another line of that number.

A sharding constraint that a helper function makes is counted at the line that calls the helper, if
other constraints of the helper have not changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.analysis.comparison.line_growth import usual_growth
from hlo_lens.analysis.comparison.line_partners import line_partners
from hlo_lens.analysis.comparison.loop_trips import changed_trips, trips_by_line
from hlo_lens.analysis.comparison.portable_sources import portable_path, portable_source
from hlo_lens.analysis.comparison.renamed_folders import renamed_files, renamed_source
from hlo_lens.analysis.memory.differentiation import RECOMPUTED
from hlo_lens.analysis.program.origins import Origins
from hlo_lens.analysis.program_diff.edit_groups import parts_of
from hlo_lens.analysis.sharding.sources import custom_call_target
from hlo_lens.model.hlo.opcodes import opcode_traits
from hlo_lens.text.library_files import is_library_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.analysis.program_diff.difference import ProgramDiff
    from hlo_lens.analysis.program_diff.edits import Change, Edit
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.metadata import SourceLocation
    from hlo_lens.model.hlo.module import HloModule

CONSTRAINT = "sharding constraint"
_SHARDY = "xla.sdy."
PLUMBING = frozenset({"call", "parameter", "tuple", "get-tuple-element", "constant"})
"""Opcodes that come and go with the computations around operations."""

_MOST_VOTES = 20_000
"""Limit on the unchanged instructions that vote for the line in the head, and show whether files
are in folders of other names."""

Place: TypeAlias = "str | None"
"""``file:line``, portable; None for instructions without a known line."""


@dataclass(slots=True)
class LineEdits:
    """Edits of the instructions of one line.

    Attributes:
        kinds: Number of instructions that were added, removed, changed or moved.
        recomputed: Recomputed instructions of the head minus those of the base.
        opcodes: Opcodes of added and of removed instructions, without recomputed ones and without
            those that JAX adds around operations (`PLUMBING`).
        changes: Property that changed, with both values, to the number of instructions.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    recomputed: int = 0
    opcodes: Mapping[str, Counter[str]] = field(
        default_factory=lambda: {"added": Counter(), "removed": Counter()}
    )
    changes: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def net(self, kind: str) -> Counter[str]:
        """Return the opcodes of one kind beyond those of the other: the rest was not matched."""
        other = "removed" if kind == "added" else "added"
        return self.opcodes[kind] - self.opcodes[other]

    @property
    def count(self) -> int:
        """Number of edits."""
        return self.kinds.total()

    def changes_of(self, *names: str) -> int:
        """Return the number of instructions with a changed property."""
        return sum(count for (what, _, _), count in self.changes.items() if what in names)

    @property
    def is_recomputation(self) -> bool:
        """Whether only recomputed instructions were added or removed."""
        edits = self.kinds["added"] + self.kinds["removed"]
        return bool(self.recomputed) and abs(self.recomputed) == edits and not self.kinds["changed"]


@dataclass(frozen=True, kw_only=True)
class ProgramLines:
    """Edits of a program by line.

    Attributes:
        lines: Place in the head to its edits.
        is_source: Whether the texts from before optimizations were compared.
        recomputed: Number of recomputed instructions in base and head.
        shifted: Place in the base to the place in the head, where they differ.
        new: Lines that only the head has, with the opcodes of their instructions.
        gone: Lines that only the base has, likewise.
        trips: Lines with loops of other trip counts, to those of base and head.
        growth: How many times as many instructions most lines that grew have in the head.
        novel: Lines of both sides that have operations on only one of them.
    """

    lines: Mapping[Place, LineEdits]
    is_source: bool
    recomputed: tuple[int, int]
    shifted: Mapping[str, str]
    new: Mapping[str, Counter[str]] = field(default_factory=dict)
    gone: Mapping[str, Counter[str]] = field(default_factory=dict)
    trips: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    growth: int = 1
    novel: frozenset[str] = frozenset()

    def is_unrolled(self, place: str) -> bool:
        """Return whether fewer trips of all changed loops of a line mean longer bodies."""
        pairs = zip(*self.trips[place], strict=True)
        return self.growth > 1 and all(one > other for one, other in pairs if one != other)


def program_lines(
    diff: ProgramDiff, base: HloModule, head: HloModule, *, is_source: bool
) -> ProgramLines:
    """Return the edits of two programs by line.

    Args:
        diff: Their comparison.
        base: The program before.
        head: The program after.
        is_source: Whether they are the texts from before optimizations.
    """
    sides = _Side(base), _Side(head)
    unchanged = _unchanged_places(diff, sides)
    is_small = len(diff.matched.rows) < _MOST_VOTES
    if is_small or any(mine.file != yours.file for mine, yours in unchanged):
        sides[0].files = renamed_files(*(side.named_files() for side in sides))
    found: dict[tuple[int, Place], LineEdits] = defaultdict(LineEdits)
    edited = _edited_constraints(diff.edits, sides)
    for edit in diff.edits:
        kind, one, other, changes = parts_of(edit)
        number, instruction = (0, one) if other is None else (1, other)
        if instruction is None:
            continue
        key = (number, sides[number].place(instruction, edited))
        _count(found[key], kind, instruction, changes)
    before, after = (side.opcodes_by_line() if is_source else {} for side in sides)
    votes = _votes(unchanged, sides)
    operations = [_operations(side) for side in (before, after)]
    partner = line_partners(votes, *operations)
    novel = {p for q, p in partner.items() if operations[0].get(q) != operations[1].get(p)}
    joined, split = _joined(votes, partner, (before, after), found)
    kept = {*partner.values(), *split}
    partner.update(joined)
    gone = {p: f"{p} (base)" if p in after else p for p in before if p not in partner}
    names = {**partner, **gone}
    lines: dict[Place, LineEdits] = {}
    for (side, place), edits in found.items():
        name = names.get(place, place) if side == 0 and place is not None else place
        _merge(lines.setdefault(name, LineEdits()), edits)
    mine, yours = (trips_by_line(side.module, side.line) if is_source else {} for side in sides)
    return ProgramLines(
        lines=lines,
        new={place: counts for place, counts in after.items() if place not in kept},
        gone={gone[place]: counts for place, counts in before.items() if place in gone},
        is_source=is_source,
        recomputed=(_recomputed(base), _recomputed(head)),
        shifted={mine: yours for mine, yours in names.items() if mine != yours},
        trips=changed_trips(mine, yours, names),
        growth=usual_growth(before, after, names),
        novel=frozenset(novel),
    )


class _Side:
    """Source lines of one module.

    Attributes:
        files: Its files to their names in the head, where these differ.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.origins = Origins(module)
        self.files: Mapping[str, str] = {}
        self._names = cache(self._name)

    def named_files(self) -> set[str]:
        """Return the source files that the module names."""
        frames = self.module.stack_frames
        if frames:
            return {portable_path(file) for file in frames.file_names}
        places = map(self.origins.places.innermost, range(len(self.module.opcodes)))
        return {portable_path(place.file) for place in places if place is not None}

    def _name(self, file: str, line: int) -> str | None:
        """Return a line as the head names it."""
        return renamed_source(portable_source(file, line), self.files)

    def line(self, row: int) -> str | None:
        """Return the line in the metadata of a row."""
        place = self.origins.places.innermost(row)
        return None if place is None else self.name(place)

    def name(self, place: SourceLocation) -> str | None:
        """Return a place as the head names it."""
        return self._names(place.file, place.line)

    def opcodes_by_line(self) -> dict[str, Counter[str]]:
        """Return the opcodes of the instructions of each line."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for row, opcode in enumerate(self.module.opcodes):
            line = self.line(row)
            if line is not None:
                found[line][opcode] += 1
        return found

    def place(self, instruction: HloInstruction, edited: Mapping[Place, int]) -> Place:
        """Return the line of an instruction, inferred if it has none of its own."""
        row = instruction.row
        if is_constraint(instruction):
            line = self.line(row)
            if self.constraints[line] > edited.get(line, 0):
                return self._caller(row) or line
        place = self.origins.place(row)
        return None if place is None else self.name(place)

    @cached_property
    def constraints(self) -> Counter[Place]:
        """Number of sharding constraints by line."""
        rows = self.module.opcodes.places_of({"custom-call"})
        return Counter(
            self.line(row) for row in rows if is_constraint(self.module.instruction(row))
        )

    def _caller(self, row: int) -> Place:
        """Return the line of the user's program that calls the innermost function of a row."""
        stack = [p for p in self.origins.places.stack(row) if not is_library_file(p.file)]
        return self._names(stack[1].file, stack[1].line) if len(stack) > 1 else None


def is_constraint(instruction: HloInstruction) -> bool:
    """Return whether an instruction is a sharding constraint."""
    return instruction.opcode == "custom-call" and custom_call_target(instruction) == "Sharding"


def _is_of_shardy(instruction: HloInstruction) -> bool:
    is_call = instruction.opcode == "custom-call"
    return is_call and custom_call_target(instruction).startswith(_SHARDY)


def _edited_constraints(edits: tuple[Edit, ...], sides: tuple[_Side, _Side]) -> Counter[Place]:
    """Return the number of edited constraints by their line."""
    found: Counter[Place] = Counter()
    for edit in edits:
        _, one, other, _ = parts_of(edit)
        instruction = other or one
        if instruction is not None and is_constraint(instruction):
            found[sides[0 if other is None else 1].line(instruction.row)] += 1
    return found


def _count(
    found: LineEdits, kind: str, instruction: HloInstruction, changes: tuple[Change, ...]
) -> None:
    found.kinds[kind] += 1
    opcode = CONSTRAINT if is_constraint(instruction) else instruction.opcode
    if kind in found.opcodes:
        columns = instruction.computation.module.columns
        if RECOMPUTED in columns.attributes_text(instruction.row):
            found.recomputed += 1 if kind == "added" else -1
        elif opcode not in PLUMBING and not _is_of_shardy(instruction):
            found.opcodes[kind][opcode] += 1
    for change in changes:
        what = CONSTRAINT if opcode == CONSTRAINT and change.what == "sharding" else change.what
        found.changes[what, change.base or "(none)", change.head or "(none)"] += 1


def _merge(into: LineEdits, edits: LineEdits) -> None:
    into.kinds += edits.kinds
    into.recomputed += edits.recomputed
    into.changes += edits.changes
    for kind, counts in edits.opcodes.items():
        into.opcodes[kind].update(counts)


def _unchanged_places(
    diff: ProgramDiff, sides: tuple[_Side, _Side]
) -> list[tuple[SourceLocation, SourceLocation]]:
    """Return the places in base and head of unchanged instructions, up to a limit."""
    rows = diff.matched.rows
    places = [side.origins.places.innermost for side in sides]
    some = islice(rows.items(), 0, None, max(1, len(rows) // _MOST_VOTES))
    pairs = ((places[0](mine), places[1](yours)) for mine, yours in some)
    return [(one, other) for one, other in pairs if one is not None and other is not None]


def _votes(
    unchanged: Sequence[tuple[SourceLocation, SourceLocation]], sides: tuple[_Side, _Side]
) -> Counter[tuple[str, str]]:
    """Return the lines of base and head of unchanged instructions, with their number."""
    places = ((sides[0].name(mine), sides[1].name(yours)) for mine, yours in unchanged)
    return Counter((mine, yours) for mine, yours in places if mine and yours)


def _operations(lines: Mapping[str, Counter[str]]) -> dict[str, frozenset[str]]:
    return {place: frozenset(counts) - PLUMBING for place, counts in lines.items()}


def _joined(
    votes: Mapping[tuple[str, str], int],
    partner: Mapping[str, str],
    sides: Sequence[Mapping[str, Counter[str]]],
    found: Mapping[tuple[int, Place], LineEdits],
) -> tuple[dict[str, str], set[str]]:
    """Return lines without partner whose instructions are on another line now, mostly unchanged.

    The first are those of the base with their line in the head, the second those of the head.
    """
    most: tuple[dict[str, str], dict[str, str]] = ({}, {})
    taken = partner, frozenset(partner.values())
    for pair, _ in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
        for side, other in ((0, pair[1]), (1, pair[0])):
            place = pair[side]
            edits = found.get((side, place))
            total = sides[side].get(place, Counter()).total()
            is_edited = edits is not None and 0 < total <= 2 * edits.count
            if place not in taken[side] and not is_edited:
                most[side].setdefault(place, other)
    return most[0], set(most[1])


def _recomputed(module: HloModule) -> int:
    """Return the number of instructions that are computed again."""
    columns = module.columns
    return sum(1 for _ in columns.rows_with_attribute_text(RECOMPUTED))


def main_opcodes(counts: Counter[str]) -> list[tuple[str, int]]:
    """Return opcodes with their number, those that name an operation of the user first."""

    def order(item: tuple[str, int]) -> tuple[object, ...]:
        traits = opcode_traits(item[0])
        return (
            item[0] != CONSTRAINT,
            not traits.is_control_flow,
            traits.collective_kind is None,
            item[0] not in _TELLING,
            traits.is_trivial,
            -item[1],
            item[0],
        )

    return sorted(counts.items(), key=order)


_TELLING = frozenset({"dot", "convolution", "convert", "reduce", "sort", "gather", "scatter"})
