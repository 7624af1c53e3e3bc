"""Opcodes and shapes of a whole module as columns of numbers, one per distinct text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.model.hlo.columns import OPCODE, OPCODE_END, SHAPE, SHAPE_END, STRIDE

if TYPE_CHECKING:
    from hlo_lens.model.hlo.module import HloModule


class Numbers(dict[str, int]):
    """Numbers of distinct texts, in the order in which they are first asked for."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class TextColumns:
    """Opcode and shape of each row of a module.

    Args:
        module: The module.

    Attributes:
        opcodes: Opcodes and their numbers.
        opcode: Number of the opcode of each row.
        shapes: Shapes as written and their numbers.
        shape: Number of the shape of each row.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.opcodes = Numbers()
        self.shapes = Numbers()
        self.opcode = self._numbered(self.opcodes, OPCODE, OPCODE_END)
        self.shape = self._numbered(self.shapes, SHAPE, SHAPE_END)

    def _numbered(self, numbers: Numbers, first: int, last: int) -> list[int]:
        text, spans = self.module.columns.source.text, self.module.columns.spans
        parts = map(slice, spans[first::STRIDE], spans[last::STRIDE])
        return list(map(numbers.__getitem__, map(text.__getitem__, parts)))
