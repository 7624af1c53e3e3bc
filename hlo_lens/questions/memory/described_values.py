"""Opcode and origin of values by the names that dumps print, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.program.origins import origins, stack_texts
from hlo_lens.questions.memory.makers import values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import Stack


class DescribedValue(NamedTuple):
    """Opcode of the instruction that made a value, and its origin; None where not known.

    Attributes:
        opcode: Opcode of the instruction.
        source: Source line, with the mark of inferred ones.
        op_name: Operation path, or name of the argument.
        argument: Argument that it is, or is computed from alone.
        stack: Call stack, innermost first.
    """

    opcode: str | None = None
    source: str | None = None
    op_name: str | None = None
    argument: str | None = None
    stack: str | None = None


def described_values(module: ModuleDump, names: Sequence[str]) -> list[DescribedValue]:
    """Return opcode and origin of values, in the order of their names."""
    if module.hlo is None:
        return [DescribedValue()] * len(names)
    found_origins = origins(module)
    known = values_of(module.hlo, names)
    stacks: dict[Stack, str | None] = {}
    found = []
    for name in names:
        value = known.get(name)
        if value is None:
            found.append(DescribedValue())
            continue
        origin = found_origins.of_value(value)
        frames = found_origins.stack(origin)
        if frames not in stacks:
            stacks[frames] = " < ".join(stack_texts(frames)) or None
        found.append(
            DescribedValue(
                opcode=found_origins.opcode(found_origins.maker(value)),
                source=origin.marked_source,
                op_name=origin.op_name,
                argument=origin.argument,
                stack=stacks[frames],
            )
        )
    return found
