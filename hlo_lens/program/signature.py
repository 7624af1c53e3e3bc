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
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
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
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.value_flow import ValueFlow
    from hlo_lens.shapes.shape import Shape, ShapeIndex


MOST_LEAVES = 1 << 16
"""A tuple with more leaves than this is one row."""


@dataclass(frozen=True, slots=True)
class EntryValue:
    """One parameter, one output, or a leaf of it."""

    kind: Annotated[str, "parameter or output"]
    number: Annotated[int | None, "parameter number"]
    index: Annotated[str, "shape index of the leaf"]
    name: Annotated[str, "argument name, or the instruction that gives the value"]
    shape: Annotated[str | None, "shape without layout"]
    layout: Annotated[str | None, "layout as printed"]
    size_bytes: Annotated[int | None, Unit.BYTES, "bytes of the elements, logical"]
    padded_size_bytes: Annotated[int | None, Unit.BYTES, "bytes with the padding of tiles"]
    sharding: Annotated[str | None, "sharding as written"]
    donation: Annotated[str | None, "may-alias, must-alias or donor"]
    aliased_with: Annotated[str | None, "what shares its buffer"]
    is_named: bool
    """Whether a framework gave the name; else it is the instruction's."""


def braces(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it."""
    return f"{{{','.join(map(str, index))}}}"


@dataclass(frozen=True, kw_only=True)
class EntrySignature(Records[EntryValue]):
    """Leaves of parameters by number, then of outputs by index; of a cut entry those before it."""

    KIND: ClassVar[str] = "entry-signature"
    parameter_count: int | None = None
    """Number of HLO parameters, a tuple as one; None if not known."""
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
        return (*self.parameters, *self.outputs)

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
    layout = module.entry_computation_layout
    shapes = () if layout is None else layout.parameters
    is_whole = module.has_whole_entry
    has_all = is_whole or (layout is not None and len(shapes) == len(numbered))
    maker = _Maker(module)
    parameters: list[EntryValue] = []
    for position, (number, row) in enumerate(numbered):
        place = position if number is None else number
        shape = shapes[place] if place < len(shapes) else None
        parameters += maker.values(HloInstruction(entry, row), shape, number)
    outputs: list[EntryValue] = []
    if is_whole and entry.root is not None:
        outputs += maker.values(entry.root, None if layout is None else layout.result, _OUTPUT)
    return EntrySignature(
        parameter_count=len(numbered) if has_all else None,
        parameters=parameters,
        outputs=outputs,
        has_outputs=is_whole,
    )


_OUTPUT = -1
"""Number of an output among parameters."""


class _Maker:
    """Makes the entry values of a module; each shape is measured once."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._names = argument_names(module)
        self._measures = cache(_measures)
        self._donations: dict[tuple[int | None, ShapeIndex], tuple[str, str | None]]
        self._donations = dict.fromkeys(module.buffer_donor, ("donor", None))
        for alias in module.input_output_alias:
            number, index = alias.parameter_number, alias.parameter_index
            parameter = f"{number}{braces(index) if index else ''}"
            self._donations[number, index] = alias.kind, braces(alias.output_index)
            self._donations[_OUTPUT, alias.output_index] = alias.kind, parameter

    def values(
        self, instruction: HloInstruction, shape: Shape | None, number: int | None
    ) -> Iterator[EntryValue]:
        """Yield the leaves of a parameter, or of the result (number `_OUTPUT`).

        The shape is that in the header; None for that of the instruction.
        """
        if shape is None:
            with contextlib.suppress(DumpSyntaxError):
                shape = instruction.shape
        leaves: list[tuple[ShapeIndex, Shape | None]] = (
            [] if shape is None else [*islice(shape.leaves(), MOST_LEAVES + 1)]
        )
        if shape is None or len(leaves) > MOST_LEAVES:
            leaves = [((), shape)]
        name, given = instruction.name, self._names.get(instruction.row)
        is_output, framework = number == _OUTPUT, self._module.framework
        elements = instruction.operand_names if is_output and instruction.opcode == "tuple" else ()
        shardings = _leaf_shardings(instruction, [index for index, _ in leaves])
        for (index, leaf), sharding in zip(leaves, shardings, strict=True):
            own = elements[index[0]] if len(index) == 1 and index[0] < len(elements) else name
            argument = None if framework is None else framework.argument(number, index)
            named = given if argument is None else argument.name
            donation, aliased_with = self._donations.get((number, index), (None, None))
            text, layout, size, padded = (None,) * 4 if leaf is None else self._measures(leaf)
            yield EntryValue(
                kind="output" if is_output else "parameter",
                number=None if is_output else number,
                index=braces(index) if index else "",
                name=own if is_output else named or own,
                shape=text,
                layout=layout,
                size_bytes=size,
                padded_size_bytes=padded,
                sharding=sharding,
                donation=donation,
                aliased_with=aliased_with,
                is_named=not is_output and named is not None,
            )


def _measures(leaf: Shape) -> tuple[str, str | None, int | None, int | None]:
    layout = None if leaf.layout is None else str(leaf.layout)
    return leaf.to_text(layout=False), layout, leaf.size_bytes, leaf.padded_size_bytes


def _leaf_shardings(instruction: HloInstruction, indices: Sequence[ShapeIndex]) -> list[str | None]:
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
        positions = {0, _STORED.get(opcode, 0)} if opcode != "broadcast" else ()
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
    """What an opcode makes of the elements of its operands."""

    is_collective: bool  # or its start
    is_combined: bool  # several operands are several collectives
    is_passing: bool  # its operands as they are, or to what it runs
    moved: range  # numbers of the operands whose elements its result has


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
        opcode = self.opcodes[use.row]
        if opcode == "while" and not self._is_kept(Value(use.row, use.element)):
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
        if value not in self._kept:
            written = self.flow.written(value) if value.element else None
            waiting, seen = [] if written is None else [written], {written}
            while waiting and len(seen) < _STEPS:
                behind = self._behind(waiting[-1])
                if behind is None:
                    break
                waiting[-1:] = [one for one in behind if one not in seen]
                seen.update(behind)
            self._kept[value] = not waiting
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
