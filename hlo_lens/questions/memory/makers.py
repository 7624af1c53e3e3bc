"""Instructions and values by the names that dumps print, and the loops around an instruction."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.hlo.query import rows_named
from hlo_lens.program.value_flow import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule

_DIGITS = re.compile(r"\d+")
_STEPS = 64
"""Loops around an instruction that are followed, at most."""


def values_of(module: HloModule | None, names: Iterable[str]) -> dict[str, Value]:
    """Return values by the name that dumps print, those whose instruction the module has.

    Args:
        module: The HLO text; None for none, which gives no values.
        names: Instruction name and shape index: ``fusion.3{1}``.
    """
    if module is None:
        return {}
    parts = [(one, *one.partition("{")[::2]) for one in names]
    rows = rows_of_names(module, {name for _, name, _ in parts})
    return {
        one: Value(rows[name], tuple(map(int, _DIGITS.findall(element))))
        for one, name, element in parts
        if name in rows
    }


def instructions_by_name(module: HloModule, names: set[str]) -> dict[str, HloInstruction]:
    """Return the instruction of each name; of several, the one in the first computation."""
    rows = rows_of_names(module, names)
    return {name: module.instruction(row) for name, row in rows.items()}


def rows_of_names(module: HloModule, names: set[str]) -> dict[str, int]:
    """Return the row of the instruction of each name, as `instructions_by_name`."""
    owners = module.links.owners
    found: dict[str, tuple[int, int]] = {}
    for row, name in rows_named(module, names):
        place = (owners[row], row)
        found[name] = min(found.get(name, place), place)
    return {name: row for name, (_, row) in found.items()}


def loop_path(instruction: HloInstruction) -> tuple[str, ...]:
    """Return the names of the loops around an instruction, outermost first."""
    path: list[str] = []
    loop = _loop_around(instruction)
    while loop is not None and len(path) < _STEPS:
        path.append(loop.name)
        loop = _loop_around(loop)
    return tuple(reversed(path))


def _loop_around(instruction: HloInstruction) -> HloInstruction | None:
    """Return the loop whose body or condition has an instruction; of several the last."""
    callers = instruction.computation.callers
    return next((caller for caller in reversed(callers) if caller.opcode == "while"), None)
