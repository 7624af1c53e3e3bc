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
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.argument_names import ArgumentNames
from hlo_lens.program.hlo_text import hlo_text
from hlo_lens.program.loop_lines import LoopLines, is_same_line
from hlo_lens.program.neighbour_places import SCALAR, NeighbourPlaces
from hlo_lens.program.origin import NO_ORIGIN, Basis, Origin
from hlo_lens.program.source_places import InstructionPlaces, Stack
from hlo_lens.program.value_flow import SOURCELESS, Value, value_flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

_STEPS = 64
"""Values that are visited in one direction in search of an origin, at most."""

_BUDGET, _FEW = 100_000, 4
"""Values visited without result after which `_FEW` are visited: few instructions have lines."""

_Look: TypeAlias = "Callable[[Value], Origin]"


class Origins:
    """Origins of the values of a module, each found when first asked for.

    Args:
        module: The module.
    """

    def __init__(self, module: HloModule) -> None:
        self.places = InstructionPlaces(module)
        self._arguments = ArgumentNames(module)
        self.steps = value_flow(module)
        self._module = module
        self._loops = LoopLines(self.steps, self.places)
        self._neighbours = NeighbourPlaces(self.steps, self.places, self._loops)
        self._opcodes = self.steps.opcodes
        self._found: dict[Value, Origin] = {}
        self._wasted = 0
        self._owned: dict[int, Origin | None] = {}
        self._near: dict[Value, Origin] = {}
        self._inside: dict[Value, Origin] = {}
        self._bodies: dict[Value, Origin] = {}
        self._open: set[int] = set()

    def of_row(self, row: int) -> Origin:
        """Return the origin of an instruction."""
        own = self.own(row)
        if own is not None and own.place is not None:
            return own
        return self.of_value(Value(row))

    def place(self, row: int) -> SourceLocation | None:
        """Return the place of the origin of an instruction."""
        if not self._has_places:
            return None
        own = self.places.innermost(row)
        if own is not None or self._is_argument(row):
            return own
        near = self._neighbours.place(Value(row))
        return self.of_value(Value(row)).place if near is None else near

    def of_value(self, value: Value) -> Origin:
        """Return the origin of the instruction that defines a value."""
        value = self.steps.definition(value)
        found = self._found.get(value)
        if found is None:
            found = self._found[value] = self._search(value)
        return found

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
        if self.is_enough(near) or not self._has_names:
            return near
        found, argument = self._around(value, self._nearest)
        if near.basis is None and found.basis is None:
            return argument._replace(place=None)
        if near.basis is not None and found.place is None:
            return near._replace(argument=argument.argument)
        found = _with_path(found, near)
        name = argument.argument
        return found if found.argument == name else found._replace(argument=name)

    def _around(self, value: Value, look: _Look) -> tuple[Origin, Origin]:
        """Return the origin of what a value is computed from or used by, and its argument.

        Args:
            value: The value.
            look: Returns the origin of a value that is met.
        """
        found = weak = argument = NO_ORIGIN
        if self._opcodes[value.row] not in SOURCELESS:
            found, weak, argument = self._from_operands(value, look)
        if self.is_enough(found):
            return found, argument
        used, weak_user = self._from_users(value, look)
        if self.is_enough(used):
            return used, argument
        best = next((one for one in (weak, weak_user) if self.is_enough(one)), found)
        return (used if best.basis is None else best), argument

    def _from_operands(self, value: Value, look: _Look) -> tuple[Origin, Origin, Origin]:
        """Return the origin of what a value is computed from, a weak one, and the first argument.

        Loops and the slices that they take have weak origins: the line of the loop.
        """
        waiting = deque(self.steps.sources(value))
        seen = {value, *waiting}
        second = weak = argument = NO_ORIGIN
        visited = 0
        while waiting and visited < self._steps:
            visited += 1
            one = waiting.popleft()
            near = look(one)
            if near.basis is Basis.ARGUMENT:
                argument = near if argument is NO_ORIGIN else argument
                continue
            if self.is_enough(near):
                if not self._is_weak(one, near, value):
                    return near.inferred(Basis.OPERAND), weak, argument
                weak = near.inferred(Basis.OPERAND) if weak is NO_ORIGIN else weak
            elif second is NO_ORIGIN and near.basis is not None:
                second = near.inferred(Basis.OPERAND)
            more = [v for v in self.steps.sources(one) if v not in seen]
            seen.update(more)
            waiting.extend(more)
        self._wasted += visited
        return second, weak, argument

    def _from_users(self, value: Value, look: _Look) -> tuple[Origin, Origin]:
        """Return the origin of the nearest user that has one, and a weak one."""
        waiting = deque([value])
        seen = {value}
        second = weak = NO_ORIGIN
        visited = 0
        while waiting and visited < self._steps:
            for user in islice(self.steps.users(waiting.popleft()), self._steps):
                visited += 1
                if user in seen:
                    continue
                seen.add(user)
                near = look(user)
                if near.basis is Basis.ARGUMENT:
                    continue
                if self.is_enough(near):
                    if not self._is_weak(user, near, value):
                        return near.inferred(Basis.USER), weak
                    weak = near.inferred(Basis.USER) if weak is NO_ORIGIN else weak
                elif second is NO_ORIGIN and near.basis is not None:
                    second = near.inferred(Basis.USER)
                waiting.append(user)
        self._wasted += visited
        return second, weak

    # ---- one instruction -----------------------------------------------------------------------

    @property
    def _steps(self) -> int:
        return _STEPS if self._wasted < _BUDGET else _FEW

    @cached_property
    def _has_names(self) -> bool:
        return self._has_places or 'op_name="' in self._module.columns.source.text

    @cached_property
    def _has_places(self) -> bool:
        module = self._module
        return bool(module.stack_frames) or self.places.has_any

    def is_enough(self, origin: Origin) -> bool:
        """Return whether an origin has what the module's metadata have at most."""
        if origin.basis is Basis.ARGUMENT:
            return True
        return origin.place is not None or (not self._has_places and origin.op_name is not None)

    def own(self, row: int) -> Origin | None:
        """Return the origin of a row's metadata, or None."""
        if row in self._owned:
            return self._owned[row]
        found = self._owned[row] = self._read(row)
        return found

    def _read(self, row: int) -> Origin | None:
        place, op_name = self.places.innermost(row), self.places.op_name(row)
        if place is None and op_name is None:
            return None
        argument = op_name if op_name in self._argument_names else None
        has_path = op_name is not None and argument is None
        return Origin(place, op_name, Basis.OWN, row, argument, has_path)

    @cached_property
    def _argument_names(self) -> frozenset[str]:
        """Names of the arguments; XLA gives them to gathers of weights as operation paths too."""
        return frozenset(self._arguments.by_row.values())

    def _nearest(self, value: Value) -> Origin:
        """Return the origin of a value without what it is computed from and used by."""
        found = self._near.get(value)
        if found is None:
            found = self._near[value] = self._with_loops(value, self._inner)
        return found

    def _inner(self, value: Value) -> Origin:
        """Return the same for a value that another one written by a loop is computed from."""
        if value not in self._inside:
            self._inside[value] = self._with_loops(value, self.direct)
        return self._inside[value]

    def _with_loops(self, value: Value, look: _Look) -> Origin:
        if self._opcodes[value.row] == "while" and value.element:
            written = self._in_loop(value, look)
            if self.is_enough(written):
                return written
        stored = self._loops.stored_slice(value)
        if stored is not None:
            found = self._of_slice(value.row, stored, look)
            if self.is_enough(found):
                return found
        return self.direct(value)

    def direct(self, value: Value) -> Origin:
        """Return the origin of a value by its own metadata, or by what it calls."""
        row = value.row
        own = self.own(row)
        opcode = self._opcodes[row]
        if opcode == "parameter":
            return self._argument(row, own) if self._is_argument(row) else own or NO_ORIGIN
        if own is not None and self.is_enough(own):
            return own
        inside = self._called(value)
        if own is None or self.is_enough(inside):
            return inside if own is None else _with_path(inside, own)
        return own

    def _called(self, value: Value) -> Origin:
        """Return the origin of what an instruction runs: of a loop, the comparison that ends it."""
        opcode = self._opcodes[value.row]
        if opcode == "while":
            root = self.steps.root(value.row, "condition")
            end = None if root is None else self.own(root)
            return NO_ORIGIN if end is None else end.inferred(Basis.LOOP_BODY)
        return self._in_body(value) if opcode_traits(opcode).is_runner else NO_ORIGIN

    def _is_argument(self, row: int) -> bool:
        """Return whether a row is an argument of the program, which has no origin but its own."""
        return self._opcodes[row] == "parameter" and self.steps.caller(row) is None

    def _argument(self, row: int, own: Origin | None) -> Origin:
        number = self._module.instruction(row).parameter_number
        name = self._arguments.by_row.get(row)
        name = name or (None if number is None else f"argument {number}")
        place = None if own is None else own.place
        return Origin(place=place, op_name=name, basis=Basis.ARGUMENT, row=row, argument=name)

    def _in_body(self, value: Value) -> Origin:
        """Return the origin of the result of a called computation, from inside it."""
        root = self.steps.root(value.row, "calls", "to_apply", "branch_computations")
        if root is None or root in self._open or len(self._open) >= _STEPS:
            return NO_ORIGIN  # a damaged text may call what it is in
        result = Value(root, value.element)
        if result not in self._bodies:  # else each of thousands of nested calls searches twice
            self._open.add(root)
            self._bodies[result] = self._of_result(result)
            self._open.remove(root)
        return self._bodies[result]

    def _of_result(self, result: Value) -> Origin:
        """Return the origin of the result of a computation: of the nearest value that has one."""
        root = result.row
        place = self._module.links.owners[root]
        waiting = deque([self.steps.definition(result, is_local=True)])
        seen = set(waiting)
        second = NO_ORIGIN
        visited = 0
        while waiting and visited < _STEPS:
            visited += 1
            one = waiting.popleft()
            if self._opcodes[one.row] == "parameter":
                continue
            near = self.direct(one)
            if self.is_enough(near):
                return near.inferred(Basis.FUSION_BODY)
            if second is NO_ORIGIN and near.basis is not None:
                second = near.inferred(Basis.FUSION_BODY)
            for operand in self.steps.operands(one.row):
                local = self.steps.definition(operand, is_local=True)
                if local not in seen and self._module.links.owners[local.row] == place:
                    seen.add(local)
                    waiting.append(local)
        return second

    # ---- loops ---------------------------------------------------------------------------------

    def _in_loop(self, value: Value, look: _Look) -> Origin:
        """Return the origin of what the body of a loop writes into an element that it carries."""
        written = self.steps.written(value)
        if (
            written is None
            or self._module.links.owners[written.row] == (self._module.links.owners[value.row])
        ):
            return NO_ORIGIN
        near = self._with_loops(written, look)
        if not self.is_enough(near):
            near, _ = self._around(written, look)
        is_of_loop = is_same_line(near.place, self.places.innermost(value.row))
        if near.basis in (None, Basis.ARGUMENT) or (is_of_loop and near.place is not None):
            return NO_ORIGIN
        return near.inferred(Basis.LOOP_BODY)

    def _is_weak(self, met: Value, near: Origin, value: Value) -> bool:
        """Return whether a better origin for a value than that of one met is searched for."""
        return self._loops.is_of_loop(met, near) and self.steps.size(value) > SCALAR

    def _of_slice(self, row: int, update: Value, look: _Look) -> Origin:
        near = look(update)
        if not self.is_enough(near) or self._loops.is_of_loop(update, near):
            near, _ = self._around(update, look)
        if near.basis is Basis.ARGUMENT or is_same_line(near.place, self.places.innermost(row)):
            return NO_ORIGIN
        return near.inferred(Basis.LOOP_BODY)


def _with_path(found: Origin, own: Origin) -> Origin:
    """Return an inferred origin, with the own operation path of the instruction if it has one."""
    if own.op_name is None:
        return found
    return found._replace(op_name=own.op_name, has_own_path=own.has_own_path)


@fact
def origins(module: ModuleDump) -> Origins:
    """Return the origins of a module's values: source line, operation path, how they were found."""
    return Origins(hlo_text(module))
