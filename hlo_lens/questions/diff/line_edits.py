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
from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.diff.call_changes import NO_CALLS, CallChanges, call_changes, caller_votes
from hlo_lens.questions.diff.line_growth import usual_growth
from hlo_lens.questions.diff.line_partners import line_partners
from hlo_lens.questions.diff.loop_trips import changed_trips, trips_by_line
from hlo_lens.questions.diff.matching.edit_groups import parts_of
from hlo_lens.questions.diff.module_lines import (
    PLUMBING,
    SUM,
    ModuleLines,
    is_constraint,
    is_of_shardy,
)
from hlo_lens.questions.diff.renamed_folders import renamed_files
from hlo_lens.questions.memory.differentiation import RECOMPUTED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.difference import ProgramDiff
    from hlo_lens.questions.diff.matching.edits import Change, Edit
    from hlo_lens.questions.diff.module_lines import Place

CONSTRAINT = "sharding constraint"

_MOST_VOTES = 20_000
"""Limit on the unchanged instructions that vote for the line in the head, and show whether files
are in folders of other names."""


@dataclass(slots=True)
class LineEdits:
    """Edits of the instructions of one line.

    Attributes:
        kinds: Number of instructions that were added, removed, changed or moved.
        recomputed: Recomputed instructions of the head minus those of the base.
        opcodes: Opcodes of added and of removed instructions, without recomputed ones and without
            those that JAX adds around operations (`PLUMBING`).
        sums: Number of added and of removed sums of gradients, which are among the opcodes.
        changes: Property that changed, with both values, to the number of instructions.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    recomputed: int = 0
    opcodes: Mapping[str, Counter[str]] = field(
        default_factory=lambda: {"added": Counter(), "removed": Counter()}
    )
    sums: Counter[str] = field(default_factory=Counter)
    changes: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def net(self, kind: str) -> Counter[str]:
        """Return the opcodes of one kind beyond those of the other: the rest was not matched."""
        other = "removed" if kind == "added" else "added"
        return self.opcodes[kind] - self.opcodes[other]

    @property
    def follows(self) -> bool:
        """Whether it only has operations that JAX adds for those of other lines.

        These are broadcasts of constants, one of all equal ones, and sums of gradients.
        """
        nets = {kind: self.net(kind) for kind in self.opcodes}
        is_of_others = all(
            opcode == "broadcast" or (opcode == "add" and number <= self.sums[kind])
            for kind, counts in nets.items()
            for opcode, number in counts.items()
        )
        return is_of_others and any(nets.values()) and not self.changes

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
        calls: Changes of the calls of functions.
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
    calls: CallChanges = NO_CALLS

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
    sides = ModuleLines(base), ModuleLines(head)
    matched = _unchanged_rows(diff)
    unchanged = _unchanged_places(matched, sides)
    is_small = len(diff.matched.rows) < _MOST_VOTES
    if is_small or any(mine.file != yours.file for mine, yours in unchanged):
        sides[0].files = renamed_files(*(side.named_files() for side in sides))
    found = _edits_by_line(diff.edits, sides)
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
    new = {place: counts for place, counts in after.items() if place not in kept}
    return ProgramLines(
        lines=lines,
        new=new,
        gone={gone[place]: counts for place, counts in before.items() if place in gone},
        is_source=is_source,
        recomputed=(_recomputed(base), _recomputed(head)),
        shifted={mine: yours for mine, yours in names.items() if mine != yours},
        trips=changed_trips(mine, yours, names),
        growth=usual_growth(before, after, names),
        novel=frozenset(novel),
        calls=_calls(matched, sides, names, {*new, *gone.values()}) if is_source else NO_CALLS,
    )


def _edits_by_line(
    edits: tuple[Edit, ...], sides: tuple[ModuleLines, ModuleLines]
) -> dict[tuple[int, Place], LineEdits]:
    """Return the edits of the lines of each side, base first."""
    found: dict[tuple[int, Place], LineEdits] = defaultdict(LineEdits)
    edited = _edited_constraints(edits, sides)
    for edit in edits:
        kind, one, other, changes = parts_of(edit)
        number, instruction = (0, one) if other is None else (1, other)
        if instruction is None:
            continue
        key = (number, sides[number].place(instruction, edited))
        _count(found[key], kind, instruction, changes)
    return found


def _calls(
    unchanged: Sequence[tuple[int, int]],
    sides: tuple[ModuleLines, ModuleLines],
    names: Mapping[str, str],
    known: Collection[str],
) -> CallChanges:
    """Return the changes of calls, without the lines that are known as new or gone."""
    base, head = sides
    votes = caller_votes((base.stack(one), head.stack(other)) for one, other in unchanged)
    return call_changes(base.stacks(), head.stacks(), votes, names, known, _functions(sides, names))


def _edited_constraints(
    edits: tuple[Edit, ...], sides: tuple[ModuleLines, ModuleLines]
) -> Counter[Place]:
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
        text = instruction.computation.module.columns.attributes_text(instruction.row)
        if RECOMPUTED in text:
            found.recomputed += 1 if kind == "added" else -1
        elif opcode not in PLUMBING and not is_of_shardy(instruction):
            found.opcodes[kind][opcode] += 1
            found.sums[kind] += SUM in text
    for change in changes:
        what = CONSTRAINT if opcode == CONSTRAINT and change.what == "sharding" else change.what
        found.changes[what, change.base or "(none)", change.head or "(none)"] += 1


def _merge(into: LineEdits, edits: LineEdits) -> None:
    into.kinds += edits.kinds
    into.recomputed += edits.recomputed
    into.sums += edits.sums
    into.changes += edits.changes
    for kind, counts in edits.opcodes.items():
        into.opcodes[kind].update(counts)


def _unchanged_rows(diff: ProgramDiff) -> list[tuple[int, int]]:
    """Return the rows in base and head of unchanged instructions, up to a limit."""
    rows = diff.matched.rows
    return [*islice(rows.items(), 0, None, max(1, len(rows) // _MOST_VOTES))]


def _unchanged_places(
    rows: Sequence[tuple[int, int]], sides: tuple[ModuleLines, ModuleLines]
) -> list[tuple[SourceLocation, SourceLocation]]:
    """Return the places in base and head of unchanged instructions."""
    places = [side.origins.places.innermost for side in sides]
    pairs = ((places[0](mine), places[1](yours)) for mine, yours in rows)
    return [(one, other) for one, other in pairs if one is not None and other is not None]


def _votes(
    unchanged: Sequence[tuple[SourceLocation, SourceLocation]],
    sides: tuple[ModuleLines, ModuleLines],
) -> Counter[tuple[str, str]]:
    """Return the lines of base and head of unchanged instructions, with their number."""
    places = ((sides[0].name(mine), sides[1].name(yours)) for mine, yours in unchanged)
    return Counter((mine, yours) for mine, yours in places if mine and yours)


def _functions(sides: Sequence[ModuleLines], names: Mapping[str, str]) -> dict[str, str]:
    """Return the function that each line is in, as the head names both."""
    base, head = (side.functions() for side in sides)
    return {names.get(line, line): function for line, function in base.items()} | head


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
