"""Number of instructions of each opcode in a module, and the bytes of their results.

Opcodes are as written, async sugar included. Result bytes are logical: the elements of all leaves,
no tiles, no padding, no tuple tables. A tuple repeats the bytes of its elements, so this is the sum
of the printed shapes, not memory; `largest_instructions` leaves the repetitions out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import opcode_totals
from hlo_lens.load.fact import fact
from hlo_lens.program.hlo_text import instruction_table
from hlo_lens.render.result import Column, Result, Unit

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


@dataclass(frozen=True, kw_only=True)
class Opcodes(Result):
    """Opcode histogram, the most frequent first.

    Attributes:
        counts: Opcode, number of instructions, known bytes of their results, number of unknown
            sizes.
    """

    KIND: ClassVar[str] = "opcodes"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("opcode", Unit.NONE, "opcode as written"),
        Column("instructions", Unit.COUNT, "how many instructions have it"),
        Column("result_bytes", Unit.BYTES, "bytes of all their results, logical; known sizes only"),
        Column("unknown_sizes", Unit.COUNT, "how many results are of unknown size"),
    )
    RECORDS: ClassVar[str] = "counts"
    counts: tuple[tuple[str, int, int, int], ...]

    def totals(self) -> Mapping[str, int]:
        """Return the sums of all three number columns."""
        names = ("instructions", "result_bytes", "unknown_sizes")
        sums = [sum(column) for column in zip(*(row[1:] for row in self.counts), strict=True)]
        return dict(zip(names, sums or [0, 0, 0], strict=True))

    @property
    def unknown_opcodes(self) -> tuple[str, ...]:
        """Opcodes that XLA of August 2026 does not have, by name."""
        return tuple(sorted(row[0] for row in self.counts if not opcode_traits(row[0]).is_known))


@fact
def opcodes(module: ModuleDump) -> Opcodes:
    """Return the opcode histogram of a module, most frequent first, then by name."""
    found = opcode_totals(instruction_table(module))
    order = sorted(found, key=lambda opcode: (-found[opcode][0], opcode))
    return Opcodes(counts=tuple((opcode, *found[opcode]) for opcode in order))
