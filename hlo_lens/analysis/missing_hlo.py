"""Why a module has no HLO text: what XLA writes it with, and the other texts that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.text.dump_kinds import BUFFER_PARTS, TEXT_FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.model.dump import ModuleDump

NO_HLO = f"no HLO text; XLA writes it with {TEXT_FLAGS}"
NOT_COMPILED = (
    "not compiled yet: no memory, no inserted collectives; print lowered.compile().as_text(), or"
    f" compile with {TEXT_FLAGS} (lowered.as_text('hlo') is the program before optimizations)"
)


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
