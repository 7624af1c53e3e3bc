"""Values of a module: places in shapes (flat trees), buffers, live ranges, bodies, shared bytes.

A place is a row of the module and a preorder node of that row's shape, as one number.

Whether a result may reuse the bytes of an operand whose live range ends there: xla/hlo/analysis/
hlo_dataflow_analysis.cc, CanShareOperandBufferWithUser; for GPU xla/service/gpu/alias_info.cc
(FusionCanShareBufferHint) and nvptx_alias_info.cc, as of August 2026; the lists in TPU programs are
observed.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.buffers.assignment import parse_index
from hlo_lens.hlo.columns import NOTHING, OPERANDS, OPERANDS_END, SHAPE, SHAPE_END, STRIDE
from hlo_lens.hlo.module import HloComputation
from hlo_lens.hlo.opcodes import opcodes_where
from hlo_lens.shapes.shape import Shape, ShapeIndex, primitive_type
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.shape import ShapeIndex


NODES = 1 << 24
"""A place is ``row * NODES + node``: a row, and a node of its shape in preorder."""


@dataclass(frozen=True, slots=True)
class Part:
    """A node of a shape: an array, a token, or a tuple's table of pointers."""

    shape: Shape
    size_bytes: int  # on the backend
    color: int
    is_tuple: bool
    is_known: bool = True  # whether its size follows from the text
    text: str = ""  # of an array; ``(...)`` for a tuple


_UNKNOWN = Shape(element_type="?")


class ShapeTree:
    """The nodes of a shape in preorder: a tuple, then its elements with their nodes.

    Attributes:
        parts: The part at each node.
        sizes: Number of nodes in the subtree of each node.
    """

    __slots__ = ("_children", "parts", "sizes")

    def __init__(self, parts: list[Part], sizes: list[int]) -> None:
        self.parts = parts
        self.sizes = sizes
        self._children: dict[int, list[int]] = {}

    def children(self, node: int) -> list[int]:
        known = self._children.get(node)
        if known is None:
            known = []
            if self.parts[node].is_tuple:
                child, end = node + 1, node + self.sizes[node]
                while child < end:
                    known.append(child)
                    child += self.sizes[child]
            self._children[node] = known
        return known

    def at(self, index: Iterable[int]) -> int | None:
        node = 0
        for position in index:
            below = self.children(node)
            if not 0 <= position < len(below):
                return None
            node = below[position]
        return node

    def index(self, node: int) -> ShapeIndex:
        found: list[int] = []
        here = 0
        while here != node:
            below = self.children(here)
            position = bisect.bisect_right(below, node) - 1
            found.append(position)
            here = below[position]
        return tuple(found)


class ShapeTrees:
    """Shape texts as trees, each made once; see `dataflow` for the functions."""

    def __init__(
        self,
        module: HloModule,
        measure: Callable[[Shape], int | None],
        color: Callable[[Shape], int],
        whole: Callable[[Shape], Shape] | None = None,
    ) -> None:
        self._reader = module.reader
        self._measure = measure
        self._color = color
        self._whole = whole
        self._trees: dict[str, ShapeTree] = {}
        self._parts: dict[int, Part] = {}
        self.unknown = ShapeTree([Part(_UNKNOWN, 0, 0, False, False, str(_UNKNOWN))], [1])

    def of(self, text: str) -> ShapeTree:
        """Return the tree of a shape text; one node of unknown size if it is not a shape."""
        tree = self._trees.get(text)
        if tree is None:
            tree = self.unknown
            if text:
                with suppress(DumpSyntaxError):
                    shape = self._reader.shape(text)
                    tree = self._of_shape(shape if self._whole is None else self._whole(shape))
            self._trees[text] = tree
        return tree

    def _of_shape(self, shape: Shape) -> ShapeTree:
        parts = [self._part(shape)]
        sizes = [1]
        open_tuples = [(0, iter(shape.tuple_shapes))]
        while open_tuples:
            start, rest = open_tuples[-1]
            item = next(rest, None)
            if item is None:
                open_tuples.pop()
                sizes[start] = len(parts) - start
                continue
            if item.is_tuple:
                open_tuples.append((len(parts), iter(item.tuple_shapes)))
            parts.append(self._part(item))
            sizes.append(1)
        return ShapeTree(parts, sizes)

    def _part(self, shape: Shape) -> Part:
        part = self._parts.get(id(shape))  # parts keep their shapes
        if part is None:
            size, text = self._measure(shape), "(...)" if shape.is_tuple else str(shape)
            part = Part(
                shape, size or 0, self._color(shape), shape.is_tuple, size is not None, text
            )
            self._parts[id(shape)] = part
        return part


PHI_ORDER = 1 << 120
"""Number of the first phi; XLA numbers phis after all other values."""


@dataclass(slots=True, eq=False)
class Values:
    """The values of a module, as columns; a value is its position in them."""

    places: list[int] = field(default_factory=list)  # definition of each: row and node
    parts: list[Part] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)  # XLA's number, which breaks ties
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # inclusive
    # instant of its last position (a computation's end if that returns it), and that position;
    # for a get-tuple-element that the text omits, ``-1 - place`` of the part that it takes
    position_ends: list[int] = field(default_factory=list)
    last_places: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)

    def add(self, place: int, part: Part, order: int, start: int, end: int) -> int:
        self.places.append(place)
        self.parts.append(part)
        self.orders.append(order)
        self.starts.append(start)
        self.ends.append(end)
        self.position_ends.append(end)
        self.last_places.append(place)
        return len(self.places) - 1


class DisjointSets:
    """Disjoint sets of values."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def find(self, value: int) -> int:
        parents = self._parents
        root = value
        while root in parents:
            root = parents[root]
        while value != root:
            parents[value], value = root, parents[value]
        return root

    def union(self, first: int, second: int) -> None:
        """Join two sets; the representative of the first becomes that of both."""
        one, two = self.find(first), self.find(second)
        if one != two:
            self._parents[two] = one


class Dataflow:
    """Values of a module, with their buffers and live ranges.

    Attributes:
        values: The values; those that a loop carries unchanged are merged: use `carried` on each.
        buffers: Values that share bytes; each value is in exactly one buffer. Sorted by
            `Values.orders`.
        buffer_of: Value to position in `buffers`.
        value_lists: Row to the values at each node of its shape.
        operands: Row to the places of its operands.
        schedule: Rows in execution order, flattened; the position is the instant.
        output_values: Values of the entry's result, with repetitions.
        parameter_values: Entry parameter number to values at each node.
        donated: Values of entry parameters that are aliased with an output.
        numbers: Row to XLA's number, which orders a computation's instructions.
        skips: Descriptions of what was not understood, and their counts.
    """

    def __init__(self, table: InstructionTable, trees: ShapeTrees) -> None:
        self.table = table
        self.trees = trees
        self.values = Values()
        self.buffers: list[list[int]] = []
        self.buffer_of: dict[int, int] = {}
        self.value_lists: dict[int, list[int]] = {}
        self.operands: dict[int, list[int]] = {}
        self.schedule: list[int] = []
        self.output_values: list[int] = []
        self.parameter_values: dict[int, list[int]] = {}
        self.donated: set[int] = set()
        self.numbers: dict[int, int] = {}
        self.bodies = FusedBodies(table)
        self.skips: Counter[str] = Counter()
        self.merged = DisjointSets()
        self.carried = self.merged.find
        self._text = table.module.columns.source.text
        self._spans = table.module.columns.spans

    @property
    def end(self) -> int:
        """The instant after the last instruction, at which parameters and results still live."""
        return len(self.schedule)

    def tree(self, row: int) -> ShapeTree:
        spans, base = self._spans, row * STRIDE
        return self.trees.of(self._text[spans[base + SHAPE] : spans[base + SHAPE_END]])

    def values_at(self, place: int) -> list[int]:
        row, node = divmod(place, NODES)
        values = self.value_lists.get(row, [])
        last = node + self.tree(row).sizes[node] if node else len(values)
        return [self.carried(value) for value in values[node:last]]


DEEPEST = 100
"""Deepest nesting of computations that is followed."""

ELEMENTWISE = opcodes_where(lambda one: one.is_elementwise)
_UPDATES = opcodes_where(lambda one: one.is_update)
_MAY_UPDATE = _UPDATES | {"fusion"}
_IN_PLACE_ROOTS = _UPDATES | {"tuple", "fusion"}

INDEX = re.compile(r"\bindex=(\d{1,9})")
_KIND = re.compile(r"\bkind=(k\w+)")

_LONG = 10
"""Digits that are too many for a parameter number."""


def parameter_number(text: str) -> int:
    """Return the number between the parentheses of ``parameter(0)``; 0 if there is none."""
    number = text.strip()
    return int(number) if number.isdecimal() and len(number) < _LONG else 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FusedBody:
    """The computation of a fusion; instructions are numbered by position in the text.

    Attributes:
        rows: Row of each.
        users: Positions of the users of each, without repetition.
        parameters: Parameter number to position.
        outputs: Positions of the results; the elements of a tuple.
    """

    rows: Sequence[int]
    opcodes: Sequence[str]
    operands: Sequence[Sequence[int]]
    users: Sequence[Sequence[int]]
    parameters: dict[int, int]
    root: int
    outputs: Sequence[int]

    def is_elementwise(self, position: int, operand_number: int) -> bool:
        """Whether an instruction computes each element from the same one of an operand."""
        opcode = self.opcodes[position]
        if opcode == "dynamic-update-slice":
            return operand_number == 0
        return opcode in ELEMENTWISE

    def before(self, position: int) -> Iterator[int]:
        yield position
        while self.opcodes[position] in ELEMENTWISE | {"bitcast"} and self.operands[position]:
            position = self.operands[position][0]
            yield position


class FusedBodies:
    """The computations of fusions, each read when it is first asked for."""

    def __init__(self, table: InstructionTable) -> None:
        self._table = table
        self._module = table.module
        self._bodies: dict[int, FusedBody | None] = {}
        calls = table.module.links.calls
        self._places = dict(zip(reversed(calls.rows), reversed(calls.places), strict=True))

    def kind(self, row: int) -> str:
        """Return the kind of a fusion: ``kLoop``, ``kInput``, ``kOutput``, ``kCustom``."""
        match = _KIND.search(self._module.columns.attributes_text(row))
        return match[1] if match else ""

    def computation(self, row: int) -> HloComputation | None:
        place = self._places.get(row, NOTHING)
        return None if place == NOTHING else HloComputation(self._module, place)

    def of(self, row: int) -> FusedBody | None:
        computation = self.computation(row)
        if computation is None or computation.root_row < 0:
            return None
        if computation.place not in self._bodies:
            self._bodies[computation.place] = self._read(computation)
        return self._bodies[computation.place]

    def _read(self, computation: HloComputation) -> FusedBody:
        columns, links = self._module.columns, self._module.links
        rows = computation.rows
        position_of = {row: position for position, row in enumerate(rows)}
        opcodes = [self._table.opcodes[row] for row in rows]
        operands: list[list[int]] = []
        users: list[list[int]] = [[] for _ in rows]
        parameters: dict[int, int] = {}
        for position, row in enumerate(rows):
            if opcodes[position] == "parameter":
                text = columns.text(row, OPERANDS, OPERANDS_END)
                parameters[parameter_number(text)] = position
            found = [position_of[o] for o in links.operands_of(row) if o != NOTHING]
            operands.append(found)
            for operand in set(found):
                users[operand].append(position)
        root = rows.index(computation.root_row)
        return FusedBody(
            rows=rows,
            opcodes=opcodes,
            operands=operands,
            users=users,
            parameters=parameters,
            root=root,
            outputs=operands[root] if opcodes[root] == "tuple" else [root],
        )

    def in_place(
        self, row: int, depth: int = DEEPEST
    ) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
        """Yield the parameters of a fusion that its outputs are written into.

        Source: alias_info.cc, GetFusionInstructionInPlaceInputOutputPairs.
        """
        computation = self.computation(row)
        if computation is None or not computation.rows or not depth:
            return
        opcodes = self._table.opcodes
        if opcodes[computation.root_row] not in _IN_PLACE_ROOTS:
            return
        if not any(opcodes[inner] in _MAY_UPDATE for inner in computation.rows):
            return
        body = self.of(row)
        if body is None:
            return
        is_tuple = body.opcodes[body.root] == "tuple"
        for k, position in enumerate(body.outputs):
            number = self._updated_parameter(body, position, depth)
            if number is not None:
                yield number, (), (k,) if is_tuple else ()

    def _updated_parameter(self, body: FusedBody, position: int, depth: int) -> int | None:
        number = 0 if body.opcodes[position] in _UPDATES else None
        if body.opcodes[position] == "fusion":
            pairs = self.in_place(body.rows[position], depth - 1)
            number = next((found for found, _, index in pairs if not index), None)
        if number is None or number >= len(body.operands[position]):
            return None
        source = body.operands[position][number]
        if body.opcodes[source] == "bitcast" and body.operands[source]:
            source = body.operands[source][0]
        return next((n for n, p in body.parameters.items() if p == source), None)


IN_PLACE = opcodes_where(lambda one: one.is_in_place)
"""Opcodes that may write into an operand without an ``output_to_operand_aliasing``."""

_ALIAS_PAIR = re.compile(r"\{([\d,\s]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}")


def in_place_pairs(opcode: str, count: int) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
    """Yield operand number and index, and the output index that must share its bytes.

    They are those of an instruction with `count` operands.
    """
    if opcode in ("dynamic-update-slice", "set-dimension-size"):
        yield 0, (), ()
    elif opcode in ("scatter", "all-reduce-start"):
        held = (count - 1) // 2 if opcode == "scatter" else count
        yield from ((k, (), (k,) if held > 1 else ()) for k in range(held))
    elif opcode == "ragged-all-to-all":
        yield 1, (), ()


def aliasing_pairs(attributes: str) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
    """Yield the pairs of ``output_to_operand_aliasing={{}: (0, {})}``, as `in_place_pairs` does."""
    start = attributes.find("output_to_operand_aliasing=")
    end = attributes.find("}}", start)
    closed = attributes.find(")}", start)
    text = attributes[start : max(end, closed) + 2]
    for match in _ALIAS_PAIR.finditer(text):
        yield bounded_int(match[2]), parse_index(match[3]), parse_index(match[1])


_SHARING = opcodes_where(lambda one: one.is_elementwise or one.is_sharing)
"""Opcodes that may write over an operand on every backend."""

_ALIASED = re.compile(r'"indices":\[([^\]]*)')


class BufferSharing:
    """Whether a result may reuse the bytes of an operand whose live range ends there."""

    def __init__(self, flow: Dataflow, backend: str) -> None:
        self._flow = flow
        self._opcodes = flow.table.opcodes
        self._backend = backend
        self._bodies = flow.bodies

    def is_possible(self, user_row: int) -> bool:
        if self._backend != "cpu":
            return True
        return self._opcodes[user_row] in _SHARING

    def may_share(self, operand_place: int, user_row: int, user_node: int) -> bool:
        """Whether an instruction may write a node of its result over a part of an operand.

        The operand's value is at a place of `Values.last_places`.
        """
        flow = self._flow
        hidden = operand_place < 0
        place = -1 - operand_place if hidden else operand_place
        row, node = divmod(place, NODES)
        source = place if hidden else row * NODES
        operands = flow.operands[user_row]
        if source not in operands:
            return False
        opcode = self._opcodes[user_row]
        if opcode == "copy" or (not hidden and self._opcodes[row] == "constant"):
            return False
        number = operands.index(source)
        parts = flow.tree(row).parts
        if node >= len(parts):  # a damaged text takes an element that is not there
            return False
        given, made = parts[node], flow.tree(user_row).parts[user_node]
        hint = None
        if self._backend == "tpu":
            hint = self._tpu(user_row, number, user_node)
        elif self._backend == "gpu":
            hint = _gpu_may_share(flow, user_row, number, user_node, given)
        if hint is not None:
            return hint
        if given is not made and given.shape != made.shape:
            return False
        return self._general(opcode, user_row, number, operands, source, user_node)

    def _general(
        self, opcode: str, row: int, number: int, operands: list[int], source: int, node: int
    ) -> bool:
        if opcode == "fusion":
            return self._fusion(row, number)
        if opcode in ("while", "conditional"):
            return True
        if opcode in ("dynamic-update-slice", "scatter", "set-dimension-size"):
            return operands.count(source) == 1 and number == 0
        if opcode == "sort":
            if self._user_counts[source] != 1:
                return False
            if len(operands) == 1:
                return True
            index = self._flow.tree(row).index(node)
            return operands.count(source) == 1 and index[:1] == (number,)
        return opcode in ELEMENTWISE

    @cached_property
    def _user_counts(self) -> Counter[int]:
        return Counter(o for places in self._flow.operands.values() for o in set(places))

    def _fusion(self, row: int, number: int) -> bool:
        body = self._bodies.of(row)
        parameter = None if body is None else body.parameters.get(number)
        if body is None or parameter is None:
            return False
        kind = self._bodies.kind(row)
        if kind in ("kLoop", "kInput"):
            return _used_elementwise(body, parameter, through_tuples=True)
        return _used_elementwise(body, parameter, through_tuples=False)

    def _tpu(self, row: int, number: int, node: int) -> bool | None:
        """Return whether a TPU program's text lists the pair as sharing; None if it lists nothing.

        ``aliasing_operands`` numbers the operands, then the arrays of the result (observed).
        """
        text = self._flow.table.module.columns.attributes_text(row)
        start = text.find('"aliasing_operands":')
        if start < 0:
            return True if self._opcodes[row] == "all-reduce" else None
        end = text.find("]}]", start)
        listed = text[start : end if end > 0 else start]
        parts = self._flow.tree(row).parts
        output = len(self._flow.operands[row]) + sum(not p.is_tuple for p in parts[:node])
        for match in _ALIASED.finditer(listed):
            indices = set(match[1].replace('"', "").split(","))
            if str(number) in indices and str(output) in indices:
                return True
        return False


def _used_elementwise(body: FusedBody, parameter: int, *, through_tuples: bool) -> bool:
    queue, visited = [parameter], {parameter}
    for current in queue:
        for user in body.users[current]:
            numbers = (k for k, operand in enumerate(body.operands[user]) if operand == current)
            if body.opcodes[user] == "tuple":
                is_passed = through_tuples
            else:
                is_passed = all(body.is_elementwise(user, k) for k in numbers)
            if not is_passed:
                return False
            if user not in visited:
                visited.add(user)
                queue.append(user)
    return True


# ---- GPU ---------------------------------------------------------------------------------------


def _gpu_may_share(flow: Dataflow, row: int, number: int, node: int, given: Part) -> bool | None:
    """Return whether a row may write over an operand; None if the general rule applies."""
    opcode = flow.table.opcodes[row]
    tree, operands = flow.tree(row), flow.operands[row]
    if opcode in ("all-reduce", "collective-broadcast"):
        index = tree.index(node)
        return len(operands) == 1 or (
            len(index) == 1 and index[0] < len(operands) and operands[index[0]] == operands[number]
        )
    if opcode != "fusion":
        return None
    if not _is_alike(given, tree.parts[node]):
        return False
    body = flow.bodies.of(row)
    if body is None or number not in body.parameters:
        return False
    fusion = _GpuFusion(body, flow.bodies.kind(row))
    return fusion.may_share(body.parameters[number], tree.index(node))


def _is_alike(given: Part, made: Part) -> bool:
    if given is made or given.shape == made.shape:
        return True
    counts = {part.shape.element_count for part in (given, made)}
    elements = [primitive_type(part.shape.element_type) for part in (given, made)]
    bits = {None if element is None else element.bits for element in elements}
    return not given.is_tuple and not made.is_tuple and len(counts) == len(bits) == 1


class _GpuFusion:
    """Whether a GPU fusion reads an operand in the order in which it writes.

    Source: xla/service/gpu/alias_info.cc, FusionCanShareBufferHint.
    """

    def __init__(self, body: FusedBody, kind: str) -> None:
        self._body = body
        chains = (p for output in body.outputs for p in body.before(output))
        reductions = (p for p in chains if kind == "kInput" and body.opcodes[p] == "reduce")
        self._reduction = next(reductions, None)  # that it is built around

    def may_share(self, parameter: int, index: ShapeIndex) -> bool:
        body = self._body
        output = body.root
        if body.opcodes[output] == "tuple":
            if not index or index[0] >= len(body.outputs):
                return False
            output = body.outputs[index[0]]
        written = output
        if body.opcodes[written] == "bitcast" and body.operands[written]:
            written = body.operands[written][0]
        queue, visited = [parameter], {parameter}
        for current in queue:
            if current == self._reduction:
                continue
            for user in body.users[current]:
                if user not in visited:
                    visited.add(user)
                    queue.append(user)
                if not self._same_order(current, user, written, index):
                    return False
        reached = [p for p in body.outputs if p in visited]
        return output in visited and (
            all(p == output for p in reached) or self._is_in_one_order(reached, written)
        )

    def _is_in_one_order(self, outputs: Sequence[int], written: int) -> bool:
        body = self._body
        chains = (p for output in outputs for p in body.before(output))
        return body.opcodes[written] in ELEMENTWISE and not any(
            body.opcodes[p] in ("transpose", "copy") for p in chains
        )

    def _same_order(self, current: int, user: int, written: int, index: ShapeIndex) -> bool:
        """Whether a use reads elements in the order in which the output is written.

        In-place sorts inside a fusion are observed with jax 0.10.2.
        """
        body = self._body
        opcode, operands = body.opcodes[user], body.operands[user]
        number, is_once = operands.index(current), operands.count(current) == 1
        is_held = is_once and number < (len(operands) - 1) // 2
        if user == written and opcode == "scatter" and is_held:
            return True
        if user == written and opcode == "sort":
            return is_once and number == (index[0] if index else 0)
        if opcode in ("bitcast", "tuple") or user == self._reduction:
            return True
        if opcode != "copy" and body.is_elementwise(user, number):
            return True
        return user == written and opcode == "dynamic-update-slice" and number == 1
