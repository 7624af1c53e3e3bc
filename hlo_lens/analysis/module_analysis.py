"""All passes on one module, from one table of its instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.collectives.collectives import Collectives, collectives
from hlo_lens.analysis.program.entry_signature import EntrySignature, entry_signature
from hlo_lens.analysis.program.largest_instructions import LargestInstructions, largest_instructions
from hlo_lens.analysis.program.opcodes import Opcodes, opcodes
from hlo_lens.analysis.program.source_bytes import SourceBytes, source_bytes
from hlo_lens.analysis.program.summary import Summary, summary
from hlo_lens.analysis.sharding.forms import ShardingForms, sharding_forms
from hlo_lens.model.hlo.query import tabulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.hlo.query import InstructionTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleResults:
    """What all passes say of one module, and the table that they were made from."""

    table: InstructionTable
    summary: Summary
    signature: EntrySignature
    opcodes: Opcodes
    largest: LargestInstructions
    sources: SourceBytes
    collectives: Collectives
    shardings: ShardingForms


def module_results(
    module: HloModule,
    *,
    before: Callable[[], HloModule | None] | None = None,
    with_operands: bool = False,
) -> ModuleResults:
    """Return the results of all passes on a module, from one table of its instructions.

    Args:
        module: The module.
        before: Gives its text from before optimizations; asked where only that names mesh axes.
        with_operands: Whether operands that are not defined are looked for in a module of any size.
    """
    table = tabulate(module)
    return ModuleResults(
        table=table,
        summary=summary(table, with_operands=with_operands),
        signature=entry_signature(table),
        opcodes=opcodes(table),
        largest=largest_instructions(table),
        sources=source_bytes(table),
        collectives=collectives(table, before=before),
        shardings=sharding_forms(table),
    )
