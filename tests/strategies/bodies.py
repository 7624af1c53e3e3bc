"""Modules and computations while they are drawn: names, and values so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.strategies.parts import (
    JSON_LIKE,
    TEXTS,
    escaped,
    literal,
    metadata,
    sharding,
    with_layout,
)
from tests.strategies.programs import Array, Computation, Instruction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass
class Builder:
    """Builds one module: makes names, collects computations.

    Attributes:
        ways: How another value of a computation can be made.
        frames: How many stack frames the module has.
    """

    draw: st.DrawFn
    ways: Sequence[Callable[[Body], None]]
    frames: int = 0
    computations: list[Computation] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def name(self, stem: str) -> str:
        """Return an unused name."""
        return f"{stem}.{next(self._numbers)}"

    def pick(self, *choices: str) -> str:
        """Return one of some words."""
        return self.draw(st.sampled_from(choices))

    def add(self, stem: str, instructions: Sequence[Instruction]) -> str:
        """Add a computation and return its name."""
        *most, last = instructions
        name = self.name(stem)
        made = Computation(name, (*most, replace(last, is_root=True)))
        self.computations.append(made)
        return name

    def reducer(self, element: str) -> str:
        """Return a computation of two scalars."""
        scalar = Array(element)
        a = Instruction(self.name("a"), scalar, "parameter", inner="0")
        b = Instruction(self.name("b"), scalar, "parameter", inner="1")
        opcode = "or" if element == "pred" else self.pick("add", "maximum", "minimum")
        total = Instruction(self.name(opcode), scalar, opcode, (a.name, b.name))
        return self.add("region", (a, b, total))


class Body:
    """Builds one computation: values so far, and the ways to make another of them."""

    def __init__(self, builder: Builder, parameters: Sequence[Array], depth: int) -> None:
        self.builder = builder
        self.draw = builder.draw
        self.depth = depth
        self.instructions: list[Instruction] = []
        for number, shape in enumerate(parameters):
            self.emit("param", shape, "parameter", inner=str(number))

    def emit(
        self,
        stem: str,
        shape: Array,
        opcode: str,
        *operands: Instruction,
        inner: str = "",
        **attributes: str,
    ) -> Instruction:
        """Add an instruction and return it; attribute names are given with ``_`` for ``-``."""
        made = Instruction(
            name=self.builder.name(stem),
            shape=shape,
            opcode=opcode,
            operands=tuple(operand.name for operand in operands),
            inner=inner,
            attributes=(*attributes.items(), *self._common(shape)),
        )
        self.instructions.append(made)
        return made

    def _common(self, shape: Array) -> list[tuple[str, str]]:
        """Return attributes that every instruction may have, in the order of XLA's printer."""
        draw, found = self.draw, []
        if draw(st.integers(0, 3)):
            return []
        if draw(st.booleans()):
            found.append(("sharding", sharding(draw, shape)))
        if draw(st.booleans()):
            value = draw(st.one_of(TEXTS.map(escaped), st.just('{mesh = <["x"=2]>}')))
            found.append(("frontend_attributes", f'{{_a="b",xla.sdy.k={value}}}'))
        if draw(st.booleans()) and self.instructions:
            before = draw(st.sampled_from(self.instructions))
            found.append(("control-predecessors", f"{{%{before.name}}}"))
        if draw(st.booleans()):
            found.append(("metadata", metadata(draw, self.builder.frames)))
        if draw(st.booleans()):
            found.append(("backend_config", draw(JSON_LIKE | TEXTS.map(escaped))))
        return found

    def arrays(self, *types: str, rank: int = 0) -> list[Instruction]:
        """Return the values that are arrays of some types and of a least rank."""
        return [
            i
            for i in self.instructions
            if i.shape.parts is None
            and i.shape.type not in ("token", "")
            and (not types or i.shape.type in types)
            and len(i.shape.sizes) >= rank
        ]

    def one(self, *types: str, rank: int = 0) -> Instruction:
        """Return such a value; a new constant if there is none."""
        found = self.arrays(*types, rank=rank)
        if found:
            return _picked(self.draw, found)
        shape = Array(types[0] if types else "f32", (2,) * rank)
        return self.constant(with_layout(self.draw, shape))

    def constant(self, shape: Array) -> Instruction:
        """Return a new constant."""
        return self.emit("constant", shape, "constant", inner=literal(self.draw, shape))

    def like(self, value: Instruction) -> Instruction:
        """Return a value that has the shape of another."""
        found = [i for i in self.instructions if i.shape.key == value.shape.key]
        return _picked(self.draw, found)

    def grow(self, steps: int) -> None:
        """Add some instructions."""
        for _ in range(steps):
            self.draw(st.sampled_from(self.builder.ways))(self)

    def callee(self, stem: str, operands: Sequence[Instruction]) -> tuple[str, Array]:
        """Return a new computation with parameters for some values, and the shape of its result."""
        inner = Body(self.builder, [i.shape for i in operands], self.depth + 1)
        inner.grow(self.draw(st.integers(1, 3)) if self.depth < 2 else 1)
        result = inner.instructions[-1].shape
        return self.builder.add(stem, inner.instructions), result


def _picked(draw: st.DrawFn, found: Sequence[Instruction]) -> Instruction:
    return draw(st.sampled_from(found))
