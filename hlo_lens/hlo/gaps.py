"""Gaps of an HLO text: places that could not be read, with the error of the grammar."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, Span

GRAMMAR_LIMIT = 1 << 20
"""Longest text, in characters, that the grammar parses."""

MOST_EXPLAINED = 10_000
"""Most gaps with a message of the grammar and an excerpt; further ones have a place only."""


_BLANK_LINES = re.compile(r"\n[ \t]*+(?:\n[ \t]*+)++")


class HloGaps:
    """The gaps of a module while it is read, and the foreign lines outside its computations."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found: list[Gap] = []
        self._passed: list[tuple[int, int]] = []
        self._strange: list[tuple[int, int]] = []

    @property
    def found(self) -> Sequence[Gap]:
        """The gaps so far."""
        return self._found

    def take(self, *, has_read: bool = True) -> tuple[tuple[Gap, ...], int]:
        """Return the gaps and the number of foreign lines so far, and forget them.

        Args:
            has_read: Whether any computation was read; if not, foreign lines count as gaps.
        """
        found, passed = self._found, self._passed
        self._found, self._passed = [], []
        if has_read:
            return tuple(found), sum(self._lines(start, end) for start, end in passed)
        for start, end in passed:
            self.add_run(start, end)
        found += self._found
        self._found = []
        return tuple(sorted(found, key=lambda gap: (gap.line, gap.column))), 0

    def take_strange(self) -> tuple[tuple[int, int], ...]:
        """Return the spans of text that was no HLO so far, in text order, and forget them."""
        found, self._strange = tuple(self._strange), []
        return found

    def note_strange(self, start: int, end: int) -> None:
        """Note a span of text that is no HLO."""
        self._strange.append((start, end))

    def pass_over(self, start: int, end: int) -> None:
        """Note a span of foreign lines."""
        self._passed.append((start, end))

    def add_run(self, start: int, end: int) -> None:
        """Note a gap for lines outside any computation."""
        lines = self._lines(start, end)
        if lines:
            first_end = self._source.text.find("\n", start, end)
            message = "expected 'HloModule' or a computation"
            self.add(start, end if first_end < 0 else first_end, message, lines)

    def _lines(self, start: int, end: int) -> int:
        """Return the number of lines; a run of blank lines counts as one."""
        text = self._source.text[start:end].strip()
        blank = sum(run[0].count("\n") - 1 for run in _BLANK_LINES.finditer(text))
        return text.count("\n") + 1 - blank if text else 0

    def add(self, start: int, end: int, message: str, lines: int = 1) -> None:
        """Note a gap for the text between two offsets."""
        if len(self._found) < MOST_EXPLAINED:
            self._found.append(Gap.at(self._source, Span(start, end), message, lines))
            return
        line, column = self._source.line_column(start)
        path = self._source.path
        self._found.append(Gap(path=path, line=line, column=column, message=message, lines=lines))

    def add_error(self, error: DumpSyntaxError) -> None:
        """Note a gap at an error of the grammar."""
        self._found.append(Gap.of(error))

    def add_head(self, start: int, end: int) -> None:
        """Note a gap for the first line of a computation."""
        from hlo_lens.hlo.grammar import check_head

        try:
            check_head(self._source, start, min(end, start + GRAMMAR_LIMIT))
        except DumpSyntaxError as error:
            self.add_error(error)
            return
        self.add(start, end, "expected a computation")

    def add_header(self, position: int, start: int, end: int, message: str) -> None:
        """Note a gap for a part of the header that begins at an offset."""
        if end - position <= GRAMMAR_LIMIT:
            from hlo_lens.hlo.grammar import check_header

            try:
                check_header(self._source, position, end)
            except DumpSyntaxError as error:
                self.add_error(error)
                return
        self.add(start, end, message)
