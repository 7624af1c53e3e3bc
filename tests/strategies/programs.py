"""Programs as data, before they are printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CALLING = ("to_apply", "calls", "condition", "body", "branch_computations", "called_computations")
NAMING = (*CALLING, "control-predecessors")
"""Attributes whose values are names, which are written with ``%`` in long style only."""


@dataclass(frozen=True)
class Array:
    """Shape of an array, or of a tuple of arrays where `parts` is given.

    Attributes:
        layout: Text between the braces, as written; empty for no layout.
    """

    type: str = ""
    sizes: tuple[int, ...] = ()
    layout: str = ""
    parts: tuple[Array, ...] | None = None

    def text(self, *, layout: bool = True, comments: bool = False) -> str:
        """Return the shape as XLA prints it."""
        if self.parts is not None:
            shown = [part.text(layout=layout, comments=comments) for part in self.parts]
            return f"({', '.join(numbered(shown) if comments else shown)})"
        braces = f"{{{self.layout}}}" if layout and self.layout else ""
        return f"{self.type}[{','.join(map(str, self.sizes))}]{braces}"

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for two values that can be operands of one elementwise operation."""
        return self.type, self.sizes, self.parts


@dataclass(frozen=True)
class Instruction:
    """One instruction; `inner` is a literal or a parameter's number where there are no operands."""

    name: str
    shape: Array
    opcode: str
    operands: tuple[str, ...] = ()
    inner: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    is_root: bool = False


@dataclass(frozen=True)
class Computation:
    """A computation; the last instruction is its result."""

    name: str
    instructions: tuple[Instruction, ...]
    is_entry: bool = False

    @property
    def parameters(self) -> list[Instruction]:
        """Parameters by number."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        return sorted(found, key=lambda i: int(i.inner))

    @property
    def result(self) -> Array:
        """Shape of the result."""
        return next(i.shape for i in self.instructions if i.is_root)


@dataclass(frozen=True)
class Module:
    """A module; `tables` is the text of its stack frame tables."""

    name: str
    computations: tuple[Computation, ...]
    header: tuple[tuple[str, str], ...] = ()
    tables: str = ""

    @property
    def instructions(self) -> Iterator[Instruction]:
        """All instructions in text order."""
        for computation in self.computations:
            yield from computation.instructions


def numbered(texts: Sequence[str]) -> list[str]:
    """Return texts with the comment that XLA puts before each fifth."""
    return [f"/*index={k}*/{t}" if k and k % 5 == 0 else t for k, t in enumerate(texts)]
