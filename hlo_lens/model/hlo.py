"""HloModule, HloComputation and HloInstruction.

An instruction is a light view over columns: where its parts stand in the text. What a part means
(its shape, sharding, attributes) is read when it is asked for, by the reader that syntax hands to
the module, and remembered per distinct text.
"""

from __future__ import annotations

import bisect
import functools
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, overload

from hlo_lens.model.metadata import OpMetadata, SourceLocation, StackFrames
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from hlo_lens.model.framework import Framework
    from hlo_lens.model.replica_groups import CollectiveDeviceList
    from hlo_lens.model.shape import ProgramShape, Shape, ShapeIndex
    from hlo_lens.model.sharding import HloSharding
    from hlo_lens.text.errors import Gap
    from hlo_lens.text.source import Source, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class HloOperand:
    """One operand as written.

    Attributes:
        name: Name of the instruction, without ``%``.
        index: Tuple index after ``#`` (compact get-tuple-element), outermost first; () for none.
        shape_text: The operand's shape where it is printed, else None.
    """

    name: str
    index: ShapeIndex = ()
    shape_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutputAlias:
    """An output buffer that is the buffer of a parameter.

    Attributes:
        output_index: Index into the result shape of the entry computation.
        parameter_number: Number of the entry parameter.
        parameter_index: Index into that parameter's shape.
        kind: ``may-alias`` or ``must-alias``.
    """

    output_index: ShapeIndex
    parameter_number: int
    parameter_index: ShapeIndex
    kind: str = "may-alias"


class HloReader(Protocol):
    """What the model asks of syntax: the meaning of a part of an instruction's text."""

    def shape(self, text: str) -> Shape:
        """Return the shape that a text prints."""
        ...

    def sharding(self, text: str) -> HloSharding:
        """Return the sharding that a text prints."""
        ...

    def device_list(self, text: str) -> CollectiveDeviceList:
        """Return the device groups that a ``replica_groups`` value prints."""
        ...

    def metadata(self, text: str) -> OpMetadata:
        """Return what a ``metadata`` value prints."""
        ...

    def metadata_string(self, text: str, name: str) -> str | None:
        """Return one field of a ``metadata`` value that is text, the last of that name, or None."""
        ...

    def operands(self, text: str) -> tuple[HloOperand, ...]:
        """Return the operands between an instruction's parentheses."""
        ...

    def attributes(self, text: str) -> tuple[tuple[str, str], ...]:
        """Return names and values of an attribute list, in order, as written."""
        ...

    def attribute(self, text: str, name: str) -> str | None:
        """Return the first value of one name in an attribute list, as written; None without any."""
        ...

    def string(self, text: str) -> str:
        """Return a quoted string without quotes and C escapes; any other text as it is."""
        ...

    def frontend_attributes(self, text: str) -> Mapping[str, str]:
        """Return the keys and values of a ``frontend_attributes`` value, unquoted."""
        ...

    def names(self, text: str) -> tuple[str, ...]:
        """Return the names in a list such as ``{%a, %b}`` or ``%a``, without ``%``."""
        ...

    def program_shape(self, text: str) -> ProgramShape:
        """Return what an ``entry_computation_layout`` value prints."""
        ...

    def aliasing(self, text: str) -> tuple[InputOutputAlias, ...]:
        """Return what an ``input_output_alias`` value prints."""
        ...

    def donors(self, text: str) -> tuple[tuple[int, ShapeIndex], ...]:
        """Return parameter numbers and indices of a ``buffer_donor`` value."""
        ...


NAME, NAME_END, SHAPE, SHAPE_END, OPCODE, OPCODE_END, OPERANDS, OPERANDS_END, END = range(9)
"""Columns of one row. Attributes: from OPERANDS_END + 1 to END. No shape: SHAPE == SHAPE_END."""
STRIDE = 9


@dataclass(slots=True)
class Overlay:
    """What is known of one row beside its spans, because the text does not print it plainly.

    Attributes:
        name: Generated name of an instruction that the text nests in an operand list.
        operands: Operands with such names in place.
        attributes: Attribute list that the splitter cannot cut (nested deeper than it follows).
        called: Names of computations whose bodies the text prints in place.
    """

    name: str | None = None
    operands: tuple[HloOperand, ...] | None = None
    attributes: tuple[tuple[str, str], ...] | None = None
    called: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class InstructionColumns:
    """Where the parts of every instruction stand in the text; one row per instruction.

    Attributes:
        source: The text.
        spans: `STRIDE` offsets for each row.
        roots: Rows that are marked ROOT, ascending.
        overlays: What is known of single rows beside their spans.
    """

    source: Source
    spans: array[int] = field(default_factory=lambda: array("I"))
    roots: array[int] = field(default_factory=lambda: array("I"))
    overlays: dict[int, Overlay] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.spans) // STRIDE

    def text(self, row: int, first: int, last: int) -> str:
        """Return the text between two columns of a row."""
        base = row * STRIDE
        return self.source.text[self.spans[base + first] : self.spans[base + last]]

    def name(self, row: int) -> str:
        """Return the name of a row's instruction, without ``%``."""
        overlay = self.overlays.get(row)
        if overlay is not None and overlay.name is not None:
            return overlay.name
        return self.text(row, NAME, NAME_END)

    def root_among(self, rows: Sequence[int], default: int) -> int:
        """Return the last of some ascending rows that is marked ROOT, or a default."""
        place = bisect.bisect_right(self.roots, default)
        while place and self.roots[place - 1] >= rows[0]:
            place -= 1
            root = self.roots[place]
            if rows[bisect.bisect_left(rows, root)] == root:
                return root
        return default

    def attributes_text(self, row: int) -> str:
        """Return all that stands after the operand list, with its leading comma."""
        base = row * STRIDE
        return self.source.text[self.spans[base + OPERANDS_END] + 1 : self.spans[base + END]]


class HloInstruction:
    """One instruction: a view, cheap to make; equal when it says the same.

    Args:
        computation: The computation that holds it.
        row: Its row in the module's columns.
    """

    __slots__ = ("_row", "computation")

    def __init__(self, computation: HloComputation, row: int) -> None:
        self.computation = computation
        self._row = row

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
            self.operands if self.opcode not in ("constant", "parameter") else self.operand_text,
            self.is_root,
            self.attribute_list,
        )

    @property
    def _columns(self) -> InstructionColumns:
        return self.computation.module.columns

    @property
    def _overlay(self) -> Overlay | None:
        return self._columns.overlays.get(self._row)

    @property
    def name(self) -> str:
        """Name without ``%``; unique within the computation."""
        return self._columns.name(self._row)

    @property
    def row(self) -> int:
        """Its row in the module's columns."""
        return self._row

    @property
    def opcode(self) -> str:
        """Opcode as written, sugar included: ``reduce-scatter-start``."""
        return self._columns.text(self._row, OPCODE, OPCODE_END)

    @property
    def shape_text(self) -> str:
        """Result shape as written; empty where the text leaves it out."""
        return self._columns.text(self._row, SHAPE, SHAPE_END)

    @property
    def shape(self) -> Shape | None:
        """Result shape; None where the text leaves it out.

        Of ``send`` and ``recv`` XLA makes the shape itself, whatever is printed: the data, a u32
        and a token (hlo_parser.cc, CreateInstruction; hlo_instructions.cc, HloSendInstruction).
        """
        text = self.shape_text
        if not text:
            return None
        shape = self.computation.module.reader.shape(text)
        if shape.is_tuple and self.opcode in ("send", "recv"):
            return self._transfer_shape(shape)
        return shape

    def _transfer_shape(self, printed: Shape) -> Shape:
        if len(printed.tuple_shapes) != 3:
            return printed
        data, context, token = printed.tuple_shapes
        if context.dimensions:
            context = self.computation.module.reader.shape("u32[]")
        if self.opcode == "send" and self.operand_names:
            sent = self.computation.instruction(self.operand_names[0])
            if sent is not None and sent.shape is not None:
                data = sent.shape
        return type(printed).tuple_of((data, context, token))

    @property
    def operand_text(self) -> str:
        """What stands between the parentheses: operands, a literal or a parameter number."""
        return self._columns.text(self._row, OPERANDS, OPERANDS_END)

    @property
    def operands(self) -> tuple[HloOperand, ...]:
        """Operands in order; empty for a constant and a parameter."""
        overlay = self._overlay
        if overlay is not None and overlay.operands is not None:
            return overlay.operands
        if self.opcode in ("constant", "parameter"):
            return ()
        return self._reader_operands()

    @property
    def operand_names(self) -> tuple[str, ...]:
        """Names of the operands; ``%w#1`` is an operand named ``w`` (see `operands` for the 1)."""
        return tuple(operand.name for operand in self.operands)

    @property
    def parameter_number(self) -> int | None:
        """K of ``parameter(K)``; None for other opcodes and where it is not printed."""
        if self.opcode != "parameter":
            return None
        text = self.operand_text.strip()
        if "/" in text:  # a comment
            text = "".join(operand.name for operand in self._reader_operands())
        return int(text) if text.isdecimal() else None

    def _reader_operands(self) -> tuple[HloOperand, ...]:
        return self.computation.module.reader.operands(self.operand_text)

    @property
    def is_root(self) -> bool:
        """Whether it is the computation's result: marked ROOT, or the last where none is."""
        return self._row == self.computation.root_row

    @property
    def attribute_list(self) -> tuple[tuple[str, str], ...]:
        """Names and values in order, as written; async sugar can repeat a name."""
        overlay = self._overlay
        if overlay is not None and overlay.attributes is not None:
            return overlay.attributes
        text = self._columns.attributes_text(self._row)
        return self.computation.module.reader.attributes(text) if text else ()

    @property
    def attributes(self) -> Mapping[str, str]:
        """Name to value as written; of a repeated name the first."""
        found: dict[str, str] = {}
        for name, value in self.attribute_list:
            found.setdefault(name, value)
        return MappingProxyType(found)

    def attribute(self, name: str) -> str | None:
        """Return the value of one attribute as written, or None."""
        text = self._columns.attributes_text(self._row)
        if f"{name}=" not in text:
            return None
        overlay = self._overlay
        if overlay is not None and overlay.attributes is not None:
            return self.attributes.get(name)
        return self.computation.module.reader.attribute(text, name)

    @property
    def called_computations(self) -> tuple[str, ...]:
        """Names of the computations it calls, in order of the attributes, without ``%``.

        Two branches of a conditional may be one computation, which then is named twice.
        """
        overlay = self._overlay
        if overlay is not None and overlay.called:
            return overlay.called
        text = self._columns.attributes_text(self._row)
        if not any(f"{name}=" in text for name in CALLING_ATTRIBUTES):
            return ()
        reader = self.computation.module.reader
        return tuple(
            name
            for key, value in self.attribute_list
            if key in CALLING_ATTRIBUTES
            for name in reader.names(value)
        )

    @property
    def control_predecessors(self) -> tuple[str, ...]:
        """Names of the instructions that must run before it, without ``%``."""
        value = self.attribute("control-predecessors")
        return tuple(dict.fromkeys(self.computation.module.reader.names(value))) if value else ()

    @property
    def sharding(self) -> HloSharding | None:
        """How its result lies on the devices; None where the text does not say."""
        value = self.attribute("sharding")
        return self.computation.module.reader.sharding(value) if value else None

    @property
    def device_list(self) -> CollectiveDeviceList | None:
        """Device groups of a collective (``replica_groups``); None for other instructions."""
        value = self.attribute("replica_groups")
        return self.computation.module.reader.device_list(value) if value else None

    @property
    def channel_id(self) -> int | None:
        """Channel of a collective, send or recv; None where there is none or it is hidden."""
        value = self.attribute("channel_id")
        return int(value) if value and value.lstrip("-").isdecimal() else None

    @property
    def metadata(self) -> OpMetadata | None:
        """Where it comes from; None where the text does not say."""
        value = self.attribute("metadata")
        return self.computation.module.reader.metadata(value) if value else None

    @property
    def frontend_attributes(self) -> Mapping[str, str]:
        """Attributes of the framework, without quotes and escapes."""
        value = self.attribute("frontend_attributes")
        return self.computation.module.reader.frontend_attributes(value) if value else {}

    @property
    def source_location(self) -> SourceLocation | None:
        """Innermost place in the user's program that the metadata names, or None."""
        metadata = self.metadata
        return None if metadata is None else self.computation.module.source_location(metadata)

    @property
    def span(self) -> Span:
        """Where it stands in the text, from its name to its end."""
        from hlo_lens.text.source import Span

        base = self._row * STRIDE
        spans = self._columns.spans
        return Span(spans[base + NAME], spans[base + END])

    @property
    def line(self) -> int:
        """1-based line of the file where it stands."""
        return self._columns.source.line_column(self.span.start)[0]


CALLING_ATTRIBUTES = (
    "to_apply",
    "calls",
    "condition",
    "body",
    "true_computation",
    "false_computation",
    "branch_computations",
    "called_computations",
    "select",
    "scatter",
)
"""Attributes whose values name computations. Source: hlo_parser.cc, CreateInstruction."""


class _Instructions(Sequence[HloInstruction]):
    """The instructions of a computation, made when they are asked for."""

    __slots__ = ("_computation",)

    def __init__(self, computation: HloComputation) -> None:
        self._computation = computation

    def __len__(self) -> int:
        return len(self._computation.rows)

    @overload
    def __getitem__(self, index: int) -> HloInstruction: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[HloInstruction]: ...
    def __getitem__(self, index: int | slice) -> HloInstruction | Sequence[HloInstruction]:
        computation = self._computation
        rows = computation.rows[index]
        if isinstance(rows, int):
            return HloInstruction(computation, rows)
        return [HloInstruction(computation, row) for row in rows]

    def __iter__(self) -> Iterator[HloInstruction]:
        computation = self._computation
        return (HloInstruction(computation, row) for row in computation.rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment] # equal content, and content is not hashed

    def __repr__(self) -> str:
        return f"<{len(self)} instructions>"


_HALF = 40
_MASK = (1 << _HALF) - 1


def _packed(start: int, end: int) -> int:
    """Return two numbers as one, 0 where nothing is between them: a tuple takes 120 bytes."""
    return start << _HALF | end if end > start else 0


class HloComputation:
    """A computation: a list of instructions, one of which is its result.

    A large module has tens of thousands, so places are kept as one number each.

    Args:
        module: The module that holds it.
        name: Name without ``%``; empty where the text prints none.
        is_entry: Whether the program starts here.
        start: Offset in the text where it begins.
        is_complete: Whether its closing brace was found.

    Attributes:
        is_inline: Whether its body is printed inside the instruction that calls it.
    """

    __slots__ = (
        "_attributes",
        "_root_row",
        "_row_by_name",
        "_rows",
        "_signature",
        "is_complete",
        "is_entry",
        "is_inline",
        "module",
        "name",
        "start",
    )

    def __init__(
        self,
        *,
        module: HloModule,
        name: str,
        is_entry: bool = False,
        start: int = 0,
        is_complete: bool = True,
    ) -> None:
        self.module = module
        self.name = name
        self.is_entry = is_entry
        self.start = start
        self.is_complete = is_complete
        self.is_inline = False
        self._rows: int | tuple[int, ...] = 0
        self._signature = 0
        self._attributes = 0
        self._root_row: int | None = None
        self._row_by_name: dict[str, int] | None = None

    def __repr__(self) -> str:
        return f"<HloComputation {self.name} of {len(self.rows)} instructions>"

    @property
    def rows(self) -> Sequence[int]:
        """Its rows in the module's columns, in text order."""
        rows = self._rows
        return range(rows >> _HALF, rows & _MASK) if isinstance(rows, int) else rows

    @rows.setter
    def rows(self, rows: Sequence[int]) -> None:
        if isinstance(rows, range) and rows.step == 1:
            self._rows = _packed(rows.start, rows.stop)
        else:
            self._rows = tuple(rows)

    @property
    def signature_span(self) -> tuple[int, int]:
        """Where ``(parameters) -> shape`` stands; empty where it is not printed."""
        return self._signature >> _HALF, self._signature & _MASK

    @signature_span.setter
    def signature_span(self, span: tuple[int, int]) -> None:
        self._signature = _packed(*span)

    @property
    def attributes_span(self) -> tuple[int, int]:
        """Where attributes stand after the closing brace, with the leading comma."""
        return self._attributes >> _HALF, self._attributes & _MASK

    @attributes_span.setter
    def attributes_span(self, span: tuple[int, int]) -> None:
        self._attributes = _packed(*span)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloComputation):
            return NotImplemented
        return (
            self.name == other.name
            and self.is_entry == other.is_entry
            and self.attributes_text == other.attributes_text
            and self.instructions == other.instructions
        )

    __hash__ = object.__hash__

    @property
    def signature_text(self) -> str:
        """``(parameters) -> shape`` as written; empty where it is not printed."""
        return self.module.columns.source.text[slice(*self.signature_span)]

    @property
    def attributes_text(self) -> str:
        """What stands after the closing brace, with its leading comma."""
        return self.module.columns.source.text[slice(*self.attributes_span)]

    @property
    def instructions(self) -> Sequence[HloInstruction]:
        """Instructions in text order; in a scheduled module the order of execution."""
        return _Instructions(self)

    @property
    def root_row(self) -> int:
        """Row of the result: the one marked ROOT, else the last; -1 for an empty computation."""
        if self._root_row is None:
            rows = self.rows
            last = rows[-1] if rows else -1
            self._root_row = self.module.columns.root_among(rows, last)
        return self._root_row

    @property
    def root(self) -> HloInstruction | None:
        """The result; None only where no instruction could be read."""
        return HloInstruction(self, self.root_row) if self.rows else None

    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """Parameters by number; those that print no number come last, in text order."""
        text, spans = self.module.columns.source.text, self.module.columns.spans
        likely = (r for r in self.rows if text.startswith("parameter", spans[r * STRIDE + OPCODE]))
        those = (
            i for i in (HloInstruction(self, row) for row in likely) if i.opcode == "parameter"
        )
        found = [(i.parameter_number, i) for i in those]
        return tuple(i for _, i in sorted(found, key=lambda item: (item[0] is None, item[0] or 0)))

    @property
    def execution_thread(self) -> str:
        """Thread that runs it; ``main`` where the text does not say."""
        for name, value in self.module.reader.attributes(self.attributes_text):
            if name == "execution_thread":
                return self.module.reader.string(value)
        return "main"

    def instruction(self, name: str) -> HloInstruction | None:
        """Return the instruction of a name (with or without ``%``), or None.

        Of several with one name, which only hand-written text has, the last.
        """
        if self._row_by_name is None:
            name_of = self.module.columns.name
            self._row_by_name = {name_of(row): row for row in self.rows}
        row = self._row_by_name.get(name.removeprefix("%"))
        return None if row is None else HloInstruction(self, row)

    @property
    def callers(self) -> tuple[HloInstruction, ...]:
        """Instructions that call it, in text order."""
        return self.module.callers.get(self.name, ())


_HTML_OPCODES = 10


@dataclass(eq=False)
class HloModule:
    """A program as XLA prints it.

    Attributes:
        name: As in the header; empty where there is no header.
        header: Header attributes, name to value as written.
        computations: In text order.
        columns: Where the parts of the instructions stand.
        reader: Reads parts of the text on demand.
        stack_frames: The stack frame tables; empty where the dump has none.
        gaps: What could not be read, in text order.
        is_truncated: Whether the text ends inside a computation.
        unknown_attributes: Names of attributes that XLA did not have until August 2026; they are
            kept like the others.
        start: Offset in the text where it begins.
        framework: What the framework that compiled it knows beside the text; None for dumps.
    """

    name: str
    columns: InstructionColumns = field(repr=False)
    reader: HloReader = field(repr=False)
    header: Mapping[str, str] = field(default_factory=dict, repr=False)
    computations: list[HloComputation] = field(default_factory=list, repr=False)
    stack_frames: StackFrames = field(default_factory=StackFrames, repr=False)
    gaps: tuple[Gap, ...] = field(default=(), repr=False)
    is_truncated: bool = False
    unknown_attributes: tuple[str, ...] = ()
    start: int = 0
    framework: Framework | None = field(default=None, repr=False)

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

    def _repr_html_(self) -> str:
        """Return the module for a notebook: its name, what it is, its opcodes."""
        from html import escape

        facts = (
            f"{self.num_partitions} partitions x {self.replica_count} replicas",
            "scheduled" if self.is_scheduled else "not scheduled",
            f"{self.instruction_count:,} instructions in {len(self.computations):,} computations",
            f"{len(self.gaps):,} gaps" if self.gaps else "no gaps",
        )
        counts = self.opcode_counts().most_common(_HTML_OPCODES)
        rows = "".join(f"<tr><td>{escape(name)}</td><td>{n:,}</td></tr>" for name, n in counts)
        return (
            f"<p><b>HloModule {escape(self.name)}</b>: {escape(', '.join(facts))}</p>"
            f"<table><tr><th>opcode</th><th>instructions</th></tr>{rows}</table>"
        )

    @property
    def path(self) -> str:
        """Name of the file that it was read from."""
        return self.columns.source.path

    @functools.cached_property
    def entry(self) -> HloComputation:
        """The entry computation.

        The one marked ENTRY; else the last, as XLA's parser does; in a truncated text, whose entry
        was at the lost end, the largest that nothing calls. A module of which the text has no
        computation at all has an empty one.
        """
        if not self.computations:
            return HloComputation(module=self, name="", is_entry=True)
        for computation in self.computations:
            if computation.is_entry:
                return computation
        if self.is_truncated:
            called = self.callers
            free = [c for c in self.computations if c.name not in called]
            return max(free or self.computations, key=lambda c: len(c.rows))
        return self.computations[-1]

    @property
    def instructions(self) -> Iterator[HloInstruction]:
        """All instructions in text order."""
        for computation in self.computations:
            yield from computation.instructions

    @property
    def instruction_count(self) -> int:
        """How many instructions the text prints."""
        return len(self.columns)

    def opcode_counts(self) -> Counter[str]:
        """Return how often each opcode stands in the text, as written."""
        text, spans = self.columns.source.text, self.columns.spans
        return Counter(
            text[start:end]
            for start, end in zip(spans[OPCODE::STRIDE], spans[OPCODE_END::STRIDE], strict=True)
        )

    @functools.cached_property
    def _computation_by_name(self) -> dict[str, HloComputation]:
        return {computation.name: computation for computation in self.computations}

    def computation(self, name: str) -> HloComputation | None:
        """Return the computation of a name (with or without ``%``), or None."""
        return self._computation_by_name.get(name.removeprefix("%"))

    @functools.cached_property
    def callers(self) -> Mapping[str, tuple[HloInstruction, ...]]:
        """Name of each called computation to the instructions that call it, in text order."""
        found: dict[str, list[HloInstruction]] = {}
        for instruction in self.instructions:
            for name in dict.fromkeys(instruction.called_computations):
                found.setdefault(name, []).append(instruction)
        return {name: tuple(sites) for name, sites in found.items()}

    @functools.cached_property
    def mentions_shardy(self) -> bool:
        """Whether any text of Shardy may be in it; looked for once, in the whole source."""
        return "sdy." in self.columns.source.text

    @property
    def is_scheduled(self) -> bool:
        """Whether the order of instructions is the order of execution."""
        return self.header.get("is_scheduled") == "true"

    @property
    def num_partitions(self) -> int:
        """Devices over which SPMD partitioning divides the program; 1 where it is not printed."""
        return self._count("num_partitions")

    @property
    def replica_count(self) -> int:
        """Replicas of the program; 1 where it is not printed."""
        return self._count("replica_count")

    def _count(self, name: str) -> int:
        value = self.header.get(name, "1")
        return int(value) if value.isdecimal() else 1

    @functools.cached_property
    def entry_computation_layout(self) -> ProgramShape | None:
        """Parameter shapes and result shape with layouts; None where not printed or not right."""
        value = self.header.get("entry_computation_layout")
        try:
            return self.reader.program_shape(value) if value else None
        except DumpSyntaxError:  # which is a gap of the module
            return None

    @functools.cached_property
    def input_output_alias(self) -> tuple[InputOutputAlias, ...]:
        """Outputs that use a parameter's buffer (donated and used)."""
        value = self.header.get("input_output_alias")
        return self.reader.aliasing(value) if value else ()

    @functools.cached_property
    def buffer_donor(self) -> tuple[tuple[int, ShapeIndex], ...]:
        """Parameter number and index of buffers that may be reused for any output."""
        value = self.header.get("buffer_donor")
        return self.reader.donors(value) if value else ()

    @functools.cached_property
    def frontend_attributes(self) -> Mapping[str, str]:
        """Attributes of the framework on the module, without quotes and escapes."""
        value = self.header.get("frontend_attributes")
        return self.reader.frontend_attributes(value) if value else {}

    def source_location(self, metadata: OpMetadata) -> SourceLocation | None:
        """Return the innermost place in the user's program that metadata names, or None."""
        if metadata.source_file:
            return SourceLocation(
                file=metadata.source_file,
                line=metadata.source_line,
                column=metadata.source_column,
            )
        return self.stack_frames.location(metadata.stack_frame_id or 0)
