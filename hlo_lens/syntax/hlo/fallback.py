"""The grammar as the fallback of the scanner: one instruction that no pattern takes.

Where such an instruction ends is not known: it is tried up to where the next one seems to begin,
and up to where its brackets are closed. The cost is bounded, whatever the text: what is looked at
in vain is paid from a budget of a multiple of the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.syntax.hlo import patterns
from hlo_lens.syntax.hlo.gaps import GRAMMAR_LIMIT
from hlo_lens.syntax.hlo.places import with_nested
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Span

if TYPE_CHECKING:
    from hlo_lens.syntax.hlo.attributes import AttributeCheck
    from hlo_lens.syntax.hlo.places import ReadInstruction
    from hlo_lens.text.source import Source

_GRAMMAR_COST = 8
"""How many times dearer it is to parse a text in vain than to find where it ends."""


class HloFallback:
    """Has the grammar read single instructions of a source.

    Args:
        source: The text.
        check: Judges shapes, literals and attributes of what was read.
    """

    def __init__(self, source: Source, check: AttributeCheck) -> None:
        self._source = source
        self._text = source.text
        self._check = check
        self._budget = 16 * len(source.text) + (1 << 20)

    def read(self, position: int, end: int) -> tuple[ReadInstruction, int]:
        """Return the instruction at a place, and where it ends.

        Args:
            position: Where it begins.
            end: Where the next line that starts something begins.

        Raises:
            DumpSyntaxError: Where the grammar allows none, or its meaning is wrong.
        """
        from hlo_lens.syntax.hlo.grammar import read_instruction

        error: DumpSyntaxError | None = None
        for stop in self._stops(position, end):
            try:
                read = read_instruction(self._source, position, stop)
            except DumpSyntaxError as problem:
                if error is None or stop == end:
                    error = problem
                self._budget -= _GRAMMAR_COST * (stop - position) if stop > end else 0
                continue
            error = self._problem(read)
            if error is None:
                return read, stop
            break
        if error is None:
            message = (
                f"an instruction of {_megabytes(end - position)} that only the grammar can read"
            )
            raise DumpSyntaxError.at(self._source, Span(position, end), message)
        raise error

    def _stops(self, position: int, end: int) -> list[int]:
        """Return where the instruction at a place may end: the next line start, then balance."""
        stops = {end, self._balanced_end(position)}
        return sorted(stop for stop in stops if 0 < stop - position <= GRAMMAR_LIMIT)

    def _balanced_end(self, position: int) -> int:
        """Return where the brackets opened from a place on are closed at a line end, or 0."""
        if self._budget <= 0:
            return 0
        depth = 0
        end = min(len(self._text), position + GRAMMAR_LIMIT)
        for match in patterns.BRACKET.finditer(self._text, position, end):
            token = match[0]
            if token in "([{":
                depth += 1
            elif token in ")]}":
                depth -= 1
                if depth < 0:
                    self._budget -= match.start() - position
                    return match.start()
            elif (
                token == "\n" and depth == 0 and patterns.LINE_START.match(self._text, match.end())
            ):
                self._budget -= match.end() - position
                return match.end()
        self._budget -= end - position
        return end if depth == 0 else 0

    def _problem(self, read: ReadInstruction) -> DumpSyntaxError | None:
        """Return what is wrong with the meaning of an instruction that the grammar read."""
        for current in with_nested(read):
            if current.shape is not None:
                start, end = current.shape
                problem = self._check.shape_problem(self._text[start:end])
                if problem is not None:
                    return self._placed(problem, start, end)
                problem = self._literal_problem(current, self._text[start:end])
                if problem is not None:
                    return problem
        for name, start, end in read.attributes:
            problem = self._check.value_problem(name, self._text[start:end])
            if problem is not None:
                return self._placed(problem, start, end)
        return None

    def _literal_problem(self, read: ReadInstruction, shape: str) -> DumpSyntaxError | None:
        start, end = read.operands
        if self._text[slice(*read.opcode)] != "constant" or shape.startswith("("):
            return None
        if self._check.literal(shape, self._text[start:end]):
            return None
        place = Span(start, max(end, start + 1))
        return DumpSyntaxError.at(self._source, place, f"expected a literal of shape {shape}")

    def _placed(self, problem: DumpSyntaxError, start: int, end: int) -> DumpSyntaxError:
        """Return an error in a part of the text as one in the whole."""
        place = start + (problem.column - 1 if problem.line == 1 else 0)
        return DumpSyntaxError.at(self._source, Span(place, max(end, place + 1)), problem.message)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
