"""HloModule: a program as XLA prints it.

Its computations and instructions are light views over columns of text offsets
(`hlo_lens.hlo.columns`).
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import (
    LONG_NUMBER,
    OPCODE,
    OPCODE_END,
    SHAPE,
    SHAPE_END,
    ComputationColumns,
    ComputationParts,
    InstructionColumns,
)
from hlo_lens.hlo.computation import HloComputation
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.links import Links
from hlo_lens.hlo.metadata import OpMetadata, SourceLocation, StackFrames
from hlo_lens.hlo.name_index import NameIndex
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.library_files import makes_every_operation
from hlo_lens.text.rows import FewTexts, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.framework import Framework
    from hlo_lens.hlo.text_reader import HloReader
    from hlo_lens.shapes.shape import ProgramShape, ShapeIndex

_HTML_OPCODES = 10
_PLACES = "_places_by_name"
"""Not pickled, but made again: an index, whose hashes are those of one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutputAlias:
    """Output buffer that shares a parameter's memory: an entry of ``input_output_alias``.

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


@dataclass(eq=False)
class HloModule:
    """A program as XLA prints it.

    Attributes:
        name: As in the header; empty without a header.
        header: Header attributes, name to value as written.
        columns: Offsets of the parts of the instructions.
        reader: Reads parts of the text on demand.
        computation_columns: Offsets of the parts of the computations.
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
        """Return the pickled state."""
        return {name: value for name, value in vars(self).items() if name != _PLACES}

    def _repr_html_(self) -> str:
        """Return the module as HTML for a notebook: name, facts, most frequent opcodes."""
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
        """Name of its file."""
        return self.columns.source.path

    @property
    def computations(self) -> Sequence[HloComputation]:
        """All computations in text order."""
        make = functools.partial(HloComputation, self)
        return Rows(make, range(len(self.computation_columns)))

    @property
    def entry(self) -> HloComputation:
        """The entry computation.

        The one marked ENTRY; else the last, as in XLA's parser. One without instructions where the
        text has lost its entry (`has_entry`), or has no computations.
        """
        if self._entry is None:
            self._entry = self._find_entry()
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

    def _find_entry(self) -> HloComputation:
        if not self.has_entry:
            nothing = ComputationColumns()
            nothing.add(ComputationParts(is_entry=True, rows=range(0)))
            return HloComputation(self, 0, nothing)
        for computation in self.computations:
            if computation.is_entry:
                return computation
        return self.computations[-1]

    @property
    def instructions(self) -> Iterator[HloInstruction]:
        """All instructions in text order."""
        for computation in self.computations:
            yield from computation.instructions

    @property
    def instruction_count(self) -> int:
        """Number of instructions in the text."""
        return len(self.columns)

    def opcode_counts(self) -> Counter[str]:
        """Return the number of instructions of each opcode, as written."""
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
        """Opcode of each row, as written."""
        return FewTexts(self.columns.texts(OPCODE, OPCODE_END))

    @functools.cached_property
    def shape_texts(self) -> FewTexts:
        """Result shape of each row, as written or inferred; empty where it is not known."""
        return FewTexts(self.columns.texts(SHAPE, SHAPE_END))

    @functools.cached_property
    def links(self) -> Links:
        """Operands, users, calls and callers."""
        return Links(self)

    def instruction(self, row: int) -> HloInstruction:
        """Return the instruction of a row."""
        return HloInstruction(HloComputation(self, self.links.owners[row]), row)

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
        """Return the innermost place of the metadata in the user's program, or None.

        If all places are in libraries (`is_library_file`), the innermost one of all.
        """
        if metadata.source_file:
            if makes_every_operation(metadata.source_file):
                return None
            line, column = metadata.source_line, metadata.source_column
            return SourceLocation(file=metadata.source_file, line=line, column=column)
        return self.stack_frames.user_location(metadata.stack_frame_id or 0)
