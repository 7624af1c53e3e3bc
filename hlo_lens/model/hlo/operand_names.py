"""The names of the operands of many instructions at once, cut out of their text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.model.hlo.columns import OPERANDS, OPERANDS_END, STRIDE
from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.model.hlo.module import HloModule

_CHUNK = 4096
"""Rows looked at together; their operands are held as text meanwhile."""

_PARTS = 16
_COMMENT = re.compile(r"/\*[^*]*+\*/")
_NAME = re.compile(r"%([\w.-]+)")
_TYPED = r"(?:(?:[a-z][^\s%]*+|\((?:[^\s%]|(?<=,) )*\)) )?%[\w.-]++"
_TYPED_LISTS = re.compile(rf"(?:(?:{_TYPED}(?:, {_TYPED})*+)?+\n)*+")
"""Lists in which each operand has its shape in front, as XLA printed them until 2024."""


class OperandNames:
    """The operands of all rows of a module, in order.

    Args:
        module: The module.

    Attributes:
        counts: How many operands each row has; 0 for a row in `odd`.
        odd: Rows whose operands need to be read one by one.
    """

    def __init__(self, module: HloModule) -> None:
        self.counts: list[int] = []
        self.odd: list[int] = []
        self._module = module

    def __iter__(self) -> Iterator[list[str]]:
        """Yield names, many rows at a time; `counts` and `odd` are filled before each yield."""
        columns, opcodes = self._module.columns, self._module.opcodes
        text, spans = columns.source.text, columns.spans
        traits = map(opcode_traits, opcodes.different)
        without = {number for number, one in enumerate(traits) if one.is_printed_value}
        for start in range(0, len(columns), _CHUNK):
            part = spans[start * STRIDE : (start + _CHUNK) * STRIDE]
            slices = map(slice, part[OPERANDS::STRIDE], part[OPERANDS_END::STRIDE])
            lists = list(map(text.__getitem__, slices))
            for row, number in enumerate(opcodes.numbers[start : start + _CHUNK]):
                if number in without:
                    lists[row] = ""
            yield self._names(start, lists)

    def _names(self, first: int, lists: Sequence[str]) -> list[str]:
        """Return the names in some lists; those that are not alike are parted until they are."""
        joined = "\n".join(lists)
        if "/*" in joined:
            joined = _COMMENT.sub("", joined)
        counts: list[int] = []
        names: list[str] = []
        if "(" not in joined and "[" not in joined:
            counts = [part.count(", ") + 1 if part else 0 for part in joined.split("\n")]
            names = joined.replace("%", "").replace("\n", ", ").split(", ")
            if 0 in counts:
                names = list(filter(None, names))
        elif _TYPED_LISTS.fullmatch(f"{joined}\n"):
            counts = [part.count("%") for part in joined.split("\n")]
            names = _NAME.findall(joined)
        if len(counts) == len(lists) and sum(counts) == len(names):
            self.counts += counts
            return names
        if len(lists) == 1:
            self.counts.append(0)
            self.odd.append(first)
            return []
        size = -(-len(lists) // _PARTS)
        found: list[str] = []
        for start in range(0, len(lists), size):
            found += self._names(first + start, lists[start : start + size])
        return found
