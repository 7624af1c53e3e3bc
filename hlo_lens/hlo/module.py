"""HloModule: a program as XLA prints it.

Its computations and instructions are light views over columns of text offsets
(`hlo_lens.hlo.columns`).
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import (
    END,
    LONG_NUMBER,
    NAME,
    NOTHING,
    OPCODE,
    OPCODE_END,
    OPERANDS,
    OPERANDS_END,
    SHAPE,
    SHAPE_END,
    SIGNATURE,
    STRIDE,
    TAIL,
    TITLE,
    ComputationColumns,
    ComputationParts,
    InstructionColumns,
    NameIndex,
)
from hlo_lens.hlo.links import Links
from hlo_lens.hlo.metadata import OpMetadata, SourceLocation, StackFrames, parse_metadata
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.text import (
    HloOperand,
    HloReader,
    InputOutputAlias,
    parse_aliasing,
    parse_donors,
    parse_frontend_attributes,
)
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.rows import FewTexts, Rows
from hlo_lens.text.source_files import is_library_file, makes_every_operation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.replica_groups import CollectiveDeviceList
    from hlo_lens.shapes.shape import ProgramShape, Shape, ShapeIndex
    from hlo_lens.shapes.sharding import HloSharding
    from hlo_lens.text.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkValue:
    """One array argument or result of the user's function.

    Attributes:
        name: Path of the argument (``params['layer_0']['kernel']``) or of the result.
        number: Number of the HLO parameter; None for an output, and for an argument that the
            program does not use or whose parameter is not known.
        index: Shape index: of the leaf of a parameter that is a tuple, or of the output.
        shape: Global shape, over all devices; None if not known.
        sharding: Its sharding; None if not known.
        is_donated: Whether the user donated it; None for outputs.
        is_used: Whether the program has a parameter for it; True for outputs.
    """

    name: str
    number: int | None = None
    index: ShapeIndex = ()
    shape: Shape | None = None
    sharding: HloSharding | None = None
    is_donated: bool | None = None
    is_used: bool = True


@dataclass(frozen=True, kw_only=True)
class Framework:
    """Facts that a framework knows about a program.

    Attributes:
        name: Framework and version: ``jax 0.10.2``.
        backend: ``cpu``, ``gpu`` or ``tpu``; None if not known.
        arguments: All arrays of the arguments, in the order of the flattened arguments.
        outputs: All arrays of the result, in order.
        meshes: Meshes of arguments and results, in order of appearance.
        memory: Bytes by the names of XLA's CompiledMemoryStats; empty if there are none.
        notes: Sentences on what could not be found out.
    """

    name: str
    backend: str | None = None
    arguments: tuple[FrameworkValue, ...] = ()
    outputs: tuple[FrameworkValue, ...] = ()
    meshes: tuple[Mesh, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def unused(self) -> tuple[FrameworkValue, ...]:
        return tuple(value for value in self.arguments if not value.is_used)

    def argument(self, number: int | None, index: ShapeIndex = ()) -> FrameworkValue | None:
        """Return the argument of a parameter, or of a leaf of one; None if not known."""
        return self._by_parameter.get((number, index))

    @functools.cached_property
    def _by_parameter(self) -> Mapping[tuple[int | None, ShapeIndex], FrameworkValue]:
        known = (value for value in self.arguments if value.number is not None)
        return {(value.number, value.index): value for value in known}


class HloInstruction:
    """One instruction: a view over columns, cheap to make; equal if the content is equal."""

    __slots__ = ("_opcode", "computation", "row")

    def __init__(self, computation: HloComputation, row: int) -> None:
        self.computation = computation
        self.row = row
        self._opcode: str | None = None

    def __repr__(self) -> str:
        return f"<HloInstruction {self.name} = {self.shape_text or '?'} {self.opcode}(...)>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloInstruction):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash((self.name, self.opcode))

    def _content(self) -> tuple[object, ...]:
        return (
            self.name,
            self.opcode,
            self.shape,
            self.operand_text if opcode_traits(self.opcode).is_printed_value else self.operands,
            self.is_root,
            self.attribute_list,
        )

    @property
    def _columns(self) -> InstructionColumns:
        return self.computation.module.columns

    @property
    def name(self) -> str:
        """Name without ``%``; unique within the computation."""
        return self._columns.name(self.row)

    @property
    def opcode(self) -> str:
        """Opcode as written, sugar included: ``reduce-scatter-start``."""
        if self._opcode is None:
            self._opcode = self._columns.opcode(self.row)
        return self._opcode

    @property
    def shape_text(self) -> str:
        """Result shape as written, or inferred where left out; empty if it is not known."""
        return self._columns.text(self.row, SHAPE, SHAPE_END)

    @property
    def shape(self) -> Shape | None:
        """Result shape; None if the text leaves it out and it does not follow from the operands.

        XLA computes the shape of ``send`` and ``recv`` whatever is printed: the data, a u32 and a
        token (hlo_parser.cc, CreateInstruction; hlo_instructions.cc, HloSendInstruction).
        """
        text = self.shape_text
        if not text:
            return None
        shape = self.computation.module.reader.shape(text)
        if shape.is_tuple and (traits := opcode_traits(self.opcode)).is_paired and traits.is_start:
            return self._transfer_shape(shape)
        return shape

    def _transfer_shape(self, printed: Shape) -> Shape:
        if len(printed.tuple_shapes) != 3:
            return printed
        data, context, token = printed.tuple_shapes
        if context.dimensions:
            context = self.computation.module.reader.shape("u32[]")
        producer = self.producer(0) if self.opcode == "send" else None
        if producer is not None and producer[0].opcode != "send":  # which no send may send
            data = producer[0].shape_of(producer[1]) or data
        return type(printed).tuple_of((data, context, token))

    @property
    def operand_text(self) -> str:
        """The text between the parentheses: operands, a literal or a parameter number."""
        return self._columns.text(self.row, OPERANDS, OPERANDS_END)

    @property
    def operands(self) -> tuple[HloOperand, ...]:
        """Operands in order; empty for a constant and a parameter."""
        return self._columns.operands(self.row)

    @property
    def operand_names(self) -> tuple[str, ...]:
        """Names of the operands; ``%w#1`` is an operand named ``w`` (see `operands` for the 1)."""
        return tuple(operand.name for operand in self.operands)

    def producer(self, position: int) -> tuple[HloInstruction, ShapeIndex] | None:
        """Return the instruction that defines an operand, and the tuple index into its result.

        None if there is no such operand, or the text does not define it.
        """
        operands = self.operands
        if position >= len(operands):
            return None
        found = self.computation.instruction(operands[position].name)
        return None if found is None else (found, operands[position].index)

    def operand_shape(self, position: int) -> Shape | None:
        """Return the shape of an operand, or None if the text does not define it."""
        found = self.producer(position)
        return None if found is None else found[0].shape_of(found[1])

    def shape_of(self, element: ShapeIndex) -> Shape | None:
        shape = self.shape
        for place in element:
            parts = () if shape is None else shape.tuple_shapes
            shape = parts[place] if place < len(parts) else None
        return shape

    @property
    def parameter_number(self) -> int | None:
        """K of ``parameter(K)``; None for other opcodes and if not printed."""
        return self._columns.parameter_number(self.row)

    @property
    def is_root(self) -> bool:
        """Whether it is the computation's result: marked ROOT, or the last if none is marked."""
        return self.row == self.computation.root_row

    @property
    def attribute_list(self) -> tuple[tuple[str, str], ...]:
        """Names and values in order, as written; async sugar can repeat a name."""
        return self._columns.attribute_list(self.row)

    @property
    def attributes(self) -> Mapping[str, str]:
        """Name to value as written; the first value of a repeated name."""
        found: dict[str, str] = {}
        for name, value in self.attribute_list:
            found.setdefault(name, value)
        return MappingProxyType(found)

    def attribute(self, name: str) -> str | None:
        """Return the value of one attribute as written, or None."""
        return self._columns.attribute(self.row, name)

    @property
    def called_computations(self) -> tuple[str, ...]:
        """Names of the computations it calls, in order of the attributes, without ``%``.

        A computation that is two branches of a conditional is listed twice.
        """
        return tuple(name for _, name in self.calls)

    @property
    def calls(self) -> tuple[tuple[str, str], ...]:
        return self._columns.calls(self.row)

    @property
    def control_predecessors(self) -> tuple[str, ...]:
        """Names of the instructions that must run before it, without ``%``."""
        return self._columns.control_predecessors(self.row)

    @property
    def sharding(self) -> HloSharding | None:
        value = self.attribute("sharding")
        return self.computation.module.reader.printed_sharding(value) if value else None

    @property
    def device_list(self) -> CollectiveDeviceList | None:
        """Device groups of a collective (``replica_groups``); None for other instructions.

        None too for groups of an unknown form.
        """
        value = self.attribute("replica_groups")
        try:
            return self.computation.module.reader.device_list(value) if value else None
        except DumpSyntaxError:
            return None

    @property
    def tuple_index(self) -> int | None:
        """K of ``get-tuple-element(...), index=K``; None if it is not printed or no such number."""
        return self._columns.tuple_index(self.row)

    @property
    def channel_id(self) -> int | None:
        """Channel of a collective, send or recv; None if there is none or it is masked."""
        value = self.attribute("channel_id")
        is_known = value and len(value) < LONG_NUMBER and value.lstrip("-").isdecimal()
        return int(value) if value and is_known else None

    @property
    def metadata(self) -> OpMetadata | None:
        value = self.attribute("metadata")
        return parse_metadata(value) if value else None

    @property
    def frontend_attributes(self) -> Mapping[str, str]:
        """Attributes of the framework, without quotes and escapes."""
        value = self.attribute("frontend_attributes")
        return parse_frontend_attributes(value) if value else {}

    @property
    def op_name(self) -> str | None:
        metadata = self.metadata
        return None if metadata is None else metadata.op_name or None

    @property
    def source(self) -> str | None:
        """Innermost place in the user's program as ``file:line``; None if unknown."""
        place = self.source_location
        return None if place is None else str(place)

    @property
    def call_stack(self) -> tuple[SourceLocation, ...]:
        """Places of the stack frames that made it, innermost first."""
        frame = None if self.metadata is None else self.metadata.stack_frame_id
        return self.computation.module.stack_frames.stack(frame) if frame else ()

    @property
    def user_stack(self) -> list[SourceLocation]:
        return [place for place in self.call_stack if not is_library_file(place.file)]

    @property
    def source_location(self) -> SourceLocation | None:
        """Innermost place in the user's program in the metadata, or None."""
        metadata = self.metadata
        return None if metadata is None else self.computation.module.source_location(metadata)

    @property
    def span(self) -> Span:
        """Its span in the text, from its name to its end."""
        from hlo_lens.text.source import Span

        base = self.row * STRIDE
        spans = self._columns.spans
        return Span(spans[base + NAME], spans[base + END])

    @property
    def line(self) -> int:
        """1-based line in the file."""
        return self._columns.source.line_column(self.span.start)[0]


_FEW_ROWS = 128
"""Rows of a computation up to which a dictionary of names is faster than a `NameIndex`."""


class HloComputation:
    """A computation: a list of instructions with one result. A view over columns, cheap to make."""

    __slots__ = ("_columns", "_name", "module", "place")

    def __init__(
        self, module: HloModule, place: int, columns: ComputationColumns | None = None
    ) -> None:
        self.module = module
        self.place = place
        self._columns = module.computation_columns if columns is None else columns
        self._name: str | None = None

    def __repr__(self) -> str:
        return f"<HloComputation {self.name} of {len(self.rows)} instructions>"

    @property
    def name(self) -> str:
        """Name without ``%``; empty where the text prints none."""
        if self._name is None:
            known = self._columns.names.get(self.place)
            self._name = self._text(TITLE) if known is None else known
        return self._name

    @property
    def is_entry(self) -> bool:
        return self._columns.is_entry(self.place)

    @property
    def is_complete(self) -> bool:
        """Whether its closing brace was found."""
        return self._columns.is_complete(self.place)

    @property
    def is_inline(self) -> bool:
        """Whether its body is printed inside the instruction that calls it."""
        return self._columns.is_inline(self.place)

    @property
    def start(self) -> int:
        return self._columns.start(self.place)

    @property
    def rows(self) -> Sequence[int]:
        return self._columns.rows(self.place)

    def _text(self, column: int) -> str:
        start, end = self._columns.span(self.place, column)
        return self.module.columns.source.text[start:end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloComputation):
            return NotImplemented
        if self._columns is other._columns and self.place == other.place:
            return True
        return (
            self.name == other.name
            and self.is_entry == other.is_entry
            and self.attributes_text == other.attributes_text
            and self.instructions == other.instructions
        )

    def __hash__(self) -> int:
        return hash((self.name, len(self.rows)))

    @property
    def signature_text(self) -> str:
        """``(parameters) -> shape`` as written; empty where it is not printed."""
        return self._text(SIGNATURE)

    @property
    def signature_span(self) -> Span:
        from hlo_lens.text.source import Span

        return Span(*self._columns.span(self.place, SIGNATURE))

    @property
    def attributes_text(self) -> str:
        """The text after the closing brace, with its leading comma."""
        return self._text(TAIL)

    @property
    def instructions(self) -> Sequence[HloInstruction]:
        return Rows(functools.partial(HloInstruction, self), self.rows)

    @property
    def root_row(self) -> int:
        """Row of the result: the one marked ROOT, else the last; -1 where there is none.

        Without a mark, a computation that is cut off has lost its result.
        """
        rows = self.rows
        marked = self.module.columns.root_among(rows)
        return rows[-1] if marked < 0 and rows and self.is_complete else marked

    @property
    def root(self) -> HloInstruction | None:
        """The result; None for an empty computation, and for one that was cut off before it."""
        row = self.root_row
        return None if row < 0 else HloInstruction(self, row)

    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """Parameters by number; those without a printed number come last, in text order."""
        columns = self.module.columns
        text, spans = columns.source.text, columns.spans
        likely = (r for r in self.rows if text.startswith("parameter", spans[r * STRIDE + OPCODE]))
        rows = [row for row in likely if columns.opcode(row) == "parameter"]
        numbers = {row: columns.parameter_number(row) for row in rows}
        rows.sort(key=lambda row: (numbers[row] is None, numbers[row] or 0))
        return tuple(HloInstruction(self, row) for row in rows)

    def instruction(self, name: str) -> HloInstruction | None:
        """Return the instruction of a name (with or without ``%``), or None.

        If several have the name, as in hand-written text, the last one.
        """
        indexes = self._columns.name_indexes
        index = indexes.get(self.place) or self._columns.small_indexes.get(self.place)
        if index is None:
            index = self._name_index()
        row = index.get(name.removeprefix("%"))
        return None if row is None else HloInstruction(self, row)

    def _name_index(self) -> NameIndex | dict[str, int]:
        """Return a new index of the rows by name, and remember it: that of few rows for a while."""
        rows, columns, all_columns = self.rows, self._columns, self.module.columns
        if len(rows) > _FEW_ROWS:
            index = NameIndex(rows, all_columns.name, all_columns.names(rows))
            columns.name_indexes[self.place] = index
            return index
        if len(columns.small_indexes) >= 64:  # each takes 200 bytes a name
            columns.small_indexes.clear()
        small = columns.small_indexes[self.place] = all_columns.rows_by_name(rows)
        return small

    @property
    def callers(self) -> tuple[HloInstruction, ...]:
        """Instructions that call it, in text order."""
        module = self.module
        named = module.computation(self.name)
        calls = () if named is None else module.links.calls.of_computation(named.place)
        return tuple(map(module.instruction, dict.fromkeys(call.row for call in calls)))


_PLACES = "_places_by_name"
"""Not pickled, but made again: an index, whose hashes are those of one process."""


@dataclass(eq=False)
class HloModule:
    """A program as XLA prints it.

    Attributes:
        name: As in the header; empty without a header.
        header: Header attributes, name to value as written.
        stack_frames: The stack frame tables; empty if the dump has none.
        gaps: Places that could not be read, in text order.
        passed_lines: Number of other lines outside its computations, as in a log; skipped.
        strange_spans: Spans that are no HLO: skipped lines and gaps, which may be lines of a log.
        is_truncated: Whether the text ends inside a computation.
        unknown_attributes: Names of attributes that XLA of August 2026 does not have; they are kept
            like the others.
        start: Its offset in the text.
        framework: Facts from the framework that compiled it; None for dumps.
    """

    name: str
    columns: InstructionColumns = field(repr=False)
    reader: HloReader = field(repr=False)
    header: Mapping[str, str] = field(default_factory=dict, repr=False)
    computation_columns: ComputationColumns = field(default_factory=ComputationColumns, repr=False)
    stack_frames: StackFrames = field(default_factory=StackFrames, repr=False)
    gaps: tuple[Gap, ...] = field(default=(), repr=False)
    passed_lines: int = 0
    strange_spans: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    is_truncated: bool = False
    unknown_attributes: tuple[str, ...] = ()
    start: int = 0
    framework: Framework | None = field(default=None, repr=False)
    _entry: HloComputation | None = field(default=None, init=False, repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloModule):
            return NotImplemented
        return (
            self.name == other.name
            and dict(self.header) == dict(other.header)
            and self.stack_frames == other.stack_frames
            and self.computations == other.computations
        )

    __hash__ = object.__hash__

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != _PLACES}

    @property
    def path(self) -> str:
        return self.columns.source.path

    @property
    def computations(self) -> Sequence[HloComputation]:
        make = functools.partial(HloComputation, self)
        return Rows(make, range(len(self.computation_columns)))

    @property
    def entry(self) -> HloComputation:
        """The entry computation.

        The one marked ENTRY; else the last, as in XLA's parser. One without instructions where the
        text has lost its entry (`has_entry`), or has no computations.
        """
        if self._entry is not None:
            return self._entry
        columns, place = self.computation_columns, 0
        if not self.has_entry:
            columns = ComputationColumns()
            columns.add(ComputationParts(is_entry=True, rows=range(0)))
        else:
            marked = (place for place in range(len(columns)) if columns.is_entry(place))
            place = next(marked, len(columns) - 1)
        self._entry = HloComputation(self, place, columns)
        return self._entry

    @functools.cached_property
    def has_entry(self) -> bool:
        """Whether the text has an entry: a truncated one without ENTRY has lost it."""
        return bool(self.computations) and (
            not self.is_truncated or any(one.is_entry for one in self.computations)
        )

    @property
    def has_whole_entry(self) -> bool:
        """Whether the text has the entry up to its closing brace."""
        return self.has_entry and self.entry.is_complete

    @property
    def instructions(self) -> Iterator[HloInstruction]:
        for computation in self.computations:
            yield from computation.instructions

    @property
    def instruction_count(self) -> int:
        return len(self.columns)

    def opcode_counts(self) -> Counter[str]:
        return Counter(self.opcodes)

    @functools.cached_property
    def computation_names(self) -> Sequence[str]:
        """Names of all computations in text order, without ``%``."""
        return self.computation_columns.all_names(self.columns.source.text)

    @functools.cached_property
    def _places_by_name(self) -> NameIndex:
        names = self.computation_names
        return NameIndex(range(len(names)), names.__getitem__, names)

    def computation(self, name: str) -> HloComputation | None:
        """Return the computation of a name (with or without ``%``), or None."""
        place = self._places_by_name.get(name.removeprefix("%"))
        return None if place is None else HloComputation(self, place)

    @functools.cached_property
    def opcodes(self) -> FewTexts:
        return FewTexts(self.columns.texts(OPCODE, OPCODE_END))

    @functools.cached_property
    def shape_texts(self) -> FewTexts:
        """Result shape of each row, as written or inferred; empty where it is not known."""
        return FewTexts(self.columns.texts(SHAPE, SHAPE_END))

    @functools.cached_property
    def links(self) -> Links:
        return Links(self.columns, self.computation_columns, self.opcodes)

    def instruction(self, row: int) -> HloInstruction:
        return HloInstruction(HloComputation(self, self.links.owners[row]), row)

    def operand_shape(self, row: int, position: int) -> Shape | None:
        """Return the shape of an operand of a row; None if the text does not define it."""
        operand, element = self.links.operand(row, position)
        return None if operand == NOTHING else self.instruction(operand).shape_of(element)

    @property
    def is_scheduled(self) -> bool:
        """Whether the order of instructions is the order of execution."""
        return self.header.get("is_scheduled") == "true"

    @property
    def num_partitions(self) -> int:
        """Number of SPMD partitions; 1 if not printed."""
        return self._count("num_partitions")

    @property
    def replica_count(self) -> int:
        """Number of replicas; 1 if not printed."""
        return self._count("replica_count")

    def _count(self, name: str) -> int:
        value = self.header.get(name, "1")
        return int(value) if value.isdecimal() and len(value) < LONG_NUMBER else 1

    @functools.cached_property
    def entry_computation_layout(self) -> ProgramShape | None:
        """Parameter shapes and result shape with layouts; None if not printed or not readable."""
        value = self.header.get("entry_computation_layout")
        try:
            return self.reader.program_shape(value) if value else None
        except DumpSyntaxError:  # listed as a gap of the module
            return None

    @functools.cached_property
    def input_output_alias(self) -> tuple[InputOutputAlias, ...]:
        """Outputs that use the buffer of a donated parameter."""
        value = self.header.get("input_output_alias")
        return parse_aliasing(value) if value else ()

    @functools.cached_property
    def buffer_donor(self) -> tuple[tuple[int, ShapeIndex], ...]:
        """Parameter number and index of buffers that may be reused for any output."""
        value = self.header.get("buffer_donor")
        return parse_donors(value) if value else ()

    @functools.cached_property
    def frontend_attributes(self) -> Mapping[str, str]:
        """Attributes of the framework on the module, without quotes and escapes."""
        value = self.header.get("frontend_attributes")
        return parse_frontend_attributes(value) if value else {}

    def source_location(self, metadata: OpMetadata) -> SourceLocation | None:
        """Return the innermost place of the metadata in the user's program, or None.

        If all places are in libraries (`is_library_file`), the innermost one of all.
        """
        if metadata.source_file:
            if makes_every_operation(metadata.source_file):
                return None
            line, column = metadata.source_line, metadata.source_column
            return SourceLocation(file=metadata.source_file, line=line, column=column)
        return self.stack_frames.user_location(metadata.stack_frame_id or 0)
