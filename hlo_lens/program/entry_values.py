"""One parameter or output of a program: a view over columns.

A program with thousands of parameters has megabytes of such values; a page shows ten.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloModule, InputOutputAlias
    from hlo_lens.program.argument_names import ArgumentNames
    from hlo_lens.render.result import Row
    from hlo_lens.shapes.shape import ShapeIndex

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
