"""Lazy readers of single texts: the HLO text, buffer-side texts, log and call trees of a module."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hlo_lens.load.stored import read_source
from hlo_lens.model.dump import BufferTexts, Lazy
from hlo_lens.text.dump_kinds import BUFFER_PARTS, BUFFER_ROWS, ROW_OF, DumpKind
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hlo_lens.load.stored import StoredFile
    from hlo_lens.model.buffers.live_range import HloLiveRange
    from hlo_lens.model.call_tree import CallTrees
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.logs.log import LogText
    from hlo_lens.text.source import Source

    FileReader = Callable[[StoredFile], Iterator[ModuleDump]]


def lazy_module(
    file: StoredFile | None, modules_of: FileReader, *, strict: bool = False
) -> Lazy[HloModule] | None:
    """Return the lazy reader of the module in a file.

    Args:
        file: The file, if there is one.
        modules_of: Yields the modules of a file.
        strict: Raise at the first part of the text that cannot be read.
    """
    return None if file is None else Lazy(partial(_read_module, file, modules_of, strict=strict))


def _read_module(file: StoredFile, modules_of: FileReader, *, strict: bool) -> HloModule:
    """Return the module of a file; one that cannot be read is an empty module with a gap."""
    from hlo_lens.syntax.hlo.module import unread_module

    try:
        (module, *_) = modules_of(file)
        if strict and module.gaps:
            raise module.gaps[0].as_error()
        return module.hlo or unread_module(file.path)
    except DumpSyntaxError as error:
        if strict:
            raise
        return unread_module(file.path, error)


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
    return texts


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


def proto_texts(file: StoredFile, modules_of: FileReader) -> BufferTexts:
    """Return lazy readers of the buffer-side texts of a proto.

    Args:
        file: The proto, which is read when one of its texts is first asked for.
        modules_of: Yields the modules of a file.
    """
    module = Lazy(partial(_first, modules_of, file))
    return BufferTexts(
        assignment=Lazy(partial(_text_of, module, "assignment")),
        traces=Lazy(partial(_text_of, module, "traces")),
    )


def _first(modules_of: FileReader, file: StoredFile) -> ModuleDump:
    return next(modules_of(file))


def _text_of(module: Lazy[ModuleDump], field: str) -> Any:
    """Return one of the buffer-side texts of a module, parsed."""
    dump = module.get()
    text = None if dump is None else getattr(dump.buffers, field)
    return None if text is None else text.get()


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
    from hlo_lens.syntax.logs.log import parse_log

    log = parse_log(source, may_be_empty=may_be_empty)
    log.dump_lines = dump_lines
    return log
