"""Number of instructions of each opcode in a module, and the bytes of their results.

Opcodes are as written, async sugar included. Result bytes are logical: the elements of all leaves,
no tiles, no padding, no tuple tables. A tuple repeats the bytes of its elements, so this is the sum
of the printed shapes, not memory; `largest_instructions` leaves the repetitions out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import opcode_totals
from hlo_lens.load.fact import fact
from hlo_lens.program.hlo_text import instruction_table
from hlo_lens.render.result import Records, Unit

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


class OpcodeCount(NamedTuple):
    """Instructions with one opcode."""

    opcode: Annotated[str, "opcode as written"]
    instructions: Annotated[int, Unit.COUNT, "how many instructions have it"]
    result_bytes: Annotated[
        int, Unit.BYTES, "bytes of all their results, logical; known sizes only"
    ]
    unknown_sizes: Annotated[int, Unit.COUNT, "how many results are of unknown size"]


@dataclass(frozen=True, kw_only=True)
class Opcodes(Records[OpcodeCount]):
    """Opcode histogram, the most frequent first."""

    KIND: ClassVar[str] = "opcodes"
    TOTALS: ClassVar[tuple[str, ...]] = ("instructions", "result_bytes", "unknown_sizes")
    counts: tuple[OpcodeCount, ...]

    @property
    def unknown_opcodes(self) -> tuple[str, ...]:
        """Opcodes that XLA of August 2026 does not have, by name."""
        return tuple(sorted(c.opcode for c in self.counts if not opcode_traits(c.opcode).is_known))


@fact
def opcodes(module: ModuleDump) -> Opcodes:
    """Return the opcode histogram of a module, most frequent first, then by name."""
    found = opcode_totals(instruction_table(module))
    order = sorted(found, key=lambda opcode: (-found[opcode][0], opcode))
    return Opcodes(counts=tuple(OpcodeCount(opcode, *found[opcode]) for opcode in order))
