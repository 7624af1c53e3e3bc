"""Source places and operation paths of rows, found without parsing their whole metadata."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, OPERANDS_END, STRIDE
from hlo_lens.hlo.metadata import SourceLocation
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.library_files import makes_every_operation

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule

_FRAME = "stack_frame_id="
_FILE = 'source_file="'
_METADATA = "metadata={"
_NAME_VALUE = re.compile(r'\bop_name="([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_NUMBERED = re.compile(r"([\w-]+?)(?:\.(?:\d+|clone|remat\d*))+")
_FRAME_VALUE = re.compile(_FRAME + r"(\d+)[ }\w]*")
_FILE_VALUE = re.compile(_FILE + r'([^"\\]*+(?:\\.[^"\\]*+)*+)"(?:,? source_line=(\d+))?[^"]*')

Stack = tuple[SourceLocation, ...]
"""A Python call stack, innermost first; one place if only that is known, empty for none."""


def stack_texts(stack: Stack) -> tuple[str, ...]:
    """Return a call stack as text, innermost first: ``file:line (function)``.

    Empty for a place alone, without functions.
    """
    if not any(place.function for place in stack):
        return ()
    return tuple(f"{one} ({one.function})" if one.function else str(one) for one in stack)


class InstructionPlaces:
    """Source places of rows; each distinct text of metadata is parsed once.

    The last ``stack_frame_id=`` or ``source_file="`` of a row is in its metadata: backend_config,
    which follows, quotes its strings, and its JSON has no such key.
    """

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._text = module.columns.source.text
        self._spans = module.columns.spans
        self._known: dict[str, SourceLocation | None] = {}
        self._stacks: dict[str, Stack] = {}
        self._names: dict[str, str | None] = {}

    @property
    def has_any(self) -> bool:
        """Whether the text has any place outside of stack frames."""
        found = _FILE_VALUE.finditer(self._text)
        return any(not makes_every_operation(self._string(match[1])) for match in found)

    def innermost(self, row: int) -> SourceLocation | None:
        """Return the innermost place in the user's program, or None if the row has none.

        If all places are in libraries, the innermost one of all.
        """
        return self.innermost_of(self.key(row))

    def innermost_of(self, key: str | None) -> SourceLocation | None:
        """Return the same for the rows of a key."""
        if key is None:
            return None
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def stack(self, row: int) -> Stack:
        """Return the call stack of a row."""
        return self.stack_of(self.key(row))

    def stack_of(self, key: str | None) -> Stack:
        """Return the call stack of the rows of a key."""
        if key is None:
            return ()
        if key not in self._stacks:
            match = _FRAME_VALUE.match(key)
            if match is None:
                place = self._read(key)
                self._stacks[key] = () if place is None else (place,)
            else:
                self._stacks[key] = self._module.stack_frames.stack(int(match[1]))
        return self._stacks[key]

    def op_name(self, row: int) -> str | None:
        """Return the operation path; None if the row has none, or one that XLA numbered itself."""
        base = row * STRIDE
        start, end = self._spans[base + OPERANDS_END], self._spans[base + END]
        place = self._text.find(_METADATA, start, end)
        match = None if place < 0 else _NAME_VALUE.search(self._text, place, end)
        if match is None:
            return None
        text = match[1]
        if text not in self._names:
            name = self._string(text)
            self._names[text] = None if not name or _is_numbered(name) else name
        return self._names[text]

    def _string(self, text: str) -> str:
        if "\\" not in text:
            return text
        try:
            return self._module.reader.string(f'"{text}"')
        except DumpSyntaxError:
            return text

    def key(self, row: int) -> str | None:
        """Return the end of a row's metadata, from its place on; None if the row has no place."""
        base = row * STRIDE
        start, end = self._spans[base + OPERANDS_END], self._spans[base + END]
        text = self._text
        place = text.rfind(_FRAME, start, end)
        if place < 0:
            place = text.rfind(_FILE, start, end)
            if place < 0:
                return None
        stop = text.find("}", place, end)
        return text[place : stop if stop >= 0 else end]

    def _read(self, key: str) -> SourceLocation | None:
        """Return the place in the end of a metadata value."""
        match = _FRAME_VALUE.match(key)
        if match is not None:
            return self._module.stack_frames.user_location(int(match[1]))
        match = _FILE_VALUE.match(key)
        if match is None:
            return None
        file = self._string(match[1])
        line = int(match[2]) if match[2] else None
        if not file or makes_every_operation(file):
            return None
        return SourceLocation(file=file, line=line)


def _is_numbered(op_name: str) -> bool:
    """Return whether XLA made an operation path of an opcode and a number: ``broadcast.13``."""
    match = _NUMBERED.fullmatch(op_name)
    return match is not None and opcode_traits(match[1].replace("_", "-")).is_known
