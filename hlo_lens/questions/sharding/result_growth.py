"""Temporaries that a program may need besides when one of its results is divided.

The partitioner computes elementwise operations in parts as their result is divided, and cuts an
argument. For a product it cuts an operand, into a temporary. What a collective, a loop, a custom
call or the body of a shard_map makes is whole first and cut then, so that the whole value is a
temporary; and so is a value that is also used otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import Value

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.origins import Origins
    from hlo_lens.shapes.shape import ShapeIndex

_MANUAL = ("shard_map", "shmap_body", "xmap")
"""Parts of the operation paths of programs for one device, which are not partitioned."""

_MOST_STEPS = 500
_RUNNERS = frozenset({"fusion", "call"})
_COPIES = frozenset({"copy", "convert", "transpose", "bitcast"})
"""Opcodes whose result is operand 0 in another form, where the dimensions remain the same."""


def result_growth(module: HloModule, origins: Origins, index: ShapeIndex) -> int:
    """Return the most bytes of temporaries that dividing a result may add; 0 if none.

    Args:
        module: The partitioned module.
        origins: Its origins.
        index: Shape index of the result.
    """
    steps, root = origins.steps, module.entry.root_row
    first = steps.definition(Value(root, index))
    if _is_argument(module, first):
        return 0
    size = steps.size(first)
    if {one.row for one in steps.users(first)} - {root}:
        return size + _operands_size(module, origins, first)
    is_manual = any(one in module.columns.source.text for one in _MANUAL)
    growth = 0
    waiting = [first]
    seen: set[Value] = set()
    while waiting:
        value = steps.definition(waiting.pop())
        if value in seen or _is_argument(module, value):
            continue
        seen.add(value)
        path = origins.places.op_name(value.row)
        is_in_body = path is None or any(one in path for one in _MANUAL)
        sources = _divided_sources(module, origins, value, is_manual=is_manual and is_in_body)
        if sources is None or len(seen) > _MOST_STEPS:
            growth += max(size, steps.size(value)) + _operands_size(module, origins, value)
        else:
            waiting += sources
    return growth


def _operands_size(module: HloModule, origins: Origins, value: Value) -> int:
    """Return the bytes of the operands of a product, which are cut; 0 of other instructions."""
    if not opcode_traits(module.opcodes[value.row]).is_contraction:
        return 0
    steps = origins.steps
    return sum(steps.size(steps.definition(one)) for one in steps.operands(value.row))


def _divided_sources(
    module: HloModule, origins: Origins, value: Value, *, is_manual: bool
) -> list[Value] | None:
    """Return the values that are divided as a value is; None if it cannot be divided."""
    steps, opcode = origins.steps, module.opcodes[value.row]
    traits = opcode_traits(opcode)
    operands = steps.operands(value.row)
    if opcode in _RUNNERS:
        inside = steps.root(value.row, "calls", "to_apply")
        return None if inside is None else [Value(inside, value.element)]
    is_convert = is_manual and opcode == "convert"
    if opcode in _COPIES and not is_convert and _has_same_dimensions(module, value.row):
        return operands
    if traits.is_sourceless:
        return []
    if is_manual:
        return None
    if opcode == "broadcast":
        return []
    return operands if traits.is_elementwise else None


def _has_same_dimensions(module: HloModule, row: int) -> bool:
    instruction = module.instruction(row)
    shape, operand = instruction.shape, instruction.operand_shape(0)
    if shape is None or operand is None:
        return False
    old, new = (sorted(map(str, one.dimensions)) for one in (operand, shape))
    return [one for one in old if one != "1"] == [one for one in new if one != "1"]


def _is_argument(module: HloModule, value: Value) -> bool:
    """Return whether a value is an argument of the program."""
    is_parameter = module.opcodes[value.row] == "parameter"
    return is_parameter and module.links.owners[value.row] == module.entry.place
