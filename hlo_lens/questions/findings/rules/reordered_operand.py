"""An operand of a product is transposed or copied into another layout first.

What:
    A transpose, or a copy into another layout, makes a large operand of a dot or convolution, and
    is not fused with it.

Why it costs:
    The operand is read and written once more than needed, and a second copy of it is in memory
    until the product is done.

Fix:
    Store the array in the order in which it is contracted: write the einsum for the stored order
    instead of x.T or jnp.swapaxes before it, or transpose parameters once, when they are created.

Fine when:
    The product is much longer than the copy. Operands that are not alive at the peak are an info.
    CPU's compiler lays operands out for its libraries, so this rule does not look at CPU dumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.origins import origins
from hlo_lens.program.summary import backend_of_dump, hlo_text, instruction_table
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import PEAK, ModuleRule
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump

_LEAST_BYTES = 1 << 20
_LEAST_SHARE = 0.01
"""Least share of what must fit of an operand."""

_MOST = 10
"""Most operands that are findings, the largest ones."""


def reordered_operand(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each of the largest operands that are laid out again."""
    memory = memory_results(known)
    if memory is None or memory.peak is None or backend_of_dump(known) in (None, "cpu"):
        return
    least = max(_LEAST_BYTES, int(_LEAST_SHARE * memory.statement.total_bytes))
    rows = instruction_table(known).rows_of({"copy", "transpose"})
    sizes = [(instruction_table(known).result_bytes(row) or 0, row) for row in rows]
    alive = {one.value for one in memory.peak.live}
    found = 0
    for size, row in sorted((one for one in sizes if one[0] >= least), key=lambda o: (-o[0], o[1])):
        product = _product(known, row)
        if product is None or found == _MOST:
            continue
        found += 1
        instruction = hlo_text(known).instruction(row)
        is_alive = f"{instruction.name}{{}}" in alive
        yield Finding(
            message=(
                f"{instruction.opcode} {instruction.name} of {format_bytes(size)} only lays out an "
                f"operand of {product}"
            ),
            fix="store the array in the order in which it is contracted, or write the einsum for "
            "the stored order",
            **at(origins(known).place(row)),
            values=(instruction.name,),
            evidence=(f"{instruction.operand_shape(0)} becomes {instruction.shape_text}",),
            saves=Saves.up_to(size) if is_alive else Saves(),
            severity=None if is_alive else Severity.INFO,
        )


def _product(known: ModuleDump, row: int) -> str | None:
    """Return the product that alone uses an instruction outside of fusions."""
    module = hlo_text(known)
    caller = origins(known).steps.caller(row)
    if caller is not None and module.opcodes[caller.row] == "fusion":
        return None
    instruction = module.instruction(row)
    if instruction.opcode == "copy" and str(instruction.operand_shape(0)) == str(instruction.shape):
        return None
    users = {user for user, _ in module.links.users_of(row)}
    if len(users) != 1:
        return None
    user = module.instruction(users.pop())
    return user.name if opcode_traits(user.opcode).is_contraction else None


RULE = ModuleRule("L001", reordered_operand, PEAK)
