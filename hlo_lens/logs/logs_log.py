"""Reader of logs: messages of all kinds between lines that are no messages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.grammar.reader_choice import ReaderName, uses_grammar
from hlo_lens.logs.allocation_failures import read_failure, read_limit
from hlo_lens.logs.allocator_state import parse_state_with_grammar, read_allocator
from hlo_lens.logs.buffer_log import parse_buffer_log
from hlo_lens.logs.compiler_warnings import read_warning
from hlo_lens.logs.log import BufferLog, LogText
from hlo_lens.logs.log_text import Found, find_anchors, line_range
from hlo_lens.logs.logs_compiled_stats import read_stats
from hlo_lens.logs.logs_out_of_memory import parse_oom_with_grammar, read_compile_oom
from hlo_lens.logs.sharding_log import read_shardings
from hlo_lens.text import log_words
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.escaped_lines import without_escapes
from hlo_lens.text.line_leads import without_leads
from hlo_lens.text.log_entries import without_entries
from hlo_lens.text.source import Source, clean, cut_log_prefixes, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import DataclassInstance

    from hlo_lens.logs.jax_values import ShardingLog

T = TypeVar("T", bound="DataclassInstance")


def parse_log(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    may_be_empty: bool = False,
    reader: ReaderName = "scanner",
) -> LogText:
    """Return all messages in a log or in the text of an exception.

    What loggers put before lines is cut. Lines of several processes that alternate are separated
    by `hlo_lens.load`, which returns a log for each.

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
    entries = without_entries(source)
    if entries is not source or not source.cuts.offsets:
        source = entries
        source = cut_log_prefixes(source) or source
        bare = without_leads(source)
        source = bare[0] if len(bare) == 1 else source
    source = without_escapes(source)
    found = _by_grammar(source) if uses_grammar(reader) else _Scan(source).log()
    if found.is_empty and not may_be_empty:
        if found.gaps:
            raise found.gaps[0].as_error()
        raise DumpSyntaxError(
            "expected a message of XLA or JAX, found nothing that hlo-lens reads", path=source.path
        )
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
        ooms = self._all(log_words.OUT_OF_MEMORY, read_compile_oom)
        failures = self._all(log_words.FAILED_ALLOCATION, read_failure)
        states = self._all(log_words.ALLOCATOR_STATE, read_allocator)
        limits = self._all(log_words.REMATERIALIZATION_LIMIT, read_limit)
        warnings = self._all(log_words.WARNINGS, read_warning)
        stats = self._all(log_words.STATS, read_stats)
        buffers = self._buffers()
        shardings = self._shardings()
        text = self.source.text
        added = self.source.added
        is_open = bool(added) and added[-1] == len(text) - 1  # the file has no line end there
        lines = self.source.line_column(len(text))[0] - (text.endswith("\n") and not is_open)
        return LogText(
            path=self.source.path,
            lines=lines,
            compile_ooms=ooms,
            failures=failures,
            allocators=states,
            limits=limits,
            warnings=warnings,
            stats=stats,
            shardings=shardings,
            buffers=buffers,
            understood_lines=max(0, self._covered() - sum(gap.lines for gap in self.gaps)),
            gaps=tuple(sorted(self.gaps, key=lambda gap: (gap.line, gap.column))),
        )

    def _all(
        self, words: Sequence[str], read: Callable[[Source, int], Found[T] | None]
    ) -> tuple[T, ...]:
        """Return the messages that a reader finds at the places of some words, without overlaps."""
        messages: list[T] = []
        end = -1
        for place, _ in find_anchors(self.source.text, words):
            found = read(self.source, place) if place >= end else None
            if found is None:
                continue
            end = found.end
            self.gaps += found.gaps
            if found.value is not None:
                line, lines = line_range(self.source, found.start, end)
                messages.append(replace(found.value, line=line, lines=lines))
                self.spans.append((min(place, found.start), end))
        return tuple(messages)

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
        total = done = 0
        for start, end in sorted(self.spans):
            first = max(done + 1, self.source.line_column(start)[0])
            done = max(done, self.source.line_column(max(start, end - 1))[0])
            total += max(0, done + 1 - first)
        return total
