"""Readers of the four tables of call stacks in an HLO text."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from hlo_lens.hlo.columns import LONG_NUMBER
from hlo_lens.hlo.metadata import (
    FileLocation,
    StackFrame,
    StackFrames,
    file_locations,
    stack_frames,
)
from hlo_lens.hlo.patterns import (
    BLANK,
    PLAIN_FRAME,
    PLAIN_LOCATION,
    TABLE,
    TABLE_FIELD,
    TABLE_RECORD,
    TABLE_STRING,
)
from hlo_lens.hlo.text import parse_string

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.text.rows import Records

_LARGEST = (1 << 64) - 1
"""Stands for all numbers of more than 64 bits, which are no number of XLA."""


def read_tables(text: str, position: int) -> tuple[StackFrames, int]:
    """Return the tables at an offset, and the offset after them."""
    found: dict[str, Any] = {}
    while (head := TABLE.match(text, position)) is not None:
        field, read = _TABLES[(head.lastindex or 1) - 1]
        found[field], position = read(text, head.end())
        blank = BLANK.match(text, position)
        position = position if blank is None else blank.end()
    return StackFrames(**found), position


def _strings(text: str, position: int) -> tuple[tuple[str, ...], int]:
    """Return the texts of the rows at an offset, and the offset after them."""
    rows: list[str] = []
    while (row := TABLE_STRING.match(text, position)) is not None:
        rows.append(parse_string(row[2]))
        position = row.end()
    return tuple(rows), position


def _locations(text: str, position: int) -> tuple[Records[FileLocation], int]:
    numbers, end = _numbers(text, position, PLAIN_LOCATION, FileLocation.__slots__)
    return file_locations(numbers), end


def _frames(text: str, position: int) -> tuple[Records[StackFrame], int]:
    numbers, end = _numbers(text, position, PLAIN_FRAME, StackFrame.__slots__)
    return stack_frames(_with_parents(numbers)), end


def _numbers(
    text: str, position: int, plain: re.Pattern[str], names: Sequence[str]
) -> tuple[array[int], int]:
    """Return the fields of the rows at an offset, and the offset after them.

    Args:
        text: The text.
        position: The offset.
        plain: Pattern of a row as XLA prints it.
        names: Names of the fields; others are dropped.
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
            numbers.extend(_number(fields.get(name, "0")) for name in names)
        position = row.end()


def _number(digits: str) -> int:
    return min(int(digits), _LARGEST) if len(digits) <= LONG_NUMBER else _LARGEST


def _with_parents(numbers: array[int]) -> array[int]:
    """Return frames with the numbers of their parents.

    XLA prints the number plus one, so 0 and 1 both mean none.
    """
    numbers[1::2] = array("Q", (number - 1 if number else 0 for number in numbers[1::2]))
    return numbers


_TABLES: Sequence[tuple[str, Callable[[str, int], tuple[object, int]]]] = (
    ("file_names", _strings),
    ("function_names", _strings),
    ("file_locations", _locations),
    ("frames", _frames),
)
"""Field of StackFrames of each table, and the reader of its rows."""


def tables_of_rows(
    file_names: Iterable[str],
    function_names: Iterable[str],
    locations: Iterable[Mapping[str, int]],
    frames: Iterable[Mapping[str, int]],
) -> StackFrames:
    """Return the tables of rows that are read already."""
    return StackFrames(
        file_names=tuple(file_names),
        function_names=tuple(function_names),
        file_locations=file_locations(_flat(locations, FileLocation.__slots__)),
        frames=stack_frames(_with_parents(_flat(frames, StackFrame.__slots__))),
    )


def _flat(rows: Iterable[Mapping[str, int]], names: Sequence[str]) -> array[int]:
    return array("Q", (min(row.get(name, 0), _LARGEST) for row in rows for name in names))
