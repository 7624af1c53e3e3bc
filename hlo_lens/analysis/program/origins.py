"""Origins of values in the user's program: source line, operation path, name of the argument.

A value has the origin of its instruction's metadata. XLA leaves metadata out of many instructions
that it makes itself; their origin is inferred, in this order:

1. from the instructions that a fusion or another called computation runs, nearest to the result
   first;
2. of an element that a loop carries, from the instruction in the loop's body that writes it; where
   the body only stores a slice of it, as ``lax.scan`` does with outputs and saved activations,
   from the slice;
3. from what it is computed from, nearest first, of one instruction the largest operand first;
4. from what uses it, nearest first;
5. of what is computed from arguments only, from the name of the argument.

The source line is the innermost one outside libraries (`is_library_file`). Operation paths that XLA
made of an opcode and a number are none. In texts without any source line, operation paths decide.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.analysis.program.source_places import InstructionPlaces, Stack
from hlo_lens.analysis.program.value_steps import Value, ValueSteps
from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from hlo_lens.model.hlo.metadata import SourceLocation
    from hlo_lens.model.hlo.module import HloModule

INFERRED = "~"
"""Mark of an inferred source line in text."""

_STEPS = 64
"""Values that are visited in one direction in search of an origin, at most."""

_SOURCELESS = frozenset({"constant", "iota", "partition-id", "replica-id", "parameter"})
"""Opcodes without operands."""


class Basis(StrEnum):
    """The way an origin was found."""

    OWN = "own"
    FUSION_BODY = "fusion body"
    LOOP_BODY = "loop body"
    OPERAND = "operand"
    USER = "user"
    ARGUMENT = "argument"


BASES: dict[Basis, str] = {
    Basis.OWN: "metadata of the instruction itself",
    Basis.FUSION_BODY: "an instruction in the fusion or in another computation that it calls",
    Basis.LOOP_BODY: "the instruction in the loop's body that writes the value",
    Basis.OPERAND: "the value that it is computed from",
    Basis.USER: "the instruction that uses it",
    Basis.ARGUMENT: "the argument of the program that it is, or is computed from",
}
"""Meaning of each basis."""


def is_inferred(basis: str | None) -> bool:
    """Return whether an origin of a basis is not of the instruction's own metadata."""
    return basis not in (None, Basis.OWN, Basis.ARGUMENT)


def marked(source: str | None, basis: str | None) -> str | None:
    """Return a source line as text, with `INFERRED` after it if it is inferred."""
    return f"{source} {INFERRED}" if source is not None and is_inferred(basis) else source


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Origin of a value in the user's program.

    Attributes:
        place: Innermost place outside libraries; the innermost of all if there is none.
        op_name: Operation path; of an argument its name.
        basis: Way that the origin was found; None for no origin.
        row: Row of the instruction whose metadata it is; None for no origin.
        argument: Name of the argument that the value is, or is computed from, where nothing else
            on the way to it has an origin.
    """

    place: SourceLocation | None = None
    op_name: str | None = None
    basis: Basis | None = None
    row: int | None = None
    argument: str | None = None

    @property
    def is_inferred(self) -> bool:
        """Whether the source line is not of the instruction's own metadata."""
        return is_inferred(self.basis)

    @property
    def source(self) -> str | None:
        """The place as ``file:line``; None if not known."""
        return None if self.place is None else str(self.place)

    @property
    def marked_source(self) -> str | None:
        """The place as text, with `INFERRED` after it if it is inferred; None if not known."""
        return marked(self.source, self.basis)


NO_ORIGIN = Origin()


class Origins:
    """Origins of the values of a module, each found when first asked for.

    Args:
        module: The module.
    """

    def __init__(self, module: HloModule) -> None:
        self.places = InstructionPlaces(module)
        self.steps = ValueSteps(module)
        self._module = module
        self._opcodes = module.opcodes
        self._found: dict[Value, Origin] = {}
        self._near: dict[Value, Origin] = {}

    def of_row(self, row: int) -> Origin:
        """Return the origin of an instruction."""
        own = self._own(row)
        if own is not None and own.place is not None:
            return own
        return self.of_value(Value(row))

    def of_value(self, value: Value) -> Origin:
        """Return the origin of the instruction that defines a value."""
        value = self.steps.definition(value)
        if value not in self._found:
            self._found[value] = self._search(value)
        return self._found[value]

    def maker(self, value: Value) -> int:
        """Return the row of the instruction that computes a value, in loops that of the body."""
        value = self.steps.definition(value)
        for _ in range(_STEPS):
            written = self.steps.written(value) if self._opcodes[value.row] == "while" else None
            if written is None:
                break
            value = self.steps.definition(written)
        return value.row

    def opcode(self, row: int) -> str:
        """Return the opcode of a row."""
        return self._opcodes[row]

    def stack(self, origin: Origin) -> Stack:
        """Return the call stack of an origin, innermost first."""
        return () if origin.row is None else self.places.stack(origin.row)

    # ---- search --------------------------------------------------------------------------------

    def _search(self, value: Value) -> Origin:
        near = self._nearest(value)
        if self._is_enough(near):
            return near
        found, argument = self._from_operands(value)
        if not self._is_enough(found):
            used = self._from_users(value)
            found = used if used.basis is not None else found
        if near.basis is None and found.basis is None:
            return _of_argument(argument)
        if near.basis is not None and found.place is None:
            return replace(near, argument=argument.argument)
        op_name = near.op_name or found.op_name
        return replace(found, op_name=op_name, argument=argument.argument)

    def _from_operands(self, value: Value) -> tuple[Origin, Origin]:
        """Return the origin of what a value is computed from, and of the first argument met."""
        waiting = deque(self._operands(value))
        seen = {value, *waiting}
        second = argument = NO_ORIGIN
        visited = 0
        while waiting and visited < _STEPS:
            visited += 1
            one = waiting.popleft()
            near = self._nearest(one)
            if near.basis is Basis.ARGUMENT:
                argument = near if argument is NO_ORIGIN else argument
                continue
            if self._is_enough(near):
                return replace(near, basis=Basis.OPERAND), argument
            if second is NO_ORIGIN and near.basis is not None:
                second = replace(near, basis=Basis.OPERAND)
            more = [v for v in self._operands(one) if v not in seen]
            seen.update(more)
            waiting.extend(more)
        return second, argument

    def _operands(self, value: Value) -> list[Value]:
        """Return the definitions of the operands of a value's instruction, the largest first."""
        row, index = value
        opcode = self._opcodes[row]
        if opcode in _SOURCELESS:
            return []
        if opcode == "while" and index:
            operand = self.steps.operand(row, 0, index)
            operands = [] if operand is None else [operand]
        else:
            operands = self.steps.operands(row)
        defined = dict.fromkeys(map(self.steps.definition, operands))
        return sorted(defined, key=self._size, reverse=True)

    def _size(self, value: Value) -> int:
        shape = self._module.instruction(value.row).shape
        for position in value.element:
            parts = () if shape is None else shape.tuple_shapes
            shape = parts[position] if position < len(parts) else None
        return (None if shape is None else shape.size_bytes) or 0

    def _from_users(self, value: Value) -> Origin:
        """Return the origin of the nearest user that has one."""
        waiting = deque([value])
        seen = {value}
        second = NO_ORIGIN
        visited = 0
        while waiting and visited < _STEPS:
            for user in self.steps.users(waiting.popleft()):
                visited += 1
                if user in seen:
                    continue
                seen.add(user)
                near = self._nearest(user)
                if self._is_enough(near) and near.basis is not Basis.ARGUMENT:
                    return replace(near, basis=Basis.USER)
                if second is NO_ORIGIN and near.basis not in (None, Basis.ARGUMENT):
                    second = replace(near, basis=Basis.USER)
                waiting.append(user)
        return second

    # ---- one instruction -----------------------------------------------------------------------

    @cached_property
    def _has_places(self) -> bool:
        module = self._module
        return bool(module.stack_frames) or "source_file=" in module.columns.source.text

    def _is_enough(self, origin: Origin) -> bool:
        """Return whether an origin has what the module's metadata have at most."""
        if origin.basis is Basis.ARGUMENT:
            return True
        return origin.place is not None or (not self._has_places and origin.op_name is not None)

    def _own(self, row: int) -> Origin | None:
        """Return the origin of a row's metadata, or None."""
        place, op_name = self.places.innermost(row), self.places.op_name(row)
        if place is None and op_name is None:
            return None
        return Origin(place=place, op_name=op_name, basis=Basis.OWN, row=row)

    def _nearest(self, value: Value) -> Origin:
        """Return the origin of a value without its operands and users."""
        if value not in self._near:
            self._near[value] = NO_ORIGIN  # seen by a value that depends on itself
            self._near[value] = self._find_nearest(value)
        return self._near[value]

    def _find_nearest(self, value: Value) -> Origin:
        row = value.row
        own = self._own(row)
        opcode = self._opcodes[row]
        if opcode == "parameter":
            is_argument = self.steps.caller(row) is None
            return self._argument(row, own) if is_argument else own or NO_ORIGIN
        if opcode == "while" and value.element:
            written = self._in_loop(value)
            if self._is_enough(written):
                return written
        stored = self._stored_slice(value)
        if stored is not None and self._is_enough(found := self._of_slice(row, stored)):
            return found
        if own is not None and self._is_enough(own):
            return own
        inside = self._in_body(value) if opcode_traits(opcode).is_runner else NO_ORIGIN
        if own is None or self._is_enough(inside):
            return inside if own is None else replace(inside, op_name=own.op_name or inside.op_name)
        return own

    def _argument(self, row: int, own: Origin | None) -> Origin:
        number = self._module.instruction(row).parameter_number
        name = own.op_name if own is not None else None
        name = name or (None if number is None else f"argument {number}")
        place = None if own is None else own.place
        return Origin(place=place, op_name=name, basis=Basis.ARGUMENT, row=row, argument=name)

    def _in_body(self, value: Value) -> Origin:
        """Return the origin of the result of a called computation, from inside it."""
        root = self.steps.root(value.row, "calls", "to_apply", "branch_computations")
        if root is None:
            return NO_ORIGIN
        place = self._module.links.owners[root]
        waiting = deque([self.steps.definition(Value(root, value.element), is_local=True)])
        seen = set(waiting)
        second = NO_ORIGIN
        visited = 0
        while waiting and visited < _STEPS:
            visited += 1
            one = waiting.popleft()
            if self._opcodes[one.row] == "parameter":
                continue
            near = self._nearest(one)
            if self._is_enough(near):
                return replace(near, basis=Basis.FUSION_BODY)
            if second is NO_ORIGIN and near.basis is not None:
                second = replace(near, basis=Basis.FUSION_BODY)
            for operand in self.steps.operands(one.row):
                local = self.steps.definition(operand, is_local=True)
                if local not in seen and self._module.links.owners[local.row] == place:
                    seen.add(local)
                    waiting.append(local)
        return second

    # ---- loops ---------------------------------------------------------------------------------

    def _in_loop(self, value: Value) -> Origin:
        """Return the origin of what the body of a loop writes into an element that it carries."""
        written = self.steps.written(value)
        if (
            written is None
            or self._module.links.owners[written.row] == (self._module.links.owners[value.row])
        ):
            return NO_ORIGIN
        near = self._nearest(written)
        if not self._is_enough(near):
            near, _ = self._from_operands(written)
        if near.basis is None or near.basis is Basis.ARGUMENT:
            return NO_ORIGIN
        return replace(near, basis=Basis.LOOP_BODY)

    def _stored_slice(self, value: Value) -> Value | None:
        """Return the slice that an instruction of a loop body only stores; None for all others."""
        row = value.row
        update = self._update(value)
        if update is None:
            return None
        call = self.steps.caller(row)
        if call is None or self._opcodes[call.row] != "while":
            return None
        place = self.places.innermost(row)
        is_stored = place is None or _is_same_line(place, self._loop_place(call.row))
        return update if is_stored else None

    def _of_slice(self, row: int, update: Value) -> Origin:
        near = self._nearest(update)
        if not self._is_enough(near):
            near, _ = self._from_operands(update)
        if near.basis is Basis.ARGUMENT or _is_same_line(near.place, self.places.innermost(row)):
            return NO_ORIGIN
        return replace(near, basis=Basis.LOOP_BODY)

    def _update(self, value: Value) -> Value | None:
        """Return what a dynamic-update-slice writes, also if it is the result of a fusion."""
        for _ in range(_STEPS):
            row = value.row
            opcode = self._opcodes[row]
            if opcode == "dynamic-update-slice":
                operand = self.steps.operand(row, 1)
                return None if operand is None else self.steps.definition(operand)
            if opcode == "fusion":
                root = self.steps.root(row)
                if root is None:
                    return None
                value = self.steps.definition(Value(root, value.element), is_local=True)
            elif opcode_traits(opcode).is_formatting:
                before = self.steps.operand(row, 0)
                if before is None or before.element:
                    return None
                value = before
            else:
                return None
        return None

    def _loop_place(self, row: int) -> SourceLocation | None:
        """Return the place of a loop: its own, or that of the comparison that ends it."""
        place = self.places.innermost(row)
        root = self.steps.root(row, "condition") if place is None else None
        return self.places.innermost(root) if root is not None else place


def _of_argument(argument: Origin) -> Origin:
    """Return the origin of what is computed from arguments only."""
    return replace(argument, place=None) if argument.basis is not None else NO_ORIGIN


def _is_same_line(one: SourceLocation | None, other: SourceLocation | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.file, one.line) == (other.file, other.line)
