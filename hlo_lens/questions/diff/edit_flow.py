"""Order of the edits of a program by dataflow, and loops that came, went or run otherwise.

An edit is a root if none of its operands, on either side, was edited. Edits that are computed from
a root follow from it. Constants, and what is made of them alone, take their type and shape from
their users: they are roots only where the program has no others; so are edits of the backward pass,
which JAX makes from the forward pass.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import InstructionTable
from hlo_lens.program.trip_counts import trip_counts
from hlo_lens.program.value_flow import Value, post_order, value_flow
from hlo_lens.questions.matching.edits import in_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.matching.edits import Edit

PLUMBING = frozenset({"call", "parameter", "tuple", "get-tuple-element", "constant"})
"""Opcodes that come and go with the computations around operations."""

ARGUMENTS = "[arguments]"

_MOST_EDITS = 60_000
"""Edits of which dataflow is followed; of more, each line is taken for a root."""

_MOST_STEPS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFlow:
    """Dataflow between the edited lines of a program.

    Edits of `roots` follow from no other, in the order in which they run; those of the lines that
    each has `reached` follow from its own. `of_products` are roots that use the result of a product
    of the forward pass.
    """

    roots: tuple[str, ...] = ()
    reached: Mapping[str, frozenset[str]]
    of_products: frozenset[str] = frozenset()
    is_known: bool = True


NO_FLOW = EditFlow(reached={}, is_known=False)


class _Side:
    """Edits of one side by row, and the rows from which they are computed."""

    def __init__(self, module: HloModule) -> None:
        self.flow = value_flow(module)
        self.opcodes = self.flow.opcodes
        self.node_of: dict[int, int] = {}
        self.position = _positions(module)

    def before(self, row: int) -> Iterator[int]:
        """Yield the edits of the operands, through tuples, calls and loops."""
        waiting, seen = [*self.flow.sources(Value(row))], set[Value]()
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            if value.row in self.node_of:
                yield self.node_of[value.row]
            elif self.opcodes[value.row] == "while":
                inner = self.flow.written(value)
                found = [self.flow.definition(inner)] if inner is not None else []
                waiting += [*found, *(self.flow.sources(value) if value.element else ())]

    def is_constant(self, row: int) -> bool:
        if self.opcodes[row] not in ("constant", "broadcast", "iota", "reshape", "convert"):
            return False
        sources = self.flow.sources(Value(row))
        return all(self.opcodes[one.row] in ("constant", "iota") for one in sources)

    def uses_product(self, row: int) -> bool:
        sources = self.flow.sources(Value(row))
        return any(opcode_traits(self.opcodes[one.row]).is_contraction for one in sources)


_Sides: TypeAlias = "tuple[_Side, _Side]"


def edit_flow(
    edits: Sequence[tuple[Edit, str | None]],
    modules: tuple[HloModule, HloModule],
    is_backward: Callable[[Edit], bool],
) -> EditFlow:
    """Return the dataflow between edited lines."""
    if len(edits) > _MOST_EDITS:
        return NO_FLOW
    sides = _Side(modules[0]), _Side(modules[1])
    nodes = [*_nodes(edits, sides)]
    after: dict[int, list[int]] = defaultdict(list)
    ranks: dict[int, tuple[int, float]] = {}  # of edits that follow from no other
    for node, (edit, _) in enumerate(nodes):
        rows = _rows(edit, sides)
        found = {one for side, row in rows for one in side.before(row)} - {node}
        for one in found:
            after[one].append(node)
        if not found:
            is_weak = all(side.is_constant(row) for side, row in rows)
            weakness = 2 if is_weak else int(is_backward(edit))
            ranks[node] = weakness, min(side.position[row] or 0.0 for side, row in rows)
    strongest = min((weakness for weakness, _ in ranks.values()), default=0)
    roots = sorted((n for n in ranks if ranks[n][0] == strongest), key=ranks.__getitem__)
    reached: dict[str, frozenset[str]] = {}
    lines = list(dict.fromkeys(nodes[node][1] for node in roots))
    steps = 0
    for line in lines:
        seen = {node for node in roots if nodes[node][1] == line}
        waiting = [*seen]
        while waiting and steps < _MOST_STEPS:
            steps += 1
            for one in after[waiting.pop()]:
                if one not in seen:
                    seen.add(one)
                    waiting.append(one)
        reached[line] = frozenset(nodes[node][1] for node in seen) - {line}
    uses = frozenset(
        line
        for edit, line in (nodes[node] for node in roots)
        if any(side.uses_product(row) for side, row in _rows(edit, sides))
    )
    return EditFlow(roots=tuple(lines), reached=reached, of_products=uses)


def _rows(edit: Edit, sides: _Sides) -> list[tuple[_Side, int]]:
    pairs = zip(sides, (edit.base, edit.head), strict=True)
    return [(side, one.row) for side, one in pairs if one is not None]


def _nodes(edits: Sequence[tuple[Edit, str | None]], sides: _Sides) -> Iterator[tuple[Edit, str]]:
    number = 0
    for edit, line in edits:
        instruction = in_head(edit)
        is_argument = instruction.opcode == "parameter" and instruction.computation.is_entry
        whats = {change.what for change in edit.changes}
        has_other_value = "value" in whats and "element type" not in whats  # of a constant
        is_operation = instruction.opcode not in PLUMBING or has_other_value
        rows = _rows(edit, sides)
        is_run = all(side.position[row] is not None for side, row in rows)
        if is_run and (is_argument or (is_operation and line is not None)):
            for side, row in rows:
                side.node_of[row] = number
            number += 1
            yield edit, ARGUMENTS if is_argument else line or ""


def _positions(module: HloModule) -> list[float | None]:
    """Return the place of each row in a run, from 0 to 1; None in reducers and comparators."""
    links, opcodes = module.links, module.opcodes
    found: list[float | None] = [None] * len(opcodes)
    count, seen = 0, {module.entry.place}
    stack = [iter(module.entry.rows)]
    while stack:
        row = next(stack[-1], None)
        if row is None:
            stack.pop()
            continue
        found[row], count = count, count + 1
        if opcode_traits(opcodes[row]).is_control_flow or opcodes[row] in ("call", "fusion"):
            for call in links.calls.of_row(row):
                if call.place >= 0 and call.place not in seen:
                    seen.add(call.place)
                    stack.append(iter(module.computations[call.place].rows))
    return [None if place is None else place / (count or 1) for place in found]


Nest: TypeAlias = "tuple[int | None, ...]"

INTO, OUT_OF, UNROLLED, SCANNED, TRIPS = "into", "out of", "unrolled", "scanned", "trips"


class LoopChange(NamedTuple):
    """Change of a loop around most of the operations that are in other loops than before.

    `kind` is one of the names above. `trips` is the trip count of the loop, times that its body
    appears; of the base for other trips, with `trips_after` in the head. `is_step` is whether most
    products of the program are in it, those of the backward pass too.
    """

    kind: str
    trips: int
    trips_after: int
    is_step: bool
    lines: frozenset[str]


def nests(module: HloModule) -> list[tuple[Nest, int]]:
    """Return the loops around each computation, by its place, and the number of its calls."""
    links, rows = module.links, module.opcodes.places_of({"while"})
    counts = trip_counts(InstructionTable(module)).loops if rows else ()
    trips = {row: loop.trip_count for row, loop in zip(rows, counts, strict=True)}
    found: dict[int, tuple[Nest, int]] = {module.entry.place: ((), 1)}

    def called(place: int) -> list[int]:
        calls = links.calls.of_rows(module.computations[place].rows)
        return [call.place for call in calls if call.place >= 0]

    for place in reversed(post_order([module.entry.place], called)):
        calls = [call for call in links.calls.of_computation(place) if call.role != "condition"]
        outer = [found[links.owners[call.row]] for call in calls if links.owners[call.row] in found]
        if outer and place not in found:
            nest, row = outer[0][0], calls[0].row
            nest = (*nest, trips[row]) if row in trips else nest
            found[place] = nest, min(_MOST_STEPS, sum(times for _, times in outer))
    return [found.get(place, ((), 1)) for place in range(len(module.computations))]


Nested: TypeAlias = "Mapping[str, Counter[tuple[Nest, bool]]]"
"""Operations of each line by the loops around them, and whether they are products."""

_LEAST = 1.5
"""A body that appears several times has at least so many times the operations."""


def loop_change(before: Nested, after: Nested) -> LoopChange | None:
    """Return the change of the loops around most operations; None if they run as before.

    Both have the operations by the names of their lines in the head.
    """
    votes: Counter[tuple[str, int, int]] = Counter()
    lines: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    for line, counts in before.items():
        others = after.get(line, Counter())
        sides = counts - others, others - counts
        if not others or not sides[0] or not sides[1]:  # operations came or went, and none moved
            continue
        one, other = (max(side, key=lambda k: (side[k], repr(k))) for side in sides)
        sizes = [side.total() for side in sides]
        change = _nest_change(one[0], other[0], sizes[1] / sizes[0])
        if change is not None:
            votes[change] += sum(sizes)
            lines[change].add(line)
    if not votes:
        return None
    change, weight = votes.most_common(1)[0]
    if 2 * weight < votes.total():
        return None
    products = {
        line: sum(count for (_, is_product), count in counts.items() if is_product)
        for line, counts in before.items()
    }
    inside = sum(products[line] for line in lines[change])
    return LoopChange(*change, 2 * inside > sum(products.values()) > 0, frozenset(lines[change]))


def _nest_change(one: Nest, other: Nest, growth: float) -> tuple[str, int, int] | None:
    if one == other or None in one or None in other:
        return None
    is_more, is_fewer = growth >= _LEAST, growth <= 1 / _LEAST
    if len(one) == len(other):
        differ = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
        before, after = (count or 1 for count in differ[0])
        if len(differ) != 1:
            return None
        if is_more and before % after == 0:
            return UNROLLED, before // after, after
        if is_fewer and after % before == 0:
            return SCANNED, after // before, after
        return TRIPS, before, after
    few, many = sorted((one, other), key=len)
    gone = [k for k in range(len(many)) if many[:k] + many[k + 1 :] == few]
    if not gone:
        return None
    trips = many[gone[0]] or 1
    if len(other) > len(one):
        return (SCANNED if is_fewer else INTO), trips, trips
    return (UNROLLED if is_more else OUT_OF), trips, trips
