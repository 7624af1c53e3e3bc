"""What of an HLO text could not be read: where, and what the grammar says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Span

if TYPE_CHECKING:
    from hlo_lens.text.source import Source

GRAMMAR_LIMIT = 1 << 20
"""Longest text, in characters, that goes to the grammar."""

MOST_EXPLAINED = 10_000
"""How many bad instructions of a text are explained; of the others only the place is told."""


class HloGaps:
    """The gaps of a module while it is read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found: list[Gap] = []

    def take(self) -> tuple[Gap, ...]:
        """Return the gaps so far, and begin anew."""
        found, self._found = tuple(self._found), []
        return found

    def add(self, start: int, end: int, message: str, lines: int = 1) -> None:
        """Note a gap for what stands between two offsets."""
        if len(self._found) < MOST_EXPLAINED:
            self._found.append(Gap.at(self._source, Span(start, end), message, lines))
            return
        line, column = self._source.line_column(start)
        path = self._source.path
        self._found.append(Gap(path=path, line=line, column=column, message=message, lines=lines))

    def add_error(self, error: DumpSyntaxError) -> None:
        """Note a gap where the grammar found an error."""
        self._found.append(Gap.of(error))

    def add_head(self, start: int, end: int) -> None:
        """Note a gap for the first line of a computation."""
        from hlo_lens.syntax.hlo_grammar import check_head

        try:
            check_head(self._source, start, min(end, start + GRAMMAR_LIMIT))
        except DumpSyntaxError as error:
            self.add_error(error)
            return
        self.add(start, end, "expected a computation")

    def add_header(self, position: int, start: int, end: int, message: str) -> None:
        """Note a gap for a part of the header that begins at a place."""
        if end - position <= GRAMMAR_LIMIT:
            from hlo_lens.syntax.hlo_grammar import check_header

            try:
                check_header(self._source, position, end)
            except DumpSyntaxError as error:
                self.add_error(error)
                return
        self.add(start, end, message)
