"""Origin of an instruction: OpMetadata and the stack frame tables of a module."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from hlo_lens.grammar.lines import LineRule
from hlo_lens.hlo.columns import LONG_NUMBER
from hlo_lens.hlo.text import (
    BLANK,
    GRAMMARS,
    PLAIN_FRAME,
    PLAIN_LOCATION,
    TABLE,
    TABLE_FIELD,
    TABLE_RECORD,
    TABLE_STRING,
    parse_string,
)
from hlo_lens.text.rows import Records
from hlo_lens.text.source_files import is_library_file
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    import re


_Record = TypeVar("_Record")

MAX_FRAMES = 1000
"""Length limit of a call stack; dumps of one week of January 2026 have cycles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpMetadata:
    """Metadata that the framework attached to an instruction.

    Source: xla/hlo/ir/hlo_op_metadata.cc, OpMetadataToString. A field that is not printed is None.

    Attributes:
        op_name: Scope path, such as ``jit(f)/while/body/dot_general``; for a parameter its name.
        source_file: File of the user's program; since December 2025 in the stack frames instead.
        source_line: 1-based line in that file.
        stack_frame_id: 1-based entry in the module's StackFrames table.
        deduplicated_name: Name of the fusion that shares this one's code.
        other: Every other field, name to text as written without quotes.
    """

    op_type: str | None = None
    op_name: str | None = None
    source_file: str | None = None
    source_line: int | None = None
    source_end_line: int | None = None
    source_column: int | None = None
    source_end_column: int | None = None
    stack_frame_id: int | None = None
    scheduling_name: str | None = None
    deduplicated_name: str | None = None
    other: Mapping[str, str] = field(default_factory=dict, hash=False)


_METADATA_FIELD = LineRule("loose_field", *GRAMMARS, is_line=False, is_loose=True)
_INTEGERS = frozenset(
    {"source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id"}
)
_NOTHING: Mapping[str, str] = {}
_STRINGS = frozenset({"op_type", "op_name", "source_file", "scheduling_name", "deduplicated_name"})


def parse_metadata_string(text: str, name: str) -> str | None:
    """Return a text field of a ``metadata={...}`` value, as `parse_metadata` does."""
    found = None
    for match in _METADATA_FIELD.pattern.finditer(text):
        if match[1] == name:
            found = match[2] or match[3]
    return None if found is None else parse_string(found)


@functools.lru_cache(maxsize=1024)
def parse_metadata(text: str) -> OpMetadata:
    """Return the fields of a ``metadata={...}`` value, unknown ones included."""
    known: dict[str, Any] = {}
    other: dict[str, str] = {}
    for match in _METADATA_FIELD.pattern.finditer(text):
        name, quoted, plain = match[1], match[2], match[3]
        value = plain if quoted is None else parse_string(quoted)
        if name in _STRINGS:
            known[name] = value
        elif name in _INTEGERS and len(value) < LONG_NUMBER and value.lstrip("-").isdecimal():
            known[name] = int(value)
        else:
            other[name] = value
    return OpMetadata(**known, other=other or _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A place in the user's program; ``line`` is 1-based, None where the dump has none."""

    file: str
    line: int | None = None
    function: str | None = None
    column: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """Entry of the FileLocations table; ids are 1-based, 0 means none."""

    file_name_id: int = 0
    function_name_id: int = 0
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrame:
    """Entry of the StackFrames table.

    Attributes:
        file_location_id: 1-based entry of FileLocations.
        parent_frame_id: 1-based entry of the caller's frame, 0 for none. XLA prints it plus one
            (hlo_module.cc, PrintStackFrameIndex); this is the real one.
    """

    file_location_id: int = 0
    parent_frame_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrames:
    """The four tables by which instructions share their call stacks.

    Source: xla/hlo/ir/stack_frames.cc. Entry number n of a table is at index n - 1.
    """

    file_names: Sequence[str] = ()
    function_names: Sequence[str] = ()
    file_locations: Records[FileLocation] = field(default_factory=lambda: file_locations(()))
    frames: Records[StackFrame] = field(default_factory=lambda: stack_frames(()))

    def __bool__(self) -> bool:
        return bool(self.frames)

    def location(self, stack_frame_id: int) -> SourceLocation | None:
        """Return the place of one frame, or None where the tables do not have it."""
        if not 0 < stack_frame_id <= len(self.frames):
            return None
        entry = self.frames.columns["file_location_id"][stack_frame_id - 1] - 1
        if not 0 <= entry < len(self.file_locations):
            return None
        columns = self.file_locations.columns  # not one record for each of a million frames
        file = _entry(self.file_names, columns["file_name_id"][entry])
        if file is None:
            return None
        return SourceLocation(
            file=file,
            line=columns["line"][entry] or None,
            function=_entry(self.function_names, columns["function_name_id"][entry]),
            column=columns["column"][entry] or None,
        )

    def stack(self, stack_frame_id: int) -> tuple[SourceLocation, ...]:
        """Return the call stack of a frame, innermost first; empty for an unknown id.

        Each frame is there once: XLA's inliner prints the frames around a call again for each
        call that it inlines.
        """
        places = map(self.location, reversed(self.chain(stack_frame_id)))
        found = [place for place in places if place is not None]
        if not found:
            return ()
        innermost = found[-1]
        outer = dict.fromkeys(place for place in found if place != innermost)
        return (innermost, *reversed(outer))

    def user_location(self, stack_frame_id: int) -> SourceLocation | None:
        """Return the innermost place outside libraries; without one the innermost place."""
        innermost: SourceLocation | None = None
        for frame in self.chain(stack_frame_id):
            place = self.location(frame)
            if place is not None and not is_library_file(place.file):
                return place
            innermost = innermost or place
        return innermost

    def chain(self, stack_frame_id: int) -> list[int]:
        """Return the ids of a frame and of its callers, innermost first."""
        found: dict[int, None] = {}
        frame, parents = stack_frame_id, self.frames.columns["parent_frame_id"]
        while 0 < frame <= len(parents) and frame not in found and len(found) < MAX_FRAMES:
            found[frame] = None
            frame = parents[frame - 1]
        return list(found)


def file_locations(numbers: Sequence[int]) -> Records[FileLocation]:
    """Return locations from the fields of one after the other."""
    return _records(FileLocation, FileLocation.__slots__, numbers)


def stack_frames(numbers: Sequence[int]) -> Records[StackFrame]:
    """Return frames from the fields of one after the other."""
    return _records(StackFrame, StackFrame.__slots__, numbers)


def _records(
    make: Callable[..., _Record], names: Sequence[str], numbers: Sequence[int]
) -> Records[_Record]:
    columns = {name: numbers[place :: len(names)] for place, name in enumerate(names)}
    return Records(make, columns)


def _entry(table: Sequence[str], number: int) -> str | None:
    return table[number - 1] if 0 < number <= len(table) else None


_LARGEST = (1 << 64) - 1
"""Stands for all numbers of more than 64 bits, which are no number of XLA."""


def read_tables(text: str, position: int) -> tuple[StackFrames, int]:
    """Return the tables at an offset, and the offset after them."""
    found: dict[str, Any] = {}
    while (head := TABLE.match(text, position)) is not None:
        table, position = head.lastindex or 1, head.end()
        if table == _LOCATIONS:
            numbers, position = _numbers(text, position, PLAIN_LOCATION, FileLocation.__slots__)
            found["file_locations"] = file_locations(numbers)
        elif table == _FRAMES:
            numbers, position = _numbers(text, position, PLAIN_FRAME, StackFrame.__slots__)
            # XLA prints the number of a parent plus one, so 0 and 1 both mean none.
            numbers[1::2] = array("Q", (max(number - 1, 0) for number in numbers[1::2]))
            found["frames"] = stack_frames(numbers)
        else:
            rows: list[str] = []
            while (row := TABLE_STRING.match(text, position)) is not None:
                rows.append(parse_string(row[2]))
                position = row.end()
            found["file_names" if table == 1 else "function_names"] = tuple(rows)
        blank = BLANK.match(text, position)
        position = position if blank is None else blank.end()
    return StackFrames(**found), position


_LOCATIONS, _FRAMES = 3, 4
"""Groups of `TABLE`, after those of file and function names."""


def _numbers(
    text: str, position: int, plain: re.Pattern[str], names: Sequence[str]
) -> tuple[array[int], int]:
    """Return the named fields of the rows at an offset, and the offset after them.

    `plain` is the pattern of a row as XLA prints it.
    """
    numbers = array("Q")
    while True:
        row = plain.match(text, position)
        if row is not None:
            numbers.extend(map(int, row.groups()))
        else:
            row = TABLE_RECORD.match(text, position)
            if row is None:
                return numbers, position
            fields = dict(TABLE_FIELD.findall(row[2]))
            numbers.extend(min(bounded_int(fields.get(name, "0")), _LARGEST) for name in names)
        position = row.end()
