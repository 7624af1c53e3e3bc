"""Roles of values in memory, such as weights and saved activations, with the evidence for each.

Arguments have the roles of `argument_roles`. Of temporaries

- *gathered weights* are copies of weights: moved, gathered or converted (`argument_copies`); copies
  of other arguments have their role;
- *gradients* are the values from which results that replace weights and optimizer state are
  computed elementwise, back to the products and reductions that make them (`gradients`);
- *saved activations* are made in the forward pass, and their last use is in the backward pass,
  whose operation paths have ``transpose(`` (JAX), or a copy of them is saved so;
- all others are *temporaries*.

Memory of which the text has no value is *other*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.load.fact import fact
from hlo_lens.program.origins import Origins, origins
from hlo_lens.program.signature import EntrySignature, entry_signature
from hlo_lens.questions.memory.argument_copies import SCALAR, ArgumentCopies
from hlo_lens.questions.memory.argument_roles import BACKWARD, ArgumentRoles
from hlo_lens.questions.memory.gradients import gradient_values
from hlo_lens.questions.memory.makers import rows_of_names, values_of
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.role_names import (
    CONSTANTS,
    GATHERED,
    GRADIENTS,
    NO_ROLE,
    OUTPUTS,
    SAVED,
    TEMPORARIES,
    WEIGHTS,
    Role,
)
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.value_flow import Value
    from hlo_lens.questions.memory.layout import LaidAllocation, LaidValue, MemoryLayout


@dataclass(frozen=True, kw_only=True)
class MemoryRoles(Result):
    """Roles of the values and held allocations of a module.

    Attributes:
        layout: Allocations and values.
        values: Role of each value of the layout, by its number.
        allocations: Index of each held allocation to its role.
    """

    KIND: ClassVar[str] = "memory-roles"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("value", Unit.NONE, "instruction and shape index"),
        Column("role", Unit.NONE, "role of the value"),
        Column("basis", Unit.NONE, "evidence for the role"),
        Column("size_bytes", Unit.BYTES, "bytes it holds, padding included"),
        Column("allocation", Unit.NONE, "index of the allocation"),
    )
    layout: MemoryLayout = field(repr=False)
    values: Sequence[Role] = field(repr=False)
    allocations: Mapping[int, Role] = field(repr=False)

    def rows(self) -> Iterator[Row]:
        """Yield the values in the order of the layout."""
        for value, role in zip(self.layout.values, self.values, strict=True):
            yield value.name, role.role, role.basis, value.size, value.allocation

    def of_value(self, name: str, allocation: int) -> Role:
        """Return the role of a value that is alive: of its allocation if that is held."""
        held = self.allocations.get(allocation)
        return self._by_name.get(name, NO_ROLE) if held is None else held

    @cached_property
    def _by_name(self) -> Mapping[str, Role]:
        pairs = zip(self.layout.values, self.values, strict=True)
        return {value.name: role for value, role in pairs}


@fact
def memory_roles(dump: ModuleDump) -> MemoryRoles | None:
    """Return the roles of values and held allocations; None where memory is not known.

    Without HLO text only the uses of allocations are known.
    """
    memory, module = memory_results(dump), dump.hlo
    if memory is None:
        return None
    layout = memory.layout
    found = _Uses()
    if module is not None and module.has_entry:
        found = _TextRoles(layout, module, entry_signature(dump), origins(dump))
    held = {one.index: found.of_allocation(one) for one in layout.allocations if one.is_held}
    roles = [held.get(one.allocation) or found.of_temporary(one) for one in layout.values]
    return MemoryRoles(layout=layout, values=roles, allocations=held)


class _Uses:
    """Roles that follow from the use of an allocation alone."""

    def of_allocation(self, allocation: LaidAllocation) -> Role:
        """Return the role of a held allocation."""
        if allocation.category == "constant":
            return Role(CONSTANTS, "constant of the program")
        if allocation.category == "output":
            return Role(OUTPUTS, "result with memory of its own")
        return NO_ROLE

    def of_temporary(self, value: LaidValue) -> Role:
        """Return the role of a temporary value."""
        del value
        return Role(TEMPORARIES, "temporary; nothing more is known")


class _TextRoles(_Uses):
    """Roles that follow from the HLO text."""

    def __init__(
        self,
        layout: MemoryLayout,
        module: HloModule,
        signature: EntrySignature,
        origins: Origins,
    ) -> None:
        self._layout, self._module, self._origins = layout, module, origins
        self._values = values_of(module, (one.name for one in layout.values))
        self._copies = ArgumentCopies(module, origins.steps)
        self._arguments = ArgumentRoles(self._copies, signature)
        self._gradients = gradient_values(self._copies, self._arguments.replacing())

    def of_allocation(self, allocation: LaidAllocation) -> Role:
        """Return the role of a held allocation."""
        number = allocation.parameter_number
        if number is None:
            return super().of_allocation(allocation)
        leaf = self._leaves.get(allocation.index)
        return self._arguments.of_number(number) if leaf is None else self._arguments.of_leaf(leaf)

    @cached_property
    def _leaves(self) -> dict[int, Value]:
        """Allocations that hold leaves of parameters that are tuples."""
        pairs = ((one.allocation, self._values.get(one.name)) for one in self._layout.values)
        return {
            index: value
            for index, value in pairs
            if value is not None and value.element and self._arguments.is_leaf(value)
        }

    def of_temporary(self, value: LaidValue) -> Role:
        """Return the role of a temporary value."""
        known = self._values.get(value.name)
        if known is None:
            return NO_ROLE
        copy = self._copies.of_value(known)
        if copy is not None and copy.is_copied:
            name = self._arguments.name_of(copy.argument)
            role = self._arguments.of_leaf(copy.argument).role
            how = "gathered from" if copy.is_gathered else "copy of"
            return Role(GATHERED if role == WEIGHTS else role, f"{how} {name}")
        if self._origins.steps.definition(known) in self._gradients:
            return Role(GRADIENTS, "results that replace arguments are computed from it")
        if self._is_saved(value, known):
            return Role(SAVED, "made in the forward pass, last used in the backward pass")
        if self._origins.steps.definition(known) in self._filled:
            return Role(SAVED, "becomes a saved activation: a loop fills it, or a copy is saved")
        return Role(TEMPORARIES, "temporary of none of the other roles")

    @cached_property
    def _filled(self) -> set[Value]:
        """Values that become saved activations: before a loop writes them, or a copy is made."""
        steps = self._origins.steps
        pairs = ((value, self._values.get(value.name)) for value in self._layout.values)
        waiting = [
            steps.definition(known)
            for value, known in pairs
            if known is not None and self._is_saved(value, known)
        ]
        found = set(waiting)
        while waiting:
            value = waiting.pop()
            before = [self._copies.before(value)[0]]
            if steps.opcodes[value.row] == "while":
                before = [steps.written(value), steps.operand(value.row, 0, value.element)]
            for one in (steps.definition(one) for one in before if one is not None):
                if one not in found and steps.size(one) > SCALAR:
                    found.add(one)
                    waiting.append(one)
        return found

    def _is_saved(self, value: LaidValue, known: Value) -> bool:
        """Return whether a value is made in the forward pass and last used in the backward pass."""
        end = value.end
        if end is None or end >= len(self._backward) or not self._backward[end]:
            return False
        row = self._origins.maker(known)
        if self._origins.opcode(row) == "constant":
            return False
        path = self._origins.places.op_name(row) or self._origins.of_value(known).op_name
        return path is not None and BACKWARD not in path

    @cached_property
    def _backward(self) -> list[bool]:
        """Whether each instant is in the backward pass; one without path is as the one before."""
        schedule = self._layout.schedule or ()
        if BACKWARD not in self._module.columns.source.text:
            return []
        rows = rows_of_names(self._module, set(schedule))
        found: list[bool] = []
        last = False
        for name in schedule:
            path = self._origins.places.op_name(rows[name]) if name in rows else None
            last = last if path is None else BACKWARD in path
            found.append(last)
        return found
