"""A donated argument, or what a loop carries, is copied whole.

What:
    The compiled program copies a donated argument into memory of its own before it writes the
    result, or the body of a loop copies a whole value that it carries, in each iteration, to
    overwrite a part of it.

Why it costs:
    XLA copies where the old value is still read after the new one is written. The copy takes the
    bytes that the donation was to save, if it is alive at the peak, and the time to move them, in a
    loop once for each iteration.

Fix:
    Read the old value before the update is made, and return the updated value only: in a loop carry
    one version, update it with .at[i].set(...), and use what was read before. Compare the old and
    new value in another function.

Fine when:
    Old and new value are both needed. Copies that are not alive at the peak are an info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.findings.finding import Finding, Saves, Severity
from hlo_lens.analysis.findings.rule import ModuleRule
from hlo_lens.analysis.program.value_steps import Value
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.module_analysis import ModuleAnalysis

_LEAST_BYTES = 1 << 20
_LEAST_SHARE = 0.01
"""Least share of what must fit of a copy."""

_MOST = 10
"""Most copies that are findings, the largest ones."""


def lost_alias(known: ModuleAnalysis) -> Iterator[Finding]:
    """Yield a finding for each of the largest copies of donated and carried values."""
    memory = known.memory
    if memory is None or memory.peak is None:
        return
    least = max(_LEAST_BYTES, int(_LEAST_SHARE * memory.statement.total_bytes))
    sizes = [(known.table.result_bytes(row) or 0, row) for row in known.table.rows_of({"copy"})]
    alive = {one.value for one in memory.peak.live}
    found = 0
    for size, row in sorted((one for one in sizes if one[0] >= least), key=lambda o: (-o[0], o[1])):
        what = _copied(known, row)
        if what is None or found == _MOST:
            continue
        found += 1
        name = known.module.instruction(row).name
        is_alive = f"{name}{{}}" in alive
        yield Finding(
            message=f"{what} is copied whole ({format_bytes(size)})",
            fix="read the old value before the update, and use only the new one afterwards",
            place=known.origins.place(row),
            values=(name,),
            evidence=("the copy is alive at the peak",) if is_alive else (),
            saves=Saves.at_most(size) if is_alive else Saves(),
            severity=None if is_alive else Severity.INFO,
        )


def _copied(known: ModuleAnalysis, row: int) -> str | None:
    """Return the donated or carried value that an instruction copies in the same layout."""
    module, steps = known.module, known.origins.steps
    copy = module.instruction(row)
    operand = steps.operand(row, 0)
    before = copy.operand_shape(0)
    if operand is None or before is None or str(before) != str(copy.shape):
        return None
    source = steps.definition(Value(*operand), is_local=True)
    if steps.opcodes[source.row] != "parameter":
        return None
    number = module.instruction(source.row).parameter_number
    if module.computations[module.links.owners[row]].is_entry:
        aliases = module.input_output_alias
        donated = {(one.parameter_number, one.parameter_index) for one in aliases}
        if (number, source.element) not in donated:
            return None
        path = known.origins.places.op_name(source.row)
        return f"donated argument {path or module.instruction(source.row).name}"
    call = steps.caller(source.row)
    if call is None or call.role != "body" or not source.element:
        return None
    users = {user for user, _ in module.links.users_of(row)}
    same = [user for user in users if module.instruction(user).shape == copy.shape]
    if not any(steps.update(Value(user)) for user in same):
        return None
    return f"element {source.element[0]} that {module.instruction(call.row).name} carries"


RULE = ModuleRule("M005", lost_alias)
