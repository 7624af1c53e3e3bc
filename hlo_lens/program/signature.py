"""Parameters and outputs of a program: names, shapes, bytes, shardings, donation.

Shapes are those of the entry computation layout if the header prints it, else those of the
instructions. They are per device in a partitioned program, and global before partitioning. A tuple
has one row for each leaf (jax passes more than 2,000 arguments to a TPU as one tuple), unless there
are more than `MOST_LEAVES`.

Donation: an output with a parameter's buffer in ``input_output_alias`` shares it: the two need
memory once. A ``buffer_donor`` parameter may be reused for any output; the text does not say if it
was.
"""

from __future__ import annotations

import contextlib
import sys
from array import array
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.module import HloInstruction
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import ArgumentNames
from hlo_lens.program.summary import instruction_table
from hlo_lens.render.result import Records, Unit, columns_of
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.hlo.text import InputOutputAlias
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.result import Row
    from hlo_lens.shapes.shape import Shape, ShapeIndex

_NO_ALIAS, _DONOR = -1, -2
"""Stored in place of the position of an alias: not shared; reusable by any output."""

MOST_LEAVES = 1 << 16
"""A tuple with more leaves than this is one row."""

_OUTPUT = -1
"""Number of an output among parameters."""


class _Leaf(NamedTuple):
    """A leaf of a shape: text, layout, logical and padded bytes."""

    text: str | None = None
    layout: str | None = None
    size_bytes: int | None = None
    padded_size_bytes: int | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Columns:
    """Columns of parameters or outputs: a program may have thousands, and a page shows ten.

    Attributes:
        module: Their module.
        leaves: Shape and bytes.
        indices: Shape index in its parameter, or in the result.
        shardings: Sharding as written.
        aliases: Position in the module's ``input_output_alias``, or `_NO_ALIAS` or `_DONOR`.
        rows: Row of the parameter; of outputs the row of the result.
        numbers: Number of the parameter; None for outputs, and if not printed.
        is_output: Whether they are outputs.
        operands: Names of the operands of a result that is a tuple, which are the outputs.
        given: Names that the framework gave to parameters.
        names: Position to name of the parameters whose name was asked for.
    """

    module: HloModule
    given: ArgumentNames
    leaves: list[_Leaf] = field(default_factory=list)
    indices: list[ShapeIndex] = field(default_factory=list)
    shardings: list[str | None] = field(default_factory=list)
    aliases: array[int] = field(default_factory=partial(array, "i"))
    rows: array[int] = field(default_factory=partial(array, "I"))
    numbers: list[int | None] = field(default_factory=list)
    is_output: bool = False
    operands: Sequence[str] = ()
    names: dict[int, str] = field(default_factory=dict)


class EntryValue:
    """One parameter, one output, or a leaf of it: a view, cheap to make."""

    __slots__ = ("_columns", "_place")

    def __init__(self, columns: _Columns, place: int) -> None:
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
        return tuple(getattr(self, column.name) for column in columns_of(EntryValue))

    @property
    def kind(self) -> Annotated[str, "parameter or output"]:
        """``parameter`` or ``output``."""
        return "output" if self._columns.is_output else "parameter"

    @property
    def number(self) -> Annotated[int | None, "parameter number"]:
        """Number of the parameter; None for outputs, and if not printed."""
        return self._columns.numbers[self._place]

    @property
    def index(self) -> Annotated[str, "shape index of the leaf"]:
        """Shape index of the leaf as XLA prints it (``{0,1}``); empty for a whole value."""
        index = self._columns.indices[self._place]
        return braces(index) if index else ""

    @property
    def name(self) -> Annotated[str, "argument name, or the instruction that gives the value"]:
        """Name of a parameter or output.

        For a parameter the framework's name of the argument, directly or from op_name, else the
        instruction's name; for an output the name of the instruction that defines it.
        """
        columns, place = self._columns, self._place
        own = columns.module.columns.name(columns.rows[place])
        if columns.is_output:
            index = columns.indices[place]
            is_operand = len(index) == 1 and index[0] < len(columns.operands)
            return columns.operands[index[0]] if is_operand else own
        if place not in columns.names:
            columns.names[place] = self._given_name() or own
        return columns.names[place]

    @property
    def is_named(self) -> bool:
        """Whether the name is one that the framework gave, not the instruction's."""
        return self.kind == "parameter" and self._given_name() is not None

    def _given_name(self) -> str | None:
        module = self._columns.module
        if module.framework is not None:
            index = self._columns.indices[self._place]
            argument = module.framework.argument(self.number, index)
            if argument is not None:
                return argument.name
        return self._columns.given.by_row.get(self._columns.rows[self._place])

    @property
    def shape(self) -> Annotated[str | None, "shape without layout"]:
        """Shape without layout; None if not known."""
        return self._columns.leaves[self._place].text

    @property
    def layout(self) -> Annotated[str | None, "layout as printed"]:
        """Layout as printed, in braces; None if there is none."""
        return self._columns.leaves[self._place].layout

    @property
    def size_bytes(self) -> Annotated[int | None, Unit.BYTES, "bytes of the elements, logical"]:
        """Logical bytes."""
        return self._columns.leaves[self._place].size_bytes

    @property
    def padded_size_bytes(
        self,
    ) -> Annotated[int | None, Unit.BYTES, "bytes with the padding of tiles"]:
        """Bytes with the padding of the layout's tiles."""
        return self._columns.leaves[self._place].padded_size_bytes

    @property
    def sharding(self) -> Annotated[str | None, "sharding as written"]:
        """Sharding as written."""
        return self._columns.shardings[self._place]

    @property
    def donation(self) -> Annotated[str | None, "may-alias, must-alias or donor"]:
        """``may-alias``, ``must-alias`` or ``donor``; None for neither."""
        if self._columns.aliases[self._place] == _DONOR:
            return "donor"
        return None if self._alias is None else self._alias.kind

    @property
    def aliased_with(self) -> Annotated[str | None, "what shares its buffer"]:
        """The output (``{0}``) or parameter (``3``, ``0{17}``) of the same buffer."""
        alias = self._alias
        if alias is None:
            return None
        if self.kind == "parameter":
            return braces(alias.output_index)
        index = alias.parameter_index
        return f"{alias.parameter_number}{braces(index) if index else ''}"

    @property
    def _alias(self) -> InputOutputAlias | None:
        place = self._columns.aliases[self._place]
        return None if place < 0 else self._columns.module.input_output_alias[place]


def braces(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it."""
    return f"{{{','.join(map(str, index))}}}"


@dataclass(frozen=True, kw_only=True)
class EntrySignature(Records[EntryValue]):
    """Parameters by number, then outputs by index.

    Attributes:
        parameter_count: Number of HLO parameters, a tuple as one; None if not known.
        parameters: Leaves of all parameters; of an entry that is cut off those before the cut.
        outputs: Leaves of the result; none for an entry that is cut off.
        has_outputs: Whether the outputs are known: the entry is complete.
    """

    KIND: ClassVar[str] = "entry-signature"
    parameter_count: int | None = None
    parameters: Sequence[EntryValue] = ()
    outputs: Sequence[EntryValue] = ()
    has_outputs: bool = True

    @property
    def is_complete(self) -> bool:
        """Whether all parameters and outputs are known."""
        return self.has_outputs and self.parameter_count is not None

    @property
    def values(self) -> Sequence[EntryValue]:
        """The parameters, then the outputs."""
        count = len(self.parameters)
        return Rows(
            lambda place: self.parameters[place] if place < count else self.outputs[place - count],
            range(count + len(self.outputs)),
        )

    records = values


@fact
def entry_signature(dump: ModuleDump) -> EntrySignature:
    """Return parameters and outputs of a module's entry computation."""
    return signature_of(instruction_table(dump))


def signature_of(table: InstructionTable) -> EntrySignature:
    """Return parameters and outputs of a text's entry computation."""
    module, entry = table.module, table.module.entry
    if not module.has_entry:
        return EntrySignature(has_outputs=False)
    numbered = [
        (HloInstruction(entry, row).parameter_number, row) for row in table.entry_parameters
    ]
    numbered.sort(key=lambda pair: len(numbered) if pair[0] is None else pair[0])
    try:
        layout = module.entry_computation_layout
    except DumpSyntaxError:
        layout = None
    shapes = () if layout is None else layout.parameters
    is_whole = module.has_whole_entry
    has_all = is_whole or (layout is not None and len(shapes) == len(numbered))
    aliases: dict[tuple[int | None, ShapeIndex], int] = dict.fromkeys(module.buffer_donor, _DONOR)
    for place, alias in enumerate(module.input_output_alias):
        aliases[alias.parameter_number, alias.parameter_index] = place
        aliases[_OUTPUT, alias.output_index] = place
    measured: dict[int, tuple[Shape, _Leaf]] = {}
    parameters = _Columns(module=module, given=ArgumentNames(module))
    for position, (number, row) in enumerate(numbered):
        place = position if number is None else number
        shape = shapes[place] if place < len(shapes) else None
        instruction = HloInstruction(entry, row)
        for index in _add(parameters, instruction, shape, measured):
            parameters.numbers.append(number)
            parameters.aliases.append(aliases.get((number, index), _NO_ALIAS))
    root = entry.root if is_whole else None
    operands = root.operand_names if root is not None and root.opcode == "tuple" else ()
    outputs = _Columns(module=module, given=parameters.given, is_output=True, operands=operands)
    result = None if layout is None else layout.result
    for index in () if root is None else _add(outputs, root, result, measured):
        outputs.numbers.append(None)
        outputs.aliases.append(aliases.get((_OUTPUT, index), _NO_ALIAS))
    return EntrySignature(
        parameter_count=len(numbered) if has_all else None,
        parameters=Rows(partial(EntryValue, parameters), range(len(parameters.leaves))),
        outputs=Rows(partial(EntryValue, outputs), range(len(outputs.leaves))),
        has_outputs=is_whole,
    )


def _add(
    columns: _Columns,
    instruction: HloInstruction,
    shape: Shape | None,
    measured: dict[int, tuple[Shape, _Leaf]],
) -> Sequence[ShapeIndex]:
    """Add the leaves of a parameter or result, and return their indices.

    Args:
        columns: The columns.
        instruction: The parameter or result.
        shape: Its shape in the header; None for that of the instruction.
        measured: Leaves by the identity of their shape, so that each is measured once.
    """
    if shape is None:
        with contextlib.suppress(DumpSyntaxError):
            shape = instruction.shape
    pairs = [] if shape is None else list(islice(shape.leaves(), MOST_LEAVES + 1))
    if shape is None:
        indices: list[ShapeIndex] = [()]
        columns.leaves.append(_Leaf())
    else:
        pairs = pairs if len(pairs) <= MOST_LEAVES else [((), shape)]
        indices = [index for index, _ in pairs]
    for _, leaf in pairs:
        if id(leaf) not in measured:
            layout = None if leaf.layout is None else str(leaf.layout)
            sizes = leaf.size_bytes, leaf.padded_size_bytes
            measured[id(leaf)] = leaf, _Leaf(leaf.to_text(layout=False), layout, *sizes)
        columns.leaves.append(measured[id(leaf)][1])
    columns.indices.extend(indices)
    columns.rows.extend([instruction.row] * len(indices))
    columns.shardings.extend(_leaf_shardings(instruction, indices))
    return indices


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
