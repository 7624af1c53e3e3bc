"""Edits between two matched programs: changed, added and removed instructions, and noise."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import ge
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.matching.changes import Comparison
from hlo_lens.questions.diff.matching.edit_groups import PlacedEdit
from hlo_lens.questions.diff.matching.edits import (
    Added,
    Change,
    Changed,
    Edit,
    Moved,
    Noise,
    Removed,
)
from hlo_lens.questions.diff.matching.noise_counts import NoiseCount, out_of_order
from hlo_lens.questions.diff.matching.tuple_elements import match_views, view_changes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.questions.diff.matching.graph import ProgramGraph
    from hlo_lens.questions.diff.matching.match_computations import Matching


@dataclass(slots=True)
class FoundEdits:
    """Edits and noise between two programs.

    Attributes:
        edits: In text order of the base; then those that only the head has.
        unchanged: Number of instructions that are the same.
        pairs: Row of the base to that of its partner, views included.
        unmatched: Nodes without partner, of base and head.
        left_out: Number of instructions of base and head that only a print style shows.
        ignored: Kinds of noise, and the number of instructions with each.
        module_noise: Noise of the whole module that counts as change.
    """

    edits: list[PlacedEdit] = field(default_factory=list)
    unchanged: int = 0
    pairs: dict[int, int] = field(default_factory=dict)
    unmatched: tuple[set[int], set[int]] = (set(), set())
    left_out: tuple[int, int] = (0, 0)
    ignored: Counter[Noise] = field(default_factory=Counter)
    module_noise: tuple[Change, ...] = ()


def find_edits(
    base: ProgramGraph, head: ProgramGraph, found: Matching, heed: frozenset[Noise]
) -> FoundEdits:
    """Return the edits between two programs."""
    return _Finder((base, head), found, heed).found


class _Finder:
    """Finder of the edits of one pair of programs. Sides are 0, the base, and 1, the head."""

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
        self.found = FoundEdits()
        self.found.unmatched = (self._unmatched(0), self._unmatched(1))
        self._compare()
        self._views()
        self._one_sided()
        self._left_out()
        self._whole_module()
        self.found.ignored = self._noise.counts

    # ---- partners ------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Compare all partners: most together, those that may differ one by one."""
        base, head = self._graphs
        head_of = self._matched.head_of
        mine = list(compress(range(len(head_of)), map(ge, head_of, repeat(0))))
        yours = list(map(head_of.__getitem__, mine))
        rows = list(map(base.rows.__getitem__, mine)), list(map(head.rows.__getitem__, yours))
        self.found.pairs.update(zip(*rows, strict=True))
        comparison = Comparison(base, head, self._matched)
        moved = self._matched.moved | self._elsewhere()
        roots = comparison.root_changes()
        suspects: Iterable[int] = mine
        if not self._heed:
            self._noise.count(rows, (mine, yours))
            found = comparison.suspects()
            suspects = sorted(found.union(roots, moved, self._noise.mixed_channels))
        for node in suspects:
            self._compare_one(comparison, node, roots.get(node, ()), is_moved=node in moved)
        self.found.unchanged += len(mine) - len(self.found.edits)

    def _compare_one(
        self, comparison: Comparison, mine: int, of_root: tuple[Change, ...], *, is_moved: bool
    ) -> None:
        """Add the changes of a node of the base, if there are any."""
        base, head = self._graphs
        yours = self._matched.head_of[mine]
        changes = (
            *comparison.changes(mine, yours),
            *of_root,
            *self._noise.channel_changes(mine, yours),
            *(self._noise.changes(mine, yours) if self._heed else ()),
        )
        if not changes and not is_moved:
            return
        a, b = base.instruction(mine), head.instruction(yours)
        edit: Edit = Changed(base=a, head=b, changes=changes)
        if is_moved:
            edit = Moved(base=a, head=b, changes=changes)
        self.found.edits.append(
            PlacedEdit(edit, mine, yours, (base.owner[mine], head.owner[yours]))
        )

    def _elsewhere(self) -> set[int]:
        """Count nodes in another order in their computation; return them if that is a change."""
        base, head = self._graphs
        head_of = self._matched.head_of
        found: set[int] = set()
        for computation, partner in enumerate(self._matched.head_computation):
            if partner < 0 or computation in self._matched.whole:
                continue
            own = base.nodes[computation]
            if self._matched.is_in_place(own, head.nodes[partner]):
                continue
            nodes = [
                node for node in own if head_of[node] >= 0 and head.owner[head_of[node]] == partner
            ]
            found.update(nodes[k] for k in out_of_order([head_of[node] for node in nodes]))
        if Noise.INSTRUCTION_ORDER in self._heed:
            return found
        self._noise.counts[Noise.INSTRUCTION_ORDER] += len(found)
        return set()

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
        known = {content[c] for c, partner in enumerate(computations) if partner >= 0}
        reached = graph.reachable()
        of_gone = {c for node in nodes for _, c in graph.callees.get(node, ())}
        for computation in sorted({graph.owner[node] for node in nodes}):
            is_reached = computation in reached
            if computations[computation] >= 0 or content[computation] not in known:
                continue
            if is_reached and computation in of_gone:
                continue
            kind = Noise.COPIES if is_reached else Noise.PRINTING
            members = [node for node in graph.nodes[computation] if node in nodes]
            self._printed[kind][side].extend(graph.rows[node] for node in members)
            self._aside[side].update(dict.fromkeys(members, kind))
            nodes.difference_update(members)
        return nodes

    def _one_sided(self) -> None:
        for side, nodes in enumerate(self.found.unmatched):
            graph = self._graphs[side]
            for node in sorted(nodes):
                self._one_row(side, graph.rows[node], node)

    def _one_row(self, side: int, row: int, node: int = -1) -> None:
        """Add the edit of an added or removed row."""
        instruction = self._graphs[side].module.instruction(row)
        owner = instruction.computation.place
        if side:
            placed = PlacedEdit(Added(head=instruction), -1, node, (-1, owner))
        else:
            placed = PlacedEdit(Removed(base=instruction), node, -1, (owner, -1))
        self.found.edits.append(placed)

    # ---- print styles --------------------------------------------------------------------------

    def _views(self) -> None:
        """Compare get-tuple-elements; those that only one text prints are left out."""
        views = match_views(*self._graphs, self._matched)
        if views.pairs and not self._heed:
            base_rows, head_rows = zip(*views.pairs, strict=True)
            self._noise.count((base_rows, head_rows), ((), ()))
        said = view_changes(*self._graphs, views.pairs, self._matched)
        for mine, yours in views.pairs:
            self.found.pairs[mine] = yours
            changes = said.get(mine, ())
            if self._heed:
                changes = (*changes, *self._noise.of_rows(mine, yours))
            if not changes:
                self.found.unchanged += 1
                continue
            a = self._graphs[0].module.instruction(mine)
            b = self._graphs[1].module.instruction(yours)
            edit = Changed(base=a, head=b, changes=changes)
            owners = a.computation.place, b.computation.place
            self.found.edits.append(PlacedEdit(edit, -1, -1, owners))
        for side, left in enumerate((views.base, views.head)):
            other = self._graphs[1 - side]
            is_compact = _is_compact(other)
            for view in left:
                kind = Noise.PRINTING if is_compact else self._aside[side].get(view.node)
                if kind is not None:
                    self._printed[kind][side].append(view.row)
                else:
                    self._one_row(side, view.row)

    def _left_out(self) -> None:
        """Count instructions that only one print style shows, or add them as edits."""
        sizes = [0, 0]
        for kind, rows in self._printed.items():
            for side in (0, 1):
                if kind in self._heed:
                    for row in rows[side]:
                        self._one_row(side, row)
                else:
                    sizes[side] += len(rows[side])
                    self._noise.counts[kind] += len(rows[side])
        self.found.left_out = (sizes[0], sizes[1])

    def _whole_module(self) -> None:
        """Count noise of computations and the module."""
        base, head = (graph.module for graph in self._graphs)
        matched = self._matched.head_computation
        heeded: list[Change] = []
        mine, yours = base.computation_names, head.computation_names
        names = [(base.name, head.name)]
        names += [(mine[c], yours[d]) for c, d in enumerate(matched) if d >= 0]
        for before, after in names:
            if before != after:
                change = Change(what="name", base=before, head=after)
                heeded += self._noise.weighed([(self._noise.name_kind(before, after), change)])
        moved = len(out_of_order([d for d in matched if d >= 0]))
        if moved and Noise.COMPUTATION_ORDER in self._heed:
            heeded.append(Change(what="order of computations", base=None, head=f"{moved} moved"))
        elif moved:
            self._noise.counts[Noise.COMPUTATION_ORDER] += moved
        self.found.module_noise = tuple(heeded)


def _is_compact(graph: ProgramGraph) -> bool:
    """Return whether a text prints elements as ``%tuple#1``, and only roots as instructions."""
    module = graph.module
    return bool(graph.indices) and all(
        module.instruction(view.row).is_root and not module.links.users_of(view.row)
        for view in graph.views
    )
