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
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.load.fact import fact
from hlo_lens.program.hlo_text import instruction_table
from hlo_lens.program.origins import origins
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.load.module import ModuleDump


@dataclass(frozen=True, kw_only=True)
class SourceBytes(Result):
    """Source lines by the bytes that their instructions produce, largest first.

    Attributes:
        lines: File, 1-based line (None if only the file is known), bytes, instructions.
        parameters: Bytes and number of the program's parameters without a place.
        unattributed: Bytes and number of all others without a place.
        unknown_sizes: Number of counted instructions of unknown size.
    """

    KIND: ClassVar[str] = "source-bytes"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("source_file", Unit.NONE, "file of the user's program"),
        Column("source_line", Unit.NONE, "1-based line in it"),
        Column("result_bytes", Unit.BYTES, "bytes its instructions produce, logical"),
        Column("instructions", Unit.COUNT, "how many instructions produce them"),
    )
    RECORDS: ClassVar[str] = "lines"
    lines: tuple[tuple[str, int | None, int, int], ...]
    parameters: tuple[int, int]
    unattributed: tuple[int, int]
    unknown_sizes: int

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the rows of instructions without a place."""
        return (
            ("[parameters]", None, *self.parameters),
            ("[unattributed]", None, *self.unattributed),
        )

    def totals(self) -> Mapping[str, int]:
        """Return bytes and instructions of lines and residuals."""
        every = [(size, count) for _, _, size, count in self.lines]
        every += [self.parameters, self.unattributed]
        return {
            "result_bytes": sum(size for size, _ in every),
            "instructions": sum(count for _, count in every),
        }


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
    lines = [(file, line, size, count) for (file, line), (size, count) in found.items()]
    return SourceBytes(
        lines=tuple(sorted(lines, key=lambda row: (-row[2], row[0], row[1] or 0))),
        parameters=(parameters[0], parameters[1]),
        unattributed=(unattributed[0], unattributed[1]),
        unknown_sizes=list(table.produced_bytes).count(None),
    )
