"""Readers of single files: the HLO text and the buffer-side texts of a module."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.load.stored import read_source
from hlo_lens.model.dump import BufferTexts, Lazy
from hlo_lens.text.dump_files import PROTO, DumpKind
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.load.stored import StoredFile
    from hlo_lens.model.buffers.assignment import BufferAssignment
    from hlo_lens.model.buffers.heap_trace import HeapTrace
    from hlo_lens.model.buffers.live_range import HloLiveRange
    from hlo_lens.model.buffers.memory_usage_report import MemoryUsageReport
    from hlo_lens.model.buffers.values import BufferValues
    from hlo_lens.model.call_tree import CallTrees
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.logs.log import LogText
    from hlo_lens.text.source import Source

T = TypeVar("T")

BUFFER_KINDS = {
    DumpKind.BUFFER_ASSIGNMENT: "buffer-assignment",
    DumpKind.BUFFER_VALUES: "buffer-assignment-values",
    DumpKind.LIVE_RANGE: "live-range",
    DumpKind.MEMORY_USAGE_REPORT: "memory-usage-report",
}
"""Kinds of buffer-side text, and the word for each in XLA's file names."""


def part_of(kind: DumpKind | None) -> str | None:
    """Return what a text of a kind is to its module: empty for HLO; None for none of its texts."""
    if kind is DumpKind.HLO_PROTO:
        return PROTO
    return "" if kind is DumpKind.HLO else BUFFER_KINDS.get(kind) if kind else None


def lazy_module(file: StoredFile | None, *, strict: bool = False) -> Lazy[HloModule] | None:
    """Return what reads the module of a file when it is asked for."""
    return None if file is None else Lazy(partial(_read_module, file, strict=strict))


def _read_module(file: StoredFile, *, strict: bool) -> HloModule:
    """Return the module of a file; one that cannot be read is an empty module with a gap."""
    from hlo_lens.load.file_readers import modules_of
    from hlo_lens.syntax.hlo.module import unread_module

    try:
        (module, *_) = modules_of(file, alone=True)
        if strict and module.gaps:
            raise module.gaps[0].as_error()
        return module.hlo or unread_module(file.path)
    except DumpSyntaxError as error:
        if strict:
            raise
        return unread_module(file.path, error)


def buffer_texts(parts: Mapping[str, StoredFile], source: Source | None = None) -> BufferTexts:
    """Return readers of the buffer-side texts; before April 2026 one file held several.

    Args:
        parts: Kind of text to its file.
        source: One of these files, where it has been read already.
    """
    texts = BufferTexts()
    assignment = parts.get("buffer-assignment")
    if assignment is not None:
        texts.assignment = Lazy(partial(_parsed, _parse_assignment, assignment, source))
    values = parts.get("buffer-assignment-values")
    if values is not None:
        texts.values = Lazy(partial(_parsed, _parse_values, values, source))
    ranges = parts.get("live-range")
    if ranges is not None:
        texts.live_range = Lazy(partial(_parsed, _parse_live_range, ranges, source))
    elif assignment is not None:
        texts.live_range = Lazy(partial(_parsed, _combined_live_range, assignment, source))
    report = parts.get("memory-usage-report")
    if report is not None:
        texts.usage_report = Lazy(partial(_parsed, _parse_usage_report, report, source))
    return texts


def _parsed(parse: Callable[[Source], T], file: StoredFile, source: Source | None) -> T:
    """Return what a file holds, read now unless it has been read already."""
    if source is None or source.path != file.path:
        source = read_source(file)
    return parse(source)


def lazy_log(source: Source, *, may_be_empty: bool = False, dump_lines: int = 0) -> Lazy[LogText]:
    """Return the reader of a log.

    Args:
        source: Its text.
        may_be_empty: Whether it may hold nothing that is read.
        dump_lines: How many of its lines are blank because they are dumps, read as such.
    """
    return Lazy(partial(_parse_log, source, may_be_empty, dump_lines))


def proto_texts(file: StoredFile) -> BufferTexts:
    """Return readers of what a proto says of buffers; nothing is read before one is asked."""
    from hlo_lens.load.file_readers import modules_of

    def read() -> ModuleDump:
        (module,) = modules_of(file, alone=True)
        return module

    module = Lazy(read)

    def buffers() -> BufferTexts:
        found = module.get()
        return BufferTexts() if found is None else found.buffers

    def assignment() -> BufferAssignment | None:
        found = buffers().assignment
        return None if found is None else found.get()

    def traces() -> tuple[HeapTrace, ...] | None:
        found = buffers().traces
        return None if found is None else found.get()

    return BufferTexts(assignment=Lazy(assignment), traces=Lazy(traces))


def lazy_trees(source: Source) -> Lazy[CallTrees]:
    """Return the reader of the call trees in a text."""
    return Lazy(partial(_parse_call_trees, source))


def _parse_call_trees(source: Source) -> CallTrees:
    from hlo_lens.syntax.call_trees.drawn_trees import parse_call_trees

    return parse_call_trees(source)


def _parse_assignment(source: Source) -> BufferAssignment:
    from hlo_lens.syntax.buffers.assignment import parse_buffer_assignment

    return parse_buffer_assignment(source)


def _parse_values(source: Source) -> BufferValues:
    from hlo_lens.syntax.buffers.assignment import parse_buffer_values

    return parse_buffer_values(source)


def _parse_live_range(source: Source) -> HloLiveRange:
    from hlo_lens.syntax.buffers.live_range import parse_live_range

    return parse_live_range(source)


def _combined_live_range(source: Source) -> HloLiveRange | None:
    """Return the live ranges that stand after the allocations, as until April 2026; or None."""
    return _parse_live_range(source) if "\nHloLiveRange " in source.text else None


def _parse_log(source: Source, may_be_empty: bool, dump_lines: int) -> LogText:
    from hlo_lens.syntax.logs.log import parse_log

    log = parse_log(source, may_be_empty=may_be_empty)
    log.dump_lines = dump_lines
    return log


def _parse_usage_report(source: Source) -> MemoryUsageReport:
    from hlo_lens.syntax.buffers.memory_usage import parse_memory_usage_report

    return parse_memory_usage_report(source)
