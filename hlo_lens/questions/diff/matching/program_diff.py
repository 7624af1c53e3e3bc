"""Changes between two programs, instruction by instruction; equal edits are grouped.

Instructions are matched (`match_programs`), partners compared (`changes`), and the rest is added or
removed. Every instruction of both texts is counted once: the base has ``unchanged + changed + moved
+ removed`` instructions, the head the same with ``added``. Instructions that one text prints and
the other leaves out for the same program are among these, but no edit (``left_out_base`` of the
removed ones, ``left_out_head`` of the added ones).

*Moved* instructions are in another computation: in or out of a loop, a branch, a fusion. Another
position in the schedule of the same computation is noise, counted as `Noise.INSTRUCTION_ORDER`: it
follows from any change upstream, and its cost shows in memory and overlap. If it is a change by
request, the fewest instructions that explain the new order are moved.

Limits: literals that the dump prints as dots are taken to be equal, and counted
(`ProgramDiff.unseen_literals`). Repeated equal subgraphs are paired in text order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hlo_lens.questions.diff.matching.edits import (
    Added,
    Change,
    Changed,
    Edit,
    Moved,
    Noise,
    Removed,
)
from hlo_lens.questions.diff.matching.graph_pair import NO_GRAPHS, graph_pair
from hlo_lens.questions.diff.matching.headers import Roles, module_changes
from hlo_lens.questions.diff.matching.instruction_edits import EditGroup, EditGrouping, find_edits
from hlo_lens.questions.diff.matching.matching import matching
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.edits import Edit
    from hlo_lens.questions.diff.matching.graph_pair import GraphPair
    from hlo_lens.questions.diff.matching.graphs import ProgramGraph
    from hlo_lens.questions.diff.matching.matching import Matching


class Partners(Mapping[tuple[str, str], tuple[str, str]]):
    """Computation and instruction of one program to those of the other, made when asked for.

    If several instructions have one name, as in hand-written text, the last one with a partner.

    Args:
        mine: Module whose names are the keys.
        yours: Module whose names are the values.
        rows: Row of the one to row of the other.

    Attributes:
        rows: The same.
    """

    def __init__(self, mine: HloModule, yours: HloModule, rows: Mapping[int, int]) -> None:
        self._modules = mine, yours
        self.rows = rows

    @cached_property
    def _row_of(self) -> dict[tuple[str, str], int]:
        return {self._named(row, 0): row for row in self.rows}

    def __getitem__(self, key: tuple[str, str]) -> tuple[str, str]:
        return self._named(self.rows[self._row_of[key]], 1)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)

    def _named(self, row: int, side: int) -> tuple[str, str]:
        instruction = self._modules[side].instruction(row)
        return instruction.computation.name, instruction.name


@dataclass(frozen=True, kw_only=True)
class ProgramDiff(Result):
    """Changes between two programs. One row per group of equal edits.

    Attributes:
        unchanged: Number of instructions that are the same in both, noise aside.
        changed: Number of instructions that both have and that differ.
        added: Number of instructions that only the head has.
        removed: Number of instructions that only the base has.
        moved: Number of instructions in another computation.
        left_out_base: Number of removed instructions that only the print style of the base shows.
        left_out_head: Number of added ones that only that of the head shows.
        edits: All edits in text order of the base, then added ones in that of the head.
        groups: The edits in groups of equal ones.
        module_changes: Changes of the module's header: donations, layouts that only the header has,
            partitions, other fields.
        ignored: Kinds of noise, and the number of instructions with each.
        matched: Computation and instruction of the base to those of the head.
        matched_computations: Computations of the base to those of the head, by name.
        unseen_literals: Number of constants whose value at least one text leaves out.
    """

    KIND: ClassVar[str] = "program-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("edit", Unit.NONE, "added, removed, changed or moved"),
        Column("instructions", Unit.COUNT, "how many instructions, of this kind alone"),
        Column("inside", Unit.COUNT, "further ones in fusions that came or went with them"),
        Column("opcode", Unit.NONE, "their opcode"),
        Column("shape", Unit.NONE, "shape of the first, without layout"),
        Column("what", Unit.NONE, "what changed; the shape of what came or went"),
        Column("where", Unit.NONE, "entry, loop, branch or fusion that holds them"),
        Column("op_name", Unit.NONE, "operation path, with * for numbers that differ"),
        Column("source", Unit.NONE, "innermost place in the user's program"),
        Column("result_bytes", Unit.BYTES, "what they produce in memory, logical, once per run"),
        Column("base", Unit.NONE, "names in the base, the first few"),
        Column("head", Unit.NONE, "names in the head, the first few"),
    )
    RECORDS: ClassVar[str] = "groups"
    unchanged: int
    changed: int
    added: int
    removed: int
    moved: int
    left_out_base: int
    left_out_head: int
    edits: tuple[Edit, ...] = field(repr=False)
    groups: tuple[EditGroup, ...] = field(repr=False)
    module_changes: tuple[Change, ...]
    ignored: Mapping[Noise, int]
    matched: Partners = field(repr=False)
    matched_computations: Mapping[str, str] = field(repr=False)
    unseen_literals: int

    @property
    def identical(self) -> bool:
        """Whether there is no difference except noise."""
        return not self.edits and not self.module_changes

    def rows(self) -> Iterator[Row]:
        """Yield the groups."""
        for group in self.groups:
            what = "; ".join(group.changes) or group.shape
            yield (
                *(group.kind, group.count, group.inside, group.opcode, group.shape, what),
                *(group.where, group.op_name, group.source, group.result_bytes),
                *(group.base_names, group.head_names),
            )


def program_diff(
    base: HloModule, head: HloModule, *, heed: Collection[Noise] = (), known: GraphPair = NO_GRAPHS
) -> ProgramDiff:
    """Return the changes between two programs.

    ``program_diff(b, a)`` is the mirror image: added for removed.

    Args:
        base: The program before.
        head: The program after.
        heed: Kinds of noise that count as changes.
        known: Graphs of both made by `graph_alone`, or None; they are changed here.
    """
    graphs = graph_pair(base, head, known)
    found = _matching(*graphs)
    edits = find_edits(*graphs, found, frozenset(heed))
    roles = Roles(graphs[0]), Roles(graphs[1])
    mine, yours = base.computation_names, head.computation_names
    kinds = Counter(type(placed.edit) for placed in edits.edits)
    return ProgramDiff(
        unchanged=edits.unchanged,
        changed=kinds[Changed],
        added=kinds[Added] + edits.left_out[1],
        removed=kinds[Removed] + edits.left_out[0],
        moved=kinds[Moved],
        left_out_base=edits.left_out[0],
        left_out_head=edits.left_out[1],
        edits=tuple(placed.edit for placed in edits.edits),
        groups=EditGrouping(*graphs, roles).groups(edits.edits, edits.unmatched),
        module_changes=(*module_changes(*graphs, found), *edits.module_noise),
        ignored={kind: edits.ignored[kind] for kind in Noise if edits.ignored[kind]},
        matched=Partners(base, head, edits.pairs),
        matched_computations={
            mine[c]: yours[d] for c, d in enumerate(found.head_computation) if d >= 0
        },
        unseen_literals=_unseen_literals(*graphs, found),
    )


def _matching(base: ProgramGraph, head: ProgramGraph) -> Matching:
    """Return the matching, found from the same side in either order of arguments."""
    if _side_key(base) <= _side_key(head):
        return matching(base, head)
    return matching(head, base).mirrored()


def _side_key(graph: ProgramGraph) -> tuple[int, str]:
    return len(graph), graph.module.columns.source.text


def _unseen_literals(base: ProgramGraph, head: ProgramGraph, found: Matching) -> int:
    """Return the number of matched constants whose value a text leaves out."""
    if base.labels.with_literals:
        return 0
    constants = {k for k, parts in enumerate(base.labels.parts) if parts.opcode == "constant"}
    return sum(
        1
        for mine, yours in enumerate(found.head_of)
        if yours >= 0
        and base.label[mine] in constants
        and "{...}" in (base.instruction(mine).operand_text, head.instruction(yours).operand_text)
    )


CONTEXT = 2
"""Unedited lines that are kept before and after an edited one."""

_KINDS = {Added: "added", Removed: "removed", Changed: "changed", Moved: "moved"}


class Line(NamedTuple):
    """A line of two computations.

    Attributes:
        kind: ``same``, ``changed``, ``added``, ``removed``, ``moved``, or ``left out``.
        base: Row of the base; None for none. Of ``left out`` the number of lines.
        head: Row of the head; None for none.
    """

    kind: str
    base: int | None
    head: int | None


class ComputationPair(NamedTuple):
    """A computation of the base and the one that it matches in the head; empty for none."""

    base: str
    head: str
    lines: tuple[Line, ...]


def side_by_side(diff: ProgramDiff, base: HloModule, head: HloModule) -> list[ComputationPair]:
    """Return the computations with edits, in text order of the head, then those of the base alone.

    Args:
        diff: Changes between both programs.
        base: The program before.
        head: The program after.
    """
    kinds = _edit_kinds(diff.edits)
    partner_of = {yours: mine for mine, yours in diff.matched_computations.items()}
    names = [(partner_of.get(name, ""), name) for name in head.computation_names]
    names += [
        (name, "") for name in base.computation_names if name not in diff.matched_computations
    ]
    heads = diff.matched.rows
    found = []
    for mine, yours in names:
        rows = _rows(base, mine), _rows(head, yours)
        if not any((side, row) in kinds for side in (0, 1) for row in rows[side]):
            continue
        lines = _lines(*rows, heads, kinds)
        found.append(ComputationPair(mine, yours, tuple(_shortened(lines))))
    return found


def _edit_kinds(edits: Sequence[Edit]) -> dict[tuple[int, int], str]:
    """Return side (0 base, 1 head) and row of each edited instruction, with its kind."""
    found = {}
    for edit in edits:
        for side, one in enumerate((getattr(edit, "base", None), getattr(edit, "head", None))):
            if one is not None:
                found[side, one.row] = _KINDS[type(edit)]
    return found


def _rows(module: HloModule, name: str) -> Sequence[int]:
    computation = module.computation(name) if name else None
    return () if computation is None else computation.rows


def _lines(
    base: Sequence[int],
    head: Sequence[int],
    heads: Mapping[int, int],
    kinds: Mapping[tuple[int, int], str],
) -> list[Line]:
    """Return the lines: of partners at the place in the head, others where their text has them."""
    here = set(head)
    bases = {heads[row]: row for row in base if heads.get(row) in here}
    alone = iter([(k, row) for k, row in enumerate(base) if heads.get(row) not in here])
    place = {row: k for k, row in enumerate(base)}
    waiting = next(alone, None)
    found = []
    for row in head:
        partner = bases.get(row)
        while waiting is not None and partner is not None and waiting[0] < place[partner]:
            found.append(Line(kinds.get((0, waiting[1]), "removed"), waiting[1], None))
            waiting = next(alone, None)
        default = "added" if partner is None else "same"
        found.append(Line(kinds.get((1, row), default), partner, row))
    while waiting is not None:
        found.append(Line(kinds.get((0, waiting[1]), "removed"), waiting[1], None))
        waiting = next(alone, None)
    return found


def _shortened(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the edited lines with those around them, and the number of lines left out between."""
    edited = [k for k, line in enumerate(lines) if line.kind != "same"]
    kept = {
        k for at in edited for k in range(at - CONTEXT, at + CONTEXT + 1) if 0 <= k < len(lines)
    }
    skipped = 0
    for k, line in enumerate(lines):
        if k in kept:
            if skipped:
                yield Line("left out", skipped, None)
            skipped = 0
            yield line
        else:
            skipped += 1
    if skipped:
        yield Line("left out", skipped, None)
