"""Comparison of partners: labels, operands, calls, results, control predecessors."""

from __future__ import annotations

from collections import Counter
from functools import cache, cached_property, partial
from itertools import accumulate, chain, compress
from operator import ne
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import SHAPE, SHAPE_END
from hlo_lens.hlo.module import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.diff.matching.edits import Change
from hlo_lens.questions.diff.matching.graphs import impure_nodes, operands_of, parameter_numbers
from hlo_lens.questions.diff.matching.matching import by_key
from hlo_lens.questions.diff.matching.meanings import (
    SHAPE_WORDS,
    LabelParts,
    label_changes,
    quick_split,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set

    from hlo_lens.questions.diff.matching.graphs import ProgramGraph, View
    from hlo_lens.questions.diff.matching.matching import Matching
    from hlo_lens.shapes.shape import ShapeIndex

    Operand = tuple[int, ShapeIndex]

_FEW = 3


class Comparison:
    """Comparison of partners."""

    def __init__(self, base: ProgramGraph, head: ProgramGraph, matched: Matching) -> None:
        self._base = base
        self._head = head
        self._matched = matched
        self._aligned: dict[int, bool] = {}
        self._has_other_count = len({len(parameter_numbers(g, g.entry)) for g in (base, head)}) > 1
        self._labels_differ = cache(lambda a, b: tuple(label_changes(base.labels, a, b)))
        self._parameters = cache(self._parameters_of)

    def suspects(self) -> set[int]:
        """Return the nodes of the base that may differ from their partners.

        Nodes of computations that were matched whole never do.
        """
        base, head, matched = self._base, self._head, self._matched
        head_of, base_of = matched.head_of, matched.base_of
        found = {*matched.moved, *base.controls, *map(base_of.__getitem__, head.controls)}
        partners = [
            partner if computation in matched.whole else None
            for computation, partner in enumerate(matched.head_computation)
        ]
        for node, called in base.callees.items():
            other = head.callees.get(head_of[node], ())
            if [partners[c] for _, c in called] != [d for _, d in other]:
                found.add(node)
        found.update(base_of[node] for node in head.callees if base_of[node] not in base.callees)
        for node in {*base.indices, *map(base_of.__getitem__, head.indices)}:
            if node >= 0 and base.indices.get(node) != head.indices.get(head_of[node]):
                found.add(node)
        for computation in range(len(base.nodes)):
            if computation not in matched.whole:
                found.update(self._suspects_in(computation))
        return {node for node in found if node >= 0 and head_of[node] >= 0}

    def _suspects_in(self, computation: int) -> Iterable[int]:
        """Return the nodes of a computation with another label, or other operands."""
        base, head, matched = self._base, self._head, self._matched
        nodes, partner = base.nodes[computation], matched.head_computation[computation]
        own = slice(nodes.start, nodes.stop)
        others = head.nodes[partner] if partner >= 0 else range(0)
        has_same_edges = partner >= 0 and base.edges[computation] == head.edges[partner]
        if has_same_edges and matched.is_in_place(nodes, others):
            return compress(nodes, map(ne, base.label[own], head.label[others.start : others.stop]))
        labels, operands, taken = head.label, head.operands, base.operands[own]
        flat = tuple(map(self._partners.__getitem__, chain.from_iterable(taken)))
        ends = list(accumulate(map(len, taken), initial=0))
        targets = map(flat.__getitem__, map(slice, ends, ends[1:]))
        mine = zip(nodes, matched.head_of[own], base.label[own], targets, strict=True)
        return [
            node
            for node, other, label, wanted in mine
            if other >= 0 and (labels[other] != label or wanted != operands[other])
        ]

    @cached_property
    def _partners(self) -> Sequence[int]:
        """Partner of each node of the base; a number that no operand has for none."""
        none = -2  # also that of undefined operands, which are the last one
        return [partner if partner >= 0 else none for partner in (*self._matched.head_of, none)]

    def changes(self, mine: int, yours: int) -> Iterator[Change]:
        """Yield the changes between two partners."""
        base, head = self._base, self._head
        if base.label[mine] != head.label[yours]:
            is_entry = base.owner[mine] == base.entry
            for change in self._labels_differ(base.label[mine], head.label[yours]):
                is_number = change.what == "parameter number"
                if not is_number or (is_entry and not self._has_other_count):
                    yield change
        if mine not in self._matched.moved:  # the move alone changes the operands
            yield from self._operand_changes(mine, yours)
        if mine in base.callees or yours in head.callees:
            yield from self._call_changes(mine, yours)
        if mine in base.controls or yours in head.controls:
            yield from self._control_changes(mine, yours)

    # ---- operands ------------------------------------------------------------------------------

    def _operand_changes(self, mine: int, yours: int) -> Iterator[Change]:
        """Yield one change for all operands that differ."""
        base, head, head_of = self._base, self._head, self._matched.head_of
        a, b = base.operands[mine], head.operands[yours]
        if len(a) != len(b):
            if base.opcode(mine) != "tuple":  # whose shape shows it
                yield from self._other_arity(mine, yours)
            return
        order = self._order(mine, yours)
        has_indices = mine in base.indices or yours in head.indices
        is_known = not has_indices and -1 not in a and -1 not in b
        if (
            is_known
            and tuple([head_of[x] for x in a]) == b
            and all(k == v for k, v in order.items())
        ):
            return
        others = [*operands_of(head, yours)]
        pairs = [
            (place, operand, others[order.get(place, place)])
            for place, operand in enumerate(operands_of(base, mine))
        ]
        differ = [pair for pair in pairs if not self._same_operand(*pair[1:])]
        places = {head_of[x]: place for place, x in enumerate(a) if x >= 0}
        if len(differ) > 1 and len(places) == len(a) and set(places) == set(b):
            numbers = [",".join(map(str, listed)) for listed in (range(len(a)), map(places.get, b))]
            yield Change("order of operands", *numbers)
            return
        for place, x, y in differ:
            yield Change(f"operand {place}", _shown(base, *x), _shown(head, *y))

    def _order(self, mine: int, yours: int) -> Mapping[int, int]:
        """Return the position of each operand in the other instruction, by parameters."""
        base, matched = self._base, self._matched
        if mine not in base.callees or not opcode_traits(base.opcode(mine)).is_positional:
            return {}
        called, other = base.callees[mine], self._head.callees.get(yours, ())
        if len(called) != 1 or len(other) != 1:
            return {}
        callee, partner = called[0][1], other[0][1]
        if matched.head_computation[callee] != partner or callee in matched.whole:
            return {}
        numbers = self._parameters(1, partner)
        pairs = (
            (number, numbers.get(matched.head_of[node]))
            for node, number in self._parameters(0, callee).items()
        )
        order = {number: other for number, other in pairs if other is not None}
        places, taken = range(len(base.operands[mine])), set(order.values())
        if len(taken) != len(order) or not {*order, *taken}.issubset(places):
            return {}
        # operands without a parameter stay in order
        rest = (place for place in places if place not in taken)
        return {place: order[place] if place in order else next(rest) for place in places}

    def _parameters_of(self, side: int, computation: int) -> dict[int, int]:
        """Return the number of each parameter of a computation."""
        numbers = parameter_numbers((self._base, self._head)[side], computation)
        return {node: number for number, node in numbers.items()}

    def _same_operand(self, mine: Operand, yours: Operand) -> bool:
        (x, my_index), (y, your_index) = mine, yours
        if x < 0 or y < 0:
            return x == y
        if self._matched.head_of[x] == y:
            return my_index == your_index or shape_differs(self._base, self._head, x, y)
        if my_index == your_index and self._computes_the_same(x, y):
            return True
        return not (self._stays(x) and self._stays(self._matched.base_of[y]))

    def _stays(self, node: int) -> bool:
        """Return whether a node of the base has a partner in the partner of its computation."""
        matched = self._matched
        return node >= 0 and matched.head_of[node] >= 0 and node not in matched.moved

    def _computes_the_same(self, x: int, y: int) -> bool:
        """Return whether two nodes compute the same from matched parameters."""
        mine, yours = self._matched.base_prints, self._matched.head_prints
        mine.complete()
        yours.complete()
        if mine.up[x] != yours.up[y] or (x in self._impure and mine.down[x] != yours.down[y]):
            return False
        computation, other = self._base.owner[x], self._head.owner[y]
        if computation == self._base.entry:
            return other == self._head.entry
        if computation not in self._aligned:
            numbers = self._parameters(1, other)
            self._aligned[computation] = all(
                numbers.get(self._matched.head_of[node]) == number
                for node, number in self._parameters(0, computation).items()
            )
        return self._aligned[computation]

    @cached_property
    def _impure(self) -> Set[int]:
        return impure_nodes(self._base)

    def _other_arity(self, mine: int, yours: int) -> Iterator[Change]:
        """Yield a change if operands with a partner were added or removed.

        Operands without partner are edits of their own; elements of a changed tuple do not count.
        """
        base, head = self._base, self._head
        head_of, base_of = self._matched.head_of, self._matched.base_of
        before = Counter((head_of[x], at) for x, at in operands_of(base, mine) if self._stays(x))
        after = Counter(
            (y, at) for y, at in operands_of(head, yours) if y >= 0 and self._stays(base_of[y])
        )

        def net(one: Counter[Operand], other: Counter[Operand]) -> list[Operand]:
            kept = {y for y, _ in other}
            return [
                (y, at)
                for y, at in (one - other).elements()
                if y not in kept or not shape_differs(base, head, base_of[y], y)
            ]

        came, went = net(after, before), [(base_of[y], at) for y, at in net(before, after)]
        if came or went:
            yield Change("operands", _several(base, went) or None, _several(head, came) or None)

    # ---- results, called computations and control ----------------------------------------------

    def root_changes(self) -> dict[int, tuple[Change, ...]]:
        """Return the changes of nodes of the base that became, or stopped being, a result.

        If one of the two results has no partner, only that edit is reported.
        """
        matched = self._matched
        found: dict[int, tuple[Change, ...]] = {}
        for computation, partner in enumerate(matched.head_computation):
            if partner < 0:
                continue
            was, now = self._base.roots[computation], self._head.roots[partner]
            if was[0] < 0 or now[0] < 0 or self._same_operand(was, now):
                continue
            if matched.head_of[was[0]] == now[0]:
                found[was[0]] = (Change("root", _element(was[1]), _element(now[1])),)
            else:
                found[was[0]] = (Change("root", "yes", "no"),)
                found[matched.base_of[now[0]]] = (Change("root", "no", "yes"),)
        return found

    def _call_changes(self, mine: int, yours: int) -> Iterator[Change]:
        base, head, matched = self._base, self._head, self._matched
        called, other = base.callees.get(mine, ()), head.callees.get(yours, ())
        if len(called) != len(other):
            if base.label[mine] == head.label[yours]:
                yield Change("called computations", str(len(called)), str(len(other)))
            return
        for (role, c), (_, d) in zip(called, other, strict=True):
            is_same = matched.head_computation[c] == d
            if not is_same and matched.base_prints.content[c] != matched.head_prints.content[d]:
                names = base.module.computations[c].name, head.module.computations[d].name
                yield Change(role, *names)

    def _control_changes(self, mine: int, yours: int) -> Iterator[Change]:
        base, head, matched = self._base, self._head, self._matched
        before = {matched.head_of[n]: n for n in base.controls.get(mine, ()) if self._stays(n)}
        after = {n for n in head.controls.get(yours, ()) if self._stays(matched.base_of[n])}
        gone = sorted(n for partner, n in before.items() if partner not in after)
        new = sorted(n for n in after if n not in before)
        if gone or new:
            texts = [
                ", ".join(_shown(graph, n, ()) for n in nodes) or None
                for graph, nodes in ((base, gone), (head, new))
            ]
            yield Change("control-predecessors", *texts)


def _element(index: ShapeIndex) -> str:
    """Return an index into a result as text."""
    return f"element {{{','.join(map(str, index))}}}" if index else "all of it"


def _several(graph: ProgramGraph, operands: Sequence[Operand]) -> str:
    """Return the first few operands as text, and the number of others."""
    more = [f"{len(operands) - _FEW} more"] if len(operands) > _FEW else []
    return ", ".join([_shown(graph, *operand) for operand in operands[:_FEW]] + more)


def _shown(graph: ProgramGraph, node: int, index: ShapeIndex) -> str:
    """Return an operand as text."""
    if node < 0:
        return "(not in the text)"
    return f"{graph.opcode(node)} {graph.instruction(node).name}{''.join(f'#{k}' for k in index)}"


def shape_differs(base: ProgramGraph, head: ProgramGraph, x: int, y: int) -> bool:
    """Return whether a node of the base and one of the head have other shapes."""
    parts = base.labels.parts
    return parts[base.label[x]].shape != parts[head.label[y]].shape


# ---- views -------------------------------------------------------------------------------------

_CONTROLS = "control-predecessors="


def match_views(
    base: ProgramGraph, head: ProgramGraph, matched: Matching
) -> tuple[list[tuple[int, int]], list[View], list[View]]:
    """Return the rows of partners among the views of two programs, and the views without partner.

    Partners take the same element of partners, or of undefined operands. If a tuple has changed, an
    element of the same shape comes first, then the next of that shape, then the rest in order.
    """
    graphs, partners = (base, head), (matched.head_of, matched.base_of)
    elements = [{view.row: view.element for view in graph.views} for graph in graphs]
    nodes = [  # of the base; -1 if undefined
        {view.row: -1 for view in graph.views if view.node < 0}
        | {
            view.row: partners[side][view.node] if side else view.node
            for view in graph.views
            if view.node >= 0 and partners[side][view.node] >= 0
        }
        for side, graph in enumerate(graphs)
    ]
    changed = {
        node
        for node in set(nodes[0].values())
        if node >= 0 and shape_differs(base, head, node, matched.head_of[node])
    }

    def shape(side: int, row: int) -> int:
        graph = graphs[side]
        text = graph.module.columns.text(row, SHAPE, SHAPE_END)
        return graph.labels.shape(text, graph.module.reader)

    def key(stage: int, side: int, row: int) -> Hashable:
        node = nodes[side][row]
        if stage == 1:
            return node, elements[side][row], shape(side, row)
        if stage == 0:
            return None if node in changed else (node, elements[side][row])
        return None if node not in changed else node if stage == 3 else (node, shape(side, row))

    mine, yours = map(list, nodes)
    pairs: list[tuple[int, int]] = []
    for stage in range(4):
        keys = partial(key, stage, 0), partial(key, stage, 1)
        pairs += sorted(by_key(mine, yours, *keys, "any"))
        found = [{pair[side] for pair in pairs} for side in (0, 1)]
        mine, yours = (
            [row for row in rows if row not in kept]
            for rows, kept in zip((mine, yours), found, strict=True)
        )
    paired = [{pair[side] for pair in pairs} for side in (0, 1)]
    alone = [
        [view for view in graph.views if view.row not in paired[side]]
        for side, graph in enumerate(graphs)
    ]
    return pairs, alone[0], alone[1]


def view_changes(
    base: ProgramGraph, head: ProgramGraph, pairs: Sequence[tuple[int, int]], matched: Matching
) -> dict[int, list[Change]]:
    """Return the changes between matched views, by row of the base."""
    partners: dict[int, int] = {}  # rows of nodes and views, filled for the first control edge

    def controls(graph: ProgramGraph, row: int, node: int) -> dict[int, str]:
        """Return the rows of the control predecessors of a row, with their names."""
        computation = graph.module.computations[graph.owner[node]]
        names = HloInstruction(computation, row).control_predecessors
        found = ((computation.instruction(name), name) for name in names)
        return {before.row: name for before, name in found if before is not None}

    nodes = [{view.row: view.node for view in graph.views} for graph in (base, head)]
    label_differs = cache(
        lambda *texts: [
            change
            for change in label_changes(
                base.labels, _label(base, *texts[:2]), _label(head, *texts[2:])
            )
            if change.what != "index"
        ]
    )
    found: dict[int, list[Change]] = {}
    for mine, yours in pairs:
        texts, others = _printed(base, mine), _printed(head, yours)
        if texts == others:
            continue
        changes: list[Change] = list(label_differs(*texts, *others))
        x, y = nodes[0][mine], nodes[1][yours]
        if x < 0 or y < 0 or shape_differs(base, head, x, y):
            changes = [change for change in changes if change.what not in SHAPE_WORDS]
        has_controls = _CONTROLS in texts[1] or _CONTROLS in others[1]
        if x >= 0 and y >= 0 and has_controls and base.labels.with_controls:
            if not partners:
                rows = enumerate(matched.head_of)
                partners.update({base.rows[a]: head.rows[b] for a, b in rows if b >= 0})
                partners.update(pairs)
            before, after = controls(base, mine, x), controls(head, yours, y)
            if {partners.get(row) for row in before} != {*after}:
                names = [", ".join(sorted(side.values())) or None for side in (before, after)]
                changes.append(Change("control-predecessors", *names))
        if changes:
            found[mine] = changes
    return found


def _printed(graph: ProgramGraph, row: int) -> tuple[str, str]:
    """Return shape and attributes of a row as written, without trailing metadata."""
    columns = graph.module.columns
    attributes = columns.attributes_text(row)
    head, metadata, config = quick_split(attributes)
    if head is not None and metadata and config is None:
        attributes = head
    return columns.text(row, SHAPE, SHAPE_END), attributes


def _label(graph: ProgramGraph, shape_text: str, attributes_text: str) -> int:
    """Return the label of a view, with its shape."""
    labels, reader = graph.labels, graph.module.reader
    attributes, config = labels.attribute_text(attributes_text, reader)
    shape = labels.shape(shape_text, reader)
    return labels.label(LabelParts("get-tuple-element", shape, attributes.key, config, None))
