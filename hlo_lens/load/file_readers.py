"""The modules in a single file, by the kind of its content."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hlo_lens.load.embedded_dumps import (
    Around,
    around_modules,
    around_parts,
    buffer_parts,
    files_alone,
    files_of_parts,
)
from hlo_lens.load.lazy_texts import buffer_texts, lazy_log, lazy_module, lazy_trees
from hlo_lens.load.protos import proto_module
from hlo_lens.load.stored import chunks, name_of, source_of
from hlo_lens.model.dump import ModuleDump, given
from hlo_lens.text import log_words
from hlo_lens.text.content_kind import BRANCHES, PROTO_HEAD, draws_calls, proto_message, sniff
from hlo_lens.text.dump_files import split_file_name
from hlo_lens.text.dump_kinds import BUFFER_HEADERS, BUFFER_PARTS, PROTO, ROW_OF, DumpKind
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.log_words import has_log_words
from hlo_lens.text.source import cut_log_prefixes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hlo_lens.load.embedded_dumps import Part
    from hlo_lens.load.stored import StoredFile
    from hlo_lens.model.dump import Lazy, Stage
    from hlo_lens.text.source import Source

    Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingFiles:
    """Other files of the module of a file.

    Attributes:
        parts: Files of the same stage by part, empty for the HLO text.
        before: HLO text from before optimizations; None for a file of that stage.
        stages: All stages of the module; None for a file of no stage.
    """

    parts: Mapping[str, StoredFile] = field(default_factory=dict)
    before: StoredFile | None = None
    stages: Lazy[tuple[Stage, ...]] | None = None


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
) -> Iterator[ModuleDump]:
    """Yield the modules of one file.

    Args:
        file: The file.
        opened: The same file, if its first piece has been read already.
        progress: Called with characters done and characters in all.
        siblings: Other files of the same module; None for a file that is read alone, as a text of
            one kind.

    Raises:
        UnreadableError: If it cannot be read.
        DumpSyntaxError: If it holds no module.
    """
    opened = opened or Opened(file)
    head = next(opened.pieces, b"")
    pieces = itertools.chain((head,), opened.pieces)
    if proto_message(head[:PROTO_HEAD]) is not None:  # bytes, which are not decoded as text
        others = siblings or SiblingFiles()
        yield proto_module(
            file,
            b"".join(pieces),
            before=lazy_module(others.before, modules_of),
            stages=others.stages,
            progress=progress,
        )
        return
    source = source_of(pieces, file, opened.cut)
    kind = sniff(source.text)
    if kind is DumpKind.OTHER and (bare := cut_log_prefixes(source)) is not None:
        source, kind = bare, sniff(bare.text)  # a log whose first lines have no prefix
    if not ROW_OF[kind].parser:
        raise DumpSyntaxError(ROW_OF[kind].refusal, path=source.path)
    others = siblings or SiblingFiles()
    content = Content(file=file, kind=kind, source=source, siblings=others, progress=progress)
    content = content if siblings is None else _unmixed(content)
    read = _hlo_modules if content.kind is DumpKind.HLO else _without_hlo
    yield from read(content)


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
    from hlo_lens.syntax.hlo.module import parse_hlo_modules  # Lark, which --help must not pay

    source, progress = content.source, content.progress
    size = len(source.text)
    report = None if progress is None else lambda offset: progress(offset, size)
    name = split_file_name(name_of(content.file))
    modules = parse_hlo_modules(_hlo_source(content), progress=report)
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
            module_text=given(module),
            before_text=lazy_module(others.before, modules_of),
            buffers=buffer_texts({**parts, **texts}),
            number=name.number,
            stage_list=others.stages,
        )
    yield from _around(content, around_modules(modules))


def _hlo_source(content: Content) -> Source:
    """Return the text without the buffer-side texts in it."""
    return around_parts(content.source, content.parts).rest()


def _buffer_modules(content: Content) -> Iterator[ModuleDump]:
    """Yield the module that a buffer-side text belongs to, with its other texts."""
    if content.parts:
        for texts in files_alone(content.source, content.parts):
            yield ModuleDump(
                name=name_of(content.file),
                kind=content.kind,
                files=(content.source.path,),
                parts={part: file.path for part, file in texts.items()},
                buffers=buffer_texts(texts),
            )
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
        module_text=lazy_module(hlo, modules_of),
        before_text=lazy_module(content.siblings.before, modules_of),
        buffers=buffer_texts(parts, content.source),
        number=name.number,
        stage_list=content.siblings.stages,
    )


def _around(content: Content, around: Around) -> Iterator[ModuleDump]:
    """Yield the call trees and the log messages in the text around dumps."""
    rest = None
    if around.has_any(BRANCHES):
        rest = around.rest()
        if draws_calls(rest.text):
            yield _tree_module(content, rest)
    if around.has_any(log_words.ALL):
        yield _log_module(content, rest or around.rest(), around.dump_lines)


def _log_module(content: Content, source: Source, dump_lines: int = 0) -> ModuleDump:
    """Return the module entry of a log."""
    return ModuleDump(
        name=name_of(content.file),
        kind=DumpKind.LOG,
        files=(content.source.path,),
        log_text=lazy_log(source, dump_lines=dump_lines),
    )


def _tree_module(content: Content, source: Source) -> ModuleDump:
    """Return the module entry of the call trees in a text."""
    return ModuleDump(
        name=name_of(content.file),
        kind=DumpKind.CALL_TREE,
        files=(content.source.path,),
        trees=lazy_trees(source),
    )


def _without_hlo(content: Content) -> Iterator[ModuleDump]:
    """Yield the buffer-side texts, call trees and log messages in a text without HLO."""
    source = content.source
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
