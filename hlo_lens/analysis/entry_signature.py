"""Parameters and outputs of a program: names, shapes, bytes, shardings, donation.

Shapes are those of the entry computation layout, where the header prints it, else those of the
instructions. In a partitioned program they are per device, before partitioning they are global.
Where a parameter or the result is a tuple there is one row for each leaf (jax passes more than 2,000
arguments to a TPU as one tuple).

Donation: an output that the header's ``input_output_alias`` gives a parameter's buffer shares it, so
the two need memory once; a ``buffer_donor`` parameter may be reused for any output, and whether it
was is not in this text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.model.hlo import HloInstruction, HloModule
    from hlo_lens.model.hlo_query import InstructionTable
    from hlo_lens.model.shape import Shape, ShapeIndex
    from hlo_lens.model.sharding import HloSharding


@dataclass(frozen=True, kw_only=True)
class EntryValue:
    """One parameter, or one output, or a leaf of it.

    Attributes:
        direction: ``parameter`` or ``output``.
        number: Number of the parameter; None for outputs, and where it is not printed.
        index: Shape index of the leaf as XLA prints it (``{0,1}``); empty for a whole value.
        name: Of a parameter the argument's name as the framework gave it (op_name), else the
            instruction's; of an output the instruction that gives it.
        shape: Shape with layout; None where it is not known.
        size_bytes: Logical bytes.
        padded_size_bytes: Bytes with the padding of the layout's tiles.
        sharding: Sharding as written.
        donation: ``may-alias``, ``must-alias`` or ``donor``; None for neither.
        aliased_with: The output (``{0}``) or parameter (``2{}``) that has the same buffer.
    """

    direction: str
    number: int | None
    index: str
    name: str | None
    shape: str | None
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
        Column("shape", Unit.NONE, "shape with layout"),
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
    parameters = _parameters(table)
    shapes = _layout_shapes(module)
    values: list[EntryValue] = []
    for position, instruction in enumerate(parameters):
        number = instruction.parameter_number
        shape = None if shapes is None else _at(shapes[0], number, position)
        if shape is None:
            shape = _shape(instruction)
        values.extend(_parameter(instruction, number, shape))
    return EntrySignature(
        parameter_count=len(parameters),
        parameters=tuple(values),
        outputs=tuple(_outputs(module, None if shapes is None else shapes[1])),
    )


def _parameters(table: InstructionTable) -> list[HloInstruction]:
    """Return the entry's parameters by number; those without a number last."""
    rows = table.module.entry.rows
    found = [table.instruction(row) for row in rows if table.opcodes[row] == "parameter"]
    numbers = {id(found[k]): found[k].parameter_number for k in range(len(found))}
    last = len(found)
    return sorted(found, key=lambda i: last if (n := numbers[id(i)]) is None else n)


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


def _leaves(shape: Shape | None) -> Iterator[tuple[ShapeIndex, Shape | None]]:
    """Yield index and shape of each leaf; an unknown shape is a leaf of unknown size."""
    if shape is None:
        yield (), None
    else:
        yield from shape.leaves()


def _parameter(
    instruction: HloInstruction, number: int | None, shape: Shape | None
) -> Iterator[EntryValue]:
    """Yield the leaves of one parameter."""
    module = instruction.computation.module
    aliases = _aliases_by_parameter(module)
    donors = set(module.buffer_donor)
    metadata = instruction.metadata
    name = metadata.op_name if metadata is not None and metadata.op_name else instruction.name
    shardings = _leaf_shardings(instruction, shape)
    for position, (index, leaf) in enumerate(_leaves(shape)):
        alias = aliases.get((number, index))
        donation = "donor" if (number, index) in donors else None
        yield EntryValue(
            direction="parameter",
            number=number,
            index=_braces(index) if index else "",
            name=name,
            shape=None if leaf is None else str(leaf),
            size_bytes=None if leaf is None else leaf.size_bytes,
            padded_size_bytes=None if leaf is None else leaf.padded_size_bytes,
            sharding=shardings[position],
            donation=donation if alias is None else alias[1],
            aliased_with=None if alias is None else alias[0],
        )


def _aliases_by_parameter(
    module: HloModule,
) -> Mapping[tuple[int | None, ShapeIndex], tuple[str, str]]:
    """Return parameter number and index to the output that has its buffer, and the kind."""
    return {
        (alias.parameter_number, alias.parameter_index): (_braces(alias.output_index), alias.kind)
        for alias in module.input_output_alias
    }


def _outputs(module: HloModule, shape: Shape | None) -> Iterator[EntryValue]:
    """Yield the leaves of the entry's result."""
    root = module.entry.root
    if root is None:
        return
    if shape is None:
        shape = _shape(root)
    aliases = {alias.output_index: alias for alias in module.input_output_alias}
    shardings = _leaf_shardings(root, shape)
    operands = root.operands if root.opcode == "tuple" else ()
    for position, (index, leaf) in enumerate(_leaves(shape)):
        alias = aliases.get(index)
        is_operand = len(index) == 1 and index[0] < len(operands)
        yield EntryValue(
            direction="output",
            number=None,
            index=_braces(index) if index else "",
            name=operands[index[0]].name if is_operand else root.name,
            shape=None if leaf is None else str(leaf),
            size_bytes=None if leaf is None else leaf.size_bytes,
            padded_size_bytes=None if leaf is None else leaf.padded_size_bytes,
            sharding=shardings[position],
            donation=None if alias is None else alias.kind,
            aliased_with=None
            if alias is None
            else f"{alias.parameter_number}{_braces(alias.parameter_index)}",
        )


def _leaf_shardings(instruction: HloInstruction, shape: Shape | None) -> list[str | None]:
    """Return the sharding text of each leaf of an instruction's result."""
    count = 1 if shape is None else sum(1 for _ in shape.leaves())
    text = instruction.attribute("sharding")
    if text is None:
        return [None] * count
    if shape is None or not shape.is_tuple:
        return [text]
    try:
        sharding = instruction.sharding
    except DumpSyntaxError:
        sharding = None
    elements = _elements(sharding)
    if len(elements) == count:
        return list(elements)
    return [text] * count


def _elements(sharding: HloSharding | None) -> tuple[str, ...]:
    raise NotImplementedError


def _braces(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it."""
    return f"{{{','.join(map(str, index))}}}"
