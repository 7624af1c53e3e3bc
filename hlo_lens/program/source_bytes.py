"""Bytes of instruction results per line of the user's program.

Counted as in `largest_instructions`: logical bytes of the arrays that instructions produce, without
views and embedded computations. Lines are of the origins of instructions (`origins`). A fusion has
the metadata of one of its instructions, so its bytes count for that line. Instructions without a
line are in two residual rows: ``[parameters]`` of the program, which the caller allocates, and
``[unattributed]``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.load.fact import fact
from hlo_lens.program.hlo_text import instruction_table
from hlo_lens.program.origins import origins
from hlo_lens.render.result import Records, Row, Unit

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


class SourceLine(NamedTuple):
    """Bytes that the instructions of one source line produce."""

    source_file: Annotated[str, "file of the user's program"]
    source_line: Annotated[int | None, "1-based line in it"]
    result_bytes: Annotated[int, Unit.BYTES, "bytes its instructions produce, logical"]
    instructions: Annotated[int, Unit.COUNT, "how many instructions produce them"]


@dataclass(frozen=True, kw_only=True)
class SourceBytes(Records[SourceLine]):
    """Source lines by the bytes that their instructions produce, largest first.

    Attributes:
        lines: The lines.
        parameters: Bytes and number of the program's parameters without a place.
        unattributed: Bytes and number of all others without a place.
        unknown_sizes: Number of counted instructions of unknown size.
    """

    KIND: ClassVar[str] = "source-bytes"
    TOTALS: ClassVar[tuple[str, ...]] = ("result_bytes", "instructions")
    lines: tuple[SourceLine, ...]
    parameters: tuple[int, int]
    unattributed: tuple[int, int]
    unknown_sizes: int

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the rows of instructions without a place."""
        return (
            ("[parameters]", None, *self.parameters),
            ("[unattributed]", None, *self.unattributed),
        )


@fact
def source_bytes(module: ModuleDump) -> SourceBytes:
    """Return the source lines of a module by the bytes they produce, then by file and line."""
    table, place_of = instruction_table(module), origins(module).place
    found: defaultdict[tuple[str, int | None], list[int]] = defaultdict(lambda: [0, 0])
    parameters = [0, 0]
    unattributed = [0, 0]
    for row, size in zip(table.producers, table.produced_bytes, strict=True):
        place = place_of(row)
        if place is not None:
            entry = found[place.file, place.line]
        elif table.opcodes[row] == "parameter":
            entry = parameters
        else:
            entry = unattributed
        entry[0] += size or 0
        entry[1] += 1
    lines = [SourceLine(file, line, size, count) for (file, line), (size, count) in found.items()]
    return SourceBytes(
        lines=tuple(
            sorted(
                lines, key=lambda one: (-one.result_bytes, one.source_file, one.source_line or 0)
            )
        ),
        parameters=(parameters[0], parameters[1]),
        unattributed=(unattributed[0], unattributed[1]),
        unknown_sizes=list(table.produced_bytes).count(None),
    )
