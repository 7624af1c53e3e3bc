"""Lazy readers of single texts: the buffer-side texts, log and call trees of a module."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hlo_lens.load.module import BufferTexts, Lazy
from hlo_lens.load.stored import StoredFile, read_source
from hlo_lens.text.dump_kinds import BUFFER_PARTS, BUFFER_ROWS, ROW_OF, DumpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.buffers.live_range import HloLiveRange
    from hlo_lens.call_trees.tree import CallTrees
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.logs.log import LogText
    from hlo_lens.text.source import Source


def buffer_texts(parts: Mapping[str, StoredFile], source: Source | None = None) -> BufferTexts:
    """Return lazy readers of the buffer-side texts; before April 2026 one file held several.

    Args:
        parts: Part of the module, as in `BUFFER_PARTS`, to its file.
        source: Text of one of these files, if it has been read already.
    """
    texts = BufferTexts()
    for row in BUFFER_ROWS:
        file = parts.get(row.part or "")
        if file is not None:
            setattr(texts, row.field, Lazy(partial(_parsed, row.kind, file, source)))
    assignment = parts.get(BUFFER_PARTS[DumpKind.BUFFER_ASSIGNMENT])
    if texts.live_range is None and assignment is not None:
        texts.live_range = Lazy(partial(_combined_live_range, assignment, source))
    if texts.assignment is not None:
        texts.instructions = Lazy(partial(_instructions, texts))
    return texts


def _instructions(texts: BufferTexts) -> HloModule | None:
    """Return the instructions that the used values print; None without used values."""
    from hlo_lens.buffers.value_instructions import value_instructions  # imports Lark

    assignment = None if texts.assignment is None else texts.assignment.get()
    if assignment is None:
        return None
    values = assignment.values if texts.values is None else texts.values.get()
    return None if values is None else value_instructions(assignment, values)


def _parsed(kind: DumpKind, file: StoredFile, source: Source | None) -> Any:
    """Return the content of a file, parsed as its kind; read now unless it has been read."""
    return _parse(kind, _source(file, source))


def _source(file: StoredFile, source: Source | None) -> Source:
    return source if source is not None and source.path == file.path else read_source(file)


def _parse(kind: DumpKind, source: Source) -> Any:
    module, _, function = ROW_OF[kind].parser.partition(":")
    return getattr(import_module(module), function)(source)


def _combined_live_range(file: StoredFile, source: Source | None) -> HloLiveRange | None:
    """Return the live ranges after the allocations (one file until April 2026), or None."""
    text = _source(file, source)
    found: HloLiveRange | None = None
    if "\nHloLiveRange " in text.text:
        found = _parse(DumpKind.LIVE_RANGE, text)
    return found


def later_buffers(read: Callable[[], BufferTexts]) -> BufferTexts:
    """Return lazy readers of a buffer assignment and its heap traces, found together."""
    buffers = Lazy(read)
    return BufferTexts(
        assignment=Lazy(partial(_text_of, buffers, "assignment")),
        traces=Lazy(partial(_text_of, buffers, "traces")),
    )


def _text_of(buffers: Lazy[BufferTexts], field: str) -> Any:
    lazy = getattr(buffers.get(), field)
    return None if lazy is None else lazy.get()


def lazy_trees(source: Source) -> Lazy[CallTrees]:
    """Return the lazy reader of the call trees in a text."""
    return Lazy(partial(_parse, DumpKind.CALL_TREE, source))


def lazy_log(source: Source, *, may_be_empty: bool = False, dump_lines: int = 0) -> Lazy[LogText]:
    """Return the lazy reader of a log.

    Args:
        source: Its text.
        may_be_empty: Whether it may hold nothing that is read.
        dump_lines: Number of its lines that are blank because they are dumps, read as such.
    """
    return Lazy(partial(_parse_log, source, may_be_empty, dump_lines))


def _parse_log(source: Source, may_be_empty: bool, dump_lines: int) -> LogText:
    from hlo_lens.logs.logs_log import parse_log

    log = parse_log(source, may_be_empty=may_be_empty)
    log.dump_lines = dump_lines
    return log
