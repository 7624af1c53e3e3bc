"""Text of a BufferAssignment, and of its used values, to the model.

The scanner reads it, or the grammar alone, which is the reference of the scanner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.syntax.buffers.assignment_scan import EXPECTED, BufferScan
from hlo_lens.syntax.buffers.lines import first_found, nothing_found, scan_source, source_of
from hlo_lens.syntax.grammar.reader_choice import uses_grammar

if TYPE_CHECKING:
    from hlo_lens.model.buffers.assignment import BufferAssignment
    from hlo_lens.model.buffers.values import BufferValues
    from hlo_lens.syntax.buffers.assignment_draft import BufferDraft
    from hlo_lens.syntax.grammar.reader_choice import ReaderName
    from hlo_lens.text.source import Source


def parse_buffer_assignment(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> BufferAssignment:
    """Return the allocations of a text, with its used values if it has any.

    Unread parts are listed in its ``gaps``. A live range in the same text is skipped:
    `parse_live_range` reads it. Of several assignments the first is returned, with a gap at the
    start of the second.

    Args:
        text: A ``-buffer-assignment.txt`` dump of any year, or a log with one in it.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone and raises at the first error.

    Raises:
        DumpSyntaxError: If it has no allocations, or, if strict, at the first gap.
    """
    scan = _read(source_of(text, path), reader)
    if not scan.assignments:
        raise nothing_found(scan, EXPECTED)
    return first_found(
        scan,
        scan.assignments,
        "a second BufferAssignment (hlo_lens.load reads them all)",
        strict=strict,
    )


def parse_buffer_values(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> BufferValues:
    """Return the used values of a text: alone, or after the allocations.

    Args:
        text: A ``-buffer-assignment-values.txt`` dump, or a ``-buffer-assignment.txt`` of the
            years before April 2026.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone and raises at the first error.

    Raises:
        DumpSyntaxError: If it has none, or, if strict, at the first gap.
    """
    scan = _read(source_of(text, path), reader)
    if not scan.values:
        raise nothing_found(scan, "'Used values:'")
    return first_found(
        scan,
        scan.values,
        "a second list of used values (hlo_lens.load reads them all)",
        strict=strict,
    )


def _read(source: Source, reader: ReaderName) -> BufferDraft:
    if not uses_grammar(reader):
        return scan_buffers(source)
    from hlo_lens.syntax.buffers.grammar_reader import read_buffer_dump

    buffers, _ = read_buffer_dump(source)
    return buffers


def scan_buffers(source: Source) -> BufferScan:
    """Return a finished scan: all assignments and lists of used values of a source."""
    return scan_source(source, BufferScan)
