"""Outputs of an instruction that are written into the bytes of an operand.

For fusions see `hlo_lens.buffers.estimate.fused_bodies`.

Source: xla/hlo/analysis/alias_info.cc, GetInPlaceInputOutputPairs, as of August 2026.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.buffers.columns import parse_index
from hlo_lens.hlo.opcodes import opcodes_where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.buffers.estimate.shape_tree import ShapeTree
    from hlo_lens.shapes.shape import ShapeIndex

IN_PLACE = opcodes_where(lambda one: one.is_in_place)
"""Opcodes that may write into an operand without an ``output_to_operand_aliasing``."""

_ALIAS_PAIR = re.compile(r"\{([\d,\s]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}")


def in_place_pairs(
    opcode: str, count: int, tree: ShapeTree
) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
    """Yield operand number and index, and the output index that must share its bytes.

    Args:
        opcode: Opcode of an instruction.
        count: How many operands it has.
        tree: Its shape.
    """
    if opcode in ("dynamic-update-slice", "set-dimension-size"):
        yield 0, (), ()
    elif opcode in ("scatter", "all-reduce-start"):
        held = (count - 1) // 2 if opcode == "scatter" else count
        if held == 1:
            yield 0, (), ()
        else:
            yield from ((k, (), (k,)) for k in range(held))
    elif opcode == "ragged-all-to-all":
        yield 1, (), ()
    elif opcode in ("collective-permute", "collective-permute-start") and count == 4:
        yield from _permute_pairs(opcode, tree)


def _permute_pairs(opcode: str, tree: ShapeTree) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
    """Yield the pairs of a collective-permute that writes into operand 1."""
    prefix = (1,) if opcode.endswith("start") else ()
    node = tree.at(prefix)
    if node is None:
        return
    yield 1, (), prefix
    for k in range(len(tree.children(node))):
        yield 1, (k,), (*prefix, k)


def aliasing_pairs(attributes: str) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
    """Yield the pairs of ``output_to_operand_aliasing={{}: (0, {})}``, as `in_place_pairs` does."""
    start = attributes.find("output_to_operand_aliasing=")
    end = attributes.find("}}", start)
    closed = attributes.find(")}", start)
    text = attributes[start : max(end, closed) + 2]
    for match in _ALIAS_PAIR.finditer(text):
        yield int(match[2]), parse_index(match[3]), parse_index(match[1])
