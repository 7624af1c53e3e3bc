"""Whether a result may reuse the bytes of an operand whose live range ends there.

Sources: xla/hlo/analysis/hlo_dataflow_analysis.cc, CanShareOperandBufferWithUser, as of August
2026; the lists in TPU programs are observed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment.fused_bodies import ELEMENTWISE
from hlo_lens.analysis.buffer_assignment.gpu_sharing import gpu_may_share
from hlo_lens.analysis.buffer_assignment.shape_tree import NODES
from hlo_lens.model.hlo.opcodes import opcodes_where

if TYPE_CHECKING:
    from hlo_lens.analysis.buffer_assignment.fused_bodies import FusedBody
    from hlo_lens.analysis.buffer_assignment.shape_tree import Part
    from hlo_lens.analysis.buffer_assignment.values import Dataflow

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
        given = flow.tree(row).parts[node]
        made = flow.tree(user_row).parts[user_node]
        hint = self._hint(user_row, number, user_node, given)
        if hint is not None:
            return hint
        if given is not made and given.shape != made.shape:
            return False
        return self._general(opcode, user_row, number, operands, source, user_node)

    def _general(
        self, opcode: str, row: int, number: int, operands: list[int], source: int, node: int
    ) -> bool:
        """Apply the rules of all backends to equal shapes."""
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
        """Apply the rule for fusions: all direct and indirect uses inside are elementwise."""
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

    def _hint(self, row: int, number: int, node: int, given: Part) -> bool | None:
        """Return the backend's own answer; None if the general rule applies."""
        if self._backend == "tpu":
            return self._tpu(row, number, node)
        if self._backend == "gpu":
            return gpu_may_share(self._flow, row, number, node, given)
        return None

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
