"""Kinds of edits of an instruction, and of noise: differences that do not change the program."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import accumulate, chain, compress, repeat
from operator import ge, ne
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import SHAPE, SHAPE_END
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.opcodes import Produced, opcode_traits
from hlo_lens.questions.diff.matching.edits import (
    Added,
    Change,
    Changed,
    Edit,
    Moved,
    Noise,
    Removed,
)
from hlo_lens.questions.diff.matching.graphs import ProgramGraph, impure_nodes, operation_path
from hlo_lens.questions.diff.matching.matching import operands_of, parameter_numbers
from hlo_lens.questions.diff.matching.meanings import (
    SHAPE_WORDS,
    LabelParts,
    label_changes,
    quick_split,
)
from hlo_lens.questions.diff.matching.noise import NoiseCount, out_of_order

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from hlo_lens.questions.diff.matching.graphs import ProgramGraph, View
    from hlo_lens.questions.diff.matching.headers import Role, Roles
    from hlo_lens.questions.diff.matching.matching import Matching
    from hlo_lens.shapes.shape import Shape, ShapeIndex


_FEW = 3


class Comparison:
    """Comparison of partners."""

    def __init__(self, base: ProgramGraph, head: ProgramGraph, found: Matching) -> None:
        self._base = base
        self._head = head
        self._found = found
        self._labels = base.labels
        self._by_labels: dict[tuple[int, int], tuple[Change, ...]] = {}
        self._numbers: dict[tuple[int, int], dict[int, int]] = {}
        self._aligned: dict[int, bool] = {}
        self._counts = tuple(len(parameter_numbers(g, g.entry)) for g in (base, head))

    def suspects(self) -> set[int]:
        """Return the nodes of the base that may differ from their partners.

        Nodes of computations that were matched whole never do.
        """
        base, head, head_of = self._base, self._head, self._found.head_of
        base_of = self._found.base_of
        found = {*self._found.moved, *base.controls, *map(base_of.__getitem__, head.controls)}
        found.update(self._other_calls())
        for node in {*base.indices, *map(base_of.__getitem__, head.indices)}:
            if node >= 0 and base.indices.get(node) != head.indices.get(head_of[node]):
                found.add(node)
        for computation in range(len(base.nodes)):
            if computation not in self._found.whole:
                found.update(self._suspects_in(computation))
        return {node for node in found if node >= 0 and head_of[node] >= 0}

    def _other_calls(self) -> Iterator[int]:
        """Yield the nodes of the base whose calls are not equal to those of their partners."""
        base, head, found = self._base, self._head, self._found
        partners = [
            partner if computation in found.whole else None
            for computation, partner in enumerate(found.head_computation)
        ]
        for node, called in base.callees.items():
            other = head.callees.get(found.head_of[node], ())
            if [partners[c] for _, c in called] != [d for _, d in other]:
                yield node
        for node in head.callees:
            if found.base_of[node] not in base.callees:
                yield found.base_of[node]

    def _suspects_in(self, computation: int) -> Iterable[int]:
        """Return the nodes of a computation with another label, or other operands."""
        base, head, found = self._base, self._head, self._found
        nodes, partner = base.nodes[computation], found.head_computation[computation]
        part = slice(nodes.start, nodes.stop)
        others = head.nodes[partner] if partner >= 0 else range(0)
        has_same_edges = partner >= 0 and base.edges[computation] == head.edges[partner]
        if has_same_edges and found.is_in_place(nodes, others):
            there = head.label[others.start : others.stop]
            return compress(nodes, map(ne, base.label[part], there))
        labels, operands, taken = head.label, head.operands, base.operands[part]
        flat = tuple(map(self._partners.__getitem__, chain.from_iterable(taken)))
        ends = list(accumulate(map(len, taken), initial=0))
        targets = map(flat.__getitem__, map(slice, ends, ends[1:]))
        mine = zip(nodes, found.head_of[part], base.label[part], targets, strict=True)
        return [
            node
            for node, other, label, wanted in mine
            if other >= 0 and (labels[other] != label or wanted != operands[other])
        ]

    @cached_property
    def _partners(self) -> Sequence[int]:
        """Partner of each node of the base; a number that no operand has for none."""
        none = -2  # also that of undefined operands, which are the last one
        return [partner if partner >= 0 else none for partner in (*self._found.head_of, none)]

    def changes(self, mine: int, yours: int) -> tuple[Change, ...]:
        """Return the changes between two partners."""
        base, head = self._base, self._head
        found: tuple[Change, ...] = ()
        if base.label[mine] != head.label[yours]:
            found = self._label_changes(mine, yours)
        a, b = base.operands[mine], head.operands[yours]
        is_here = (
            mine not in self._found.moved
        )  # the move alone changes the operands of a moved node
        if (a or b) and is_here and not self._operands_agree(mine, yours):
            found = (*found, *self._operand_changes(mine, yours))
        if mine in base.callees or yours in head.callees:
            found = (*found, *self._call_changes(mine, yours))
        if mine in base.controls or yours in head.controls:
            found = (*found, *self._control_changes(mine, yours))
        return found

    # ---- label ---------------------------------------------------------------------------------

    def _label_changes(self, mine: int, yours: int) -> tuple[Change, ...]:
        key = (self._base.label[mine], self._head.label[yours])
        known = self._by_labels.get(key)
        if known is None:
            known = self._by_labels[key] = tuple(label_changes(self._labels, *key))
        if any(change.what == "parameter number" for change in known):
            is_entry = self._base.owner[mine] == self._base.entry
            if not is_entry or self._counts[0] != self._counts[1]:
                return tuple(change for change in known if change.what != "parameter number")
        return known

    # ---- operands ------------------------------------------------------------------------------

    def _operands_agree(self, mine: int, yours: int) -> bool:
        base, head = self._base, self._head
        a, b = base.operands[mine], head.operands[yours]
        if mine in base.indices or yours in head.indices or len(a) != len(b):
            return False
        if any(place != at for place, at in self._order(mine, yours).items()):
            return False
        head_of = self._found.head_of
        return -1 not in a and -1 not in b and tuple([head_of[x] for x in a]) == b

    def _operand_changes(self, mine: int, yours: int) -> Iterator[Change]:
        """Yield one change for all operands that differ."""
        base, head = self._base, self._head
        a, b = base.operands[mine], head.operands[yours]
        mine_at = base.indices.get(mine) or ((),) * len(a)
        yours_at = head.indices.get(yours) or ((),) * len(b)
        order = self._order(mine, yours)
        if len(a) != len(b):
            if base.opcode(mine) != "tuple":  # whose shape shows it
                yield from self._other_arity(mine, yours)
            return
        differ = [
            place
            for place, operand in enumerate(zip(a, mine_at, strict=True))
            if not self._same_operand(operand, (b[at := order.get(place, place)], yours_at[at]))
        ]
        moved = self._permutation(mine, yours) if len(differ) > 1 else None
        if moved is not None:
            numbers = ",".join(map(str, range(len(a))))
            yield Change(what="order of operands", base=numbers, head=moved)
            return
        for place in differ:
            at = order.get(place, place)
            yield Change(
                what=f"operand {place}",
                base=_shown(base, a[place], mine_at[place]),
                head=_shown(head, b[at], yours_at[at]),
            )

    def _permutation(self, mine: int, yours: int) -> str | None:
        """Return the order of the operands in the head, if the operands are the same."""
        a, b = self._base.operands[mine], self._head.operands[yours]
        places = {self._found.head_of[x]: place for place, x in enumerate(a) if x >= 0}
        if len(places) != len(a) or set(places) != set(b):
            return None
        return ",".join(str(places[y]) for y in b)

    def _order(self, mine: int, yours: int) -> Mapping[int, int]:
        """Return the position of each operand in the other instruction, by parameters."""
        base, head = self._base, self._head
        if not opcode_traits(base.opcode(mine)).is_positional or mine not in base.callees:
            return {}
        called, other = base.callees[mine], head.callees.get(yours, ())
        if len(called) != 1 or len(other) != 1:
            return {}
        callee = called[0][1]
        if self._found.head_computation[callee] != other[0][1] or callee in self._found.whole:
            return {}
        numbers = self._parameters(1, other[0][1])
        order = {}
        for node, number in self._parameters(0, callee).items():
            partner = numbers.get(self._found.head_of[node])
            if partner is not None:
                order[number] = partner
        places, taken = range(len(base.operands[mine])), set(order.values())
        if len(taken) != len(order) or not {*order, *taken}.issubset(places):
            return {}
        # operands without a parameter stay in order
        rest = (place for place in places if place not in taken)
        return {place: order[place] if place in order else next(rest) for place in places}

    def _parameters(self, side: int, computation: int) -> dict[int, int]:
        known = self._numbers.get((side, computation))
        if known is None:
            found = parameter_numbers((self._base, self._head)[side], computation)
            known = {node: number for number, node in found.items()}
            self._numbers[side, computation] = known
        return known

    def _same_operand(
        self, mine: tuple[int, tuple[int, ...]], yours: tuple[int, tuple[int, ...]]
    ) -> bool:
        (x, my_index), (y, your_index) = mine, yours
        found = self._found
        if x < 0 or y < 0:
            return x == y
        if found.head_of[x] == y:
            return my_index == your_index or self._shape_differs(x, y)
        if my_index == your_index and self._computes_the_same(x, y):
            return True
        return not (self._has_place(x) and self._has_partner(y))

    def _computes_the_same(self, x: int, y: int) -> bool:
        """Return whether two nodes compute the same from matched parameters."""
        mine, yours = self._found.base_prints, self._found.head_prints
        mine.complete()
        yours.complete()
        if mine.up[x] != yours.up[y]:
            return False
        if x in self._impure and mine.down[x] != yours.down[y]:
            return False
        computation = self._base.owner[x]
        if computation == self._base.entry:
            return self._head.owner[y] == self._head.entry
        known = self._aligned.get(computation)
        if known is None:
            numbers = self._parameters(1, self._head.owner[y])
            known = self._aligned[computation] = all(
                numbers.get(self._found.head_of[node]) == number
                for node, number in self._parameters(0, computation).items()
            )
        return known

    @cached_property
    def _impure(self) -> AbstractSet[int]:
        return impure_nodes(self._base)

    def _has_place(self, node: int) -> bool:
        return self._found.head_of[node] >= 0 and node not in self._found.moved

    def _has_partner(self, node: int) -> bool:
        partner = self._found.base_of[node]
        return partner >= 0 and partner not in self._found.moved

    def _shape_differs(self, x: int, y: int) -> bool:
        parts = self._labels.parts
        return parts[self._base.label[x]].shape != parts[self._head.label[y]].shape

    def _other_arity(self, mine: int, yours: int) -> Iterator[Change]:
        """Yield a change if operands with a partner were added or removed.

        Operands without partner are edits of their own; elements of a changed tuple do not count.
        """
        base, head = self._base, self._head
        head_of, base_of = self._found.head_of, self._found.base_of
        mine_taken = [(x, at) for x, at in operands_of(base, mine) if x >= 0 and self._has_place(x)]
        yours_taken = [
            (y, at) for y, at in operands_of(head, yours) if y >= 0 and self._has_partner(y)
        ]
        left = Counter((head_of[x], at) for x, at in mine_taken)
        there = Counter(yours_taken)
        names = {head_of[x] for x, _ in mine_taken}, {y for y, _ in yours_taken}

        def is_told(x: int, y: int, side: int) -> bool:
            return y in names[side] and self._shape_differs(x, y)

        came = [(y, at) for y, at in (there - left).elements() if not is_told(base_of[y], y, 0)]
        went = [
            (base_of[y], at) for y, at in (left - there).elements() if not is_told(base_of[y], y, 1)
        ]
        if came or went:
            yield Change(
                what="operands",
                base=_several(base, went) or None,
                head=_several(head, came) or None,
            )

    # ---- results ------------------------------------------------------------------------------

    def root_changes(self) -> dict[int, tuple[Change, ...]]:
        """Return the changes of nodes of the base that became, or stopped being, a result.

        If one of the two results has no partner, only that edit is reported.
        """
        found: dict[int, tuple[Change, ...]] = {}
        for computation, partner in enumerate(self._found.head_computation):
            if partner < 0:
                continue
            was, now = self._base.roots[computation], self._head.roots[partner]
            if was[0] < 0 or now[0] < 0 or self._same_operand(was, now):
                continue
            if self._found.head_of[was[0]] == now[0]:
                change = Change(what="root", base=_element(was[1]), head=_element(now[1]))
                found[was[0]] = (change,)
            else:
                found[was[0]] = (Change(what="root", base="yes", head="no"),)
                found[self._found.base_of[now[0]]] = (Change(what="root", base="no", head="yes"),)
        return found

    # ---- called computations and control -------------------------------------------------------

    def _call_changes(self, mine: int, yours: int) -> Iterator[Change]:
        base, head, found = self._base, self._head, self._found
        called, other = base.callees.get(mine, ()), head.callees.get(yours, ())
        if len(called) != len(other):
            if base.label[mine] == head.label[yours]:
                yield Change(
                    what="called computations", base=str(len(called)), head=str(len(other))
                )
            return
        for (role, c), (_, d) in zip(called, other, strict=True):
            is_same = found.head_computation[c] == d
            if not is_same and found.base_prints.content[c] != found.head_prints.content[d]:
                names = (base.module.computations[c].name, head.module.computations[d].name)
                yield Change(what=role, base=names[0], head=names[1])

    def _control_changes(self, mine: int, yours: int) -> Iterator[Change]:
        base, head, found = self._base, self._head, self._found
        before = {found.head_of[n]: n for n in base.controls.get(mine, ()) if self._has_place(n)}
        after = {n for n in head.controls.get(yours, ()) if self._has_partner(n)}
        gone = sorted(n for partner, n in before.items() if partner not in after)
        new = sorted(n for n in after if n not in before)
        if gone or new:
            yield Change(
                what="control-predecessors",
                base=", ".join(_shown(base, n, ()) for n in gone) or None,
                head=", ".join(_shown(head, n, ()) for n in new) or None,
            )


def _element(index: tuple[int, ...]) -> str:
    """Return an index into a result as text."""
    return f"element {{{','.join(map(str, index))}}}" if index else "all of it"


def _several(graph: ProgramGraph, operands: Sequence[tuple[int, ShapeIndex]]) -> str:
    """Return the first few operands as text, and the number of others."""
    more = [f"{len(operands) - _FEW} more"] if len(operands) > _FEW else []
    return ", ".join([_shown(graph, *operand) for operand in operands[:_FEW]] + more)


def _shown(graph: ProgramGraph, node: int, index: tuple[int, ...]) -> str:
    """Return an operand as text."""
    if node < 0:
        return "(not in the text)"
    at = "".join(f"#{k}" for k in index)
    return f"{graph.opcode(node)} {graph.instruction(node).name}{at}"


_CONTROLS = "control-predecessors="


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMatching:
    """Partners among views.

    Attributes:
        pairs: Rows of partners.
        base: Views of the base without a partner.
        head: Views of the head without a partner.
    """

    pairs: tuple[tuple[int, int], ...]
    base: tuple[View, ...]
    head: tuple[View, ...]


def match_views(base: ProgramGraph, head: ProgramGraph, found: Matching) -> ViewMatching:
    """Return the partners among the views of two programs.

    Partners take the same element of partners, or of undefined operands. If a tuple has changed, an
    element of the same shape comes first, then the next of that shape, then the rest in order.
    """
    pairs: list[tuple[int, int]] = []
    left: tuple[list[View], list[View]] = (list(base.views), list(head.views))
    changed = {
        node
        for node in {view.node for view in base.views}
        if node >= 0 and found.head_of[node] >= 0
        if _shape_differs(base, head, node, found.head_of[node])
    }
    keys = _Keys((base, head), found, changed)
    for key in (keys.same, keys.same_shape, keys.next_shape, keys.next):
        if not all(left):
            break
        waiting: dict[Hashable, list[View]] = {}
        for view in reversed(left[1]):
            waiting.setdefault(key(1, view), []).append(view)
        waiting.pop(None, None)
        taken: set[int] = set()
        alone: list[View] = []
        for view in left[0]:
            others = waiting.get(key(0, view))
            if others:
                other = others.pop()
                pairs.append((view.row, other.row))
                taken.add(other.row)
            else:
                alone.append(view)
        left = (alone, [view for view in left[1] if view.row not in taken])
    return ViewMatching(pairs=tuple(pairs), base=tuple(left[0]), head=tuple(left[1]))


class _Keys:
    """Keys used to match views, the strictest first; None for no key."""

    def __init__(
        self,
        graphs: tuple[ProgramGraph, ProgramGraph],
        found: Matching,
        changed: AbstractSet[int],
    ) -> None:
        self._graphs = graphs
        self._found = found
        self._changed = changed

    def same(self, side: int, view: View) -> Hashable:
        """Return node and element for a tuple that has not changed."""
        node = self._node(side, view)
        return None if node is None or node in self._changed else (node, view.element)

    def same_shape(self, side: int, view: View) -> Hashable:
        """Return element and shape."""
        node = self._node(side, view)
        return None if node is None else (node, view.element, self._shape(side, view))

    def next_shape(self, side: int, view: View) -> Hashable:
        """Return the shape."""
        node = self._node(side, view)
        return None if node not in self._changed else (node, self._shape(side, view))

    def next(self, side: int, view: View) -> Hashable:
        """Return the tuple alone."""
        node = self._node(side, view)
        return node if node in self._changed else None

    def _node(self, side: int, view: View) -> int | None:
        """Return the base's node; -1 if undefined, None without partner."""
        if view.node < 0:
            return -1
        partner = (self._found.head_of, self._found.base_of)[side][view.node]
        if partner < 0:
            return None
        return partner if side else view.node

    def _shape(self, side: int, view: View) -> int:
        graph = self._graphs[side]
        text = graph.module.columns.text(view.row, SHAPE, SHAPE_END)
        return graph.labels.shape(text, graph.module.reader)


def view_changes(
    base: ProgramGraph, head: ProgramGraph, pairs: Sequence[tuple[int, int]], matched: Matching
) -> dict[int, tuple[Change, ...]]:
    """Return the changes between matched views, by row of the base."""
    found: dict[int, tuple[Change, ...]] = {}
    controls = _Controls((base, head), pairs, matched)
    seen: dict[tuple[str, str, str, str], tuple[Change, ...]] = {}
    tuples = (
        {view.row: view.node for view in base.views},
        {view.row: view.node for view in head.views},
    )
    for mine, yours in pairs:
        key = (*_said(base, mine), *_said(head, yours))
        if key[:2] == key[2:]:
            continue
        changes = seen.get(key)
        if changes is None:
            labels = _label(base, mine), _label(head, yours)
            changes = seen[key] = tuple(
                change for change in label_changes(base.labels, *labels) if change.what != "index"
            )
        x, y = tuples[0][mine], tuples[1][yours]
        if x < 0 or y < 0 or _shape_differs(base, head, x, y):
            changes = tuple(change for change in changes if change.what not in SHAPE_WORDS)
        if x >= 0 and y >= 0 and (_CONTROLS in key[1] or _CONTROLS in key[3]):
            changes = (*changes, *controls.changes((mine, yours), (x, y)))
        if changes:
            found[mine] = changes
    return found


class _Controls:
    """Comparison of the control predecessors of views."""

    def __init__(
        self,
        graphs: tuple[ProgramGraph, ProgramGraph],
        pairs: Sequence[tuple[int, int]],
        matched: Matching,
    ) -> None:
        self._graphs = graphs
        self._pairs = pairs
        self._matched = matched

    def changes(self, rows: tuple[int, int], nodes: tuple[int, int]) -> Iterator[Change]:
        """Yield the change of the control predecessors of a view, given as rows and tuple nodes."""
        if not self._graphs[0].labels.with_controls:
            return
        before, after = (
            self._rows(graph, row, node)
            for graph, row, node in zip(self._graphs, rows, nodes, strict=True)
        )
        if {self._partner.get(row) for row in before} != {*after}:
            names = [", ".join(sorted(found.values())) or None for found in (before, after)]
            yield Change(what="control-predecessors", base=names[0], head=names[1])

    @cached_property
    def _partner(self) -> Mapping[int, int]:
        mine, yours = (graph.rows for graph in self._graphs)
        nodes = enumerate(self._matched.head_of)
        return {**{mine[x]: yours[y] for x, y in nodes if y >= 0}, **dict(self._pairs)}

    @staticmethod
    def _rows(graph: ProgramGraph, row: int, node: int) -> dict[int, str]:
        """Return the rows of the control predecessors of a row, with their names."""
        computation = graph.module.computations[graph.owner[node]]
        names = HloInstruction(computation, row).control_predecessors
        found = ((computation.instruction(name), name) for name in names)
        return {one.row: name for one, name in found if one is not None}


def _said(graph: ProgramGraph, row: int) -> tuple[str, str]:
    """Return shape and attributes of a row as written, without trailing metadata."""
    columns = graph.module.columns
    attributes = columns.attributes_text(row)
    head, metadata, config = quick_split(attributes)
    if head is not None and metadata and config is None:
        attributes = head
    return columns.text(row, SHAPE, SHAPE_END), attributes


def _label(graph: ProgramGraph, row: int) -> int:
    """Return the label of a view, with its shape."""
    labels, reader = graph.labels, graph.module.reader
    columns = graph.module.columns
    attributes, config = labels.attribute_text(columns.attributes_text(row), reader)
    shape = labels.shape(columns.text(row, SHAPE, SHAPE_END), reader)
    return labels.label(LabelParts("get-tuple-element", shape, attributes.key, config, None))


def _shape_differs(base: ProgramGraph, head: ProgramGraph, x: int, y: int) -> bool:
    parts = base.labels.parts
    return parts[base.label[x]].shape != parts[head.label[y]].shape


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


_NUMBER = re.compile(r"\d+")
_NAMED = re.compile(r"(?:operand|name|control|called|to_apply|calls|condition|body|metadata)")
_EXAMPLES = 3
_CALL_DEPTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EditGroup:
    """Equal edits; fields without description are columns of `ProgramDiff`.

    Attributes:
        kind: ``added``, ``removed``, ``changed`` or ``moved``.
        count: Number of instructions.
        opcode: Their opcode; that of the base if it changed.
        changes: Their changes, in words; ``*`` for numbers that differ among them.
        result_bytes: In the head if they are there; None if any is unknown.
        base_names: Names of the first few in the base.
        head_names: Names of the first few in the head.
    """

    kind: str
    count: int
    inside: int
    opcode: str
    shape: str | None
    where: str
    changes: tuple[str, ...]
    op_name: str | None
    source: str | None
    result_bytes: int | None
    base_names: tuple[str, ...]
    head_names: tuple[str, ...]


@dataclass(slots=True)
class PlacedEdit:
    """An edit with its nodes; -1 for none.

    Attributes:
        edit: The edit.
        mine: Node of the base; -1 for none, and for a view.
        yours: Node of the head.
        owners: Its computations in base and head; -1 for none.
    """

    edit: Edit
    mine: int
    yours: int
    owners: tuple[int, int]


@dataclass(slots=True)
class _Group:
    """A group while edits are collected."""

    first: PlacedEdit
    role: tuple[Role | None, Role | None]
    paths: set[str]
    changes: tuple[Change, ...]
    texts: set[tuple[str, ...]] = field(default_factory=set)
    wheres: set[str] = field(default_factory=set)
    count: int = 0
    inside: int = 0
    result_bytes: int | None = 0
    base_names: list[str] = field(default_factory=list)
    head_names: list[str] = field(default_factory=list)


class EditGrouping:
    """Collector of edits into groups."""

    def __init__(self, base: ProgramGraph, head: ProgramGraph, roles: tuple[Roles, Roles]) -> None:
        self._graphs = (base, head)
        self._roles = roles
        self._groups: dict[Hashable, _Group] = {}
        self._of_node: dict[tuple[int, int], _Group] = {}
        self._bytes: dict[tuple[Produced, str], int | None] = {}
        self._general = cache(general_text)
        self._general_path = cache(partial(_NUMBER.sub, "*"))

    def groups(
        self, edits: Iterable[PlacedEdit], unmatched: Sequence[set[int]]
    ) -> tuple[EditGroup, ...]:
        """Return all edits in groups: by result bytes, then count, largest first, then name."""
        inner: list[tuple[int, int]] = []
        for placed in edits:
            side = self._side(placed.edit)
            if side is not None:
                caller = self._added_caller(placed.owners[side], side, unmatched[side])
                if caller >= 0:
                    inner.append((side, caller))
                    continue
            group = self._add(placed)
            for number, node in enumerate((placed.mine, placed.yours)):
                if node >= 0:
                    self._of_node[number, node] = group
        for key in inner:
            self._of_node[key].inside += 1
        return tuple(sorted(map(self._finished, self._groups.values()), key=_order))

    def _side(self, edit: Edit) -> int | None:
        """Return the only side that has an instruction: 0 base, 1 head, None for both."""
        if isinstance(edit, Removed):
            return 0
        return 1 if isinstance(edit, Added) else None

    def _added_caller(self, computation: int, side: int, unmatched: set[int]) -> int:
        """Return the caller that was added or removed with a whole computation, or -1."""
        role = self._roles[side].of(computation)
        found = -1
        for _ in range(_CALL_DEPTH):
            if not role.is_embedded or role.caller not in unmatched:
                break
            found = role.caller
            role = self._roles[side].of(self._graphs[side].owner[found])
        return found

    def _add(self, placed: PlacedEdit) -> _Group:
        edit = placed.edit
        kind, base, head, changes = parts_of(edit)
        instruction = head or base
        assert instruction is not None
        roles = tuple(
            None if owner < 0 else self._roles[side].of(owner)
            for side, owner in enumerate(placed.owners)
        )
        path = operation_path(instruction.computation.module.columns, instruction.row)
        general = tuple(map(self._general, changes))
        opcode = (base or instruction).opcode
        shape = instruction.shape_text if kind in ("added", "removed") else ""
        wheres = tuple("" if role is None else role.general for role in roles)
        key = (kind, opcode, wheres, self._general_path(path), general, shape)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(placed, (roles[0], roles[1]), set(), changes)
        group.count += 1
        group.paths.add(path)
        group.texts.add(tuple(map(str, changes)))
        group.wheres.add(_where(kind, roles))
        size = self._size(instruction, roles[1] or roles[0])
        known = group.result_bytes
        group.result_bytes = None if known is None or size is None else known + size
        for names, one in ((group.base_names, base), (group.head_names, head)):
            if one is not None and len(names) < _EXAMPLES:
                names.append(one.name)
        return group

    def _size(self, instruction: HloInstruction, role: Role | None) -> int | None:
        """Return the bytes that an instruction produces; 0 for views and inside fusions."""
        traits = opcode_traits(instruction.opcode)
        is_view = traits.is_end or (traits.is_view and not traits.is_start)
        if is_view or (role is not None and role.is_embedded):
            return 0
        key = traits.result_part, instruction.shape_text
        if key not in self._bytes:
            self._bytes[key] = _produced_bytes(instruction.shape, traits.result_part)
        return self._bytes[key]

    def _finished(self, group: _Group) -> EditGroup:
        kind, base, head, changes = parts_of(group.first.edit)
        instruction = head or base
        assert instruction is not None
        path = min(group.paths)
        if len(group.paths) > 1:
            path = _NUMBER.sub("*", path)
        exact = len(group.texts) == 1
        place = instruction.source_location
        shape = instruction.shape
        general = _where(kind, group.role, general=True)
        return EditGroup(
            kind=kind,
            count=group.count,
            inside=group.inside,
            opcode=(base or instruction).opcode,
            shape=None if shape is None else shape.to_text(layout=False),
            where=next(iter(group.wheres)) if len(group.wheres) == 1 else general,
            changes=tuple(str(c) if exact else general_text(c) for c in changes),
            op_name=path.replace("\\'", "'").replace('\\"', '"') or None,
            source=None if place is None else str(place),
            result_bytes=group.result_bytes,
            base_names=tuple(group.base_names),
            head_names=tuple(group.head_names),
        )


def _order(group: EditGroup) -> tuple[object, ...]:
    size, is_idle = group.result_bytes or 0, opcode_traits(group.opcode).is_idle
    return -size, is_idle, -group.count - group.inside, group.kind, group.opcode, group.where


def parts_of(
    edit: Edit,
) -> tuple[str, HloInstruction | None, HloInstruction | None, tuple[Change, ...]]:
    """Return the kind of an edit, its instructions in base and head, and its changes."""
    if isinstance(edit, Added):
        return "added", None, edit.head, ()
    if isinstance(edit, Removed):
        return "removed", edit.base, None, ()
    if isinstance(edit, Moved):
        return "moved", edit.base, edit.head, edit.changes
    return "changed", edit.base, edit.head, edit.changes


def _where(kind: str, roles: tuple[Role | None, ...], *, general: bool = False) -> str:
    texts = ["" if role is None else role.general if general else role.text for role in roles]
    if kind == "moved":
        return f"{texts[0]} -> {texts[1]}"
    return texts[1] or texts[0]


def _produced_bytes(shape: Shape | None, produced: Produced) -> int | None:
    """Return the bytes of the part of a result that is new."""
    if shape is None:
        return None
    if produced is not Produced.ALL and len(shape.tuple_shapes) > 1:
        shape = shape.tuple_shapes[produced.value - 1]
    return shape.size_bytes


def general_text(change: Change) -> str:
    """Return a change without the numbers that differ from layer to layer.

    >>> from hlo_lens.questions.diff.matching.instruction_edits import Change
    >>> general_text(Change(what="shape", base="[2,64]", head="[4,64]"))
    'dimension 0: 2 -> 4'
    >>> general_text(Change(what="operand 1", base="add add.7", head="copy copy.9"))
    'operand 1 add add.* -> copy copy.*'
    """
    if change.what == "shape" and (change.base or "").startswith("["):
        before = (change.base or "").strip("[]").split(",")
        after = (change.head or "").strip("[]").split(",")
        if len(before) == len(after):
            return ", ".join(
                f"dimension {place}: {a} -> {b}"
                for place, (a, b) in enumerate(zip(before, after, strict=True))
                if a != b
            )
    if change.what.startswith("backend_config") or _NAMED.match(change.what):
        left = _NUMBER.sub("*", change.base or "(none)")
        right = _NUMBER.sub("*", change.head or "(none)")
        return f"{change.what} {left} -> {right}"
    return str(change)
