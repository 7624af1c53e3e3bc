"""One parameter or output of a program: a view over columns.

A program with thousands of parameters has megabytes of such values; a page shows ten.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.model.hlo.instruction import HloInstruction
from hlo_lens.model.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.result import Row
    from hlo_lens.model.hlo.input_output_alias import InputOutputAlias
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.shapes.shape import ShapeIndex

NO_ALIAS, DONOR = -1, -2
"""Stored in place of the position of an alias: not shared; reusable by any output."""


class EntryValue:
    """One parameter, one output, or a leaf of it: a view, cheap to make."""

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
        """Return its cells, in the order of `EntrySignature.COLUMNS`."""
        return (
            *(self.direction, self.number, self.index, self.name),
            *(self.shape, self.layout, self.size_bytes, self.padded_size_bytes),
            *(self.sharding, self.donation, self.aliased_with),
        )

    @property
    def direction(self) -> str:
        """``parameter`` or ``output``."""
        return self._values.direction

    @property
    def number(self) -> int | None:
        """Number of the parameter; None for outputs, and if not printed."""
        return self._values.number(self._place)

    @property
    def index(self) -> str:
        """Shape index of the leaf as XLA prints it (``{0,1}``); empty for a whole value."""
        index = self._values.columns.indices[self._place]
        return braces(index) if index else ""

    @property
    def name(self) -> str:
        """Name of a parameter or output.

        For a parameter the framework's name of the argument, directly or from op_name, else the
        instruction's name; for an output the name of the instruction that defines it.
        """
        return self._values.name(self._place)

    @property
    def shape(self) -> str | None:
        """Shape without layout; None if not known."""
        return self._values.columns.leaves[self._place].text

    @property
    def layout(self) -> str | None:
        """Layout as printed, in braces; None if there is none."""
        return self._values.columns.leaves[self._place].layout

    @property
    def size_bytes(self) -> int | None:
        """Logical bytes."""
        return self._values.columns.leaves[self._place].size_bytes

    @property
    def padded_size_bytes(self) -> int | None:
        """Bytes with the padding of the layout's tiles."""
        return self._values.columns.leaves[self._place].padded_size_bytes

    @property
    def sharding(self) -> str | None:
        """Sharding as written."""
        return self._values.columns.shardings[self._place]

    @property
    def donation(self) -> str | None:
        """``may-alias``, ``must-alias`` or ``donor``; None for neither."""
        return self._values.donation(self._place)

    @property
    def aliased_with(self) -> str | None:
        """The output (``{0}``) or parameter (``3``, ``0{17}``) of the same buffer."""
        return self._values.aliased_with(self._place)


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
        leaves: Shape and bytes.
        indices: Shape index in its parameter, or in the result.
        shardings: Sharding as written.
        aliases: Position in the module's ``input_output_alias``, or `NO_ALIAS` or `DONOR`.
    """

    leaves: Sequence[Leaf]
    indices: Sequence[ShapeIndex]
    shardings: Sequence[str | None]
    aliases: Sequence[int]


class EntryValues(ABC):
    """Parameters or outputs of a module."""

    __slots__ = ("columns", "module")
    direction: ClassVar[str]

    def __init__(self, module: HloModule, columns: ValueColumns) -> None:
        self.module = module
        self.columns = columns

    def values(self) -> Sequence[EntryValue]:
        """Return the values."""
        return Rows(partial(EntryValue, self), range(len(self.columns.leaves)))

    @abstractmethod
    def number(self, place: int) -> int | None:
        """Return the parameter's number."""

    @abstractmethod
    def name(self, place: int) -> str:
        """Return the argument's name, or that of the instruction that defines an output."""

    @abstractmethod
    def aliased_with(self, place: int) -> str | None:
        """Return the output or parameter that shares the buffer of a value."""

    def donation(self, place: int) -> str | None:
        """Return how a value shares its buffer."""
        alias = self.alias(place)
        if alias is None:
            return "donor" if self.columns.aliases[place] == DONOR else None
        return alias.kind

    def alias(self, place: int) -> InputOutputAlias | None:
        """Return the entry of ``input_output_alias`` that a value is part of."""
        alias = self.columns.aliases[place]
        return None if alias < 0 else self.module.input_output_alias[alias]


class ParameterValues(EntryValues):
    """The leaves of all parameters, with row and number of the parameter of each."""

    __slots__ = ("_numbers", "_rows")
    direction = "parameter"

    def __init__(
        self,
        module: HloModule,
        columns: ValueColumns,
        rows: Sequence[int],
        numbers: Sequence[int | None],
    ) -> None:
        super().__init__(module, columns)
        self._rows = rows
        self._numbers = numbers

    def number(self, place: int) -> int | None:
        """Return the parameter's number; None if not printed."""
        return self._numbers[place]

    def name(self, place: int) -> str:
        """Return the framework's name of an argument, else the instruction's."""
        framework = self.module.framework
        if framework is not None:
            known = framework.argument(self._numbers[place], self.columns.indices[place])
            if known is not None:
                return known.name
        instruction = HloInstruction(self.module.entry, self._rows[place])
        metadata = instruction.attribute("metadata")
        reader = self.module.reader
        return (metadata and reader.metadata_string(metadata, "op_name")) or instruction.name

    def aliased_with(self, place: int) -> str | None:
        """Return the output that shares its buffer."""
        alias = self.alias(place)
        return None if alias is None else braces(alias.output_index)


class OutputValues(EntryValues):
    """The leaves of the result; `operands` are the names of the operands of a tuple."""

    __slots__ = ("_operands", "_root")
    direction = "output"

    def __init__(
        self, root: HloInstruction, columns: ValueColumns, operands: Sequence[str]
    ) -> None:
        super().__init__(root.computation.module, columns)
        self._root = root
        self._operands = operands

    def number(self, place: int) -> int | None:
        """Return None: outputs have an index instead."""
        return None

    def name(self, place: int) -> str:
        """Return the name of the tuple's operand, else of the instruction that is the result."""
        index = self.columns.indices[place]
        is_operand = len(index) == 1 and index[0] < len(self._operands)
        return self._operands[index[0]] if is_operand else self._root.name

    def aliased_with(self, place: int) -> str | None:
        """Return the parameter whose buffer it shares: ``3``, or ``0{17}`` for a leaf."""
        alias = self.alias(place)
        if alias is None:
            return None
        index = alias.parameter_index
        return f"{alias.parameter_number}{braces(index) if index else ''}"


def braces(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it."""
    return f"{{{','.join(map(str, index))}}}"
