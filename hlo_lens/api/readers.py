"""Read the texts of a dump by the scanner and by the grammar alone, and compare the models."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.analysis.dumps.model_facts import first_fact_difference
from hlo_lens.analysis.dumps.reader_comparison import (
    DIFFERENT,
    EQUAL,
    REFUSED,
    ReaderComparison,
    ReadText,
)
from hlo_lens.load.dump_texts import dump_text, files_at, members_of
from hlo_lens.syntax.buffers.assignment import parse_buffer_assignment, parse_buffer_values
from hlo_lens.syntax.buffers.live_range import parse_live_range
from hlo_lens.syntax.buffers.memory_usage import parse_memory_usage_report
from hlo_lens.syntax.call_trees.drawn_trees import parse_call_trees
from hlo_lens.syntax.hlo.module import parse_hlo
from hlo_lens.text.dump_kinds import BUFFER_HEADERS, DumpKind
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Protocol

    from hlo_lens.api.modules import Progress
    from hlo_lens.model.buffers.assignment import BufferAssignment
    from hlo_lens.model.buffers.live_range import HloLiveRange
    from hlo_lens.model.buffers.memory_usage_report import MemoryUsageReport
    from hlo_lens.model.buffers.values import BufferValues
    from hlo_lens.model.call_tree import CallTrees
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.syntax.grammar.reader_choice import ReaderName
    from hlo_lens.text.source import Source

    Model: TypeAlias = (
        HloModule | BufferAssignment | BufferValues | HloLiveRange | MemoryUsageReport | CallTrees
    )

    class Parser(Protocol):
        """A public reader of one kind of text."""

        def __call__(self, text: Source, *, reader: ReaderName) -> Model:
            """Return the model of a text."""


_PARSERS: Mapping[DumpKind, Parser] = {
    DumpKind.HLO: parse_hlo,
    DumpKind.BUFFER_ASSIGNMENT: parse_buffer_assignment,
    DumpKind.BUFFER_VALUES: parse_buffer_values,
    DumpKind.LIVE_RANGE: parse_live_range,
    DumpKind.MEMORY_USAGE_REPORT: parse_memory_usage_report,
    DumpKind.CALL_TREE: parse_call_trees,
}

_OTHER_TEXT = (*BUFFER_HEADERS, "HloModule", "*** ")
"""Beginnings of lines with which the dump of another reader begins in the same file."""


def compare_readers(path: str, *, progress: Progress | None = None) -> ReaderComparison:
    """Return for each text of a path whether scanner and grammar read it alike.

    Logs are not compared: the grammar reads single messages, not the lines around them.

    Args:
        path: File, folder or archive.
        progress: Called with files done and files in all.

    Raises:
        UnreadableError: If the path is missing or cannot be read.
    """
    files = files_at(path)
    texts: list[ReadText] = []
    for done, file in enumerate(files):
        for inside, member in enumerate(members_of(file)):
            if progress is not None:
                progress(done + inside, len(files) + inside)
            found = dump_text(member)
            if found is not None and found[0] in _PARSERS:
                texts += (replace(text, file=_below(path, text.file)) for text in _compared(*found))
    return ReaderComparison(texts=tuple(texts))


def _below(path: str, file: str) -> str:
    """Return the name of a file without the folder that it was found in."""
    return file.removeprefix(path.rstrip("/") + "/")


def _compared(kind: DumpKind, source: Source) -> Iterator[ReadText]:
    """Yield the comparison of a text, and of the live range in the same text."""
    yield compare_text(kind, source)
    if kind is DumpKind.BUFFER_ASSIGNMENT and "\nHloLiveRange " in source.text:
        yield compare_text(DumpKind.LIVE_RANGE, source)


def compare_text(kind: DumpKind, source: Source) -> ReadText:
    """Return whether scanner and grammar read a text alike."""
    parse = _PARSERS[kind]
    start = time.perf_counter()
    try:
        scanned = parse(source, reader="scanner")
    except DumpSyntaxError as error:
        seconds = time.perf_counter() - start
        return _read(kind, source, REFUSED, seconds, line=error.line, scanner=error.message)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    try:
        read = parse(source, reader="grammar")
    except DumpSyntaxError as error:
        return _refused(kind, source, scanned, error, (seconds, time.perf_counter() - start))
    grammar_seconds = time.perf_counter() - start
    found = first_fact_difference(scanned, read)
    if found is None:
        return _read(kind, source, EQUAL, seconds, grammar_seconds=grammar_seconds)
    return _read(
        kind,
        source,
        DIFFERENT,
        seconds,
        line=found.line,
        place=found.place,
        field=found.field,
        scanner=found.first,
        grammar=found.second,
        grammar_seconds=grammar_seconds,
    )


def _refused(
    kind: DumpKind,
    source: Source,
    scanned: Model,
    error: DumpSyntaxError,
    seconds: tuple[float, float],
) -> ReadText:
    """Return the comparison of a text that the grammar refuses."""
    gaps = len(scanned.gaps)
    passed = getattr(scanned, "passed_lines", 0) or len(getattr(scanned, "passed_over", ()))
    start, end = source.line_bounds(_offset(source, error.line))
    is_other = start > 0 and source.text[start:end].lstrip().startswith(_OTHER_TEXT)
    notes = [_counted(gaps, "gap")] if gaps or not passed else []
    notes += [_counted(passed, "other line")] if passed else []
    return _read(
        kind,
        source,
        REFUSED if gaps or passed or is_other else DIFFERENT,
        seconds[0],
        line=error.line,
        scanner=", ".join(notes),
        grammar=error.message,
        grammar_seconds=seconds[1],
    )


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _offset(source: Source, line: int) -> int:
    """Return the offset of a 1-based line."""
    position = 0
    for _ in range(line - 1):
        position = source.text.find("\n", position) + 1
    return position


def _read(
    kind: DumpKind,
    source: Source,
    verdict: str,
    scanner_seconds: float,
    grammar_seconds: float | None = None,
    **facts: object,
) -> ReadText:
    return ReadText(
        file=source.path,
        kind=kind.value,
        characters=len(source.text),
        verdict=verdict,
        scanner_seconds=round(scanner_seconds, 6),
        grammar_seconds=None if grammar_seconds is None else round(grammar_seconds, 6),
        **facts,  # type: ignore[arg-type] # fields by name
    )
