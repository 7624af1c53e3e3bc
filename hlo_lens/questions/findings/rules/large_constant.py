"""The program contains a large constant.

What:
    A constant of more than 1 MiB is part of the compiled program: an array that the function closed
    over, or one that XLA computed at compile time (constant folding).

Why it costs:
    Its bytes on every device, whole, during the whole program, and again in each program that has
    it; and time to compile, because XLA hashes, copies and prints it.

Fix:
    Pass the array as an argument of the jitted function, with a sharding. If XLA folded it, let it
    depend on an argument, or compute it from smaller arrays (jnp.arange, broadcasting) where it is
    used.

Fine when:
    It is a table that all devices need whole, and the program is compiled once. An array that the
    function closed over is an info: as an argument it takes the same memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.origins import origins
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

_LEAST_BYTES = 1 << 20
_MOST_SHOWN = 10


def large_constant(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each of the largest constants."""
    table = instruction_table(known)
    sizes = [(table.result_bytes(row) or 0, row) for row in table.rows_of({"constant"})]
    large = sorted((one for one in sizes if one[0] > _LEAST_BYTES), reverse=True)[:_MOST_SHOWN]
    before = known.before if large else None
    written = set() if before is None else _constant_shapes(before)
    for size, row in large:
        instruction = hlo_text(known).instruction(row)
        shape = instruction.shape_text.partition("{")[0]
        is_folded = before is not None and shape not in written
        how = ", which XLA computed at compile time" if is_folded else ""
        yield Finding(
            message=f"constant {shape} of {format_bytes(size)}{how}",
            fix="let it depend on an argument, or compute it from smaller arrays"
            if is_folded
            else "pass the array as an argument of the jitted function, with a sharding",
            **at(origins(known).place(row)),
            values=(instruction.name,),
            saves=Saves.up_to(size) if is_folded else Saves(),
            severity=None if is_folded else Severity.INFO,
        )


def _constant_shapes(module: HloModule) -> set[str]:
    """Return the shapes of the constants of a text."""
    return {
        module.instruction(row).shape_text.partition("{")[0]
        for row, opcode in enumerate(module.opcodes)
        if opcode == "constant"
    }


RULE = ModuleRule("M008", large_constant)
