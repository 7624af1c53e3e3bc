"""HloInstruction: a light view over columns.

Parts of an instruction (shape, sharding, attributes) are parsed when first asked for, by the reader
that syntax gives the module, and remembered per distinct text.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import (
    END,
    LONG_NUMBER,
    NAME,
    OPCODE,
    OPCODE_END,
    OPERANDS,
    OPERANDS_END,
    SHAPE,
    SHAPE_END,
    STRIDE,
    HloOperand,
    InstructionColumns,
    Overlay,
)
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.library_files import is_library_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.computation import HloComputation
    from hlo_lens.hlo.metadata import OpMetadata, SourceLocation
    from hlo_lens.shapes.replica_groups import CollectiveDeviceList
    from hlo_lens.shapes.shape import Shape, ShapeIndex
    from hlo_lens.shapes.sharding import HloSharding
    from hlo_lens.text.source import Span

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

_FIRST_INDEX = re.compile(rf", index=(\d{{1,{LONG_NUMBER - 1}}})(?=,|\Z)", re.ASCII)
"""The attribute of a get-tuple-element, where it is the first one, as XLA prints it."""


class HloInstruction:
    """One instruction: a view over columns, cheap to make; equal if the content is equal.

    Args:
        computation: Its computation.
        row: Its row in the module's columns.
    """

    __slots__ = ("_opcode", "_row", "computation")

    def __init__(self, computation: HloComputation, row: int) -> None:
        self.computation = computation
        self._row = row
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
        if self._opcode is None:
            self._opcode = self._columns.text(self._row, OPCODE, OPCODE_END)
        return self._opcode

    @property
    def shape_text(self) -> str:
        """Result shape as written, or inferred where left out; empty if it is not known."""
        return self._columns.text(self._row, SHAPE, SHAPE_END)

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
        return self._columns.text(self._row, OPERANDS, OPERANDS_END)

    @property
    def operands(self) -> tuple[HloOperand, ...]:
        """Operands in order; empty for a constant and a parameter."""
        overlay = self._overlay
        if overlay is not None and overlay.operands is not None:
            return overlay.operands
        if opcode_traits(self.opcode).is_printed_value:
            return ()
        return self._reader_operands()

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
        """Return the shape of an element of its result; None if it is not known."""
        shape = self.shape
        for place in element:
            parts = () if shape is None else shape.tuple_shapes
            shape = parts[place] if place < len(parts) else None
        return shape

    @property
    def parameter_number(self) -> int | None:
        """K of ``parameter(K)``; None for other opcodes and if not printed."""
        if self.opcode != "parameter":
            return None
        text = self.operand_text.strip()
        if "/" in text:  # a comment
            text = "".join(operand.name for operand in self._reader_operands())
        return int(text) if text.isdecimal() and len(text) < LONG_NUMBER else None

    def _reader_operands(self) -> tuple[HloOperand, ...]:
        return self.computation.module.reader.operands(self.operand_text)

    @property
    def is_root(self) -> bool:
        """Whether it is the computation's result: marked ROOT, or the last if none is marked."""
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
        """Name to value as written; the first value of a repeated name."""
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

        A computation that is two branches of a conditional is listed twice.
        """
        return tuple(name for _, name in self.calls)

    @property
    def calls(self) -> tuple[tuple[str, str], ...]:
        """The computations it calls: attribute and name of each, in order of the attributes."""
        overlay = self._overlay
        if overlay is not None and overlay.called:
            roles = [name for name, _ in self.attribute_list if name in CALLING_ATTRIBUTES]
            if len(roles) != len(overlay.called):  # a list of branches
                roles = (roles or ["calls"])[:1] * len(overlay.called)
            return tuple(zip(roles, overlay.called, strict=True))
        text = self._columns.attributes_text(self._row)
        if not any(f"{name}=" in text for name in CALLING_ATTRIBUTES):
            return ()
        reader = self.computation.module.reader
        return tuple(
            (key, name)
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
        """Sharding of its result; None if not printed."""
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
        if self._overlay is None:
            columns, base = self._columns, self._row * STRIDE
            start, end = columns.spans[base + OPERANDS_END] + 1, columns.spans[base + END]
            plain = _FIRST_INDEX.match(columns.source.text, start, end)
            if plain is not None:
                return int(plain[1])
        value = self.attribute("index") or ""
        return int(value) if value.isdecimal() and len(value) < LONG_NUMBER else None

    @property
    def channel_id(self) -> int | None:
        """Channel of a collective, send or recv; None if there is none or it is masked."""
        value = self.attribute("channel_id")
        is_known = value and len(value) < LONG_NUMBER and value.lstrip("-").isdecimal()
        return int(value) if value and is_known else None

    @property
    def metadata(self) -> OpMetadata | None:
        """Metadata: operation path and place in the source; None if not printed."""
        value = self.attribute("metadata")
        return self.computation.module.reader.metadata(value) if value else None

    @property
    def frontend_attributes(self) -> Mapping[str, str]:
        """Attributes of the framework, without quotes and escapes."""
        value = self.attribute("frontend_attributes")
        return self.computation.module.reader.frontend_attributes(value) if value else {}

    @property
    def op_name(self) -> str | None:
        """Operation path in the metadata; None if not printed."""
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
        """Places of `call_stack` outside libraries."""
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

        base = self._row * STRIDE
        spans = self._columns.spans
        return Span(spans[base + NAME], spans[base + END])

    @property
    def line(self) -> int:
        """1-based line in the file."""
        return self._columns.source.line_column(self.span.start)[0]
