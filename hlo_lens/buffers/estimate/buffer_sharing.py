"""Whether a result may reuse the bytes of an operand whose live range ends there.

Sources: xla/hlo/analysis/hlo_dataflow_analysis.cc, CanShareOperandBufferWithUser; for GPU
xla/service/gpu/alias_info.cc (FusionCanShareBufferHint) and nvptx_alias_info.cc, as of August 2026;
the lists in TPU programs are observed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.values import ELEMENTWISE, NODES, FusedBody, Part
from hlo_lens.hlo.opcodes import opcodes_where
from hlo_lens.shapes.shape import primitive_type

if TYPE_CHECKING:
    from hlo_lens.buffers.estimate.values import Dataflow
    from hlo_lens.shapes.shape import Shape, ShapeIndex

_SHARING = opcodes_where(lambda one: one.is_elementwise or one.is_sharing)
"""Opcodes that may write over an operand on every backend."""

_ALIASED = re.compile(r'"indices":\[([^\]]*)')


class BufferSharing:
    """Whether a result may reuse the bytes of an operand whose live range ends there.

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
        return self._opcodes[user_row] in _SHARING

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
        parts = flow.tree(row).parts
        if node >= len(parts):  # a damaged text takes an element that is not there
            return False
        given = parts[node]
        made = flow.tree(user_row).parts[user_node]
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
        if self._user_counts is None:
            counts: dict[int, int] = {}
            for operands in self._flow.operands.values():
                for operand in set(operands):
                    counts[operand] = counts.get(operand, 0) + 1
            self._user_counts = counts
        return self._user_counts.get(place, 0)

    def _fusion(self, row: int, number: int) -> bool:
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
    """Whether all direct and indirect uses of a parameter are elementwise (or tuples)."""
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
