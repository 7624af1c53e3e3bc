"""Text of a BufferAssignment, and of its used values, to the model.

The scanner reads; `parse_buffer_assignment_with_grammar` is the definition that it is held against.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.syntax.buffers.assignment_grammar import NAMES, Places, parser
from hlo_lens.syntax.buffers.assignment_scan import EXPECTED, BufferScan
from hlo_lens.syntax.buffers.lines import (
    find_all,
    first_found,
    grammar_tree,
    nothing_found,
    optional_token,
    scan_source,
    source_of,
)

if TYPE_CHECKING:
    from hlo_lens.model.buffers.assignment import BufferAssignment
    from hlo_lens.model.buffers.values import BufferValues
    from hlo_lens.text.source import Source


def parse_buffer_assignment(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> BufferAssignment:
    """Return the allocations that a text prints, with the used values if it holds them too.

    What could not be read is in its ``gaps``. A live range in the same text is left to
    `parse_live_range`. Of several assignments the first is returned, and a gap says where the
    second begins.

    Args:
        text: A ``-buffer-assignment.txt`` dump of any year, or a log that holds one.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If it holds no allocations, or, when strict, at the first gap.
    """
    scan = scan_buffers(source_of(text, path))
    if not scan.assignments:
        raise nothing_found(scan, EXPECTED)
    return first_found(
        scan,
        scan.assignments,
        "a second BufferAssignment (hlo_lens.load reads them all)",
        strict=strict,
    )


def parse_buffer_values(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> BufferValues:
    """Return the used values that a text prints: alone, or after the allocations.

    Args:
        text: A ``-buffer-assignment-values.txt`` dump, or a ``-buffer-assignment.txt`` of the
            years before April 2026.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If it holds none, or, when strict, at the first gap.
    """
    scan = scan_buffers(source_of(text, path))
    if not scan.values:
        raise nothing_found(scan, "'Used values:'")
    return first_found(
        scan,
        scan.values,
        "a second list of used values (hlo_lens.load reads them all)",
        strict=strict,
    )


def scan_buffers(source: Source) -> BufferScan:
    """Return a finished scan: all assignments and lists of used values that a source holds."""
    return scan_source(source, BufferScan)


def parse_buffer_assignment_with_grammar(source: Source) -> BufferAssignment:
    """Return the assignment of a source as the grammar alone reads it: the scanner's reference.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "buffer_assignment", 0, len(source.text))
    scan = BufferScan(source)
    assignment = scan.begin_assignment(0, has_header=True)
    places = Places(0)
    for allocation in find_all(tree, "allocation"):
        read = places.allocation(next(find_all(allocation, "allocation_line")))
        scan.add_allocation(read.cells, read.other)
        for value in find_all(allocation, "assigned_value"):
            assignment.assigned.cells.extend(places.assigned_value(value))
        for block in find_all(allocation, "reused_values"):
            for value in find_all(block, "reused_value"):
                scan.add_reused(places.reused_value(value), 0, 0)
    return assignment


def parse_buffer_values_with_grammar(source: Source) -> BufferValues:
    """Return the used values of a source as the grammar alone reads them.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "buffer_values", 0, len(source.text))
    scan = BufferScan(source)
    values = scan.begin_values(0)
    for total in find_all(tree, "total"):
        values.total_bytes = int(optional_token(total, "NATURAL") or 0)
        values.total_text = str(optional_token(total, "HUMAN_SIZE"))
    for value in find_all(tree, "used_value"):
        scan.add_used(Places(0).used_value(value))
    return values
