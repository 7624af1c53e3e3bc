"""Modules printed in the styles of XLA, and in none of them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.strategies.programs import NAMING, Array, numbered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.strategies.programs import Computation, Instruction, Module


@dataclass(frozen=True)
class Style:
    """Style in which a module is printed.

    Attributes:
        percent: Names begin with ``%``.
        signatures: Computations print their parameters and result.
        operand_shapes: Operands print their shapes.
        index_comments: ``/*index=5*/`` before each fifth operand and tuple element.
        trailers: ``// name`` after each computation.
        line_end: End of a line; a space for a module on one line.
        filler: Seed of the white space and comments between tokens; None for XLA's layout.
    """

    percent: bool = True
    signatures: bool = True
    operand_shapes: bool = False
    index_comments: bool = True
    trailers: bool = False
    line_end: str = "\n"
    filler: int | None = None


LONG = Style()
SHORT = Style(percent=False, signatures=False)
LAYOUT_ONLY = {
    "CRLF": Style(line_end="\r\n"),
    "CR": Style(line_end="\r"),
    "one line": Style(line_end=" "),
    "without index comments": Style(index_comments=False),
    "trailers": Style(trailers=True),
    "filled": Style(filler=1),
    "filled otherwise": Style(filler=2),
}
"""Styles that differ from the long one only in white space and comments."""
STYLES = {
    "long": LONG,
    "short": SHORT,
    "operand shapes": Style(operand_shapes=True),
    "short with operand shapes": Style(percent=False, operand_shapes=True),
    "short on one line": Style(percent=False, signatures=False, line_end=" "),
    "short with trailers": Style(percent=False, signatures=False, trailers=True),
    "short and filled": Style(percent=False, signatures=False, filler=3),
    **LAYOUT_ONLY,
}


_FILLERS = (
    " ",
    "  ",
    "\n    ",
    "\t",
    " /* a (comment), {with} [all] */ ",
    " // x = f32[]\n",
    "\n\n",
)


class _Printer:
    def __init__(self, module: Module, style: Style) -> None:
        self.module = module
        self.style = style
        self._random = random.Random(style.filler)
        self._shapes = {i.name: i.shape for i in module.instructions}

    def text(self) -> str:
        """Return the module's text."""
        style, module = self.style, self.module
        header = ["HloModule " + module.name]
        header += [f",{self._gap()}{name}={self._gap('')}{v}" for name, v in module.header]
        parts = ["".join(header)]
        if module.tables and style.line_end != " ":
            parts += ["", *module.tables.split("\n")]
        for computation in module.computations:
            parts += ["", *self._computation(computation)]
        return style.line_end.join([*parts, "", ""])

    def _gap(self, usual: str = " ") -> str:
        if self.style.filler is None:
            return usual
        return self._random.choice(_FILLERS) if self._random.random() < 0.3 else usual

    def _name(self, name: str) -> str:
        return f"%{name}" if self.style.percent else name

    def _shape(self, shape: Array, *, layout: bool = True) -> str:
        return shape.text(layout=layout, comments=self.style.index_comments)

    def _computation(self, computation: Computation) -> Iterator[str]:
        head = "ENTRY" + self._gap() if computation.is_entry else ""
        head += self._name(computation.name) + self._gap()
        if self.style.signatures:
            given = ", ".join(
                f"{p.name}: {self._shape(p.shape, layout=False)}" for p in computation.parameters
            )
            result = self._shape(computation.result, layout=False)
            head += f"({given}){self._gap()}->{self._gap()}{result}{self._gap()}"
        yield head + "{"
        for instruction in computation.instructions:
            yield "  " + self._instruction(instruction)
        trailer = f" // {computation.name}" if self.style.trailers else ""
        yield "}" + trailer

    def _instruction(self, instruction: Instruction) -> str:
        gap = self._gap
        root = f"ROOT{gap()}" if instruction.is_root else ""
        inner = instruction.inner
        if instruction.operands:
            shown = [self._operand(name) for name in instruction.operands]
            shown = numbered(shown) if self.style.index_comments else shown
            inner = f",{gap()}".join(shown)
        attributes = "".join(
            f",{gap()}{name}={gap('')}{self._value(name, value)}"
            for name, value in instruction.attributes
        )
        return (
            f"{root}{self._name(instruction.name)}{gap()}={gap()}{self._shape(instruction.shape)}"
            f"{gap()}{instruction.opcode}({gap('')}{inner}{gap('')}){attributes}"
        )

    def _operand(self, operand: str) -> str:
        name, *indices = operand.split("#")
        shape = self._shapes[name]
        for index in indices:
            assert shape.parts is not None
            shape = shape.parts[int(index)]
        shown = f"{self._shape(shape)}{self._gap()}" if self.style.operand_shapes else ""
        return shown + self._name(operand)

    def _value(self, name: str, value: str) -> str:
        return value if self.style.percent or name not in NAMING else value.replace("%", "")


def print_module(module: Module, style: Style = LONG) -> str:
    """Return the text of a module in a style. On one line there are no stack frame tables."""
    return _Printer(module, style).text()
