"""Values of a scheduled module: who defines them, which must share a buffer, when they live.

Definitions, all XLA's:

* A *value* is what an instruction writes: its result, or a part of it at a shape index. Tuples have
  a value of their own (the table of pointers); bitcast, get-tuple-element, call and the like define
  none and pass their operands' values on (hlo_dataflow_analysis.cc). What reaches the parameter of
  a loop or the result of a branch by two ways is a value too, a *phi*, unless a loop only carries
  it round (phi_graph.cc).
* Values that must lie in the same bytes form a *buffer*: the state of a loop, the results of
  branches, what is updated in place, donated parameters and their outputs (hlo_alias_analysis.cc).
* *Instants* number the instructions in execution order, flattened: computations of calls, loops
  (condition, then body), branches and async operations stand once, before the instruction that
  calls them. A value lives from the instant that defines it (a parameter: from the start of its
  computation) to its last use or position, both ends inclusive; what a computation returns lives to
  the end of that computation, and entry parameters that are not donated to the end of the program
  (hlo_live_range.cc).

Sources: xla/hlo/analysis/hlo_dataflow_analysis.cc, hlo_alias_analysis.cc, alias_info.cc,
xla/hlo/utils/hlo_live_range.cc, as of August 2026.

Limits: a computation that is called twice (XLA clones such before it assigns buffers) is read once.
The get-tuple-elements that a compact text leaves out are taken to stand right behind the tuple.
"""

from __future__ import annotations

import bisect
import itertools
import operator
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.model.hlo import (
    END,
    NAME,
    NAME_END,
    OPERANDS,
    OPERANDS_END,
    SHAPE,
    SHAPE_END,
    STRIDE,
    HloInstruction,
)
from hlo_lens.model.hlo_query import split_phase
from hlo_lens.model.shape import Shape, primitive_type
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hlo_lens.model.hlo import HloComputation, HloModule
    from hlo_lens.model.hlo_query import InstructionTable
    from hlo_lens.model.shape import ShapeIndex

NODES = 1 << 24
"""A place is ``row * NODES + node``: a row, and a node of its shape in preorder."""

COMPUTATION = 1 << 32
"""Numbers that a computation has for its instructions."""

DEEPEST = 100
"""Computations in computations that are followed."""

PHI_ORDER = 1 << 120
"""Phis are numbered behind all other values (XLA makes them last)."""

ALIAS_PAIR = re.compile(r"\{([\d,\s]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}")


@dataclass(frozen=True, slots=True)
class Part:
    """What a node of a shape is: an array, a token, or a tuple's table of pointers.

    Attributes:
        shape: The shape of this part.
        size_bytes: Bytes that the backend gives it.
        color: Memory space.
        is_tuple: Whether it is the table of a tuple.
        is_known: Whether its size follows from the text.
    """

    shape: Shape
    size_bytes: int
    color: int
    is_tuple: bool
    is_known: bool = True


class ShapeTree:
    """The nodes of a shape in preorder: a tuple, then its elements, each with all below it.

    Attributes:
        parts: What each node is.
        sizes: How many nodes each has below and with it.
    """

    __slots__ = ("_children", "parts", "sizes")

    def __init__(self, parts: list[Part], sizes: list[int]) -> None:
        self.parts = parts
        self.sizes = sizes
        self._children: dict[int, list[int]] = {}

    def children(self, node: int) -> list[int]:
        """Return the nodes of a tuple's elements."""
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
        """Return the node at a shape index, or None where there is none."""
        node = 0
        for position in index:
            below = self.children(node)
            if not 0 <= position < len(below):
                return None
            node = below[position]
        return node

    def index(self, node: int) -> ShapeIndex:
        """Return the shape index of a node."""
        found: list[int] = []
        here = 0
        while here != node:
            below = self.children(here)
            position = bisect.bisect_right(below, node) - 1
            found.append(position)
            here = below[position]
        return tuple(found)


class ShapeTrees:
    """Shape texts as trees, each made once; see `dataflow` for `measure` and `color`."""

    def __init__(
        self,
        module: HloModule,
        measure: Callable[[Shape], int | None],
        color: Callable[[Shape], int],
    ) -> None:
        self._reader = module.reader
        self._measure = measure
        self._color = color
        self._trees: dict[str, ShapeTree] = {}
        self._parts: dict[str, Part] = {}
        self.unknown = ShapeTree([Part(Shape(element_type="?"), 0, 0, False, False)], [1])

    def of(self, text: str) -> ShapeTree:
        """Return the tree of a shape text; one node of unknown size where it is no shape."""
        tree = self._trees.get(text)
        if tree is None:
            try:
                tree = self.of_shape(self._reader.shape(text)) if text else self.unknown
            except DumpSyntaxError:
                tree = self.unknown
            self._trees[text] = tree
        return tree

    def of_shape(self, shape: Shape) -> ShapeTree:
        """Return the tree of a shape."""
        parts: list[Part] = []
        sizes: list[int] = []
        open_tuples: list[tuple[int, Iterator[Shape]]] = []
        known: dict[int, Part] = {}

        def add(item: Shape) -> None:
            part = known.get(id(item))
            if part is None:
                part = known[id(item)] = self._part(item)
            if item.is_tuple:
                open_tuples.append((len(parts), iter(item.tuple_shapes)))
            parts.append(part)
            sizes.append(1)

        add(shape)
        while open_tuples:
            start, rest = open_tuples[-1]
            item = next(rest, None)
            if item is None:
                open_tuples.pop()
                sizes[start] = len(parts) - start
            else:
                add(item)
        return ShapeTree(parts, sizes)

    def _part(self, shape: Shape) -> Part:
        if shape.is_tuple:
            size = self._measure(shape)
            return Part(shape, size or 0, self._color(shape), True, size is not None)
        text = str(shape)
        part = self._parts.get(text)
        if part is None:
            size = self._measure(shape)
            part = Part(shape, size or 0, self._color(shape), False, size is not None)
            self._parts[text] = part
        return part


@dataclass(slots=True, eq=False)
class Values:
    """The values of a module, as columns; a value is its position in them.

    Attributes:
        places: Where each is defined: row and node.
        parts: What each is.
        orders: XLA's numbering, by which ties are broken: values of a smaller one come first.
        starts: First instant at which each lives.
        ends: Last instant, inclusive.
        position_ends: Instant of its last position (a computation's end if that returns it).
        last_places: That position; a get-tuple-element that the text leaves out is ``-1 - place``
            of the part that it takes.
    """

    places: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    position_ends: list[int] = field(default_factory=list)
    last_places: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)

    def add(self, place: int, part: Part, order: int, start: int, end: int) -> int:
        """Add a value and return it."""
        self.places.append(place)
        self.parts.append(part)
        self.orders.append(order)
        self.starts.append(start)
        self.ends.append(end)
        self.position_ends.append(end)
        self.last_places.append(place)
        return len(self.places) - 1


class Sets:
    """Disjoint sets of values."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def find(self, value: int) -> int:
        """Return the one that stands for a value's set."""
        parents = self._parents
        root = value
        while root in parents:
            root = parents[root]
        while value != root:
            parents[value], value = root, parents[value]
        return root

    def union(self, first: int, second: int) -> None:
        """Join two sets; what stands for the first then stands for both."""
        one, two = self.find(first), self.find(second)
        if one != two:
            self._parents[two] = one


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dataflow:
    """Values of a module, with their buffers and live ranges.

    Attributes:
        table: The module.
        trees: Shapes of its instructions.
        values: The values; those that a loop only carried round are merged into the carried one.
        buffers: Values that lie in the same bytes; each value in exactly one buffer. In each, by
            `Values.orders`.
        buffer_of: Value to position in `buffers`.
        value_lists: Row to the values at each node of its shape; use `carried` on each.
        operands: Row to the places of its operands.
        schedule: Rows in execution order, flattened; the position is the instant.
        output_values: Values of the entry's result, with repetitions.
        parameter_values: Entry parameter number to values at each node.
        donated: Values of entry parameters that are aliased with an output.
        carried: Value to the one that it is merged into.
        numbers: Row to XLA's number, which orders a computation's instructions.
        bodies: The computations of its fusions.
        skipped: What was not understood, in words.
    """

    table: InstructionTable
    trees: ShapeTrees
    values: Values
    buffers: list[list[int]]
    buffer_of: dict[int, int]
    value_lists: dict[int, list[int]]
    operands: dict[int, list[int]]
    schedule: list[int]
    output_values: list[int]
    parameter_values: dict[int, list[int]]
    donated: frozenset[int]
    carried: Callable[[int], int]
    numbers: dict[int, int]
    bodies: FusedBodies
    skipped: tuple[str, ...]

    @property
    def end(self) -> int:
        """The instant behind the last instruction, at which parameters and results still live."""
        return len(self.schedule)

    def tree(self, row: int) -> ShapeTree:
        """Return the shape of a row's result."""
        columns = self.table.module.columns
        return self.trees.of(columns.text(row, SHAPE, SHAPE_END))

    def values_at(self, place: int) -> list[int]:
        """Return the values at a place and all below it."""
        row, node = divmod(place, NODES)
        values = self.value_lists.get(row, [])
        if node == 0:
            return [self.carried(value) for value in values]
        size = self.tree(row).sizes[node]
        return [self.carried(value) for value in values[node : node + size]]


def dataflow(
    table: InstructionTable,
    measure: Callable[[Shape], int | None],
    color: Callable[[Shape], int] = operator.attrgetter("memory_space"),
) -> Dataflow:
    """Return values, buffers and live ranges of a module.

    Args:
        table: A module whose text is in execution order and that has an entry.
        measure: Bytes of an array, or of the table of a tuple; None where they are not known.
        color: Memory space of an array or a table.
    """
    return _Flow(table, ShapeTrees(table.module, measure, color)).run()


@dataclass(slots=True, eq=False)
class _Body:
    """A computation while its values are being found."""

    computation: HloComputation
    position: int
    rows: dict[str, int]
    start: int
    arguments: list[list[int]] | None
    parameter_instant: int
    root: list[int] = field(default_factory=list)


class _Flow:
    """Goes once over the flattened schedule."""

    def __init__(self, table: InstructionTable, trees: ShapeTrees) -> None:
        self._table = table
        self._module = table.module
        self._columns = table.module.columns
        self._text = self._columns.source.text
        self._spans = self._columns.spans
        self._opcodes = table.opcodes
        self._trees = trees
        self._values = Values()
        self._merged = Sets()
        self._sets = Sets()
        self._lists: dict[int, list[int]] = {}
        self._operands: dict[int, list[int]] = {}
        self._schedule: list[int] = []
        self._done: dict[str, _Body] = {}
        self._places = {c.name: i for i, c in enumerate(table.module.computations)}
        self._parameters: dict[int, list[int]] = {}
        self._phis = 0
        self._skipped: dict[str, int] = {}
        self._positions: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._async_values: dict[int, range] = {}
        self._wrapped: dict[int, HloComputation | None] = {}
        self._chain: dict[int, int] = {}
        self._controls = self._rows_with("control-predecessors=")
        self._aliasing = self._rows_with("output_to_operand_aliasing=")
        self._fusions = FusedBodies(table)
        self._depth = 0
        self._handlers = self._all_handlers()

    def _all_handlers(self) -> dict[str, Callable[[_Body, int], list[int]]]:
        """Return opcode to what finds an instruction's values; all others define their own."""
        return {
            "parameter": self._parameter,
            "get-tuple-element": self._element,
            "tuple": self._tuple,
            "bitcast": self._forward,
            "opt-barrier": self._forward,
            "domain": self._forward,
            "add-dependency": self._forward,
            "copy": self._copy,
            "while": self._while,
            "conditional": self._conditional,
            "call": self._call,
            "async-start": self._async_start,
            "async-update": self._async_update,
            "async-done": self._async_done,
            "copy-start": self._copy_start,
            "copy-done": self._copy_done,
            "all-gather-start": self._two_sided_start,
            "collective-permute-start": self._two_sided_start,
            "all-reduce-start": self._define_all,
            "all-reduce-done": self._forward,
            "send": self._send,
            "recv-done": self._recv_done,
            "send-done": self._define_all,
        }

    def run(self) -> Dataflow:
        """Return everything found."""
        entry = self._module.entry
        body = self._computation(entry, None)
        end = len(self._schedule)
        donated = self._join_donated(body)
        values = self._values
        for number in self._parameters.values():
            for value in number:
                if value not in donated:
                    values.ends[value] = end
        buffers, buffer_of = self._buffers()
        self._normalise(buffers)
        find = self._merged.find
        return Dataflow(
            table=self._table,
            trees=self._trees,
            values=values,
            buffers=buffers,
            buffer_of=buffer_of,
            value_lists=self._lists,
            operands=self._operands,
            schedule=self._schedule,
            output_values=[find(value) for value in body.root],
            parameter_values=self._parameters,
            donated=frozenset(donated),
            carried=find,
            numbers=self._numbers,
            bodies=self._fusions,
            skipped=tuple(f"{what} ({count} times)" for what, count in self._skipped.items()),
        )

    # --- text -------------------------------------------------------------------------------

    def _rows_with(self, what: str) -> frozenset[int]:
        """Return the rows whose text holds a word; one search over the whole text."""
        text, starts = self._text, self._spans[NAME::STRIDE]
        found = set()
        position = text.find(what)
        while position >= 0:
            found.add(bisect.bisect_right(starts, position) - 1)
            position = text.find(what, position + len(what))
        return frozenset(found)

    def _row_text(self, row: int, first: int, last: int) -> str:
        base = row * STRIDE
        return self._text[self._spans[base + first] : self._spans[base + last]]

    def _tree(self, row: int) -> ShapeTree:
        base = row * STRIDE
        spans = self._spans
        return self._trees.of(self._text[spans[base + SHAPE] : spans[base + SHAPE_END]])

    def _instruction(self, row: int, body: _Body) -> HloInstruction:
        return HloInstruction(body.computation, row)

    def _find_operands(self, row: int, rows: dict[str, int]) -> list[int]:
        """Return the places of a row's operands; those that name nothing are left out."""
        overlay = self._columns.overlays.get(row)
        text = self._row_text(row, OPERANDS, OPERANDS_END)
        found: list[int] = []
        if overlay is None and not any(mark in text for mark in "[(#/"):
            for name in text.replace("%", "").split(","):
                operand = rows.get(name.strip())
                if operand is not None:
                    found.append(operand * NODES)
                elif name.strip():
                    self._skip("operand that names nothing")
            return found
        if overlay is not None and overlay.operands is not None:
            operands = overlay.operands
        else:
            operands = self._module.reader.operands(text)
        for item in operands:
            operand = rows.get(item.name)
            node = None if operand is None else self._tree(operand).at(item.index)
            if operand is None or node is None:
                self._skip("operand that names nothing")
                continue
            found.append(operand * NODES + node)
        return found

    def _skip(self, what: str) -> None:
        self._skipped[what] = self._skipped.get(what, 0) + 1

    # --- computations -----------------------------------------------------------------------

    def _computation(self, computation: HloComputation, arguments: list[list[int]] | None) -> _Body:
        """Go over a computation, and before each instruction over what that calls."""
        rows = self._rows_by_name(computation)
        place = self._places[computation.name]
        start = len(self._schedule)
        body = _Body(computation, place, rows, start, arguments, start)
        self._done[computation.name] = body
        if self._depth == DEEPEST:
            self._skip("computation that is nested too deep")
            return body
        for row in computation.rows:
            self._operands[row] = (
                []
                if self._opcodes[row] in ("parameter", "constant")
                else self._find_operands(row, rows)
            )
        self._number(body)
        self._depth += 1
        for row in computation.rows:
            self._visit(body, row)
        self._depth -= 1
        end = len(self._schedule)
        root = computation.root_row
        body.root = self._lists.get(root, [])
        values = self._values
        find = self._merged.find
        for node, value in enumerate(body.root):
            held = find(value)
            if end > values.position_ends[held]:
                values.position_ends[held] = end
                values.last_places[held] = root * NODES + node
            if end > values.ends[held]:
                values.ends[held] = end
        return body

    def _rows_by_name(self, computation: HloComputation) -> dict[str, int]:
        columns, spans, text = self._columns, self._spans, self._text
        if columns.overlays:
            return {columns.name(row): row for row in computation.rows}
        bases = ((row, row * STRIDE) for row in computation.rows)
        return {text[spans[at + NAME] : spans[at + NAME_END]]: row for row, at in bases}

    def _number(self, body: _Body) -> None:
        """Number the rows as XLA's post order does: operands first, the first operand's first.

        Source: HloComputation::MakeInstructionPostOrder. Control predecessors come before operands,
        the last one first.
        """
        operands = self._operands
        computation = body.computation
        used = {place // NODES for row in computation.rows for place in operands[row]}
        controls: dict[int, list[int]] = {}
        for row in self._controls.intersection(computation.rows):
            names = self._instruction(row, body).control_predecessors
            controls[row] = [body.rows[name] for name in names if name in body.rows]
            used.update(controls[row])
        numbers = self._numbers
        base = body.position * COMPUTATION
        count = 0
        visiting: set[int] = set()
        for root in computation.rows:
            if root in used:
                continue
            stack = [root]
            while stack:
                row = stack[-1]
                if row in numbers:
                    stack.pop()
                elif row in visiting:
                    stack.pop()
                    numbers[row] = base + count
                    count += 1
                else:
                    visiting.add(row)
                    stack.extend(p // NODES for p in reversed(operands[row]))
                    stack.extend(controls.get(row, ()))
        for row in computation.rows:
            if row not in numbers:  # only where operands stand in a circle
                numbers[row] = base + count
                count += 1

    def _visit(self, body: _Body, row: int) -> None:
        """Find the values of one row, and what its operands' values are used for."""
        opcode = self._opcodes[row]
        handler = self._handlers.get(opcode)
        if handler is None:
            handler = self._other_handler(opcode)
        hidden = self._operands[row]
        values = self._values
        found = handler(body, row)
        instant = len(self._schedule)
        self._schedule.append(row)
        self._positions[row] = instant
        self._lists[row] = found
        position_ends, last_places, ends = (
            values.position_ends,
            values.last_places,
            values.ends,
        )
        find = self._merged.find
        base = row * NODES
        for node, value in enumerate(found):
            held = find(value)
            if instant > position_ends[held]:
                position_ends[held] = instant
                last_places[held] = base + node
                if instant > ends[held]:
                    ends[held] = instant
        self._use(opcode, hidden, instant)
        is_joined = self._handlers[opcode] == self._sugared_start
        if not is_joined and (opcode in _IN_PLACE or row in self._aliasing):
            self._join_in_place(row, found, opcode)

    def _use(self, opcode: str, operands: list[int], instant: int) -> None:
        """Let the operands' values live to an instant. Source: hlo_value.cc, MayUseOperandValue."""
        passed = opcode in _PASSED_ON
        top_only = opcode in ("get-tuple-element", "copy")
        ends = self._values.ends
        find = self._merged.find
        for place in operands:
            row, node = divmod(place, NODES)
            listed = self._lists.get(row)
            if not listed:
                continue
            if node:
                listed = self._hidden_element(row, node, listed)
            if passed:
                continue
            for value in listed[:1] if top_only else listed:
                held = find(value)
                if instant > ends[held]:
                    ends[held] = instant

    def _hidden_element(self, row: int, node: int, listed: list[int]) -> list[int]:
        """Return a part of a result, as by a get-tuple-element right behind it."""
        values = self._values
        find = self._merged.find
        chosen = listed[node : node + self._tree(row).sizes[node]]
        top = find(listed[0])
        after = self._positions[row] + 1
        values.ends[top] = max(values.ends[top], after)
        for value in chosen:
            held = find(value)
            if values.position_ends[held] < after:
                values.position_ends[held] = max(values.position_ends[held], after - 1)
                values.last_places[held] = -1 - (row * NODES + node)
            values.ends[held] = max(values.ends[held], after)
        return chosen

    # --- values of one row --------------------------------------------------------------------

    def _new(self, row: int, node: int, part: Part, start: int | None = None) -> int:
        instant = len(self._schedule)
        place = row * NODES + node
        begins = instant if start is None else start
        return self._values.add(place, part, self._numbers[row] * NODES + node, begins, instant)

    def _phi(self, row: int, node: int, part: Part, start: int) -> int:
        self._phis += 1
        instant = len(self._schedule)
        order = PHI_ORDER + self._phis
        return self._values.add(row * NODES + node, part, order, start, instant)

    def _operand(self, row: int, number: int) -> list[int]:
        """Return the values of an operand at each node of it; empty for one that is not known."""
        places = self._operands[row]
        if number >= len(places):
            return []
        source, node = divmod(places[number], NODES)
        listed = self._lists.get(source, [])
        if node == 0:
            return listed
        return listed[node : node + self._tree(source).sizes[node]]

    def _fill(self, row: int, given: Callable[[int], int | None]) -> list[int]:
        """Return a value for each node: the given one, else one that the row defines."""
        found = []
        for node, part in enumerate(self._tree(row).parts):
            value = given(node)
            found.append(self._new(row, node, part) if value is None else value)
        return found

    def _define_all(self, body: _Body, row: int) -> list[int]:
        parts = self._tree(row).parts
        if len(parts) == 1:
            return [self._new(row, 0, parts[0])]
        return [self._new(row, node, part) for node, part in enumerate(parts)]

    def _parameter(self, body: _Body, row: int) -> list[int]:
        text = self._row_text(row, OPERANDS, OPERANDS_END).strip()
        number = int(text) if text.isdecimal() and len(text) < _LONG else 0
        if number == 0:
            body.parameter_instant = len(self._schedule)
        if body.arguments is None:
            parts = self._tree(row).parts
            found = [self._new(row, node, part, body.start) for node, part in enumerate(parts)]
            if body.computation.is_entry or body.computation is self._module.entry:
                self._parameters[number] = found
            return found
        if number < len(body.arguments) and body.arguments[number]:
            return body.arguments[number]
        self._skip("parameter without argument")
        return self._define_all(body, row)

    def _element(self, body: _Body, row: int) -> list[int]:
        operand = self._operand(row, 0)
        places = self._operands[row]
        attribute = self._row_text(row, OPERANDS_END, END)
        match = _INDEX.search(attribute)
        if operand and match:
            source, base = divmod(places[0], NODES)
            tree = self._tree(source)
            below = tree.children(base)
            number = int(match[1])
            if number < len(below):
                start = below[number] - base
                return operand[start : start + tree.sizes[below[number]]]
        self._skip("get-tuple-element of what is not there")
        return self._define_all(body, row)

    def _tuple(self, body: _Body, row: int) -> list[int]:
        tree = self._tree(row)
        found = [self._new(row, 0, tree.parts[0])]
        for number in range(len(self._operands[row])):
            found += self._operand(row, number)
        if len(found) != len(tree.parts):
            self._skip("tuple of other elements than its shape has")
            return self._define_all(body, row)
        return found

    def _forward(self, body: _Body, row: int) -> list[int]:
        operand = self._operand(row, 0)
        if len(operand) == len(self._tree(row).parts):
            return operand
        self._skip("operand of another shape")
        return self._define_all(body, row)

    def _copy(self, body: _Body, row: int) -> list[int]:
        operand = self._operand(row, 0)
        parts = self._tree(row).parts
        if len(parts) > 1 and len(operand) == len(parts):
            return [self._new(row, 0, parts[0]), *operand[1:]]
        return self._define_all(body, row)

    # --- control flow ---------------------------------------------------------------------------

    def _called(self, body: _Body, row: int) -> list[HloComputation]:
        names = self._instruction(row, body).called_computations
        found = [self._module.computation(name) for name in names]
        return [computation for computation in found if computation is not None]

    def _enter(self, computation: HloComputation, arguments: list[list[int]]) -> _Body:
        known = self._done.get(computation.name)
        if known is not None:
            self._skip("computation that is called twice")
            return known
        return self._computation(computation, arguments)

    def _while(self, body: _Body, row: int) -> list[int]:
        instruction = self._instruction(row, body)
        names = [instruction.attribute(key) or "" for key in ("condition", "body")]
        computations = [self._module.computation(name.strip()) for name in names]
        initial = self._operand(row, 0)
        parts = self._tree(row).parts
        condition, loop = computations
        if condition is None or loop is None or len(initial) != len(parts):
            self._skip("while without its computations")
            return self._define_all(body, row)
        if condition.name in self._done or loop.name in self._done:
            self._skip("computation that is called twice")
            return self._define_all(body, row)
        rows = [self._loop_parameter(computation, len(parts)) for computation in (condition, loop)]
        if min(rows) < 0:
            self._skip("while whose computations take another shape")
            return self._define_all(body, row)
        inside_condition = self._loop_state(rows[0], parts)
        self._computation(condition, [inside_condition])
        state = self._loop_state(rows[1], parts)
        ran = self._computation(loop, [state])
        if len(ran.root) != len(parts):
            self._skip("while whose body returns another shape")
            ran.root = state
        values, find = self._values, self._merged.find
        for value in initial:
            held = find(value)
            values.ends[held] = max(values.ends[held], ran.parameter_instant)
        return self._loop_result(row, [initial, inside_condition, state, ran.root])

    def _loop_result(self, row: int, ways: Sequence[Sequence[int]]) -> list[int]:
        """Return what a loop gives: a phi per part, or the value that it only carries round.

        Args:
            row: The loop.
            ways: At each node the values before it, in its condition, in its body, and behind that.
        """
        initial, _, state, root = ways
        kept = self._carried_round(initial, state, root)
        found = []
        for node, part in enumerate(self._tree(row).parts):
            if kept[node]:
                for way in ways[1:3]:
                    self._merge(initial[node], way[node])
                found.append(initial[node])
                continue
            result = self._phi(row, node, part, len(self._schedule))
            for way in ways:
                self._sets.union(self._merged.find(way[node]), result)
            found.append(result)
        return found

    def _loop_parameter(self, computation: HloComputation, nodes: int) -> int:
        """Return the row of a loop's parameter, -1 where it has none of so many nodes."""
        rows = (row for row in computation.rows if self._opcodes[row] == "parameter")
        return next((row for row in rows if len(self._tree(row).parts) == nodes), -1)

    def _loop_state(self, row: int, parts: Sequence[Part]) -> list[int]:
        """Return phis for the parameter of a loop's computation."""
        start = len(self._schedule)
        return [self._phi(row, node, part, start) for node, part in enumerate(parts)]

    def _carried_round(
        self, initial: Sequence[int], state: Sequence[int], root: Sequence[int]
    ) -> list[bool]:
        """Return for each node whether the loop only ever has the initial value there.

        That is the largest set in which every element of the root is an element's initial value or
        the state of one in the set with the same initial value. Source: phi_graph.cc, Optimize.
        """
        find = self._merged.find
        begin = [find(value) for value in initial]
        end = [find(value) for value in root]
        node_of = {value: node for node, value in enumerate(state)}
        kept = [True] * len(begin)
        again = True
        while again:
            again = False
            for node, value in enumerate(end):
                if not kept[node]:
                    continue
                source = node_of.get(value)
                if source is not None and kept[source]:
                    value = begin[source]
                if value != begin[node]:
                    kept[node] = False
                    again = True
        return kept

    def _merge(self, kept: int, gone: int) -> None:
        """Let one value stand for another that is the same."""
        values, merged = self._values, self._merged
        one, two = merged.find(kept), merged.find(gone)
        if one == two:
            return
        if values.position_ends[two] > values.position_ends[one]:
            values.position_ends[one] = values.position_ends[two]
            values.last_places[one] = values.last_places[two]
        values.ends[one] = max(values.ends[one], values.ends[two])
        merged.union(one, two)

    def _conditional(self, body: _Body, row: int) -> list[int]:
        parts = self._tree(row).parts
        roots = []
        for number, computation in enumerate(self._called(body, row)):
            ran = self._enter(computation, [self._operand(row, number + 1)])
            if len(ran.root) == len(parts):
                roots.append(ran.root)
            else:
                self._skip("branch that returns another shape")
        if not roots:
            return self._define_all(body, row)
        find = self._merged.find
        found = []
        for node, part in enumerate(parts):
            given = {find(root[node]) for root in roots}
            if len(given) == 1:
                found.append(given.pop())
                continue
            result = self._phi(row, node, part, len(self._schedule))
            for value in given:
                self._sets.union(value, result)
            found.append(result)
        return found

    def _call(self, body: _Body, row: int) -> list[int]:
        called = self._called(body, row)
        arguments = [self._operand(row, k) for k in range(len(self._operands[row]))]
        if not called:
            return self._define_all(body, row)
        ran = self._enter(called[0], arguments)
        if len(ran.root) != len(self._tree(row).parts):
            self._skip("call whose computation returns another shape")
            return self._define_all(body, row)
        return ran.root

    # --- asynchronous operations ------------------------------------------------------------------

    def _async_start(self, body: _Body, row: int) -> list[int]:
        tree = self._tree(row)
        arguments = [self._operand(row, k) for k in range(len(self._operands[row]))]
        called = self._called(body, row)
        self._wrapped[row] = called[0] if called else None
        given = self._passed_operands(tree, arguments)
        self._run_wrapped(row, row, tree, arguments, given)
        return self._fill(row, given.get)

    def _run_wrapped(
        self,
        row: int,
        start: int,
        tree: ShapeTree,
        arguments: Sequence[list[int]],
        given: dict[int, int],
    ) -> None:
        """Go over the computation of an async operation once all its operands are known."""
        computation = self._wrapped.get(start)
        if computation is None:
            return
        opcodes = self._opcodes
        wanted = sum(opcodes[inner] == "parameter" for inner in computation.rows)
        if len(arguments) < wanted:
            return
        first = len(self._values)
        result = self._enter(computation, list(arguments)).root
        self._wrapped[start] = None
        self._async_values[row] = range(first, len(self._values))
        below = tree.children(0)
        if len(below) > 1 and len(result) == tree.sizes[below[1]]:
            for offset, value in enumerate(result):
                if not tree.parts[below[1] + offset].is_tuple:
                    given[below[1] + offset] = value

    def _sugared_start(self, body: _Body, row: int) -> list[int]:
        """Find the values of ``slice-start(a, b)``: an async-start whose computation is not shown.

        ``Compiled.as_text()`` prints so what runs one instruction. Its parameters and the
        instruction itself take an instant each, in the schedule under the name of the start.
        """
        tree = self._tree(row)
        arguments = [self._operand(row, k) for k in range(len(self._operands[row]))]
        given = self._passed_operands(tree, arguments)
        self._schedule += [row] * len(arguments)
        called = self._called(body, row) if self._opcodes[row] == "call-start" else []
        first = len(self._values)
        below = tree.children(0)
        result = range(below[1], below[1] + tree.sizes[below[1]]) if len(below) > 1 else range(0)
        if called:
            ran = self._enter(called[0], arguments).root
            defined = dict(zip(result, ran, strict=False)) if len(ran) == len(result) else {}
        else:
            # numbered as what stands in a computation of its own, before this one
            order = (body.position * COMPUTATION - COMPUTATION // 2 + len(self._schedule)) * NODES
            defined = {
                node: self._values.add(
                    row * NODES + node, tree.parts[node], order + node, *[len(self._schedule)] * 2
                )
                for node in result
            }
        self._use("fusion", self._operands[row], len(self._schedule))
        self._schedule.append(row)
        self._async_values[row] = range(first, len(self._values))
        given.update((k, value) for k, value in defined.items() if not tree.parts[k].is_tuple)
        found = self._fill(row, given.get)
        self._join_in_place(row, found, split_phase(self._opcodes[row])[0], (1,))
        return found

    def _passed_operands(self, tree: ShapeTree, arguments: Sequence[list[int]]) -> dict[int, int]:
        """Return node to value for the operands that element 0 of a start's result holds."""
        given: dict[int, int] = {}
        top = tree.children(0)
        if not top:
            return given
        slots = tree.children(top[0]) if tree.parts[top[0]].is_tuple else [top[0]]
        if tree.parts[top[0]].is_tuple and len(slots) != len(arguments) and len(arguments) == 1:
            slots = [top[0]]
        for slot, argument in zip(slots, arguments, strict=False):
            if tree.sizes[slot] == len(argument):
                for offset, value in enumerate(argument):
                    if not tree.parts[slot + offset].is_tuple:
                        given[slot + offset] = value
        return given

    def _async_update(self, body: _Body, row: int) -> list[int]:
        self._prolong(row)
        places = self._operands[row]
        if not places:
            return self._define_all(body, row)
        source, base = divmod(places[0], NODES)
        before, tree = self._tree(source), self._tree(row)
        operand = self._operand(row, 0)
        given: dict[int, int] = {}
        arguments: list[list[int]] = []
        for number, (old, new) in enumerate(
            zip(before.children(base), tree.children(0), strict=False)
        ):
            old_parts = before.children(old) or [old]
            new_parts = tree.children(new) or [new]
            if number == 0:
                spans = [(k - base, before.sizes[k]) for k in before.children(old)]
                arguments = [operand[k : k + size] for k, size in spans]
                arguments += [self._operand(row, k) for k in range(1, len(places))]
                given.update(self._passed_operands(tree, arguments))
            if number > 1 and row in self._aliasing:
                continue  # it has values of its own there, in the same bytes
            for one, two in zip(old_parts, new_parts, strict=False):
                if before.sizes[one] == tree.sizes[two] and not tree.parts[two].is_tuple:
                    given.setdefault(two, operand[one - base])
        start = self._chain.get(source, source)
        self._chain[row] = start
        self._run_wrapped(row, start, tree, arguments, given)
        return self._fill(row, given.get)

    def _prolong(self, row: int) -> None:
        """Let what an async operation computes live until it is done."""
        places = self._operands[row]
        defined = self._async_values.get(places[0] // NODES) if places else None
        if defined is None:
            return
        self._async_values[row] = defined
        values, instant = self._values, len(self._schedule)
        for value in defined:
            if values.position_ends[value] < instant:
                values.position_ends[value] = instant
                values.last_places[value] = values.places[value]
            values.ends[value] = max(values.ends[value], instant)

    def _async_done(self, body: _Body, row: int) -> list[int]:
        self._prolong(row)
        operand = self._operand(row, 0)
        parts = self._tree(row).parts
        places = self._operands[row]
        if places and operand:
            source, base = divmod(places[0], NODES)
            tree = self._tree(source)
            below = tree.children(base)
            if len(below) > 1 and tree.sizes[below[1]] == len(parts):
                first = below[1] - base
                return self._fill(
                    row, lambda node: None if parts[node].is_tuple else operand[first + node]
                )
        return self._define_all(body, row)

    def _copy_start(self, body: _Body, row: int) -> list[int]:
        operand = self._operand(row, 0)
        source = self._tree(row).at((1,))
        return self._fill(row, lambda node: operand[0] if operand and node == source else None)

    def _copy_done(self, body: _Body, row: int) -> list[int]:
        operand = self._operand(row, 0)
        return operand[1:2] if len(operand) > 1 else self._define_all(body, row)

    def _two_sided_start(self, body: _Body, row: int) -> list[int]:
        tree = self._tree(row)
        arguments = [self._operand(row, k) for k in range(len(self._operands[row]))]
        given = self._passed_operands(tree, arguments)
        if self._opcodes[row] == "collective-permute-start":
            top = tree.children(0)
            if top and tree.parts[top[0]].is_tuple:  # XLA gives this table no value of its own
                given[0] = given[top[0]] = self._new(row, 0, tree.parts[0])
        return self._fill(row, given.get)

    def _send(self, body: _Body, row: int) -> list[int]:
        operand = self._operand(row, 0)
        below = self._tree(row).children(0)
        if not below or not operand:
            return self._define_all(body, row)
        return self._fill(row, lambda node: operand[0] if node == below[0] else None)

    def _recv_done(self, body: _Body, row: int) -> list[int]:
        operand = self._operand(row, 0)
        below = self._tree(row).children(0)
        if not below or len(operand) < 2:
            return self._define_all(body, row)
        return self._fill(row, lambda node: operand[1] if node == below[0] else None)

    def _other_handler(self, opcode: str) -> Callable[[_Body, int], list[int]]:
        """Return how sugared async opcodes (``slice-start``) are read, and all others."""
        base, phase = split_phase(opcode)
        handler: Callable[[_Body, int], list[int]] = self._define_all
        if phase == "start" and base not in ("recv", "send"):
            handler = self._sugared_start
        elif phase == "update":
            handler = self._async_update
        elif phase == "done":
            handler = self._async_done
        self._handlers[opcode] = handler
        return handler

    # --- buffers ----------------------------------------------------------------------------------

    def _join_in_place(
        self, row: int, found: Sequence[int], opcode: str, prefix: ShapeIndex = ()
    ) -> None:
        """Put the outputs that a row updates in place into the buffers of their operands.

        Args:
            row: The instruction.
            found: Its values.
            opcode: What it does.
            prefix: Where in its shape the outputs of that are.
        """
        tree = self._tree(row)
        for number, index, output in self._in_place_pairs(row, opcode, tree):
            places = self._operands[row]
            if number >= len(places):
                continue
            source, base = divmod(places[number], NODES)
            part = self._tree(source)
            node = part.at((*part.index(base), *index))
            target = tree.at((*prefix, *output))
            listed = self._lists.get(source)
            if node is None or target is None or not listed:
                continue
            find = self._merged.find
            self._sets.union(find(listed[node]), find(found[target]))

    def _in_place_pairs(
        self, row: int, opcode: str, tree: ShapeTree
    ) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
        """Yield operand number and index, and the output index that must be the same bytes.

        Source: alias_info.cc, GetInPlaceInputOutputPairs.
        """
        count = len(self._operands[row])
        if row in self._aliasing:
            attribute = self._row_text(row, OPERANDS_END, END)
            yield from _aliasing_pairs(attribute)
        if opcode == "fusion":
            yield from self._fusions.in_place(row)
        elif opcode in ("dynamic-update-slice", "set-dimension-size"):
            yield 0, (), ()
        elif opcode in ("scatter", "all-reduce-start"):
            held = (count - 1) // 2 if opcode == "scatter" else count
            if held == 1:
                yield 0, (), ()
            else:
                yield from ((k, (), (k,)) for k in range(held))
        elif opcode == "ragged-all-to-all":
            yield 1, (), ()
        elif opcode in ("collective-permute", "collective-permute-start") and count == 4:
            yield from self._permute_pairs(row, tree)

    def _permute_pairs(
        self, row: int, tree: ShapeTree
    ) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
        """Yield the pairs of a collective-permute that writes into operand 1."""
        prefix = (1,) if self._opcodes[row].endswith("start") else ()
        node = tree.at(prefix)
        if node is None:
            return
        yield 1, (), prefix
        for k in range(len(tree.children(node))):
            yield 1, (k,), (*prefix, k)

    def _join_donated(self, body: _Body) -> set[int]:
        """Join donated parameters and their outputs; return the parameters' values."""
        donated: set[int] = set()
        find = self._merged.find
        root = self._module.entry.root_row
        tree = self._tree(root) if root >= 0 else self._trees.unknown
        rows = {
            self._values.places[values[0]] // NODES: number
            for number, values in self._parameters.items()
            if values
        }
        row_of = {number: row for row, number in rows.items()}
        for alias in self._module.input_output_alias:
            row = row_of.get(alias.parameter_number)
            node = None if row is None else self._tree(row).at(alias.parameter_index)
            output = tree.at(alias.output_index)
            if row is None or node is None:
                self._skip("alias of what is not there")
                continue
            value = find(self._parameters[alias.parameter_number][node])
            donated.add(value)
            if output is not None and output < len(body.root):
                self._sets.union(value, find(body.root[output]))
        return donated

    def _buffers(self) -> tuple[list[list[int]], dict[int, int]]:
        """Return the buffers, and which one holds each value."""
        find = self._merged.find
        joined = Sets()
        canonical = [find(value) for value in range(len(self._values))]
        for value in range(len(self._values)):
            other = self._sets.find(value)
            if other != value:
                joined.union(canonical[value], canonical[other])
        groups: dict[int, list[int]] = {}
        for value, held in enumerate(canonical):
            if held == value:
                groups.setdefault(joined.find(value), []).append(value)
        orders = self._values.orders
        buffers = [sorted(group, key=orders.__getitem__) for group in groups.values()]
        buffers.sort(key=lambda group: orders[group[0]])
        return buffers, {value: k for k, group in enumerate(buffers) for value in group}

    def _normalise(self, buffers: Iterable[list[int]]) -> None:
        """Clip values of one buffer: the next begins where the one before it ends.

        Source: HloLiveRange::NormalizeAliasedBuffers. They still share that instant.
        """
        starts, ends, orders = self._values.starts, self._values.ends, self._values.orders
        for group in buffers:
            chain = sorted(group, key=lambda v: (starts[v], ends[v], orders[v]))
            for first, second in itertools.pairwise(chain):
                end = ends[first]
                ends[second] = max(end, ends[second])
                ends[first] = min(end, starts[second])


_INDEX = re.compile(r"\bindex=(\d{1,9})")
_LONG = 10
"""Digits that no number of a parameter has."""

_PASSED_ON = frozenset({"tuple", "domain", "while", "call"})
"""A while uses its operand at its body's parameter, a call where the computation uses it."""
_IN_PLACE = frozenset(
    {
        "dynamic-update-slice",
        "scatter",
        "all-reduce-start",
        "set-dimension-size",
        "ragged-all-to-all",
        "collective-permute",
        "collective-permute-start",
        "fusion",
    }
)


def _aliasing_pairs(attributes: str) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
    """Yield the pairs of ``output_to_operand_aliasing={{}: (0, {})}``."""
    start = attributes.find("output_to_operand_aliasing=")
    end = attributes.find("}}", start)
    closed = attributes.find(")}", start)
    text = attributes[start : max(end, closed) + 2]
    for match in ALIAS_PAIR.finditer(text):
        yield int(match[2]), _ints(match[3]), _ints(match[1])


def _ints(text: str) -> ShapeIndex:
    return tuple(int(word) for word in text.replace(",", " ").split())


_ELEMENTWISE_OPCODES = """
abs acos acosh add and asin asinh atan2 atanh bitcast-convert cbrt ceil clamp compare complex
constant convert copy cos cosh cosine count-leading-zeros divide erf exponential
exponential-minus-one floor imag is-finite log log-plus-one logistic maximum minimum mulhi
multiply negate not or popcnt power real reduce-precision remainder rng round-nearest-afz
round-nearest-even rsqrt select shift-left shift-right-arithmetic shift-right-logical sign sine
sinh sqrt stochastic-convert subtract tan tanh xor
"""
ELEMENTWISE = frozenset(_ELEMENTWISE_OPCODES.split())
"""Source: HloInstruction::IsOpElementwise and the overrides of IsElementwiseImpl."""

_UPDATES = frozenset({"dynamic-update-slice", "scatter", "set-dimension-size"})
_MAY_UPDATE = _UPDATES | {"fusion"}
_IN_PLACE_ROOTS = _UPDATES | {"tuple", "fusion", "get-tuple-element"}
_SHARING = frozenset(
    {
        "conditional",
        "dynamic-update-slice",
        "fusion",
        "scatter",
        "set-dimension-size",
        "sort",
        "triangular-solve",
        "while",
    }
)
"""Other opcodes that may write over an operand, without a word of the backend."""

_ALIASED = re.compile(r'"indices":\[([^\]]*)')
_CALLS = re.compile(r"\bcalls=%?([\w.\-]+)")
_KIND = re.compile(r"\bkind=(k\w+)")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FusedBody:
    """The computation of a fusion, its instructions by position in the text.

    Attributes:
        rows: Row of each.
        opcodes: Opcode of each.
        operands: Positions of the operands of each.
        users: Positions of the users of each, without repetition.
        parameters: Parameter number to position.
        root: Position of the result.
    """

    rows: Sequence[int]
    opcodes: Sequence[str]
    operands: Sequence[Sequence[int]]
    users: Sequence[Sequence[int]]
    parameters: dict[int, int]
    root: int

    def is_elementwise(self, position: int, operand_number: int) -> bool:
        """Whether an instruction computes each element from the same one of an operand."""
        opcode = self.opcodes[position]
        if opcode == "dynamic-update-slice":
            return operand_number == 0
        return opcode in ELEMENTWISE

    def is_elementwise_on(self, position: int, operand: int) -> bool:
        """Whether it is so for the first operand that is at a position."""
        return self.is_elementwise(position, self.operands[position].index(operand))


class FusedBodies:
    """The computations of fusions, each read when it is first asked for."""

    def __init__(self, table: InstructionTable) -> None:
        self._table = table
        self._module = table.module
        self._bodies: dict[str, FusedBody | None] = {}

    def kind(self, row: int) -> str:
        """Return the kind of a fusion: ``kLoop``, ``kInput``, ``kOutput``, ``kCustom``."""
        match = _KIND.search(self._attributes(row))
        return match[1] if match else ""

    def _attributes(self, row: int) -> str:
        return self._module.columns.attributes_text(row)

    def computation(self, row: int) -> HloComputation | None:
        """Return the computation of a fusion."""
        match = _CALLS.search(self._attributes(row))
        return self._module.computation(match[1]) if match else None

    def of(self, row: int) -> FusedBody | None:
        """Return the computation of a fusion, read; None where there is none."""
        computation = self.computation(row)
        if computation is None or not computation.rows:
            return None
        if computation.name not in self._bodies:
            self._bodies[computation.name] = self._read(computation)
        return self._bodies[computation.name]

    def _read(self, computation: HloComputation) -> FusedBody:
        columns, reader = self._module.columns, self._module.reader
        rows = list(computation.rows)
        position_of = {columns.name(row): k for k, row in enumerate(rows)}
        opcodes = [self._table.opcodes[row] for row in rows]
        operands: list[list[int]] = []
        users: list[list[int]] = [[] for _ in rows]
        parameters: dict[int, int] = {}
        for position, row in enumerate(rows):
            text = columns.text(row, OPERANDS, OPERANDS_END)
            if opcodes[position] == "parameter":
                number = text.strip()
                known = number.isdecimal() and len(number) < _LONG
                parameters[int(number) if known else 0] = position
            if opcodes[position] in ("parameter", "constant"):
                operands.append([])
                continue
            if "[" in text or "(" in text or "#" in text or "/" in text:
                names = [operand.name for operand in reader.operands(text)]
            else:
                names = text.replace("%", "").replace(" ", "").split(",")
            found = [position_of[name] for name in names if name in position_of]
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
        outputs: list[ShapeIndex] = [()]
        if body.opcodes[body.root] == "tuple":
            outputs = [(k,) for k in range(len(body.operands[body.root]))]
        for index in outputs:
            number = self._updated_parameter(body, index, depth)
            if number is not None:
                yield number, (), index

    def _updated_parameter(self, body: FusedBody, output: ShapeIndex, depth: int) -> int | None:
        """Return the number of the parameter that an output of a fusion is written into."""
        position, index = self._behind_tuples(body, body.root, output)
        number = self._updated_operand(body, position, index, depth)
        if number is None:
            return None
        source, index = self._behind_tuples(body, body.operands[position][number], ())
        if body.opcodes[source] == "fusion":
            number = self._updated_operand(body, source, index, depth)
            if number is not None:
                source, index = self._behind_tuples(body, body.operands[source][number], ())
        if body.opcodes[source] == "bitcast" and body.operands[source]:
            source = body.operands[source][0]
        return next((n for n, p in body.parameters.items() if p == source), None)

    def _updated_operand(
        self, body: FusedBody, position: int, output: ShapeIndex, depth: int
    ) -> int | None:
        """Return which operand an instruction inside a fusion is written into, or None."""
        opcode, count = body.opcodes[position], len(body.operands[position])
        number: int | None = None
        if opcode == "fusion":
            pairs = self.in_place(body.rows[position], depth - 1)
            number = next((found for found, _, index in pairs if index == output), None)
        elif opcode == "scatter" and count > 3 and output:
            number = output[0]
        elif opcode in _UPDATES and not output:
            number = 0
        return number if number is not None and number < count else None

    def _behind_tuples(
        self, body: FusedBody, position: int, index: ShapeIndex
    ) -> tuple[int, ShapeIndex]:
        """Return what defines a part of a result in a fusion. Source: FollowTupleIndirection."""
        for _ in body.rows:
            operands = body.operands[position]
            if body.opcodes[position] == "tuple" and index and index[0] < len(operands):
                position, index = operands[index[0]], index[1:]
            elif body.opcodes[position] == "get-tuple-element" and operands:
                match = _INDEX.search(self._attributes(body.rows[position]))
                position, index = operands[0], (int(match[1]) if match else 0, *index)
            else:
                break
        return position, index


class BufferSharing:
    """Whether a result may take the bytes of an operand that ends there.

    Source: HloDataflowAnalysis::CanShareOperandBufferWithUser; for GPU also
    xla/service/gpu/alias_info.cc (FusionCanShareBufferHint) and nvptx_alias_info.cc.

    Args:
        flow: The module's values.
        backend: ``cpu``, ``gpu`` or ``tpu``.
    """

    def __init__(self, flow: Dataflow, backend: str) -> None:
        self._flow = flow
        self._opcodes = flow.table.opcodes
        self._backend = backend
        self._bodies = flow.bodies
        self._user_counts: dict[int, int] | None = None

    def is_possible(self, user_row: int) -> bool:
        """Whether an instruction of this opcode may write over any operand at all."""
        if self._backend != "cpu":
            return True
        opcode = self._opcodes[user_row]
        return opcode in ELEMENTWISE or opcode in _SHARING

    def may_share(self, operand_place: int, user_row: int, user_node: int) -> bool:
        """Whether an instruction may write a part of its result over a part of an operand.

        Args:
            operand_place: Where the operand's value is; see `Values.last_places`.
            user_row: The instruction.
            user_node: Node of its result.
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
        given = flow.tree(row).parts[node]
        made = flow.tree(user_row).parts[user_node]
        hint = self._hint(opcode, user_row, number, given, made, user_node)
        if hint is not None:
            return hint
        if given is not made and given.shape != made.shape:
            return False
        return self._general(opcode, user_row, number, operands, source, user_node)

    def _general(
        self, opcode: str, row: int, number: int, operands: list[int], source: int, node: int
    ) -> bool:
        """Return what holds for every backend where the shapes are equal."""
        if opcode == "fusion":
            return self._fusion(row, number)
        if opcode in ("while", "conditional"):
            return True
        if opcode in ("dynamic-update-slice", "scatter", "set-dimension-size", "triangular-solve"):
            wanted = 1 if opcode == "triangular-solve" else 0
            return operands.count(source) == 1 and number == wanted
        if opcode == "sort":
            if self._users(source) != 1:
                return False
            if len(operands) == 1:
                return True
            index = self._flow.tree(row).index(node)
            return operands.count(source) == 1 and index[:1] == (number,)
        return opcode in ELEMENTWISE

    def _users(self, place: int) -> int:
        """Return how many instructions use a result."""
        if self._user_counts is None:
            counts: dict[int, int] = {}
            for operands in self._flow.operands.values():
                for operand in set(operands):
                    counts[operand] = counts.get(operand, 0) + 1
            self._user_counts = counts
        return self._user_counts.get(place, 0)

    def _fusion(self, row: int, number: int) -> bool:
        """Return the rule for fusions: every use inside, and of what that gives, is elementwise."""
        body = self._bodies.of(row)
        parameter = None if body is None else body.parameters.get(number)
        if body is None or parameter is None:
            return False
        kind = self._bodies.kind(row)
        if kind in ("kLoop", "kInput"):
            return _used_elementwise(body, parameter, through_tuples=True)
        if kind == "kOutput" and body.opcodes[body.root] == "add":
            operands = body.operands[body.root]
            products = [p for p in operands if body.opcodes[p] in ("convolution", "dot")]
            if not products:
                return False
            other = 1 if products[0] == operands[0] else 0
            return body.users[parameter] == [body.root] and [
                k for k, p in enumerate(operands) if p == parameter
            ] == [other]
        return _used_elementwise(body, parameter, through_tuples=False)

    def _hint(
        self, opcode: str, row: int, number: int, given: Part, made: Part, node: int
    ) -> bool | None:
        """Return what the backend says of its own; None where it leaves it to the general rule."""
        if self._backend == "tpu":
            return self._tpu(opcode, row, number, node)
        if self._backend != "gpu":
            return None
        index = self._flow.tree(row).index(node)
        operands = self._flow.operands[row]
        if opcode in ("all-reduce", "collective-broadcast"):
            return len(operands) == 1 or (
                len(index) == 1
                and index[0] < len(operands)
                and operands[index[0]] == operands[number]
            )
        if opcode == "custom-call":
            return self._custom_call(row, number, index)
        if opcode == "fusion":
            return self._gpu_fusion(row, number, given, made, index)
        return None

    def _tpu(self, opcode: str, row: int, number: int, node: int) -> bool | None:
        """Return what the text of a TPU program lists as sharing; None where it lists nothing.

        ``aliasing_operands`` numbers the operands, then the arrays of the result (observed).
        """
        text = self._flow.table.module.columns.attributes_text(row)
        start = text.find('"aliasing_operands":')
        if start < 0:
            return True if opcode == "all-reduce" else None
        end = text.find("]}]", start)
        listed = text[start : end if end > 0 else start]
        parts = self._flow.tree(row).parts
        output = len(self._flow.operands[row]) + sum(not p.is_tuple for p in parts[:node])
        for match in _ALIASED.finditer(listed):
            indices = set(match[1].replace('"', "").split(","))
            if str(number) in indices and str(output) in indices:
                return True
        return False

    def _custom_call(self, row: int, number: int, index: ShapeIndex) -> bool:
        """Return whether a matrix product may be added into its third operand."""
        text = self._flow.table.module.columns.attributes_text(row)
        if "__cublas$lt$matmul" in text and '$lt$matmul$f8"' not in text:
            beta = re.search(r'"beta":\s*"?(-?[\d.eE+-]+)', text)
            used = beta is not None and float(beta[1]) != 0
            return used and number == 2 and index in ((), (0,))
        return '"__cusolver$cholesky"' in text and index == (0,)

    def _gpu_fusion(
        self, row: int, number: int, given: Part, made: Part, index: ShapeIndex
    ) -> bool:
        """Return whether a GPU fusion reads an operand in the order in which it writes."""
        if given is not made and given.shape != made.shape:
            if given.is_tuple or made.is_tuple:
                return False
            if given.shape.element_count != made.shape.element_count:
                return False
            if _bits(given.shape) != _bits(made.shape):
                return False
        body = self._bodies.of(row)
        if body is None or number not in body.parameters:
            return False
        return _GpuFusion(body, self._bodies.kind(row), self._flow).may_share(
            body.parameters[number], index
        )


def _bits(shape: Shape) -> int | None:
    element = primitive_type(shape.element_type)
    return None if element is None else element.bits


def _used_elementwise(body: FusedBody, parameter: int, *, through_tuples: bool) -> bool:
    """Whether all uses of a parameter, and of what they give, are elementwise (or tuples)."""
    stack, visited = [parameter], {parameter}
    while stack:
        current = stack.pop()
        for user in body.users[current]:
            if body.opcodes[user] == "tuple":
                if not through_tuples:
                    return False
            else:
                operands = body.operands[user]
                numbers = [k for k, operand in enumerate(operands) if operand == current]
                if not all(body.is_elementwise(user, k) for k in numbers):
                    return False
            if user not in visited:
                visited.add(user)
                stack.append(user)
    return True


class _GpuFusion:
    """Source: xla/service/gpu/alias_info.cc, FusionCanShareBufferHint."""

    def __init__(self, body: FusedBody, kind: str, flow: Dataflow) -> None:
        self._body = body
        self._kind = kind
        self._flow = flow
        self._outputs = (
            list(body.operands[body.root]) if body.opcodes[body.root] == "tuple" else [body.root]
        )

    def may_share(self, parameter: int, index: ShapeIndex) -> bool:
        """Whether an output may be written over a parameter."""
        body = self._body
        output = body.root
        if body.opcodes[output] == "tuple":
            if not index or index[0] >= len(self._outputs):
                return False
            output = self._outputs[index[0]]
        written = output
        if body.opcodes[written] == "bitcast" and body.operands[written]:
            written = body.operands[written][0]
        reduction = self._reduction()
        queue, visited, reached = [parameter], {parameter}, False
        for current in queue:
            reached = reached or current == output
            if current == reduction:
                continue
            for user in body.users[current]:
                if user not in visited:
                    visited.add(user)
                    queue.append(user)
                if not self._same_order(current, user, written, reduction, index):
                    return False
        return reached and not self._reaches_other_order(visited, output, written)

    def _reduction(self) -> int | None:
        """Return the reduction that a fusion is built around, if it is."""
        if self._kind != "kInput":
            return None
        body = self._body
        for output in self._outputs:
            source = output
            while body.opcodes[source] in ELEMENTWISE | {"bitcast"} and body.operands[source]:
                source = body.operands[source][0]
            if body.opcodes[source] == "reduce":
                return source
        return None

    def _same_order(
        self, current: int, user: int, written: int, reduction: int | None, index: ShapeIndex
    ) -> bool:
        """Whether a use reads elements in the order in which the output is written.

        That a sort inside a fusion may be done in place is observed with jax 0.10.2.
        """
        body = self._body
        opcode, operands = body.opcodes[user], body.operands[user]
        if user == written and opcode == "scatter":
            held = (len(operands) - 1) // 2
            if operands.index(current) < held and operands.count(current) == 1:
                return True
        if user == written and opcode == "sort":
            place = index[0] if index else 0
            return operands.count(current) == 1 and operands.index(current) == place
        update = body.operands[written]
        if (
            body.opcodes[written] == "dynamic-update-slice"
            and opcode == "dynamic-slice"
            and update[0] == operands[0]
            and self._shape(user) == self._shape(update[1])
        ):
            shape = self._shape(user)
            return shape.element_count == 1 or list(operands[1:]) == list(update[2:])
        if opcode in ("bitcast", "tuple") or user == reduction:
            return True
        if opcode != "copy" and body.is_elementwise_on(user, current):
            return True
        return user == written and opcode == "dynamic-update-slice" and operands.index(current) == 1

    def _shape(self, position: int) -> Shape:
        return self._flow.tree(self._body.rows[position]).parts[0].shape

    def _reaches_other_order(self, visited: set[int], output: int, written: int) -> bool:
        """Whether another output that reads the parameter is written in another order."""
        if len(self._outputs) < 2:
            return False
        reached = [p for p in self._outputs if p in visited]
        if all(p == output for p in reached):
            return False
        body = self._body
        if body.opcodes[written] not in ELEMENTWISE:
            return True
        return any(body.opcodes[self._hero(p)] in ("transpose", "copy") for p in reached)

    def _hero(self, position: int) -> int:
        """Return the transpose that an output ends in, else the output."""
        body = self._body
        source = position
        while body.opcodes[source] in ELEMENTWISE | {"bitcast"} and body.operands[source]:
            if body.opcodes[source] == "copy":
                return source
            source = body.operands[source][0]
        return source if body.opcodes[source] == "transpose" else position
