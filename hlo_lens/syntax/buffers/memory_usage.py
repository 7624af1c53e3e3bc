"""Text of a memory-usage report to the model: by the scanner, or by the grammar alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.syntax.buffers.lines import first_found, nothing_found, scan_source, source_of
from hlo_lens.syntax.buffers.memory_usage_grammar import read_report
from hlo_lens.syntax.buffers.memory_usage_scan import ReportScan
from hlo_lens.syntax.grammar.reader_choice import uses_grammar

if TYPE_CHECKING:
    from hlo_lens.model.buffers.memory_usage_report import MemoryUsageReport
    from hlo_lens.syntax.grammar.reader_choice import ReaderName
    from hlo_lens.text.source import Source


def parse_memory_usage_report(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> MemoryUsageReport:
    """Return the report of a text, in either form.

    Unread parts are listed in its ``gaps``. Of several the first is returned, with a gap
    at the start of the second.

    Args:
        text: A ``-memory-usage-report.txt`` dump.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone and raises at the first error.

    Raises:
        DumpSyntaxError: If it has no report, or, if strict, at the first gap.
    """
    source = source_of(text, path)
    if uses_grammar(reader):
        return read_report(source)
    scan = scan_memory_usage_reports(source)
    if not scan.found:
        raise nothing_found(scan, "'Memory Space:' or 'Allocations sorted by size:'")
    return first_found(scan, scan.found, "a second memory-usage report", strict=strict)


def scan_memory_usage_reports(source: Source) -> ReportScan:
    """Return a finished scan: all reports of a source."""
    return scan_source(source, ReportScan)
