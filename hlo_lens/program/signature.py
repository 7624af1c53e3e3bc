"""One parameter or output of a program: a view over columns.

A program with thousands of parameters has megabytes of such values; a page shows ten.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from array import array
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import ArgumentNames
from hlo_lens.program.summary import instruction_table
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule, InputOutputAlias
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.result import Row
    from hlo_lens.shapes.shape import Shape, ShapeIndex


NO_ALIAS, DONOR = -1, -2
"""Stored in place of the position of an alias: not shared; reusable by any output."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of a shape: text, layout, logical and padded bytes."""

    text: str | None = None
    layout: str | None = None
    size_bytes: int | None = None
    padded_size_bytes: int | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ValueColumns:
    """Columns of parameters or outputs, one entry for each.

    Attributes:
        module: Their module.
        leaves: Shape and bytes.
        indices: Shape index in its parameter, or in the result.
        shardings: Sharding as written.
        aliases: Position in the module's ``input_output_alias``, or `NO_ALIAS` or `DONOR`.
        rows: Row of the parameter; of outputs once, the row of the result.
        numbers: Number of the parameter; none for outputs.
        operands: Names of the operands of a result that is a tuple, which are the outputs.
        given: Names that the framework gave to parameters.
        names: Position to name of the parameters whose name was asked for.
    """

    module: HloModule
    given: ArgumentNames
    leaves: Sequence[Leaf]
    indices: Sequence[ShapeIndex]
    shardings: Sequence[str | None]
    aliases: Sequence[int]
    rows: Sequence[int]
    numbers: Sequence[int | None] = ()
    operands: Sequence[str] = ()
    names: dict[int, str] = field(default_factory=dict)


class EntryValue(ABC):
    """One parameter, one output, or a leaf of it: a view, cheap to make."""

    __slots__ = ("_columns", "_place")
    kind: ClassVar[str]
    """``parameter`` or ``output``."""

    def __init__(self, columns: ValueColumns, place: int) -> None:
        self._columns = columns
        self._place = place

    def __repr__(self) -> str:
        return f"<EntryValue {self.kind} {self.name}: {self.shape}>"

    def __eq__(self, other: object) -> bool:
        return self.row() == other.row() if isinstance(other, EntryValue) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.kind, self._place))

    def row(self) -> Row:
        """Return its cells, in the order of `EntrySignature.COLUMNS`."""
        return (
            *(self.kind, self.number, self.index, self.name),
            *(self.shape, self.layout, self.size_bytes, self.padded_size_bytes),
            *(self.sharding, self.donation, self.aliased_with),
        )

    @property
    def number(self) -> int | None:
        """Number of the parameter; None for outputs, and if not printed."""
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of a parameter or output.

        For a parameter the framework's name of the argument, directly or from op_name, else the
        instruction's name; for an output the name of the instruction that defines it.
        """

    @property
    def is_named(self) -> bool:
        """Whether the name is one that the framework gave, not the instruction's."""
        return False

    @property
    @abstractmethod
    def aliased_with(self) -> str | None:
        """The output (``{0}``) or parameter (``3``, ``0{17}``) of the same buffer."""

    @property
    def index(self) -> str:
        """Shape index of the leaf as XLA prints it (``{0,1}``); empty for a whole value."""
        index = self._columns.indices[self._place]
        return braces(index) if index else ""

    @property
    def shape(self) -> str | None:
        """Shape without layout; None if not known."""
        return self._columns.leaves[self._place].text

    @property
    def layout(self) -> str | None:
        """Layout as printed, in braces; None if there is none."""
        return self._columns.leaves[self._place].layout

    @property
    def size_bytes(self) -> int | None:
        """Logical bytes."""
        return self._columns.leaves[self._place].size_bytes

    @property
    def padded_size_bytes(self) -> int | None:
        """Bytes with the padding of the layout's tiles."""
        return self._columns.leaves[self._place].padded_size_bytes

    @property
    def sharding(self) -> str | None:
        """Sharding as written."""
        return self._columns.shardings[self._place]

    @property
    def donation(self) -> str | None:
        """``may-alias``, ``must-alias`` or ``donor``; None for neither."""
        alias = self._alias
        if alias is None:
            return "donor" if self._columns.aliases[self._place] == DONOR else None
        return alias.kind

    @property
    def _alias(self) -> InputOutputAlias | None:
        """The entry of ``input_output_alias`` that it is part of."""
        place = self._columns.aliases[self._place]
        return None if place < 0 else self._columns.module.input_output_alias[place]


class ParameterValue(EntryValue):
    """A parameter, or a leaf of one."""

    __slots__ = ()
    kind = "parameter"

    @property
    def number(self) -> int | None:
        """Number of the parameter; None if not printed."""
        return self._columns.numbers[self._place]

    @property
    def name(self) -> str:
        """The framework's name of the argument, else the instruction's."""
        names = self._columns.names
        if self._place not in names:
            names[self._place] = self._found_name()
        return names[self._place]

    @property
    def is_named(self) -> bool:
        """Whether the framework named the argument."""
        return self._given_name() is not None

    def _found_name(self) -> str:
        columns = self._columns
        instruction = HloInstruction(columns.module.entry, columns.rows[self._place])
        return self._given_name() or instruction.name

    def _given_name(self) -> str | None:
        """Return the framework's name of the argument; None if it gave none."""
        module = self._columns.module
        if module.framework is not None:
            index = self._columns.indices[self._place]
            known = module.framework.argument(self.number, index)
            if known is not None:
                return known.name
        return self._columns.given.by_row.get(self._columns.rows[self._place])

    @property
    def aliased_with(self) -> str | None:
        """The output that shares its buffer."""
        alias = self._alias
        return None if alias is None else braces(alias.output_index)


class OutputValue(EntryValue):
    """The result, or a leaf of it."""

    __slots__ = ()
    kind = "output"

    @property
    def name(self) -> str:
        """Name of the tuple's operand, else of the instruction that is the result."""
        index, operands = self._columns.indices[self._place], self._columns.operands
        is_operand = len(index) == 1 and index[0] < len(operands)
        if is_operand:
            return operands[index[0]]
        return self._columns.module.columns.name(self._columns.rows[0])

    @property
    def aliased_with(self) -> str | None:
        """The parameter whose buffer it shares: ``3``, or ``0{17}`` for a leaf."""
        alias = self._alias
        if alias is None:
            return None
        index = alias.parameter_index
        return f"{alias.parameter_number}{braces(index) if index else ''}"


def braces(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it."""
    return f"{{{','.join(map(str, index))}}}"


MOST_LEAVES = 1 << 16
"""A tuple with more leaves than this is one row."""


@dataclass(frozen=True, kw_only=True)
class EntrySignature(Result):
    """Parameters by number, then outputs by index.

    Attributes:
        parameter_count: Number of HLO parameters, a tuple as one; None if not known.
        parameters: Leaves of all parameters; of an entry that is cut off those before the cut.
        outputs: Leaves of the result; none for an entry that is cut off.
        has_outputs: Whether the outputs are known: the entry is complete.
    """

    KIND: ClassVar[str] = "entry-signature"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("kind", Unit.NONE, "parameter or output"),
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
    parameter_count: int | None
    parameters: Sequence[EntryValue]
    outputs: Sequence[EntryValue]
    has_outputs: bool = True

    @property
    def is_complete(self) -> bool:
        """Whether all parameters and outputs are known."""
        return self.has_outputs and self.parameter_count is not None

    @property
    def values(self) -> Sequence[EntryValue]:
        """The parameters, then the outputs."""
        return Rows(self._value, range(self.row_count))

    def _value(self, place: int) -> EntryValue:
        count = len(self.parameters)
        return self.parameters[place] if place < count else self.outputs[place - count]

    def rows(self) -> Iterator[Row]:
        """Yield the parameters, then the outputs."""
        for value in self.values:
            yield value.row()

    @property
    def row_count(self) -> int:
        """Number of leaves of parameters and outputs."""
        return len(self.parameters) + len(self.outputs)


@fact
def entry_signature(dump: ModuleDump) -> EntrySignature:
    """Return parameters and outputs of a module's entry computation."""
    return signature_of(instruction_table(dump))


def signature_of(table: InstructionTable) -> EntrySignature:
    """Return parameters and outputs of a text's entry computation."""
    module = table.module
    if not module.has_entry:
        return EntrySignature(parameter_count=None, parameters=(), outputs=(), has_outputs=False)
    numbered = _numbered_parameters(table)
    shapes = _layout_shapes(module)
    sizes = _Leaves()
    is_whole = module.has_whole_entry
    has_all = is_whole or (shapes is not None and len(shapes[0]) == len(numbered))
    return EntrySignature(
        parameter_count=len(numbered) if has_all else None,
        parameters=_parameters(module, numbered, None if shapes is None else shapes[0], sizes),
        outputs=_outputs(module, None if shapes is None else shapes[1], sizes) if is_whole else (),
        has_outputs=is_whole,
    )


def _numbered_parameters(table: InstructionTable) -> list[tuple[int | None, int]]:
    """Return number and row of the entry's parameters, those without a number last."""
    entry = table.module.entry
    found = [(HloInstruction(entry, row).parameter_number, row) for row in table.entry_parameters]
    last = len(found)
    return sorted(found, key=lambda pair: last if pair[0] is None else pair[0])


def _layout_shapes(module: HloModule) -> tuple[Sequence[Shape], Shape] | None:
    """Return parameter and result shapes of the header; None if it has none that are readable."""
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


class _Leaves:
    """The leaves of shapes, measured once per distinct shape."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Shape, Leaf]] = {}
        self._unknown = Leaf()

    def of(self, shape: Shape | None) -> tuple[Sequence[ShapeIndex], list[Leaf]]:
        """Return indices and leaves in order; an unknown shape is one leaf of unknown size."""
        if shape is None:
            return _WHOLE, [self._unknown]
        if not shape.is_tuple:
            return _WHOLE, [self._leaf(shape)]
        parts = shape.tuple_shapes
        if len(parts) <= MOST_LEAVES and not any(part.is_tuple for part in parts):
            return Rows(_flat_index, range(len(parts))), [self._leaf(part) for part in parts]
        found = list(islice(shape.leaves(), MOST_LEAVES + 1))
        if len(found) > MOST_LEAVES:
            return _WHOLE, [self._leaf(shape)]
        return [index for index, _ in found], [self._leaf(leaf) for _, leaf in found]

    def _leaf(self, shape: Shape) -> Leaf:
        known = self._known.get(id(shape))
        if known is None:
            layout = None if shape.layout is None else str(shape.layout)
            sizes = (shape.size_bytes, shape.padded_size_bytes)
            known = (shape, Leaf(shape.to_text(layout=False), layout, *sizes))
            self._known[id(shape)] = known
        return known[1]


_WHOLE: tuple[ShapeIndex, ...] = ((),)


def _flat_index(place: int) -> ShapeIndex:
    return (place,)


def _parameters(
    module: HloModule,
    numbered: Sequence[tuple[int | None, int]],
    shapes: Sequence[Shape] | None,
    sizes: _Leaves,
) -> Sequence[EntryValue]:
    """Return the leaves of all parameters."""
    entry, donation = module.entry, _donation(module)
    rows, aliases = array("I"), array("i")
    numbers: list[int | None] = []
    leaves: list[Leaf] = []
    indices: list[ShapeIndex] = []
    shardings: list[str | None] = []
    for position, (number, row) in enumerate(numbered):
        instruction = HloInstruction(entry, row)
        shape = None if shapes is None else _at(shapes, number, position)
        found, parts = sizes.of(_shape(instruction) if shape is None else shape)
        leaves += parts
        indices += found
        shardings += _leaf_shardings(instruction, found)
        aliases.extend(donation.get((number, index), NO_ALIAS) for index in found)
        for _ in found:
            rows.append(row)
            numbers.append(number)
    are_places = all(number == place for place, number in enumerate(numbers))
    columns = ValueColumns(
        module=module,
        given=ArgumentNames(module),
        leaves=leaves,
        indices=indices,
        shardings=shardings,
        aliases=aliases,
        rows=rows,
        numbers=range(len(numbers)) if are_places else numbers,
    )
    return Rows(partial(ParameterValue, columns), range(len(leaves)))


def _donation(module: HloModule) -> Mapping[tuple[int | None, ShapeIndex], int]:
    """Return for each donated leaf the position of its entry in the module's, or `DONOR`."""
    found: dict[tuple[int | None, ShapeIndex], int] = dict.fromkeys(module.buffer_donor, DONOR)
    for place, alias in enumerate(module.input_output_alias):
        found[alias.parameter_number, alias.parameter_index] = place
    return found


def _outputs(module: HloModule, shape: Shape | None, sizes: _Leaves) -> Sequence[EntryValue]:
    """Return the leaves of the entry's result."""
    root = module.entry.root
    if root is None:
        return ()
    indices, leaves = sizes.of(_shape(root) if shape is None else shape)
    aliases = {alias.output_index: n for n, alias in enumerate(module.input_output_alias)}
    columns = ValueColumns(
        module=module,
        given=ArgumentNames(module),
        leaves=leaves,
        indices=indices,
        shardings=_leaf_shardings(root, indices),
        aliases=array("i", (aliases.get(index, NO_ALIAS) for index in indices)),
        rows=(root.row,),
        operands=root.operand_names if root.opcode == "tuple" else (),
    )
    return Rows(partial(OutputValue, columns), range(len(leaves)))


def _leaf_shardings(instruction: HloInstruction, indices: Sequence[ShapeIndex]) -> list[str | None]:
    """Return the sharding text of each leaf of an instruction's result."""
    text = instruction.attribute("sharding")
    if text is None or (len(indices) == 1 and not indices[0]):
        return [text and sys.intern(text)] * len(indices)  # few of thousands are distinct
    try:
        elements = instruction.computation.module.reader.printed_sharding(text).elements
    except DumpSyntaxError:
        elements = ()
    if len(elements) == len(indices):
        return [element.text for element in elements]
    return [text] * len(indices)
