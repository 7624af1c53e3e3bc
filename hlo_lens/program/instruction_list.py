"""Instructions of a program, or of one of its computations, in the order of the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.origins import Origins


@dataclass(frozen=True, kw_only=True)
class InstructionList(Result):
    """Instructions with their origins.

    Attributes:
        module: The module.
        origins: Origins of its values.
        listed: Rows of the instructions, in their final order.
    """

    KIND: ClassVar[str] = "instructions"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", Unit.NONE, "instruction name"),
        Column("opcode", Unit.NONE, "opcode as written"),
        Column("shape", Unit.NONE, "result shape, as written"),
        Column("source", Unit.NONE, "source line that it comes from"),
        Column("op_name", Unit.NONE, "scope path of the framework"),
        Column("computation", Unit.NONE, "computation that holds it"),
        Column("users", Unit.COUNT, "instructions that use its result"),
        Column("origin_basis", Unit.NONE, "way that op_name and source were found"),
    )
    RECORDS: ClassVar[str] = "listed"
    module: HloModule = field(repr=False)
    origins: Origins = field(repr=False)
    listed: Sequence[int] = field(repr=False)

    def rows(self) -> Iterator[Row]:
        """Yield the rows."""
        module = self.module
        owners, names = module.links.owners, module.computation_names
        for row in self.listed:
            origin = self.origins.of_row(row)
            yield (
                module.columns.name(row),
                module.opcodes[row],
                module.shape_texts[row],
                origin.source,
                origin.op_name,
                names[owners[row]],
                len(users_of(module, row)),
                origin.basis,
            )


def instruction_list(
    module: HloModule, origins: Origins, computation: str | None = None
) -> InstructionList:
    """Return the instructions of a computation; for None all, those of the entry first."""
    listed: Sequence[int] = entry_first(module, range(len(module.columns)))
    if computation is not None:
        found = module.computation(computation)
        listed = () if found is None else found.rows
    return InstructionList(module=module, origins=origins, listed=listed)


def entry_first(module: HloModule, rows: Sequence[int]) -> list[int]:
    """Return rows in text order, those of the entry before the others."""
    owners, entry = module.links.owners, module.entry.place if module.has_entry else NOTHING
    return sorted(rows, key=lambda row: (owners[row] != entry, row))


def users_of(module: HloModule, row: int) -> list[int]:
    """Return the rows of the instructions that use a result, each once, in text order."""
    return list(dict.fromkeys(user for user, _ in module.links.users_of(row)))
