"""Instructions that made the values in memory, and the loops around an instruction.

The maker of a value that a loop carries, or that a tuple or bitcast passes on, is the instruction
that computed its first version.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.model.hlo.instruction import HloInstruction
from hlo_lens.model.hlo.opcodes import opcode_traits
from hlo_lens.model.hlo.query import rows_named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.model.hlo.module import HloModule

_STEPS = 64
"""Steps by which a carried value is followed back to its maker, at most."""


def makers_of(module: HloModule | None, values: Iterable[str]) -> dict[str, HloInstruction]:
    """Return the instruction that made each value, for values whose instruction the module has.

    Args:
        module: The HLO text; None for none, which gives no makers.
        values: Instruction name and shape index: ``fusion.3{1}``.
    """
    if module is None:
        return {}
    parts = [(value, *value.partition("{")[::2]) for value in values]
    found = instructions_by_name(module, {name for _, name, _ in parts})
    return {value: _maker(found[name], index) for value, name, index in parts if name in found}


def instructions_by_name(module: HloModule, names: set[str]) -> dict[str, HloInstruction]:
    """Return the instruction of each name; of several, the one in the first computation."""
    owners = module.links.owners
    found: dict[str, tuple[int, int]] = {}
    for row, name in rows_named(module, names):
        place = (owners[row], row)
        found[name] = min(found.get(name, place), place)
    computations = module.computations
    return {name: HloInstruction(computations[k], row) for name, (k, row) in found.items()}


_DIGITS = re.compile(r"\d+")


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


def _maker(instruction: HloInstruction, index_text: str) -> HloInstruction:
    """Return the instruction that made a value, before loops and views passed it on."""
    index = [int(digits) for digits in _DIGITS.findall(index_text)]
    for _ in range(_STEPS):
        if instruction.opcode == "tuple" and index:
            position, *index = index
            step = position
        elif instruction.opcode == "get-tuple-element":
            index = [int(instruction.attributes.get("index", 0)), *index]
            step = 0
        elif instruction.opcode == "while" or _passes_on(instruction.opcode):
            step = 0
        elif instruction.opcode == "parameter" and (loop := _loop_around(instruction)) is not None:
            instruction = loop
            continue
        else:
            return instruction
        before = instruction.producer(step)
        if before is None:
            return instruction
        instruction, element = before
        index = [*element, *index]
    return instruction


def _passes_on(opcode: str) -> bool:
    """Return whether the result of an opcode is the array of its operand 0."""
    traits = opcode_traits(opcode)
    return traits.is_view and traits.is_forwarding
