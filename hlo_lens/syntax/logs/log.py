"""Reader of logs: messages of all kinds between lines that are no messages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.model.logs.log import LogText
from hlo_lens.syntax.grammar.reader_choice import ReaderName, uses_grammar
from hlo_lens.syntax.logs.allocation_failures import (
    parse_state_with_grammar,
    read_allocator,
    read_failure,
    read_limit,
)
from hlo_lens.syntax.logs.buffer_log import parse_buffer_log
from hlo_lens.syntax.logs.compiler_warnings import read_warning
from hlo_lens.syntax.logs.log_text import find_anchors
from hlo_lens.syntax.logs.out_of_memory import find_start, parse_oom_with_grammar, read_compile_oom
from hlo_lens.syntax.logs.sharding_log import read_shardings
from hlo_lens.text import log_words
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, clean, cut_log_prefixes, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hlo_lens.model.logs.buffer_log import BufferLog
    from hlo_lens.model.logs.compiler_warnings import CompilerWarning
    from hlo_lens.model.logs.jax_values import ShardingLog
    from hlo_lens.model.logs.out_of_memory import AllocatorState, CompileOutOfMemory

T = TypeVar("T")


def parse_log(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    may_be_empty: bool = False,
    reader: ReaderName = "scanner",
) -> LogText:
    """Return all messages in a log or in the text of an exception.

    Args:
        text: The log.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        may_be_empty: Return an empty log for a text without messages.
        reader: ``grammar`` reads by the grammar alone: the text is one message about memory of a
            compiler or an allocator and nothing else, and its first error is raised.

    Raises:
        DumpSyntaxError: If there is no message in it, or, when strict, at the first gap.
    """
    if isinstance(text, Source):
        source = text
    else:  # unlike buffer-side texts, since drawings need all their lines
        source = clean(decode(text) if isinstance(text, bytes) else text, path)
    if not source.cuts.offsets and (bare := cut_log_prefixes(source)) is not None:
        source = bare
    found = _by_grammar(source) if uses_grammar(reader) else _Scan(source).log()
    if found.is_empty and not may_be_empty:
        if found.gaps:
            raise found.gaps[0].as_error()
        message = "expected a message of XLA or JAX, found nothing that hlo-lens reads"
        raise DumpSyntaxError(message, path=source.path)
    if strict and found.gaps:
        raise found.gaps[0].as_error()
    return found


def _by_grammar(source: Source) -> LogText:
    """Return a log of one memory message, read by the grammar alone."""
    text = source.text
    log = LogText(path=source.path, lines=text.count("\n") + (not text.endswith("\n")))
    if any(word in text for word in log_words.ALLOCATOR_STATE):
        return replace(log, allocators=(parse_state_with_grammar(source),))
    if any(word in text for word in log_words.BUFFERS):
        return replace(log, buffers=parse_buffer_log(source, reader="grammar"))
    return replace(log, compile_ooms=(parse_oom_with_grammar(source),))


class _Scan:
    """Scanner of a log, with one pass for each kind of message."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.gaps: list[Gap] = []
        self.spans: list[tuple[int, int]] = []

    def log(self) -> LogText:
        """Return all messages."""
        ooms = self._all(log_words.OUT_OF_MEMORY, self._compile_oom)
        failures = self._all(log_words.FAILED_ALLOCATION, self._without_gaps(read_failure))
        states = self._all(log_words.ALLOCATOR_STATE, self._allocator)
        limits = self._all(log_words.REMATERIALIZATION_LIMIT, self._without_gaps(read_limit))
        warnings = self._warnings()
        buffers = self._buffers()
        shardings = self._shardings()
        text = self.source.text
        lines = text.count("\n") + (not text.endswith("\n") and text != "")
        return LogText(
            path=self.source.path,
            lines=lines,
            compile_ooms=tuple(ooms),
            failures=tuple(failures),
            allocators=tuple(states),
            limits=tuple(limits),
            warnings=tuple(warnings),
            shardings=shardings,
            buffers=buffers,
            understood_lines=max(0, self._covered() - sum(gap.lines for gap in self.gaps)),
            gaps=tuple(sorted(self.gaps, key=lambda gap: (gap.line, gap.column))),
        )

    def _all(self, words: Sequence[str], read: Callable[[int], tuple[T, int] | None]) -> list[T]:
        """Return the messages that a reader finds at the places of some words, without overlaps."""
        found: list[T] = []
        end = -1
        for place, _ in find_anchors(self.source.text, words):
            if place < end:
                continue
            result = read(place)
            if result is not None:
                found.append(result[0])
                end = result[1]
                self.spans.append((place, end))
        return found

    def _without_gaps(
        self, read: Callable[[Source, int], tuple[T, int] | None]
    ) -> Callable[[int], tuple[T, int] | None]:
        return lambda place: read(self.source, place)

    def _compile_oom(self, place: int) -> tuple[CompileOutOfMemory, int] | None:
        start = find_start(self.source.text, place)
        result = None if start is None else read_compile_oom(self.source, start)
        return self._with_gaps(result)

    def _allocator(self, place: int) -> tuple[AllocatorState, int] | None:
        return self._with_gaps(read_allocator(self.source, place))

    def _with_gaps(self, result: tuple[T, int, list[Gap]] | None) -> tuple[T, int] | None:
        if result is None:
            return None
        value, end, gaps = result
        self.gaps += gaps
        return value, end

    def _warnings(self) -> list[CompilerWarning]:
        """Return the compiler warnings."""
        found: list[CompilerWarning] = []
        done = -1
        for place, word in find_anchors(self.source.text, log_words.WARNINGS):
            if place < done:
                continue
            warning, done, gaps = read_warning(self.source, place, word)
            self.gaps += gaps
            if warning is not None:
                found.append(warning)
                self.spans.append((place, done))
        return found

    def _buffers(self) -> BufferLog | None:
        """Return the buffer statistics; None if there are none."""
        text = self.source.text
        if not any(word in text for word in log_words.BUFFERS):
            return None
        try:
            log = parse_buffer_log(self.source)
        except DumpSyntaxError:
            return None
        self.gaps += log.gaps
        self.spans += log.spans
        return log

    def _shardings(self) -> ShardingLog | None:
        """Return the shardings; None if there are none."""
        found, spans = read_shardings(self.source, self.spans)
        self.gaps += found.gaps
        if not (found.values or found.boxes):
            return None
        self.spans += spans
        return found

    def _covered(self) -> int:
        """Return the number of lines in the spans of messages."""
        text, total, done = self.source.text, 0, 0
        for start, end in sorted(self.spans):
            begin = max(done, text.rfind("\n", 0, start) + 1)
            last = text.find("\n", max(begin, end - 1))
            last = len(text) if last < 0 else last + 1
            if last > begin:
                total += text.count("\n", begin, last) or 1
                done = last
        return total
