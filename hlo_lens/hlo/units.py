"""Ends of blanks, lines and instructions in an HLO text, for the scanner."""

from __future__ import annotations

from hlo_lens.hlo import patterns

LONG_LINE = 1 << 14
"""A line longer than this may hold many instructions."""


class HloUnits:
    """Finds ends in a text; remembers the last line end, for lines of many megabytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._line = (0, -1)
        self._last_comment: int | None = None

    def blank(self, position: int) -> int:
        """Return the end of the white space and comments at an offset."""
        text = self.text
        while True:
            match = patterns.BLANK.match(text, position)
            position = position if match is None else match.end()
            if not text.startswith("/*", position):
                return position
            if self._last_comment is None:
                self._last_comment = text.rfind("*/")
            if self._last_comment < position + 2:
                return position
            position = text.index("*/", position + 2) + 2  # longer than the patterns allow

    def unit_end(self, position: int) -> int:
        """Return the offset at which reading resumes: the next line that begins an item.

        On a line that is too long for one instruction, also an offset inside the line.
        """
        text = self.text
        keyword = patterns.KEYWORD.match(text, position)
        if keyword is not None:  # which may be on a line of its own
            position = keyword.end()
        line_end = self.line_end(position)
        if line_end - position > LONG_LINE:
            head = patterns.INSTRUCTION_LIKE.match(text, position, line_end)
            start = position + 1 if head is None else head.end()
            inside = patterns.INLINE_START.search(text, start, line_end)
            if inside is not None:
                return inside.start()
        match = patterns.LINE_START.search(text, line_end + 1) if line_end < len(text) else None
        return len(text) if match is None else match.start()

    def line_end(self, position: int) -> int:
        """Return the end of the line of an offset; the last line is remembered."""
        start, end = self._line
        if not start <= position <= end:
            found = self.text.find("\n", position)
            end = len(self.text) if found < 0 else found
            self._line = (position, end)
        return end
