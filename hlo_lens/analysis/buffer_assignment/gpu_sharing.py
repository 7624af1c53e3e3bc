"""GPU rules on writing a result over an operand, where they differ from other backends.

Sources: xla/service/gpu/alias_info.cc (FusionCanShareBufferHint) and nvptx_alias_info.cc, as of
August 2026.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment.fused_bodies import ELEMENTWISE
from hlo_lens.model.shapes.primitive_type import primitive_type

if TYPE_CHECKING:
    from hlo_lens.analysis.buffer_assignment.fused_bodies import FusedBody
    from hlo_lens.analysis.buffer_assignment.shape_tree import Part
    from hlo_lens.analysis.buffer_assignment.values import Dataflow
    from hlo_lens.model.shapes.shape import Shape, ShapeIndex


def gpu_may_share(flow: Dataflow, row: int, number: int, node: int, given: Part) -> bool | None:
    """Return whether a row may write over an operand; None if the general rule applies.

    Args:
        flow: The module's values.
        row: The instruction.
        number: The first number that the operand has.
        node: Node of the instruction's result.
        given: The part of the operand.
    """
    opcode = flow.table.opcodes[row]
    tree, operands = flow.tree(row), flow.operands[row]
    if opcode in ("all-reduce", "collective-broadcast"):
        index = tree.index(node)
        return len(operands) == 1 or (
            len(index) == 1 and index[0] < len(operands) and operands[index[0]] == operands[number]
        )
    if opcode == "custom-call":
        text = flow.table.module.columns.attributes_text(row)
        return _custom_call(text, number, tree.index(node))
    if opcode != "fusion":
        return None
    if not _is_alike(given, tree.parts[node]):
        return False
    body = flow.bodies.of(row)
    if body is None or number not in body.parameters:
        return False
    fusion = _GpuFusion(body, flow.bodies.kind(row), flow)
    return fusion.may_share(body.parameters[number], tree.index(node))


def _custom_call(text: str, number: int, index: ShapeIndex) -> bool:
    """Return whether a matrix product may be added into its third operand."""
    if "__cublas$lt$matmul" in text and '$lt$matmul$f8"' not in text:
        beta = re.search(r'"beta":\s*"?(-?[\d.eE+-]+)', text)
        used = beta is not None and float(beta[1]) != 0
        return used and number == 2 and index in ((), (0,))
    return '"__cusolver$cholesky"' in text and index == (0,)


def _is_alike(given: Part, made: Part) -> bool:
    """Whether two parts have the same shape, or as many elements of as many bits."""
    if given is made or given.shape == made.shape:
        return True
    return (
        not given.is_tuple
        and not made.is_tuple
        and given.shape.element_count == made.shape.element_count
        and _bits(given.shape) == _bits(made.shape)
    )


def _bits(shape: Shape) -> int | None:
    element = primitive_type(shape.element_type)
    return None if element is None else element.bits


class _GpuFusion:
    """Whether a GPU fusion reads an operand in the order in which it writes.

    Source: xla/service/gpu/alias_info.cc, FusionCanShareBufferHint.
    """

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
        """Return the reduction that a fusion is built around, or None."""
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

        In-place sorts inside a fusion are observed with jax 0.10.2.
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
