"""Parameters and outputs of a program: names, shapes, bytes, shardings, donation, further ways.

Shapes are those of the entry computation layout if the header prints it, else those of the
instructions. They are per device in a partitioned program, and global before partitioning. A tuple
has one row for each leaf (jax passes more than 2,000 arguments to a TPU as one tuple), unless there
are more than `MOST_LEAVES`.

Donation: an output with a parameter's buffer in ``input_output_alias`` shares it: the two need
memory once. A ``buffer_donor`` parameter may be reused for any output; the text does not say if it
was.

Ways of arguments: results that are updates of them (computed element by element, or in part), and
collectives that move their bytes.
"""

from __future__ import annotations

import contextlib
import sys
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.module import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import argument_names
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.program.value_flow import (
    CALLERS,
    COPIES,
    ENDS,
    SOURCELESS,
    TUPLES,
    Route,
    Use,
    Value,
    value_flow,
)
from hlo_lens.render.result import Records, Unit, columns_of
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.hlo.text import InputOutputAlias
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.value_flow import ValueFlow
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
        names: Position to name of the parameters whose name was asked for.
    """

    module: HloModule
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
        return argument_names(module).get(self._columns.rows[self._place])

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
    parameters = _Columns(module=module)
    for position, (number, row) in enumerate(numbered):
        place = position if number is None else number
        shape = shapes[place] if place < len(shapes) else None
        instruction = HloInstruction(entry, row)
        for index in _add(parameters, instruction, shape, measured):
            parameters.numbers.append(number)
            parameters.aliases.append(aliases.get((number, index), _NO_ALIAS))
    root = entry.root if is_whole else None
    operands = root.operand_names if root is not None and root.opcode == "tuple" else ()
    outputs = _Columns(module=module, is_output=True, operands=operands)
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


_MOST_STEPS = 1000
"""Most values that are followed back from one result."""

_PASSED = Route(TUPLES | COPIES)
_FIRST = opcodes_where(lambda traits: traits.is_formatting or traits.is_update) | {"custom-call"}
"""Opcodes whose result has elements of operand 0."""

_COMPUTED = opcodes_where(lambda traits: traits.is_elementwise) | {"concatenate"}
_NO_UPDATE = "broadcast"

_STORED = {"dynamic-update-slice": 1, "scatter": 2, "pad": 0}
"""Opcodes that put an operand into another value, and its position."""


@fact
def updated_arguments(module: ModuleDump) -> dict[str, frozenset[int]]:
    """Return the numbers of the parameters that each result is an update of, by its shape index.

    An update is computed from the parameter through elementwise operations, slices, copies, loops
    and calls, and through no product, sum or gather: new weights from old ones, a cache from the
    cache before. It is followed in the text from before optimizations where there is one.
    """
    text = module.before or hlo_text(module)
    root = text.entry.root
    if root is None or root.shape is None:
        return {}
    parts = len(root.shape.tuple_shapes)
    indices = [(k,) for k in range(parts)] if root.shape.is_tuple else [()]
    entry = {one.row: one.parameter_number for one in text.entry.parameters}
    return {
        braces(index) if index else "": frozenset(_sources(text, Value(root.row, index), entry))
        for index in indices
    }


class _Step(NamedTuple):
    """A value, and the rows of the calls by which it was entered, the innermost last."""

    value: Value
    calls: tuple[int, ...] = ()


def _sources(module: HloModule, result: Value, entry: Mapping[int, int | None]) -> Iterator[int]:
    """Yield the numbers of the parameters, given by row, that a result is an update of."""
    flow = value_flow(module)
    waiting, seen = [_Step(result)], {_Step(result)}
    while waiting and len(seen) <= _MOST_STEPS:
        step = waiting.pop()
        number = entry.get(step.value.row)
        if number is not None:
            yield number
        new = [one for one in _before(flow, step) if one not in seen]
        seen.update(new)
        waiting += new


def _before(flow: ValueFlow, step: _Step) -> list[_Step]:
    """Return the values whose elements a value has, or is computed from one by one."""
    (row, element), calls = step
    opcode, links = flow.opcodes[row], flow.module.links
    found: list[Value | None] = []
    if opcode == "while":
        found = [flow.operand(row, 0, element), flow.result(step.value, "body")]
    elif opcode in ("call", "fusion", "conditional"):
        roots = (links.root(call) for call in links.calls.of_row(row))
        found = [Value(root, element) for root in roots if root != NOTHING]
        calls = (*calls, row)
    elif opcode == "parameter":
        callers = links.calls.of_computation(links.owners[row])
        call = next((one for one in callers if one.row in calls[-1:]), next(iter(callers), None))
        calls = calls[:-1] if call is not None and call.row in calls[-1:] else calls
        is_loop = call is not None and flow.opcodes[call.row] == "while"
        if call is not None:
            found = [Value(call.row, element) if is_loop else flow.argument(step.value, call)]
    elif opcode in _FIRST:
        positions = {0, _STORED.get(opcode, 0)} if opcode != _NO_UPDATE else ()
        found = [flow.operand(row, position) for position in positions]
    elif opcode in _COMPUTED:
        found = [*flow.operands(row)]
    else:
        found = [flow.before(step.value, _PASSED)]
    return [_Step(one, calls) for one in found if one is not None]


_MOST = 300_000
"""Values that are visited, of all arguments together."""

_DEEPEST = 8
"""Deepest nesting of tuples; damaged texts have any."""

_STEPS = 256
"""Values of a loop's body that are visited for one element."""

_RUNNERS = CALLERS - {"custom-call"}
_PASSING = TUPLES | COPIES | ENDS | _RUNNERS
_BACK = Route(_PASSING, _RUNNERS - {"while"})

_NONE, _EVERY = range(0), range(1 << 20)
_JOINING = {"concatenate": _EVERY, "dynamic-update-slice": range(2), "select": range(1, 3)}
"""Operands that the elements of the result are of."""


@fact
def moved_arguments(module: ModuleDump) -> Mapping[int, tuple[str, ...]]:
    """Return the names of the arguments whose bytes each collective moves, by its row, in order.

    An argument is followed through what copies, converts, reorders, cuts and joins elements, and
    through collectives that add nothing up; as an element of a loop only if the body computes no
    other elements in its place.
    """
    hlo = hlo_text(module)
    found: dict[int, dict[str, None]] = defaultdict(dict)
    if not hlo.has_entry or not any(_way(opcode).is_collective for opcode in hlo.opcodes.different):
        return {}
    walk, names, visited = _Walk(hlo), argument_names(hlo), 0
    for number, row in sorted(hlo.links.parameters_of(hlo.entry.place).items()):
        name = names.get(row) or f"argument {number}"
        waiting, seen = [Value(row)], {Value(row)}
        while waiting and visited < _MOST:
            visited += 1
            value = waiting.pop()
            further: list[Value] = []
            for use in walk.flow.uses(value):
                way = _way(walk.opcodes[use.row])
                if way.is_collective:
                    found[use.row][name] = None
                if way.is_passing or way.is_combined:
                    further += walk.after(use, way)
                elif use.position in way.moved:
                    further.append(Value(use.row, use.element))
            if hlo.links.is_root(value.row):
                further += walk.returned(value)
            fresh = [v for v in further if v not in seen and len(v.element) <= _DEEPEST]
            waiting += fresh
            seen.update(fresh)
    return {row: tuple(listed) for row, listed in found.items()}


class _Way(NamedTuple):
    """What an opcode makes of the elements of its operands.

    Attributes:
        is_collective: Whether it is a collective, or its start.
        is_combined: Whether several operands are several collectives.
        is_passing: Whether it passes its operands on as they are, or to what it runs.
        moved: Numbers of the operands whose elements its result has.
    """

    is_collective: bool
    is_combined: bool
    is_passing: bool
    moved: range


@cache
def _way(opcode: str) -> _Way:
    traits = opcode_traits(opcode)
    base = opcode_traits(traits.base)
    if traits.collective_kind:
        if base.is_reduction:
            return _Way(True, False, False, _NONE)
        return _Way(True, base.is_combinable, False, _EVERY)
    moved = _JOINING.get(opcode) or range(int(traits.is_moving))
    return _Way(False, False, opcode in _PASSING, moved)


class _Walk:
    """Steps from a value to those that have its elements."""

    def __init__(self, module: HloModule) -> None:
        self.flow = value_flow(module)
        self.opcodes = self.flow.opcodes
        self._links = module.links
        self._kept: dict[Value, bool] = {}

    def after(self, use: Use, way: _Way) -> Iterable[Value]:
        """Return the values that have the elements of an operand that an instruction moves."""
        if self.opcodes[use.row] == "while" and not self._is_kept(Value(use.row, use.element)):
            return ()
        if way.is_combined and len(self._links.operands_of(use.row)) > 1:
            element = (use.position, *use.element)
            is_start = self.opcodes[use.row].endswith("-start")
            return (Value(use.row, (1, *element) if is_start else element),)
        return self.flow.after(use)

    def returned(self, value: Value) -> Iterable[Value]:
        """Return the result of the call whose computation returns a value, and what that gives."""
        returned = self.flow.returned(value)
        if returned is None:
            return ()
        call = self.flow.caller(value.row)
        is_body = call is not None and call.role == "body"  # then the next iteration has it too
        return (
            returned,
            *(self.flow.after(Use(returned.row, 0, value.element)) if is_body else ()),
        )

    def _is_kept(self, value: Value) -> bool:
        """Return whether an element of a loop is never one that the body computes."""
        written = self.flow.written(value) if value.element else None
        if written is None:
            return True
        if value not in self._kept:
            waiting, seen = [written], {written}
            while waiting and len(seen) < _STEPS:
                behind = self._behind(waiting.pop())
                if behind is None:
                    break
                waiting += (one for one in behind if one not in seen)
                seen.update(behind)
            else:
                self._kept[value] = not waiting
            self._kept.setdefault(value, False)
        return self._kept[value]

    def _behind(self, value: Value) -> list[Value] | None:
        """Return the values whose elements a value has; None where they are computed."""
        before = self.flow.before(value, _BACK)
        if before is not None:
            return [before]
        opcode = self.opcodes[value.row]
        if opcode in SOURCELESS or opcode == "broadcast":
            return []
        moved = _way(opcode).moved
        operands = self.flow.operands(value.row)
        return [operands[k] for k in range(len(operands)) if k in moved] if moved else None
