"""Text of an HloLiveRange to the model: by the scanner, or by the grammar alone.

The dump has a file of its own (since April 2026), follows the allocations and used values of its
module (before), or is part of a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.syntax.buffers.lines import first_found, nothing_found, scan_source, source_of
from hlo_lens.syntax.buffers.live_range_scan import LiveRangeScan
from hlo_lens.syntax.grammar.reader_choice import uses_grammar

if TYPE_CHECKING:
    from hlo_lens.model.buffers.live_range import HloLiveRange
    from hlo_lens.syntax.buffers.live_range_draft import LiveRangeDraft
    from hlo_lens.syntax.grammar.reader_choice import ReaderName
    from hlo_lens.text.source import Source


def parse_live_range(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> HloLiveRange:
    """Return the live range of a text: alone, after a BufferAssignment, or in a log.

    Unread parts are listed in its ``gaps``. Of several the first is returned, with a gap
    at the start of the second.

    Args:
        text: A ``-live-range.txt`` dump, or a ``-buffer-assignment.txt`` of before April 2026.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone and raises at the first error.

    Raises:
        DumpSyntaxError: If it has no live range, or, if strict, at the first gap.
    """
    source = source_of(text, path)
    scan: LiveRangeDraft
    if uses_grammar(reader):
        from hlo_lens.syntax.buffers.grammar_reader import read_buffer_dump

        _, scan = read_buffer_dump(source)
    else:
        scan = scan_live_ranges(source)
    if not scan.found:
        raise nothing_found(scan, "'HloLiveRange'")
    return first_found(scan, scan.found, "a second HloLiveRange", strict=strict, width=12)


def scan_live_ranges(source: Source) -> LiveRangeScan:
    """Return a finished scan: all live ranges of a source."""
    return scan_source(source, LiveRangeScan)
