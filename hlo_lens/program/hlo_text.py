"""The HLO text of a module and the table of its instructions; the reason where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.query import InstructionTable, tabulate
from hlo_lens.load.fact import fact
from hlo_lens.text.dump_kinds import BUFFER_PARTS, TEXT_FLAGS
from hlo_lens.text.errors import MissingDumpError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

NO_HLO = f"no HLO text; XLA writes it with {TEXT_FLAGS}"
NOT_COMPILED = (
    "not compiled yet: no memory, no inserted collectives; print lowered.compile().as_text(), or"
    f" compile with {TEXT_FLAGS} (lowered.as_text('hlo') is the program before optimizations)"
)


def hlo_text(module: ModuleDump) -> HloModule:
    """Return the HLO text of the latest stage.

    Raises:
        MissingDumpError: If the module has none.
    """
    if module.hlo is None:
        raise MissingDumpError(f"{module.name}: {no_hlo_text(module)}")
    return module.hlo


@fact
def instruction_table(module: ModuleDump) -> InstructionTable:
    """Return the table of a module's instructions.

    Raises:
        MissingDumpError: If the module has no HLO text.
    """
    return tabulate(hlo_text(module))


def no_hlo_text(dump: ModuleDump) -> str:
    """Return why a module has no HLO text, and what writes one or reads what there is."""
    if dump.lowered is not None:
        return f"this is StableHLO, {NOT_COMPILED}"
    found = ", ".join(f"{what} (hlo-lens {command})" for what, command in _contents(dump))
    return f"no HLO text; this text has {found}" if found else NO_HLO


def _contents(dump: ModuleDump) -> Iterator[tuple[str, str]]:
    """Yield the contents of a text without HLO, with the command that shows each."""
    if dump.call_trees is not None:
        yield "a call tree", "tree"
    log = dump.log
    if log is not None and log.has_memory:
        yield "messages about memory", "memory"
    if log is not None and log.shardings is not None:
        yield "shardings", "sharding"
    if log is not None and log.warnings:
        yield "warnings of the compiler", "report"
    if BUFFER_PARTS.keys() & {dump.kind}:
        yield "buffers", "memory"
