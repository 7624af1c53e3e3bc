"""Changes between two instructions that are partners.

Two operands are the same if they are partners or compute the same from the parameters on; impure
ones must also have the same users. If one of the two operands has no partner (it was added, removed
or moved), only that edit is reported and the user counts as unchanged, as does a user whose operand
is another element of a tuple that has changed. Parameter numbers of computations other than the
entry follow from the operands of their callers and are compared there.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import accumulate, chain, compress
from operator import ne
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.diff.matching.edits import Change
from hlo_lens.questions.diff.matching.graph import ProgramGraph, impure_nodes
from hlo_lens.questions.diff.matching.label_changes import label_changes
from hlo_lens.questions.diff.matching.match_keys import operands_of, parameter_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from hlo_lens.questions.diff.matching.match_computations import Matching
    from hlo_lens.shapes.shape import ShapeIndex

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
