"""Places of the parts of instructions and computations that the grammar read."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class ReadOperand:
    """An operand: a name, or an instruction nested in its place."""

    name: str = ""
    index: tuple[int, ...] = ()
    shape: tuple[int, int] | None = None
    nested: ReadInstruction | None = None


@dataclass(slots=True)
class ReadInstruction:
    """Places of the parts of one instruction, as offsets in the source.

    Attributes:
        name: Start and end of the name without ``%``; None for a nested instruction.
        shape: Start and end; None where it is left out.
        operands: Inner start and end of the parentheses.
        arguments: The operands; empty for constants and parameters.
        attributes: Name, and start and end of the value.
        bodies: Computations that are printed in place, inside the attribute that calls them.
        called: Names of the computations that it calls; None for one that is printed in place.
        nesting: Depth to which computations are printed inside it; 0 for none.
    """

    is_root: bool
    name: tuple[int, int] | None
    shape: tuple[int, int] | None
    opcode: tuple[int, int]
    operands: tuple[int, int]
    end: int
    arguments: list[ReadOperand] = field(default_factory=list)
    attributes: list[tuple[str, int, int]] = field(default_factory=list)
    bodies: list[ReadComputation] = field(default_factory=list)
    called: list[str | None] = field(default_factory=list)
    nesting: int = 0


@dataclass(slots=True)
class ReadComputation:
    """Places of a computation; ``signature`` and ``attributes`` are start and end."""

    is_entry: bool
    name: str
    signature: tuple[int, int] | None
    start: int
    attributes: tuple[int, int]
    instructions: list[ReadInstruction]


def with_nested(read: ReadInstruction) -> list[ReadInstruction]:
    """Return an instruction and all those nested in its operands, users before their operands."""
    order: list[ReadInstruction] = []
    stack = [read]
    while stack:
        current = stack.pop()
        order.append(current)
        stack.extend(a.nested for a in current.arguments if a.nested is not None)
    return order
