"""Columns of tables with the saving of a finding in each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.render.result import Column, Unit

if TYPE_CHECKING:
    from hlo_lens.questions.findings.finding import Saves
    from hlo_lens.render.result import Row

SAVING_COLUMNS = (
    Column("saved_bytes", Unit.BYTES, "memory of each device that the fix saves"),
    Column("own_bytes", Unit.BYTES, "part of it of the values of the finding themselves"),
    Column("basis", Unit.NONE, "how sure the saving is: proven or at most"),
    Column("wire_bytes", Unit.BYTES, "bytes that each device sends less in one run"),
    Column("flops", Unit.FLOPS, "arithmetic that each device is spared in one run"),
    Column("seconds", Unit.SECONDS, "time that a step is shorter"),
)


def saving_cells(saves: Saves) -> Row:
    """Return the cells of a saving, one for each of `SAVING_COLUMNS`."""
    return (
        *(saves.bytes, saves.own_bytes, saves.basis),
        *(saves.wire_bytes, saves.flops, saves.seconds),
    )
