"""Changes between two programs, instruction by instruction; equal edits are grouped.

Instructions are matched (`matching`), partners compared (`comparison`), and the rest is added or
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
from itertools import compress, repeat
from operator import ge
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hlo_lens.questions.diff.matching.comparison import Comparison, match_views, view_changes
from hlo_lens.questions.diff.matching.edit_groups import EditGroup, edit_groups
from hlo_lens.questions.diff.matching.edits import Added, Change, Changed, Moved, Noise, Removed
from hlo_lens.questions.diff.matching.graph_pair import NO_GRAPHS, graph_pair
from hlo_lens.questions.diff.matching.headers import module_changes
from hlo_lens.questions.diff.matching.matching import matching
from hlo_lens.questions.diff.matching.noise import NoiseCount, out_of_order
from hlo_lens.render.result import Records

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
class ProgramDiff(Records[EditGroup]):
    """Changes between two programs. One row per group of equal edits.

    Attributes:
        groups: The edits in groups of equal ones.
        unchanged: Number of instructions that are the same in both, noise aside.
        changed: Number of instructions that both have and that differ.
        added: Number of instructions that only the head has.
        removed: Number of instructions that only the base has.
        moved: Number of instructions in another computation.
        left_out_base: Number of removed instructions that only the print style of the base shows.
        left_out_head: Number of added ones that only that of the head shows.
        edits: All edits in text order of the base, then added ones in that of the head.
        module_changes: Changes of the module's header: donations, layouts that only the header has,
            partitions, other fields.
        ignored: Kinds of noise, and the number of instructions with each.
        matched: Computation and instruction of the base to those of the head.
        matched_computations: Computations of the base to those of the head, by name.
        unseen_literals: Number of constants whose value at least one text leaves out.
    """

    KIND: ClassVar[str] = "program-diff"
    groups: tuple[EditGroup, ...] = field(repr=False)
    unchanged: int
    changed: int
    added: int
    removed: int
    moved: int
    left_out_base: int
    left_out_head: int
    edits: tuple[Edit, ...] = field(repr=False)
    module_changes: tuple[Change, ...]
    ignored: Mapping[Noise, int]
    matched: Partners = field(repr=False)
    matched_computations: Mapping[str, str] = field(repr=False)
    unseen_literals: int

    @property
    def identical(self) -> bool:
        """Whether there is no difference except noise."""
        return not self.edits and not self.module_changes


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
    mine, yours = graphs = graph_pair(base, head, known)
    # matched from the same side in either order of arguments
    first, second = ((len(graph), graph.module.columns.source.text) for graph in graphs)
    matched = matching(mine, yours) if first <= second else matching(yours, mine).mirrored()
    found = _Edits(graphs, matched, frozenset(heed))
    kinds = Counter(edit.kind for edit in found.edits)
    before, after = base.computation_names, head.computation_names
    return ProgramDiff(
        groups=edit_groups(graphs, found.edits, found.unmatched),
        unchanged=found.unchanged,
        changed=kinds["changed"],
        added=kinds["added"] + found.left_out[1],
        removed=kinds["removed"] + found.left_out[0],
        moved=kinds["moved"],
        left_out_base=found.left_out[0],
        left_out_head=found.left_out[1],
        edits=tuple(found.edits),
        module_changes=(*module_changes(*graphs, matched), *found.module_noise),
        ignored={kind: found.ignored[kind] for kind in Noise if found.ignored[kind]},
        matched=Partners(base, head, found.pairs),
        matched_computations={
            before[c]: after[d] for c, d in enumerate(matched.head_computation) if d >= 0
        },
        unseen_literals=_unseen_literals(*graphs, matched),
    )


def _unseen_literals(base: ProgramGraph, head: ProgramGraph, matched: Matching) -> int:
    """Return the number of matched constants whose value a text leaves out."""
    if base.labels.with_literals:
        return 0
    constants = {k for k, parts in enumerate(base.labels.parts) if parts.opcode == "constant"}
    return sum(
        1
        for mine, yours in enumerate(matched.head_of)
        if yours >= 0
        and base.label[mine] in constants
        and "{...}" in (base.instruction(mine).operand_text, head.instruction(yours).operand_text)
    )


class _Edits:
    """Edits and noise between two programs.

    Attributes:
        edits: In text order of the base; then those that only the head has.
        unchanged: Number of instructions that are the same.
        pairs: Row of the base to that of its partner, views included.
        unmatched: Nodes without partner, of base and head.
        left_out: Number of instructions of base and head that only a print style shows.
        module_noise: Noise of the whole module that counts as change.
        ignored: Kinds of noise, and the number of instructions with each.
    """

    def __init__(
        self,
        graphs: tuple[ProgramGraph, ProgramGraph],
        matched: Matching,
        heed: frozenset[Noise],
    ) -> None:
        self._graphs = graphs
        self._matched = matched
        self._heed = heed
        self._noise = NoiseCount(*graphs, matched.head_of, heed)
        self._printed: dict[Noise, tuple[list[int], list[int]]] = {
            Noise.PRINTING: (list(graphs[0].wrapped), list(graphs[1].wrapped)),
            Noise.COPIES: ([], []),
        }
        self._aside: tuple[dict[int, Noise], dict[int, Noise]] = ({}, {})
        self.edits: list[Edit] = []
        self.unchanged = 0
        self.pairs: dict[int, int] = {}
        self.unmatched = self._unmatched(0), self._unmatched(1)
        self._compare()
        self._compare_views()
        for side, nodes in enumerate(self.unmatched):
            self._add_alone(side, map(graphs[side].rows.__getitem__, sorted(nodes)))
        self.left_out = [0, 0]
        for kind, listed in self._printed.items():
            for side, rows in enumerate(listed):
                if kind in heed:
                    self._add_alone(side, rows)
                else:
                    self.left_out[side] += len(rows)
                    self._noise.counts[kind] += len(rows)
        self.module_noise = tuple(self._module_noise())
        self.ignored = self._noise.counts

    # ---- partners ------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Compare all partners: most together, those that may differ one by one."""
        base, head = self._graphs
        matched, head_of = self._matched, self._matched.head_of
        mine = list(compress(range(len(head_of)), map(ge, head_of, repeat(0))))
        yours = list(map(head_of.__getitem__, mine))
        rows = list(map(base.rows.__getitem__, mine)), list(map(head.rows.__getitem__, yours))
        self.pairs.update(zip(*rows, strict=True))
        comparison = Comparison(base, head, matched)
        elsewhere = self._elsewhere()
        moved = set(matched.moved)
        if Noise.INSTRUCTION_ORDER in self._heed:
            moved |= elsewhere
        else:
            self._noise.counts[Noise.INSTRUCTION_ORDER] += len(elsewhere)
        roots = comparison.root_changes()
        suspects: Collection[int] = mine
        if not self._heed:
            self._noise.count(rows, (mine, yours))
            found = comparison.suspects()
            suspects = sorted(found.union(roots, moved, self._noise.mixed_channels))
        for node in suspects:
            other = head_of[node]
            changes = [
                *comparison.changes(node, other),
                *roots.get(node, ()),
                *self._noise.channel_changes(node, other),
                *(self._noise.changes(node, other) if self._heed else ()),
            ]
            if changes or node in moved:
                a, b = base.instruction(node), head.instruction(other)
                kind = Moved if node in moved else Changed
                self.edits.append(kind(base=a, head=b, changes=tuple(changes)))
        self.unchanged += len(mine) - len(self.edits)

    def _elsewhere(self) -> set[int]:
        """Return the nodes of the base that are in another order in their computation."""
        base, head = self._graphs
        matched, head_of = self._matched, self._matched.head_of
        found: set[int] = set()
        for computation, partner in enumerate(matched.head_computation):
            if partner < 0 or computation in matched.whole:
                continue
            own, others = base.nodes[computation], head.nodes[partner]
            if not matched.is_in_place(own, others):
                nodes = [n for n in own if head_of[n] >= 0 and head.owner[head_of[n]] == partner]
                found.update(nodes[k] for k in out_of_order([head_of[n] for n in nodes]))
        return found

    def _compare_views(self) -> None:
        """Compare get-tuple-elements; those that only one text prints are left out."""
        pairs, *alone = match_views(*self._graphs, self._matched)
        if pairs and not self._heed:
            base_rows, head_rows = zip(*pairs, strict=True)
            self._noise.count((base_rows, head_rows), ((), ()))
        differ = view_changes(*self._graphs, pairs, self._matched)
        a, b = (graph.module for graph in self._graphs)
        for mine, yours in pairs:
            self.pairs[mine] = yours
            heeded = self._noise.of_rows(mine, yours) if self._heed else ()
            changes = (*differ.get(mine, ()), *heeded)
            if changes:
                one, other = a.instruction(mine), b.instruction(yours)
                self.edits.append(Changed(base=one, head=other, changes=changes))
            else:
                self.unchanged += 1
        for side, views in enumerate(alone):
            is_compact = _is_compact(self._graphs[1 - side])
            for view in views:
                kind = Noise.PRINTING if is_compact else self._aside[side].get(view.node)
                if kind is not None:
                    self._printed[kind][side].append(view.row)
                else:
                    self._add_alone(side, (view.row,))

    # ---- no partner ----------------------------------------------------------------------------

    def _unmatched(self, side: int) -> set[int]:
        """Return nodes without partner; those of copied computations are set aside."""
        graph, matched = self._graphs[side], self._matched
        partners = (matched.head_of, matched.base_of)[side]
        if -1 not in partners:
            return set()
        nodes = {node for node, partner in enumerate(partners) if partner < 0}
        computations = (matched.head_computation, matched.base_computation)[side]
        content = (matched.base_prints, matched.head_prints)[side].content
        kept = {content[c] for c, partner in enumerate(computations) if partner >= 0}
        reached = graph.reachable()
        of_gone = {c for node in nodes for _, c in graph.callees.get(node, ())}
        for computation in sorted({graph.owner[node] for node in nodes}):
            is_reached = computation in reached
            if computations[computation] >= 0 or content[computation] not in kept:
                continue
            if is_reached and computation in of_gone:
                continue
            kind = Noise.COPIES if is_reached else Noise.PRINTING
            members = [node for node in graph.nodes[computation] if node in nodes]
            self._printed[kind][side].extend(graph.rows[node] for node in members)
            self._aside[side].update(dict.fromkeys(members, kind))
            nodes.difference_update(members)
        return nodes

    def _add_alone(self, side: int, rows: Iterable[int]) -> None:
        """Add the edits of added or removed rows."""
        for row in rows:
            instruction = self._graphs[side].module.instruction(row)
            self.edits.append(Added(head=instruction) if side else Removed(base=instruction))

    # ---- the module ----------------------------------------------------------------------------

    def _module_noise(self) -> Iterator[Change]:
        """Count noise of computations and the module; yield what counts as change."""
        base, head = (graph.module for graph in self._graphs)
        partners = [(c, d) for c, d in enumerate(self._matched.head_computation) if d >= 0]
        mine, yours = base.computation_names, head.computation_names
        for before, after in ((base.name, head.name), *((mine[c], yours[d]) for c, d in partners)):
            if before != after:
                kind = self._noise.name_kind(before, after)
                yield from self._noise.weighed([(kind, Change("name", before, after))])
        moved = len(out_of_order([d for _, d in partners]))
        if moved and Noise.COMPUTATION_ORDER in self._heed:
            yield Change("order of computations", None, f"{moved} moved")
        elif moved:
            self._noise.counts[Noise.COMPUTATION_ORDER] += moved


def _is_compact(graph: ProgramGraph) -> bool:
    """Return whether a text prints elements as ``%tuple#1``, and only roots as instructions."""
    module = graph.module
    return bool(graph.indices) and all(
        module.instruction(view.row).is_root and not module.links.users_of(view.row)
        for view in graph.views
    )


# ---- both texts side by side -------------------------------------------------------------------

CONTEXT = 2
"""Unedited lines that are kept before and after an edited one."""


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
    kinds = {
        (side, instruction.row): edit.kind
        for edit in diff.edits
        for side, instruction in enumerate((edit.base, edit.head))
        if instruction is not None
    }
    partner_of = {yours: mine for mine, yours in diff.matched_computations.items()}
    names = [(partner_of.get(name, ""), name) for name in head.computation_names]
    names += [
        (name, "") for name in base.computation_names if name not in diff.matched_computations
    ]
    pairs = []
    for mine, yours in names:
        rows, others = _rows(base, mine), _rows(head, yours)
        if any((0, row) in kinds for row in rows) or any((1, row) in kinds for row in others):
            lines = _lines(rows, others, diff.matched.rows, kinds)
            pairs.append(ComputationPair(mine, yours, tuple(_shortened(lines))))
    return pairs


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
    alone = [row for row in reversed(base) if heads.get(row) not in here]
    place = {row: k for k, row in enumerate(base)}
    lines = []
    for row in (*head, None):
        partner = None if row is None else bases.get(row)
        is_end = row is None
        while alone and (is_end or (partner is not None and place[alone[-1]] < place[partner])):
            lines.append(Line(kinds.get((0, alone[-1]), "removed"), alone.pop(), None))
        if row is not None:
            default = "added" if partner is None else "same"
            lines.append(Line(kinds.get((1, row), default), partner, row))
    return lines


def _shortened(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the edited lines with those around them, and the number of lines left out between."""
    edited = [k for k, line in enumerate(lines) if line.kind != "same"]
    kept = {k for at in edited for k in range(at - CONTEXT, at + CONTEXT + 1)}
    skipped = 0
    for k, line in enumerate((*lines, None)):
        if line is not None and k not in kept:
            skipped += 1
            continue
        if skipped:
            yield Line("left out", skipped, None)
        skipped = 0
        if line is not None:
            yield line
