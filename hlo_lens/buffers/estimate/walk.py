"""The walk over a scheduled module that finds its values, with its state.

Each computation is walked when its caller is reached, before the caller itself: that order is the
flattened schedule. An instruction's values are found by the *rule* of its opcode (in
`hlo_lens.buffers.estimate.dataflow`); without a rule it defines its whole result.

Sources: hlo_dataflow_analysis.cc, hlo_live_range.cc (FlattenSchedule), hlo_value.cc
(MayUseOperandValue), as of August 2026.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.buffers.estimate.values import (
    DEEPEST,
    IN_PLACE,
    NODES,
    PHI_ORDER,
    Dataflow,
    DisjointSets,
    Part,
    ShapeTree,
    ShapeTrees,
    aliasing_pairs,
    in_place_pairs,
)
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.module import HloComputation
from hlo_lens.hlo.opcodes import opcodes_where

if TYPE_CHECKING:
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.shape import ShapeIndex

COMPUTATION = 1 << 32
"""Numbers that a computation has for its instructions."""

_HANDING = opcodes_where(lambda traits: traits.is_handing)


@dataclass(slots=True, eq=False)
class Invocation:
    """A computation with its arguments."""

    computation: HloComputation
    start: int  # instant of its first instruction
    arguments: list[list[int]] | None  # None for an entry, whose parameters define their values
    parameter_instant: int  # of its parameter 0
    root: list[int] = field(default_factory=list)  # empty until the walk over it ends


class Walk(Dataflow):
    """One walk over the flattened schedule; opcodes without a rule define their whole results.

    Attributes:
        joined: Values that share bytes.
        done: Position of a computation to its invocation.
        aliasing: Rows with ``output_to_operand_aliasing``.
        async_values: Row of an async operation to the values of its computation.
        sugared: Rows of async-starts under the name of what they start; joined by their rule.
        unfinished: Rows of those of them whose operands come with an update.
        wrapped: Row of an async-start to its computation; None once that has been walked.
        chain: Row of an async-update to the row of its start.
    """

    def __init__(
        self, table: InstructionTable, trees: ShapeTrees, rules: Mapping[str, Rule]
    ) -> None:
        super().__init__(table, trees)
        self.module = table.module
        self.opcodes = table.opcodes
        self.joined = DisjointSets()
        self.done: dict[int, Invocation] = {}
        self.async_values: dict[int, range] = {}
        self.sugared: set[int] = set()
        self.unfinished: set[int] = set()
        self.wrapped: dict[int, HloComputation | None] = {}
        self.chain: dict[int, int] = {}
        self._rules = rules
        self._instants: dict[int, int] = {}
        self._phis = 0
        self._depth = 0
        aliasing = table.module.columns.rows_with_attribute_text("output_to_operand_aliasing=")
        self.aliasing = set(aliasing)

    def called(self, row: int) -> list[HloComputation]:
        calls = self.module.links.calls.of_row(row)
        return [HloComputation(self.module, call.place) for call in calls if call.place != NOTHING]

    def enter(self, computation: HloComputation, arguments: list[list[int]]) -> Invocation:
        """Walk a computation, unless it has been walked before."""
        known = self.done.get(computation.place)
        if known is not None:
            self.skips["computation that is called twice"] += 1
            return known
        return self.computation(computation, arguments)

    def computation(
        self, computation: HloComputation, arguments: list[list[int]] | None
    ) -> Invocation:
        """Walk a computation, and before each instruction the computations that it calls."""
        start = len(self.schedule)
        call = Invocation(computation, start, arguments, start)
        self.done[computation.place] = call
        if self._depth == DEEPEST:
            self.skips["computation nested too deep"] += 1
            return call
        self._read_operands(call)
        self._depth += 1
        for row in computation.rows:
            self._visit(call, row)
        self._depth -= 1
        root = computation.root_row
        call.root = self.value_lists.get(root, [])
        self._hold(call.root, root, len(self.schedule))
        return call

    def _read_operands(self, call: Invocation) -> None:
        operands, links = self.operands, self.module.links
        offsets, targets = links.operand_offsets, links.operand_rows
        rows = call.computation.rows
        for row in rows:
            operands[row] = found = [o * NODES for o in targets[offsets[row] : offsets[row + 1]]]
            if found and (min(found) < 0 or row in links.operand_elements):
                operands[row] = self._operand_places(row)
        order = links.post_order(rows)
        self.numbers.update(zip(order, itertools.count(call.computation.place * COMPUTATION)))

    def _operand_places(self, row: int) -> list[int]:
        """Return the places of a row's operands; undefined names are left out."""
        links = self.module.links
        operands = links.operands_of(row)
        indices = links.operand_elements.get(row, ((),) * len(operands))
        found: list[int] = []
        for operand, index in zip(operands, indices, strict=True):
            node = None if operand == NOTHING else self.tree(operand).at(index)
            if node is None:
                self.skips["undefined operand"] += 1
            else:
                found.append(operand * NODES + node)
        return found

    def _visit(self, call: Invocation, row: int) -> None:
        opcode = self.opcodes[row]
        rule = self._rules.get(opcode)
        found = self.define_all(row) if rule is None else rule(self, call, row)
        instant = len(self.schedule)
        self.schedule.append(row)
        self._instants[row] = instant
        self.value_lists[row] = found
        if rule is not None:  # values that a row defines already have this position
            self._hold(found, row, instant)
        if operands := self.operands[row]:
            self.use(opcode, operands, instant)
        if row not in self.sugared and (opcode in IN_PLACE or row in self.aliasing):
            self.join_in_place(row, found, opcode)

    def _hold(self, found: Sequence[int], row: int, instant: int) -> None:
        values, find = self.values, self.merged.find
        position_ends, last_places, ends = values.position_ends, values.last_places, values.ends
        base = row * NODES
        for node, value in enumerate(found):
            held = find(value)
            if instant > position_ends[held]:
                position_ends[held] = instant
                last_places[held] = base + node
                if instant > ends[held]:
                    ends[held] = instant

    def use(self, opcode: str, operands: Sequence[int], instant: int) -> None:
        """Extend the operands' values to an instant. Source: hlo_value.cc, MayUseOperandValue."""
        passed = opcode in _HANDING
        top_only = opcode in ("get-tuple-element", "copy")
        ends = self.values.ends
        find = self.merged.find
        for place in operands:
            row, node = divmod(place, NODES)
            listed = self.value_lists.get(row)
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
        values = self.values
        find = self.merged.find
        chosen = listed[node : node + self.tree(row).sizes[node]]
        top = find(listed[0])
        after = self._instants[row] + 1
        values.ends[top] = max(values.ends[top], after)
        for value in chosen:
            held = find(value)
            if values.position_ends[held] < after:
                values.position_ends[held] = max(values.position_ends[held], after - 1)
                values.last_places[held] = -1 - (row * NODES + node)
            values.ends[held] = max(values.ends[held], after)
        return chosen

    def define(self, row: int, node: int, part: Part, start: int | None = None) -> int:
        instant = len(self.schedule)
        place = row * NODES + node
        begins = instant if start is None else start
        return self.values.add(place, part, self.numbers[row] * NODES + node, begins, instant)

    def define_all(self, row: int) -> list[int]:
        parts = self.tree(row).parts
        if len(parts) == 1:
            return [self.define(row, 0, parts[0])]
        return [self.define(row, node, part) for node, part in enumerate(parts)]

    def lost(self, row: int, what: str) -> list[int]:
        self.skips[what] += 1
        return self.define_all(row)

    def define_phi(self, row: int, node: int, part: Part, start: int) -> int:
        self._phis += 1
        instant = len(self.schedule)
        order = PHI_ORDER + self._phis
        return self.values.add(row * NODES + node, part, order, start, instant)

    def fill(self, row: int, given: Callable[[int], int | None]) -> list[int]:
        found = []
        for node, part in enumerate(self.tree(row).parts):
            value = given(node)
            found.append(self.define(row, node, part) if value is None else value)
        return found

    def operand(self, row: int, number: int) -> list[int]:
        places = self.operands[row]
        if number >= len(places):
            return []
        source, node = divmod(places[number], NODES)
        listed = self.value_lists.get(source, [])
        return listed[node : node + self.tree(source).sizes[node]] if node else listed

    def arguments(self, row: int) -> list[list[int]]:
        return [self.operand(row, number) for number in range(len(self.operands[row]))]

    def join_in_place(
        self, row: int, found: Sequence[int], opcode: str, prefix: ShapeIndex = ()
    ) -> None:
        """Put the outputs that a row updates in place into the buffers of their operands.

        They are at an index of its shape that begins with a prefix.
        """
        tree, find, places = self.tree(row), self.merged.find, self.operands[row]
        fused = self.bodies.in_place(row) if opcode == "fusion" else ()
        pairs = itertools.chain(fused, in_place_pairs(opcode, len(places)))
        found_pairs = [(number, index, (*prefix, *output)) for number, index, output in pairs]
        if row in self.aliasing:
            found_pairs += (
                (number, index, _in_start(tree, prefix, output))
                for number, index, output in aliasing_pairs(
                    self.module.columns.attributes_text(row)
                )
            )
        for number, index, output in found_pairs:
            if number >= len(places):
                continue
            source, base = divmod(places[number], NODES)
            part = self.tree(source)
            node = part.at((*part.index(base), *index))
            target = tree.at(output)
            listed = self.value_lists.get(source)
            if node is None or target is None or not listed:
                continue
            self.joined.union(find(listed[node]), find(found[target]))


def _in_start(tree: ShapeTree, prefix: ShapeIndex, output: ShapeIndex) -> ShapeIndex:
    """Return the index of an aliased output in a start's shape.

    The text has the index in the result of the started instruction or that in the start's shape.
    """
    inner = (*prefix, *output)
    is_outer = output[: len(prefix)] == prefix and (len(output) > 1 or tree.at(inner) is None)
    return output if is_outer else inner


Rule: TypeAlias = Callable[[Walk, Invocation, int], list[int]]
