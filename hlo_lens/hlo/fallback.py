"""The grammar as the fallback of the scanner, for one instruction that no pattern matches.

The end of such an instruction is unknown: it is parsed up to the apparent start of the next one,
and up to the end of its brackets. The cost is bounded for any text: failed attempts use up a budget
that is a multiple of the length of the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo import patterns
from hlo_lens.hlo.gaps import GRAMMAR_LIMIT
from hlo_lens.hlo.rows import ReadInstruction, with_nested
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source, Span

if TYPE_CHECKING:
    from hlo_lens.hlo.attributes import AttributeCheck

_GRAMMAR_COST = 8
"""Cost of a failed parse, relative to a search for the end of the instruction."""


class HloFallback:
    """Parses single instructions of a source by the grammar.

    Args:
        source: The text.
        check: Checks shapes, literals and attributes of the instruction.
    """

    def __init__(self, source: Source, check: AttributeCheck) -> None:
        self._source = source
        self._text = source.text
        self._check = check
        self._budget = 16 * len(source.text) + (1 << 20)

    def read(
        self, position: int, end: int, *, has_name: bool = True
    ) -> tuple[ReadInstruction, int]:
        """Return the instruction at an offset, and the offset of its end.

        Args:
            position: Its start.
            end: Start of the next line that begins an instruction or the like.
            has_name: Whether a name and ``=`` begin it.

        Raises:
            DumpSyntaxError: If the grammar refuses it, or a value in it is wrong.
        """
        from hlo_lens.hlo.grammar import read_instruction

        error: DumpSyntaxError | None = None
        for stop in self._stops(position, end):
            try:
                read = read_instruction(self._source, position, stop, has_name=has_name)
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
            size = f"{(end - position) / 1e6:.1f} MB"
            message = f"an instruction of {size} that only the grammar can read"
            raise DumpSyntaxError.at(self._source, Span(position, end), message)
        raise error

    def _stops(self, position: int, end: int) -> list[int]:
        """Return the offsets at which the instruction may end, ascending."""
        stops = {end, self._balanced_end(position)}
        return sorted(stop for stop in stops if 0 < stop - position <= GRAMMAR_LIMIT)

    def _balanced_end(self, position: int) -> int:
        """Return the line end at which all brackets since an offset are closed, or 0."""
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
        """Return the error of a wrong shape, literal or attribute, or None."""
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
        """Return an error in a part of the text with its place in the whole text."""
        place = start + (problem.column - 1 if problem.line == 1 else 0)
        return DumpSyntaxError.at(self._source, Span(place, max(end, place + 1)), problem.message)
