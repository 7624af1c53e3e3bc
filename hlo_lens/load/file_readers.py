"""The modules in a single file, by the kind of its content, and lazy readers of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.load.compressed import CHUNK
from hlo_lens.load.embedded_dumps import (
    Around,
    Part,
    around_modules,
    around_parts,
    buffer_parts,
    files_alone,
    files_of_parts,
    printed_files,
)
from hlo_lens.load.lazy_texts import buffer_texts, later_buffers, lazy_log, lazy_trees
from hlo_lens.load.module import BufferTexts, Lazy, ModuleDump, Stage, already_read
from hlo_lens.load.stored import StoredFile, chunks, name_of, source_of
from hlo_lens.text import log_words
from hlo_lens.text.content_kind import BRANCHES, PROTO_HEAD, draws_calls, proto_message, sniff
from hlo_lens.text.dump_files import split_file_name
from hlo_lens.text.dump_kinds import BUFFER_HEADERS, BUFFER_PARTS, PROTO, ROW_OF, DumpKind
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.line_leads import without_leads
from hlo_lens.text.log_entries import without_entries
from hlo_lens.text.log_words import has_log_words
from hlo_lens.text.quotations import without_quotation
from hlo_lens.text.source import Source, cut_log_prefixes, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule

    Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingFiles:
    """Other files of the module of a file.

    Attributes:
        parts: Files of the same stage by part, empty for the HLO text.
        before: HLO text from before optimizations; None for a file of that stage.
        stages: All stages of the module; None for a file of no stage.
        mlir: The program as lowered to MLIR; None if there is none.
        settings: Texts on target and options, by the end of their file names.
    """

    parts: Mapping[str, StoredFile] = field(default_factory=dict)
    before: StoredFile | None = None
    stages: Lazy[tuple[Stage, ...]] | None = None
    mlir: Lazy[str | None] | None = None
    settings: Mapping[str, Lazy[str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Content of a file.

    Attributes:
        file: The file.
        kind: Kind of its content.
        source: Its text.
        siblings: Other files of its module.
        progress: Called with characters done and characters in all.
        parts: Buffer-side texts in it, next to other text.
    """

    file: StoredFile
    kind: DumpKind
    source: Source
    siblings: SiblingFiles
    progress: Progress | None = None
    parts: tuple[Part, ...] = ()


class Opened:
    """A file that is being read.

    Attributes:
        pieces: The rest of its content, unpacked.
        cut: Has an item if the file is compressed and ends too early.
    """

    def __init__(self, file: StoredFile) -> None:
        self.cut: list[bool] = []
        self.pieces: Iterator[bytes] = chunks(file, self.cut)


def modules_of(
    file: StoredFile,
    *,
    opened: Opened | None = None,
    progress: Progress | None = None,
    siblings: SiblingFiles | None = None,
    read_printed: Callable[[Sequence[StoredFile]], Iterator[ModuleDump]] | None = None,
) -> Iterator[ModuleDump]:
    """Yield the modules of one file.

    Args:
        file: The file.
        opened: The same file, if its first piece has been read already.
        progress: Called with characters done and characters in all.
        siblings: Other files of the same module; None for a file that is read alone, as a text of
            one kind.
        read_printed: Returns the modules of files that XLA printed between markers; None where
            the file is a part of a folder.

    Raises:
        UnreadableError: If it cannot be read.
        DumpSyntaxError: If it holds no module.
    """
    opened = opened or Opened(file)
    head = next(opened.pieces, b"")
    pieces = itertools.chain((head,), opened.pieces)
    others = siblings or SiblingFiles()
    if proto_message(head[:PROTO_HEAD]) is not None:  # bytes, which are not decoded as text
        yield _proto_module(file, b"".join(pieces), others, progress)
        return
    if len(head) >= CHUNK and sniff(decode(head)) is DumpKind.BINARY:  # not read to its end
        raise DumpSyntaxError(ROW_OF[DumpKind.BINARY].refusal, path=file.path)
    for source in _texts(source_of(pieces, file, opened.cut)):
        printed, around = printed_files(source) if read_printed else ([], None)
        if read_printed is not None and around is not None and printed:
            yield from read_printed(printed)
            log = Content(file=file, kind=DumpKind.LOG, source=source, siblings=others)
            yield from _around(log, around)
            continue
        kind = sniff(source.text)
        if not ROW_OF[kind].parser:
            raise DumpSyntaxError(ROW_OF[kind].refusal, path=source.path)
        content = Content(file=file, kind=kind, source=source, siblings=others, progress=progress)
        content = content if siblings is None else _unmixed(content)
        read = _hlo_modules if content.kind is DumpKind.HLO else _without_hlo
        yield from read(content)


def _texts(source: Source) -> list[Source]:
    """Return the texts of a source: without what loggers put before lines, one for each process."""
    source = without_entries(source)
    if sniff(source.text) is DumpKind.OTHER:  # a log whose first lines have no prefix
        source = cut_log_prefixes(source) or without_quotation(source) or source
    return without_leads(source)


def lazy_module(file: StoredFile | None, *, strict: bool = False) -> Lazy[HloModule] | None:
    """Return the lazy reader of the module in a file, if there is one.

    Args:
        file: The file.
        strict: Raise at the first part of the text that cannot be read.
    """
    return None if file is None else Lazy(partial(_read_module, file, strict=strict))


def _read_module(file: StoredFile, *, strict: bool) -> HloModule:
    """Return the module of a file; one that cannot be read is an empty module with a gap."""
    from hlo_lens.hlo.module_reader import unread_module

    try:
        (module, *_) = modules_of(file)
        if strict and module.gaps:
            raise module.gaps[0].as_error()
        return module.hlo or unread_module(file.path)
    except DumpSyntaxError as error:
        if strict:
            raise
        return unread_module(file.path, error)


def _proto_module(
    file: StoredFile, data: bytes, siblings: SiblingFiles, progress: Progress | None
) -> ModuleDump:
    """Return the module of a proto; raises the errors of `read_proto`."""
    from hlo_lens.load.protos import read_proto

    module, buffers = read_proto(data, file.path, progress=progress)
    name = split_file_name(name_of(file))
    return ModuleDump(
        name=module.name or name.module,
        kind=DumpKind.HLO_PROTO,
        stage=name.stage,
        files=(file.path,),
        parts={} if buffers.assignment is None else {"buffer-assignment": file.path},
        module_text=already_read(module),
        before_text=lazy_module(siblings.before),
        buffers=buffers,
        number=name.number,
        stage_list=siblings.stages,
        mlir_text=siblings.mlir,
    )


def _of_size(progress: Progress | None, size: int) -> Callable[[int], None] | None:
    """Return a report of characters done of a text, from one of characters done and in all."""
    return None if progress is None else lambda offset: progress(offset, size)


def proto_buffers(file: StoredFile) -> BufferTexts:
    """Return lazy readers of the buffer-side texts of a proto, which is read when one is."""
    return later_buffers(partial(_buffers_of, file))


def _buffers_of(file: StoredFile) -> BufferTexts:
    return next(modules_of(file)).buffers


_HEAD = 64


def _unmixed(content: Content) -> Content:
    """Return the content with the buffer-side texts split off that are inside a log or HLO text."""
    text = content.source.text
    has_hlo = content.kind is DumpKind.HLO or "\nHloModule " in text
    begins = text[:_HEAD].lstrip().startswith(BUFFER_HEADERS)
    if content.kind in BUFFER_PARTS and begins and not has_hlo:
        return content
    parts = tuple(buffer_parts(text))
    return replace(content, kind=DumpKind.HLO if has_hlo else content.kind, parts=parts)


def _hlo_modules(content: Content) -> Iterator[ModuleDump]:
    """Yield the modules in an HLO text or log, and the log's messages around them."""
    from hlo_lens.hlo.module_reader import parse_hlo_modules  # imports Lark; --help must not

    source = content.source
    report = _of_size(content.progress, len(source.text))
    name = split_file_name(name_of(content.file))
    rest = around_parts(source, content.parts).rest()  # without the buffer-side texts in it
    modules = parse_hlo_modules(rest, progress=report)
    lines = [module.columns.source.line_column(module.start)[0] for module in modules]
    inside = files_of_parts(source, content.parts, lines)
    others = content.siblings if len(modules) == 1 else SiblingFiles()
    parts = {k: file for k, file in others.parts.items() if k not in ("", PROTO)}
    for module, texts in zip(modules, inside, strict=True):
        yield ModuleDump(
            name=module.name or name.module,
            kind=content.kind,
            stage=name.stage,
            files=(source.path, *(file.path for file in parts.values())),
            parts={part: file.path for part, file in parts.items()},
            module_text=already_read(module),
            before_text=lazy_module(others.before),
            buffers=buffer_texts({**parts, **texts}),
            number=name.number,
            stage_list=others.stages,
            mlir_text=others.mlir,
            settings=others.settings,
        )
    yield from _around(content, around_modules(modules))


def _buffer_modules(content: Content) -> Iterator[ModuleDump]:
    """Yield the module that a buffer-side text belongs to, with its other texts."""
    if content.parts:
        for texts in files_alone(content.source, content.parts):
            paths = {part: file.path for part, file in texts.items()}
            yield replace(_part_of_file(content), parts=paths, buffers=buffer_texts(texts))
        return
    name = split_file_name(name_of(content.file))
    parts = {**content.siblings.parts, BUFFER_PARTS[content.kind]: content.file}
    proto = parts.pop(PROTO, None)
    hlo = parts.pop("", proto)
    yield ModuleDump(
        name=name.module,
        kind=content.kind,
        stage=name.stage,
        files=(*((hlo.path,) if hlo else ()), *(file.path for file in parts.values())),
        parts={part: file.path for part, file in parts.items()},
        module_text=lazy_module(hlo),
        before_text=lazy_module(content.siblings.before),
        buffers=buffer_texts(parts, content.source),
        number=name.number,
        stage_list=content.siblings.stages,
        mlir_text=content.siblings.mlir,
        settings=content.siblings.settings,
    )


def _around(content: Content, around: Around) -> Iterator[ModuleDump]:
    rest = None
    if around.has_any(BRANCHES):
        rest = around.rest()
        if draws_calls(rest.text):
            yield _tree_module(content, rest)
    if around.has_any(log_words.ALL):
        yield _log_module(content, rest or around.rest(), around.dump_lines)


def _log_module(content: Content, source: Source, dump_lines: int = 0) -> ModuleDump:
    log = lazy_log(source, dump_lines=dump_lines)
    return replace(_part_of_file(content), kind=DumpKind.LOG, log_text=log)


def _tree_module(content: Content, source: Source) -> ModuleDump:
    return replace(_part_of_file(content), kind=DumpKind.CALL_TREE, trees=lazy_trees(source))


def _part_of_file(content: Content) -> ModuleDump:
    """Return the module entry of a text that is named by its file."""
    path = content.source.path
    return ModuleDump(name=name_of(content.file), kind=content.kind, files=(path,))


def _without_hlo(content: Content) -> Iterator[ModuleDump]:
    """Yield the buffer-side texts, call trees and log messages in a text without HLO."""
    source = content.source
    if content.kind is DumpKind.MLIR:
        from hlo_lens.hlo.lowered_reader import parse_stablehlo  # imports Lark

        yield replace(_part_of_file(content), lowered_text=already_read(parse_stablehlo(source)))
        return
    if content.kind in BUFFER_PARTS or content.parts:
        yield from _buffer_modules(content)
    if content.parts:
        yield from _around(content, around_parts(source, content.parts))
    elif content.kind in BUFFER_PARTS:
        if has_log_words(source.text):
            yield _log_module(content, source)
    elif content.kind is DumpKind.CALL_TREE and not has_log_words(source.text):
        yield _tree_module(content, source)
    else:
        yield from _around(content, Around(source))
