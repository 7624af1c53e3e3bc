"""Products in steps around a ring of devices, each of them one all-gather or reduce-scatter.

The partitioner computes a product whose operand it would gather, or whose result it would scatter,
in a loop: each step passes a part on to the next device by a collective-permute while the product
of another part is computed (windowed einsum). The body is ``windowed_dot_general_body_ag`` or
``_rs``; permutes of the same operation and devices before and after it belong to it if their value
comes from the loop or goes into it. Short loops are unrolled: then the permutes of one operation
and the same devices in one computation belong together if one passes on what another one received:
as it is in an all-gather, after an addition in a reduce-scatter.

Source: spmd/dot_handler.cc (EmitWindowedDotGeneral), as of August 2026.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from hlo_lens.program.value_flow import Value, value_flow
from hlo_lens.text.names import last_scopes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.collectives.operations import CollectiveParts

_BODY = re.compile(r"windowed_dot_general_body_(ag|rs)\b")
_KINDS = {"ag": "all-gather", "rs": "reduce-scatter"}

_STEPS = 24
"""Values that are visited from a permute back to another one."""

_NESTED = 4
"""Calls around a permute up to its loop."""


def with_rings_joined(module: HloModule, read: list[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with the permutes of each ring joined to the first of them, in order."""
    permutes = [parts for parts in read if _is_around_groups(parts)]
    rings = list(_Rings(module, permutes).found()) if permutes else []
    joined = {id(parts): ring for ring in rings for parts in ring.ring}
    firsts = {id(ring.ring[0]) for ring in rings}
    kept = (parts for parts in read if id(parts) not in joined or id(parts) in firsts)
    return [joined.get(id(parts), parts) for parts in kept]


def _is_around_groups(parts: CollectiveParts) -> bool:
    """Return whether each device of a group sends to one of it and receives from one."""
    pairs, groups = parts.devices.pairs, parts.devices.groups
    if parts.op.kind != "collective-permute" or not pairs or not groups:
        return False
    ends = ({pair[end] for pair in pairs} for end in (0, 1))
    devices = {device for group in groups for device in group}
    return len(pairs) == len(devices) and all(end == devices for end in ends)


class _Rings:
    """Sets of permutes that perform one operation; a set has at most one loop.

    Args:
        module: The module.
        permutes: The permutes that may be steps.
    """

    def __init__(self, module: HloModule, permutes: Sequence[CollectiveParts]) -> None:
        self._module, self._flow = module, value_flow(module)
        self._owners = module.links.owners
        self._permutes = {parts.op.instruction.row: parts for parts in permutes}
        self._loops = {row: self._loop_of(row) for row in self._permutes}
        self._set_of: dict[int, int] = {}
        self._is_summing: dict[int, bool] = {}

    def found(self) -> Iterator[CollectiveParts]:
        """Yield the first permute of each ring with all of them, in the order of the text."""
        of_operand: dict[object, int] = {}
        for row in self._permutes:
            loop = self._loops[row]
            if loop is not None:
                self._join(row, loop)
            elif self._is_of_product(row):
                operand = self._flow.operands(row, 1)
                start = (self._key(row), self._flow.definition(operand[0])) if operand else row
                self._join(row, of_operand.setdefault(start, row))
                self._connect(row)
        for loop in {loop for loop in self._loops.values() if loop is not None}:
            shape = self._module.instruction(loop).shape
            for k in range(0 if shape is None else len(shape.tuple_shapes)):
                before = self._flow.operand(loop, 0, (k,))
                made = None if before is None else self._flow.maker(self._flow.definition(before))
                if made is not None and self._loops.get(made.row, loop) is None:
                    self._join_alike(made.row, loop)
        rings: dict[int, list[int]] = defaultdict(list)
        for row in self._permutes:
            rings[self._set(row)].append(row)
        for first, rows in rings.items():
            loop = next((self._loops[row] for row in rows if self._loops[row] is not None), None)
            kind = self._kind(first, loop)
            if kind is not None:
                home = self._owners[rows[0] if loop is None else loop]
                ring = tuple(self._permutes[row] for row in rows)
                yield ring[0]._replace(ring=ring, ring_kind=kind, home=home)

    def _loop_of(self, row: int) -> int | None:
        """Return the loop of a windowed product that a permute is in; None for none."""
        place = self._owners[row]
        for _ in range(_NESTED):
            calls = self._module.links.calls.of_computation(place)
            if not calls or self._module.computations[place].is_entry:
                return None
            if calls[0].role == "body":
                is_window = _BODY.search(self._module.computations[place].name)
                return calls[0].row if is_window else None
            place = self._owners[calls[0].row]
        return None

    def _is_of_product(self, row: int) -> bool:
        return last_scopes(self._module.instruction(row).op_name) == "dot_general"

    def _key(self, row: int) -> tuple[object, ...]:
        """Return what permutes of one ring have in common outside of a loop."""
        op_name = self._module.instruction(row).op_name
        return self._owners[row], op_name, self._permutes[row].devices.groups

    def _connect(self, row: int) -> None:
        """Join a permute outside of loops with permutes and loops that its value comes from."""
        waiting, seen = self._flow.sources(Value(row))[:], {Value(row)}
        while waiting and len(seen) < _STEPS:
            source = waiting.pop(0)
            if source in seen:
                continue
            seen.add(source)
            if self._loops.get(source.row, row) is None:  # a permute outside of loops
                if self._key(source.row) == self._key(row):
                    self._join(row, source.row)
                    operands = self._flow.operands(row, 1)
                    self._is_summing[row] = not any(
                        self._is_result(one, source.row) for one in operands
                    )
            elif source.row in self._loops.values():
                self._join_alike(row, source.row)
            else:
                waiting += self._flow.sources(source)

    def _join_alike(self, row: int, loop: int) -> None:
        """Join a permute with a loop of the same operation in the same computation."""
        one, other = self._module.instruction(row), self._module.instruction(loop)
        if one.op_name == other.op_name and self._owners[row] == self._owners[loop]:
            self._join(row, loop)

    def _is_result(self, operand: Value, row: int) -> bool:
        made = self._flow.maker(operand)
        return made is not None and made.row == row

    def _kind(self, first: int, loop: int | None) -> str | None:
        """Return the kind of the operation that a set of permutes performs; None for no ring."""
        if loop is not None:
            body = self._flow.root(loop, "body")
            name = "" if body is None else self._module.computations[self._owners[body]].name
            match = _BODY.search(name)
            return None if match is None else _KINDS[match[1]]
        steps = [is_sum for row, is_sum in self._is_summing.items() if self._set(row) == first]
        return None if not steps else _KINDS["rs" if any(steps) else "ag"]

    def _set(self, member: int) -> int:
        while self._set_of.get(member, member) != member:
            member = self._set_of[member]
        return member

    def _join(self, one: int, other: int) -> None:
        self._set_of[self._set(one)] = self._set(other)
