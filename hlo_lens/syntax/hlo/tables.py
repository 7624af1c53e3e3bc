"""The stack frame tables of a module: FileNames, FunctionNames, FileLocations, StackFrames.

Entries are counted by position, and their printed numbers ignored, as in XLA's own parser.
Source: xla/hlo/ir/hlo_module.cc, PrintStackFrameIndex; hlo_parser.cc, ParseStackFramesList.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.model.hlo.metadata import FileLocation, StackFrame, StackFrames
from hlo_lens.syntax.hlo.patterns import (
    BLANK,
    TABLE,
    TABLE_FIELD,
    TABLE_RECORD,
    TABLE_STRING,
)
from hlo_lens.syntax.hlo.text import parse_string

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping


def read_tables(text: str, position: int) -> tuple[StackFrames, int]:
    """Return the tables at an offset, and the offset after them."""
    file_names: list[str] = []
    function_names: list[str] = []
    locations: list[FileLocation] = []
    frames: list[StackFrame] = []
    while (head := TABLE.match(text, position)) is not None:
        rows, position = _rows(text, head.end(), head[1])
        if head[1] == "FileNames":
            file_names = [parse_string(row[2]) for row in rows]
        elif head[1] == "FunctionNames":
            function_names = [parse_string(row[2]) for row in rows]
        elif head[1] == "FileLocations":
            locations = [file_location(_fields(row)) for row in rows]
        else:
            frames = [stack_frame(_fields(row)) for row in rows]
        position = _skip_blank(text, position)
    tables = StackFrames(
        file_names=tuple(file_names),
        function_names=tuple(function_names),
        file_locations=tuple(locations),
        frames=tuple(frames),
    )
    return tables, position


def _rows(text: str, position: int, table: str) -> tuple[list[re.Match[str]], int]:
    pattern = TABLE_STRING if table in ("FileNames", "FunctionNames") else TABLE_RECORD
    rows: list[re.Match[str]] = []
    while (row := pattern.match(text, position)) is not None:
        rows.append(row)
        position = row.end()
    return rows, position


def _skip_blank(text: str, position: int) -> int:
    match = BLANK.match(text, position)
    return position if match is None else match.end()


def _fields(row: re.Match[str]) -> dict[str, int]:
    return {name: int(value) for name, value in TABLE_FIELD.findall(row[2])}


def file_location(fields: Mapping[str, int]) -> FileLocation:
    """Return the location of a record; unknown fields are dropped."""
    known = FileLocation.__slots__
    return FileLocation(**{name: value for name, value in fields.items() if name in known})


def stack_frame(fields: Mapping[str, int]) -> StackFrame:
    """Return the frame of a record; XLA prints the parent plus one, so 0 and 1 both mean none."""
    return StackFrame(
        file_location_id=fields.get("file_location_id", 0),
        parent_frame_id=max(0, fields.get("parent_frame_id", 0) - 1),
    )
