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
from abc import ABC, abstractmethod
from array import array
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.model.hlo_instruction import HloInstruction
from hlo_lens.model.rows import Rows
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.model.hlo import HloModule
    from hlo_lens.model.hlo_query import InstructionTable
    from hlo_lens.model.hlo_reader import InputOutputAlias
    from hlo_lens.model.shape import Shape, ShapeIndex


MOST_LEAVES = 1 << 16
"""A tuple of more arrays than this is one row."""

DONOR = "donor"
"""What `EntryValue.donation` says of a parameter that may be reused for any output."""

_NOTHING, _DONOR = -1, -2


class EntryValue:
    """One parameter, or one output, or a leaf of it: a view, cheap to make."""

    __slots__ = ("_place", "_values")

    def __init__(self, values: EntryValues, place: int) -> None:
        self._values = values
        self._place = place

    def __repr__(self) -> str:
        return f"<EntryValue {self.direction} {self.name}: {self.shape}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EntryValue):
            return NotImplemented
        return self.row() == other.row()

    def __hash__(self) -> int:
        return hash((self.direction, self._place))

    def row(self) -> Row:
        """Return all that is known of it, in the order of `EntrySignature.COLUMNS`."""
        return tuple(getattr(self, column.name) for column in EntrySignature.COLUMNS)

    @property
    def direction(self) -> str:
        """``parameter`` or ``output``."""
        return self._values.direction

    @property
    def number(self) -> int | None:
        """Number of the parameter; None for outputs, and where it is not printed."""
        return self._values.number(self._place)

    @property
    def index(self) -> str:
        """Shape index of the leaf as XLA prints it (``{0,1}``); empty for a whole value."""
        index = self._values.indices[self._place]
        return _braces(index) if index else ""

    @property
    def name(self) -> str:
        """Of a parameter the argument's name as the framework gave it, else the instruction's.

        The framework gives it by itself, or as op_name. Of an output: the instruction's that gives
        it.
        """
        return self._values.name(self._place)

    @property
    def shape(self) -> str | None:
        """Shape without layout; None where it is not known."""
        return self._values.leaves[self._place].text

    @property
    def layout(self) -> str | None:
        """Layout as printed, in braces; None where none is."""
        return self._values.leaves[self._place].layout

    @property
    def size_bytes(self) -> int | None:
        """Logical bytes."""
        return self._values.leaves[self._place].size_bytes

    @property
    def padded_size_bytes(self) -> int | None:
        """Bytes with the padding of the layout's tiles."""
        return self._values.leaves[self._place].padded_size_bytes

    @property
    def sharding(self) -> str | None:
        """Sharding as written."""
        return self._values.shardings[self._place]

    @property
    def donation(self) -> str | None:
        """``may-alias``, ``must-alias`` or ``donor``; None for neither."""
        return self._values.donation(self._place)

    @property
    def aliased_with(self) -> str | None:
        """The output (``{0}``) or parameter (``3``, ``0{17}``) of the same buffer."""
        return self._values.aliased_with(self._place)


class EntryValues(ABC):
    """Parameters or outputs as columns: a program of thousands has megabytes of such values.

    Args:
        module: The module.
        leaves: Shape and bytes of each value.
        indices: Where in its parameter, or in the result, each stands.
        shardings: Sharding of each as written.
        aliases: Of each the place in the module's ``input_output_alias``, or `_DONOR`, `_NOTHING`.
    """

    __slots__ = ("_aliases", "_module", "indices", "leaves", "shardings")
    direction: ClassVar[str]

    def __init__(
        self,
        module: HloModule,
        *,
        leaves: Sequence[_Leaf],
        indices: Sequence[ShapeIndex],
        shardings: Sequence[str | None],
        aliases: Sequence[int],
    ) -> None:
        self._module = module
        self.leaves = leaves
        self.indices = indices
        self.shardings = shardings
        self._aliases = aliases

    def values(self) -> Sequence[EntryValue]:
        """Return the values."""
        return Rows(partial(EntryValue, self), range(len(self.leaves)))

    @abstractmethod
    def number(self, place: int) -> int | None:
        """Return the parameter's number."""

    @abstractmethod
    def name(self, place: int) -> str:
        """Return the argument's name, or that of the instruction that gives an output."""

    def donation(self, place: int) -> str | None:
        """Return how a value shares its buffer."""
        alias = self._alias(place)
        if alias is None:
            return DONOR if self._aliases[place] == _DONOR else None
        return alias.kind

    @abstractmethod
    def aliased_with(self, place: int) -> str | None:
        """Return what a value shares its buffer with."""

    def _alias(self, place: int) -> InputOutputAlias | None:
        alias = self._aliases[place]
        return None if alias < 0 else self._module.input_output_alias[alias]


class _Parameters(EntryValues):
    """The leaves of all parameters, by number; `rows` and `numbers` are those of the parameters."""

    __slots__ = ("_numbers", "_rows")
    direction = "parameter"

    def __init__(
        self,
        module: HloModule,
        *,
        rows: Sequence[int],
        numbers: Sequence[int | None],
        leaves: Sequence[_Leaf],
        indices: Sequence[ShapeIndex],
        shardings: Sequence[str | None],
        aliases: Sequence[int],
    ) -> None:
        super().__init__(
            module, leaves=leaves, indices=indices, shardings=shardings, aliases=aliases
        )
        self._rows = rows
        self._numbers = numbers

    def number(self, place: int) -> int | None:
        return self._numbers[place]

    def name(self, place: int) -> str:
        framework = self._module.framework
        if framework is not None:
            known = framework.argument(self._numbers[place], self.indices[place])
            if known is not None:
                return known.name
        instruction = HloInstruction(self._module.entry, self._rows[place])
        metadata = instruction.attribute("metadata")
        reader = self._module.reader
        return (metadata and reader.metadata_string(metadata, "op_name")) or instruction.name

    def aliased_with(self, place: int) -> str | None:
        alias = self._alias(place)
        return None if alias is None else _braces(alias.output_index)


class _Outputs(EntryValues):
    """The leaves of the result; `operands` are the names of what a tuple is made of."""

    __slots__ = ("_operands", "_root")
    direction = "output"

    def __init__(
        self,
        root: HloInstruction,
        *,
        operands: Sequence[str],
        leaves: Sequence[_Leaf],
        indices: Sequence[ShapeIndex],
        shardings: Sequence[str | None],
        aliases: Sequence[int],
    ) -> None:
        super().__init__(
            root.computation.module,
            leaves=leaves,
            indices=indices,
            shardings=shardings,
            aliases=aliases,
        )
        self._root = root
        self._operands = operands

    def number(self, place: int) -> int | None:
        return None

    def name(self, place: int) -> str:
        index = self.indices[place]
        is_operand = len(index) == 1 and index[0] < len(self._operands)
        return self._operands[index[0]] if is_operand else self._root.name

    def aliased_with(self, place: int) -> str | None:
        alias = self._alias(place)
        if alias is None:
            return None
        index = alias.parameter_index
        return f"{alias.parameter_number}{_braces(index) if index else ''}"


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
    parameters: Sequence[EntryValue]
    outputs: Sequence[EntryValue]

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

    @property
    def aliased_bytes(self) -> int:
        """Known bytes of outputs that have a parameter's buffer."""
        return sum(value.size_bytes or 0 for value in self.outputs if value.aliased_with)


def entry_signature(table: InstructionTable) -> EntrySignature:
    """Return parameters and outputs of a module's entry computation."""
    module = table.module
    if not module.computations:
        return EntrySignature(parameter_count=0, parameters=(), outputs=())
    numbered = _numbered_parameters(table)
    shapes = _layout_shapes(module)
    sizes = _Leaves()
    return EntrySignature(
        parameter_count=len(numbered),
        parameters=_parameters(module, numbered, None if shapes is None else shapes[0], sizes),
        outputs=_outputs(module, None if shapes is None else shapes[1], sizes),
    )


def _numbered_parameters(table: InstructionTable) -> list[tuple[int | None, int]]:
    """Return number and row of the entry's parameters, those without a number last."""
    entry = table.module.entry
    rows = (row for row in entry.rows if table.opcodes[row] == "parameter")
    found = [(HloInstruction(entry, row).parameter_number, row) for row in rows]
    last = len(found)
    return sorted(found, key=lambda pair: last if pair[0] is None else pair[0])


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
    """A leaf of a shape: text, layout, logical and padded bytes."""

    text: str | None = None
    layout: str | None = None
    size_bytes: int | None = None
    padded_size_bytes: int | None = None


class _Leaves:
    """The leaves of shapes; of each shape that is met again, measured once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Shape, _Leaf]] = {}
        self._unknown = _Leaf()

    def of(self, shape: Shape | None) -> tuple[Sequence[ShapeIndex], list[_Leaf]]:
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

    def _leaf(self, shape: Shape) -> _Leaf:
        known = self._known.get(id(shape))
        if known is None:
            layout = None if shape.layout is None else str(shape.layout)
            sizes = (shape.size_bytes, shape.padded_size_bytes)
            known = (shape, _Leaf(shape.to_text(layout=False), layout, *sizes))
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
    leaves: list[_Leaf] = []
    indices: list[ShapeIndex] = []
    shardings: list[str | None] = []
    for position, (number, row) in enumerate(numbered):
        instruction = HloInstruction(entry, row)
        shape = None if shapes is None else _at(shapes, number, position)
        found, parts = sizes.of(_shape(instruction) if shape is None else shape)
        leaves += parts
        indices += found
        shardings += _leaf_shardings(instruction, found)
        aliases.extend(donation.get((number, index), _NOTHING) for index in found)
        for _ in found:
            rows.append(row)
            numbers.append(number)
    are_places = all(number == place for place, number in enumerate(numbers))
    return _Parameters(
        module,
        rows=rows,
        numbers=range(len(numbers)) if are_places else numbers,
        leaves=leaves,
        indices=indices,
        shardings=shardings,
        aliases=aliases,
    ).values()


def _donation(module: HloModule) -> Mapping[tuple[int | None, ShapeIndex], int]:
    """Return for each donated leaf the place of its alias in the module's, or `_DONOR`."""
    found: dict[tuple[int | None, ShapeIndex], int] = dict.fromkeys(module.buffer_donor, _DONOR)
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
    return _Outputs(
        root,
        operands=root.operand_names if root.opcode == "tuple" else (),
        leaves=leaves,
        indices=indices,
        shardings=_leaf_shardings(root, indices),
        aliases=array("i", (aliases.get(index, _NOTHING) for index in indices)),
    ).values()


def _leaf_shardings(instruction: HloInstruction, indices: Sequence[ShapeIndex]) -> list[str | None]:
    """Return the sharding text of each leaf of an instruction's result."""
    text = instruction.attribute("sharding")
    if text is None or (len(indices) == 1 and not indices[0]):
        return [text and sys.intern(text)] * len(indices)  # of thousands, few are different
    try:
        elements = instruction.computation.module.reader.sharding(text).elements
    except DumpSyntaxError:
        elements = ()
    if len(elements) == len(indices):
        return [element.text for element in elements]
    return [text] * len(indices)


def _braces(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it."""
    return f"{{{','.join(map(str, index))}}}"
