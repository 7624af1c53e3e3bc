"""Parameters and outputs of a program: names, shapes, bytes, shardings, donation.

Shapes are those of the entry computation layout, where the header prints it, else those of the
instructions. In a partitioned program they are per device, before partitioning they are global.
Where a parameter or the result is a tuple there is one row for each leaf (jax passes more than
2,000 arguments to a TPU as one tuple), unless there are more than `MOST_LEAVES`.

Donation: an output that the header's ``input_output_alias`` gives a parameter's buffer shares it,
so the two need memory once; a ``buffer_donor`` parameter may be reused for any output, and whether
it was is not in this text.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.model.hlo import HloModule
    from hlo_lens.model.hlo_instruction import HloInstruction
    from hlo_lens.model.hlo_query import InstructionTable
    from hlo_lens.model.hlo_reader import InputOutputAlias
    from hlo_lens.model.shape import Shape, ShapeIndex

    _Donation = Mapping[tuple[int | None, ShapeIndex], tuple[str, str | None]]


MOST_LEAVES = 1 << 16
"""A tuple of more arrays than this is one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryValue:
    """One parameter, or one output, or a leaf of it.

    Attributes:
        direction: ``parameter`` or ``output``.
        number: Number of the parameter; None for outputs, and where it is not printed.
        index: Shape index of the leaf as XLA prints it (``{0,1}``); empty for a whole value.
        name: Of a parameter the argument's name as the framework gave it (by itself, or as
            op_name), else the instruction's; of an output the instruction that gives it.
        shape: Shape without layout; None where it is not known.
        layout: Layout as printed, in braces; None where none is.
        size_bytes: Logical bytes.
        padded_size_bytes: Bytes with the padding of the layout's tiles.
        sharding: Sharding as written.
        donation: ``may-alias``, ``must-alias`` or ``donor``; None for neither.
        aliased_with: The output (``{0}``) or parameter (``3``, ``0{17}``) of the same buffer.
    """

    direction: str
    number: int | None
    index: str
    name: str | None
    shape: str | None
    layout: str | None
    size_bytes: int | None
    padded_size_bytes: int | None
    sharding: str | None
    donation: str | None = None
    aliased_with: str | None = None


@dataclass(frozen=True, kw_only=True)
class EntrySignature(Result):
    """Parameters by number, then outputs by index.

    Attributes:
        parameter_count: Parameters as the program counts them, a tuple as one; 0 without entry.
        parameters: Leaves of all parameters.
        outputs: Leaves of the result.
    """

    KIND: ClassVar[str] = "entry-signature"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("direction", Unit.NONE, "parameter or output"),
        Column("number", Unit.NONE, "parameter number"),
        Column("index", Unit.NONE, "shape index of the leaf"),
        Column("name", Unit.NONE, "argument name, or the instruction that gives the value"),
        Column("shape", Unit.NONE, "shape without layout"),
        Column("layout", Unit.NONE, "layout as printed"),
        Column("size_bytes", Unit.BYTES, "bytes of the elements, logical"),
        Column("padded_size_bytes", Unit.BYTES, "bytes with the padding of tiles"),
        Column("sharding", Unit.NONE, "sharding as written"),
        Column("donation", Unit.NONE, "may-alias, must-alias or donor"),
        Column("aliased_with", Unit.NONE, "what shares its buffer"),
    )
    parameter_count: int
    parameters: tuple[EntryValue, ...]
    outputs: tuple[EntryValue, ...]

    def rows(self) -> Iterator[Row]:
        """Yield the parameters, then the outputs."""
        for value in (*self.parameters, *self.outputs):
            yield tuple(getattr(value, column.name) for column in self.COLUMNS)

    @property
    def row_count(self) -> int:
        """Number of leaves of parameters and outputs."""
        return len(self.parameters) + len(self.outputs)

    @property
    def aliased_bytes(self) -> int:
        """Known bytes of outputs that have a parameter's buffer."""
        return sum(value.size_bytes or 0 for value in self.outputs if value.aliased_with)


def entry_signature(table: InstructionTable) -> EntrySignature:
    """Return parameters and outputs of a module's entry computation."""
    module = table.module
    if not module.computations:
        return EntrySignature(parameter_count=0, parameters=(), outputs=())
    instructions = _parameters(table)
    shapes = _layout_shapes(module)
    donation = _donation(module)
    sizes = _Leaves()
    parameters: list[EntryValue] = []
    for position, (number, instruction) in enumerate(instructions):
        shape = None if shapes is None else _at(shapes[0], number, position)
        if shape is None:
            shape = _shape(instruction)
        parameters.extend(_parameter(instruction, number, sizes.of(shape), donation))
    return EntrySignature(
        parameter_count=len(instructions),
        parameters=tuple(parameters),
        outputs=tuple(_outputs(module, None if shapes is None else shapes[1], sizes)),
    )


def _parameters(table: InstructionTable) -> list[tuple[int | None, HloInstruction]]:
    """Return the entry's parameters by number, those without a number last."""
    rows = table.module.entry.rows
    found = [table.instruction(row) for row in rows if table.opcodes[row] == "parameter"]
    numbered = [(instruction.parameter_number, instruction) for instruction in found]
    last = len(found)
    return sorted(numbered, key=lambda pair: last if pair[0] is None else pair[0])


def _layout_shapes(module: HloModule) -> tuple[Sequence[Shape], Shape] | None:
    """Return parameter and result shapes of the header, or None where it has none to be read."""
    try:
        layout = module.entry_computation_layout
    except DumpSyntaxError:
        return None
    return None if layout is None else (layout.parameters, layout.result)


def _at(shapes: Sequence[Shape], number: int | None, position: int) -> Shape | None:
    place = position if number is None else number
    return shapes[place] if place < len(shapes) else None


def _shape(instruction: HloInstruction) -> Shape | None:
    try:
        return instruction.shape
    except DumpSyntaxError:
        return None


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf of a shape: index, text, layout, logical and padded bytes."""

    index: ShapeIndex
    text: str | None = None
    layout: str | None = None
    size_bytes: int | None = None
    padded_size_bytes: int | None = None


class _Leaves:
    """The leaves of shapes; of each shape that is met again, measured once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Shape, _Leaf]] = {}

    def of(self, shape: Shape | None) -> list[_Leaf]:
        """Return the leaves in order; an unknown shape is one leaf of unknown size."""
        if shape is None:
            return [_Leaf(())]
        leaves = list(islice(shape.leaves(), MOST_LEAVES + 1))
        if len(leaves) > MOST_LEAVES:
            return [self._leaf((), shape)]
        return [self._leaf(index, leaf) for index, leaf in leaves]

    def _leaf(self, index: ShapeIndex, shape: Shape) -> _Leaf:
        known = self._known.get(id(shape))
        if known is None:
            layout = None if shape.layout is None else str(shape.layout)
            sizes = (shape.size_bytes, shape.padded_size_bytes)
            known = (shape, _Leaf(index, shape.to_text(layout=False), layout, *sizes))
            self._known[id(shape)] = known
        leaf = known[1]
        if leaf.index == index:
            return leaf
        return _Leaf(index, leaf.text, leaf.layout, leaf.size_bytes, leaf.padded_size_bytes)


def _parameter(
    instruction: HloInstruction,
    number: int | None,
    leaves: Sequence[_Leaf],
    donation: _Donation,
) -> Iterator[EntryValue]:
    """Yield the leaves of one parameter."""
    name = _argument_name(instruction, instruction.attribute("metadata"))
    shardings = _leaf_shardings(instruction, instruction.attribute("sharding"), leaves)
    framework = instruction.computation.module.framework
    for leaf, sharding in zip(leaves, shardings, strict=True):
        kind, output = donation.get((number, leaf.index), (None, None))
        known = None if framework is None else framework.argument(number, leaf.index)
        yield EntryValue(
            direction="parameter",
            number=number,
            index=_braces(leaf.index) if leaf.index else "",
            name=name if known is None else known.name,
            shape=leaf.text,
            layout=leaf.layout,
            size_bytes=leaf.size_bytes,
            padded_size_bytes=leaf.padded_size_bytes,
            sharding=sharding,
            donation=kind,
            aliased_with=output,
        )


def _argument_name(instruction: HloInstruction, metadata: str | None) -> str:
    """Return the framework's name of an argument, else the instruction's."""
    reader = instruction.computation.module.reader
    return (metadata and reader.metadata_string(metadata, "op_name")) or instruction.name


def _donation(module: HloModule) -> _Donation:
    """Return for each donated leaf how it is donated and the output that has its buffer."""
    found: dict[tuple[int | None, ShapeIndex], tuple[str, str | None]] = {}
    found.update(dict.fromkeys(module.buffer_donor, ("donor", None)))
    for alias in module.input_output_alias:
        key = (alias.parameter_number, alias.parameter_index)
        found[key] = (alias.kind, _braces(alias.output_index))
    return found


def _outputs(module: HloModule, shape: Shape | None, sizes: _Leaves) -> Iterator[EntryValue]:
    """Yield the leaves of the entry's result."""
    root = module.entry.root
    if root is None:
        return
    leaves = sizes.of(_shape(root) if shape is None else shape)
    aliases = {alias.output_index: alias for alias in module.input_output_alias}
    shardings = _leaf_shardings(root, root.attribute("sharding"), leaves)
    operands = root.operands if root.opcode == "tuple" else ()
    for leaf, sharding in zip(leaves, shardings, strict=True):
        alias = aliases.get(leaf.index)
        is_operand = len(leaf.index) == 1 and leaf.index[0] < len(operands)
        parameter = "" if alias is None else _parameter_place(alias)
        yield EntryValue(
            direction="output",
            number=None,
            index=_braces(leaf.index) if leaf.index else "",
            name=operands[leaf.index[0]].name if is_operand else root.name,
            shape=leaf.text,
            layout=leaf.layout,
            size_bytes=leaf.size_bytes,
            padded_size_bytes=leaf.padded_size_bytes,
            sharding=sharding,
            donation=None if alias is None else alias.kind,
            aliased_with=parameter or None,
        )


def _parameter_place(alias: InputOutputAlias) -> str:
    """Return parameter number and, of a tuple, index: ``3`` or ``0{17}``."""
    index = alias.parameter_index
    return f"{alias.parameter_number}{_braces(index) if index else ''}"


def _leaf_shardings(
    instruction: HloInstruction, text: str | None, leaves: Sequence[_Leaf]
) -> list[str | None]:
    """Return the sharding text of each leaf of an instruction's result."""
    if text is None or (len(leaves) == 1 and not leaves[0].index):
        return [text and sys.intern(text)] * len(leaves)  # of thousands, few are different
    try:
        elements = instruction.computation.module.reader.sharding(text).elements
    except DumpSyntaxError:
        elements = ()
    if len(elements) == len(leaves):
        return [element.text for element in elements]
    return [text] * len(leaves)


def _braces(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it."""
    return f"{{{','.join(map(str, index))}}}"
