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
    Old and new value are both needed. Copies that are not alive at the peak are an info. Those that
    only the order of XLA's schedule asks for are no findings, since no change of the program is
    known to avoid them; nor are those of replicated arguments that are used in parts (M003).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.program.origins import origins
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import PEAK, ModuleRule
from hlo_lens.questions.findings.values import is_own_slice, operands_of, uses_of
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.load.module import ModuleDump

_LEAST_BYTES = 1 << 20
_LEAST_SHARE = 0.01
"""Least share of what must fit of a copy."""

_MOST_STEPS = 1000

_MOST = 10
"""Most lines that are findings, those of the largest copies."""


class _Copy(NamedTuple):
    """A copy of a donated or carried value.

    Attributes:
        name: The copy.
        what: What is copied.
        size: Its bytes.
        is_alive: Whether it is alive at the peak.
    """

    name: str
    what: str
    size: int
    is_alive: bool


def lost_alias(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for the copies of donated and of carried values of each line."""
    memory = memory_results(known)
    if memory is None or memory.peak is None:
        return
    least = max(_LEAST_BYTES, int(_LEAST_SHARE * memory.statement.total_bytes))
    sizes = [
        (instruction_table(known).result_bytes(row) or 0, row)
        for row in instruction_table(known).rows_of({"copy"})
    ]
    alive = {one.value for one in memory.peak.live}
    groups: dict[tuple[SourceLocation | None, int, str], list[_Copy]] = {}
    for size, row in sorted((one for one in sizes if one[0] >= least), key=lambda o: (-o[0], o[1])):
        what = _copied(known, row)
        if what is not None and _is_needed(known, row):
            name = hlo_text(known).instruction(row).name
            place = origins(known).place(row)
            loop = hlo_text(known).links.owners[row]
            one = _Copy(name, what, size, f"{name}{{}}" in alive)
            groups.setdefault((place, loop, name if place is None else ""), []).append(one)
    for (place, *_), copies in itertools.islice(groups.items(), _MOST):
        yield _finding(known, place, copies)


def _finding(known: ModuleDump, place: SourceLocation | None, copies: Sequence[_Copy]) -> Finding:
    size = sum(one.size for one in copies)
    held = sum(one.size for one in copies if one.is_alive)
    more = f" and {plural(len(copies) - 1, 'other value')}" if len(copies) > 1 else ""
    are = "are" if more else "is"
    return Finding(
        message=f"{copies[0].what}{more} {are} copied whole ({format_bytes(size)})",
        fix="read the old value before the update, and use only the new one afterwards",
        **at(place),
        values=tuple(one.name for one in copies),
        evidence=(f"{format_bytes(held)} of copies are alive at the peak",) if held else (),
        saves=Saves.up_to(held) if held else Saves(),
        severity=None if held else Severity.INFO,
    )


def _is_needed(known: ModuleDump, row: int) -> bool:
    """Return whether what is computed from the new value reads the old one too.

    True for copies in loops, and where the text does not show the new value.
    """
    module, steps = hlo_text(known), origins(known).steps
    operand = steps.operand(row, 0)
    root = module.entry.root
    if (
        operand is None
        or root is None
        or not module.computations[module.links.owners[row]].is_entry
    ):
        return True
    source = steps.definition(Value(*operand), is_local=True)
    number = module.instruction(source.row).parameter_number
    readers = {user for one in (source.row, row) for user, _ in module.links.users_of(one)} - {row}
    is_tuple = root.opcode == "tuple"
    results = operands_of(module, root.row) if is_tuple else [Value(root.row)]
    for alias in module.input_output_alias:
        place = alias.output_index[0] if alias.output_index else 0
        is_shown = place < len(results) and results[place].row != NOTHING
        if alias.parameter_number == number and is_shown:
            new = steps.definition(results[place], is_local=True).row
            return not readers.isdisjoint(_computed_from(known, new))
    return True


def _computed_from(known: ModuleDump, row: int) -> set[int]:
    """Return what is computed from a value, nearest first, up to a limit."""
    seen: set[int] = set()
    waiting = [row]
    while waiting and len(seen) < _MOST_STEPS:
        new = {user for user, _ in hlo_text(known).links.users_of(waiting.pop())} - seen
        seen |= new
        waiting += new
    return seen


def _is_divided_again(known: ModuleDump, row: int, number: int | None) -> bool:
    """Return whether a device uses its part of a copied argument that is replicated (M003)."""
    shardings = sharding_results(known)
    savings = () if shardings is None else shardings.replicated.savings
    uses = uses_of(hlo_text(known), Value(row)) or ()
    return any(one.value.value.number == number for one in savings) and any(
        is_own_slice(hlo_text(known), use) for use in uses
    )


def _copied(known: ModuleDump, row: int) -> str | None:
    """Return the donated or carried value that an instruction copies in the same layout."""
    module, steps = hlo_text(known), origins(known).steps
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
        if (number, source.element) not in donated or _is_divided_again(known, row, number):
            return None
        path = origins(known).places.op_name(source.row)
        return f"donated argument {path or module.instruction(source.row).name}"
    call = steps.caller(source.row)
    if call is None or call.role != "body" or not source.element:
        return None
    users = {user for user, _ in module.links.users_of(row)}
    same = [user for user in users if module.instruction(user).shape == copy.shape]
    if not any(steps.update(Value(user)) for user in same):
        return None
    return f"element {source.element[0]} that {module.instruction(call.row).name} carries"


RULE = ModuleRule("M005", lost_alias, PEAK)
