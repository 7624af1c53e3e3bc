"""Read the texts of a dump by the scanner and by the grammar alone, and compare the models."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from hlo_lens.analysis.dumps.reader_comparison import (
    DIFFERENT,
    EQUAL,
    REFUSED,
    ReaderComparison,
    ReadText,
    first_fact_difference,
)
from hlo_lens.load.dump_texts import dump_text, files_at, members_of
from hlo_lens.syntax.buffers.assignment import parse_buffer_assignment, parse_buffer_values
from hlo_lens.syntax.buffers.live_range import parse_live_range
from hlo_lens.syntax.buffers.memory_usage import parse_memory_usage_report
from hlo_lens.syntax.call_trees.drawn_trees import parse_call_trees
from hlo_lens.syntax.hlo.module import parse_hlo, parse_hlo_with_grammar
from hlo_lens.text.dump_kinds import BUFFER_HEADERS, DumpKind
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
        progress: Called with files done and files in all; for a single HLO text with characters.

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
                texts += _compared(*found, progress if len(files) == 1 else None)
    folder = path.rstrip("/") + "/"
    return ReaderComparison(
        texts=tuple(replace(text, file=text.file.removeprefix(folder)) for text in texts)
    )


def _compared(kind: DumpKind, source: Source, progress: Progress | None) -> Iterator[ReadText]:
    """Yield the comparison of a text, and of the live range in the same text."""
    yield compare_text(kind, source, progress=progress)
    if kind is DumpKind.BUFFER_ASSIGNMENT and "\nHloLiveRange " in source.text:
        yield compare_text(DumpKind.LIVE_RANGE, source)


def compare_text(kind: DumpKind, source: Source, *, progress: Progress | None = None) -> ReadText:
    """Return whether scanner and grammar read a text alike.

    Args:
        kind: Kind of the text.
        source: The text.
        progress: Called with characters done and in all while the grammar reads an HLO text.
    """
    scanned, seconds = _timed(kind, source, "scanner")
    made = ReadText(
        file=source.path,
        kind=kind.value,
        characters=len(source.text),
        verdict=EQUAL,
        scanner_seconds=seconds,
    )
    if isinstance(scanned, DumpSyntaxError):
        return replace(made, verdict=REFUSED, line=scanned.line, scanner=scanned.message)
    checked, seconds = _timed(kind, source, "grammar", progress)
    made = replace(made, grammar_seconds=seconds)
    if isinstance(checked, DumpSyntaxError):
        return _refused(made, source, scanned, checked)
    found = first_fact_difference(scanned, checked)
    if found is None:
        return made
    return replace(
        made,
        verdict=DIFFERENT,
        line=found.line,
        place=found.place,
        field=found.field,
        scanner=found.first,
        grammar=found.second,
    )


def _timed(
    kind: DumpKind, source: Source, reader: ReaderName, progress: Progress | None = None
) -> tuple[Model | DumpSyntaxError, float]:
    """Return the model of a text, or the error of its reader, and the seconds that it took."""
    start = time.perf_counter()
    found: Model | DumpSyntaxError
    try:
        if progress is not None and kind is DumpKind.HLO:
            size = len(source.text)
            found = parse_hlo_with_grammar(source, progress=lambda done: progress(done, size))
        else:
            found = _PARSERS[kind](source, reader=reader)
    except DumpSyntaxError as error:
        found = error
    return found, round(time.perf_counter() - start, 6)


def _refused(made: ReadText, source: Source, scanned: Model, error: DumpSyntaxError) -> ReadText:
    gaps = len(scanned.gaps)
    passed = getattr(scanned, "passed_lines", 0) or len(getattr(scanned, "passed_over", ()))
    start, end = source.line_bounds(_offset(source, error.line))
    is_other = start > 0 and source.text[start:end].lstrip().startswith(_OTHER_TEXT)
    notes = [f"{gaps} gap{'s' * (gaps != 1)}"] if gaps or not passed else []
    notes += [f"{passed} other line{'s' * (passed != 1)}"] if passed else []
    return replace(
        made,
        verdict=REFUSED if gaps or passed or is_other else DIFFERENT,
        line=error.line,
        scanner=", ".join(notes),
        grammar=error.message,
    )


def _offset(source: Source, line: int) -> int:
    """Return the offset of a 1-based line."""
    position = 0
    for _ in range(line - 1):
        position = source.text.find("\n", position) + 1
    return position
