"""The modules in a single file, by the kind of its content, and lazy readers of their texts."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo_lens.load.files import (
    CHUNK,
    MemoryFile,
    StoredFile,
    chunks,
    name_of,
    read_source,
    source_of,
)
from hlo_lens.load.module import BufferTexts, Lazy, ModuleDump, already_read
from hlo_lens.text import log_words
from hlo_lens.text.dump_kinds import (
    BRANCHES,
    BUFFER_HEADERS,
    BUFFER_PARTS,
    BUFFER_ROWS,
    HLO_MODULE,
    PROTO,
    PROTO_HEAD,
    ROW_OF,
    TOTAL_BYTES,
    DumpKind,
    draws_calls,
    proto_message,
    sniff,
    split_file_name,
)
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.log_prefixes import without_leads
from hlo_lens.text.log_words import has_log_words
from hlo_lens.text.source import Source, clean, cut_log_prefixes, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.buffers.assignment import BufferAssignment
    from hlo_lens.buffers.live_range import HloLiveRange
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.logs.log import LogText

    Progress = Callable[[int, int], None]

_VALUES = re.compile(
    rf"^(?:{TOTAL_BYTES}[^\n]*\n\s*)?{ROW_OF[DumpKind.BUFFER_VALUES].headers[0]}", re.MULTILINE
)
"""Header of the used values, the only one that may begin on an earlier line."""

_OTHERS = re.compile(
    rf"^(?![ \t]|$|allocation \d|<\d|\d|-{{4}}|{'|'.join(map(re.escape, BUFFER_HEADERS))}"
    r"|cumulative_size;|The rest )",
    re.MULTILINE,
)
"""Start of a line that no buffer-side text has."""


_BEGIN = re.compile(r"^\*\*\* Begin ([^\s/]+) \*\*\*[ \t]*(?:\n|\Z)", re.MULTILINE)
_END = re.compile(r"^\*\*\* (?:End|Begin) [^\s/]+ \*\*\*[ \t]*(?:\n|\Z)", re.MULTILINE)


def printed_files(source: Source) -> tuple[list[MemoryFile], Around]:
    """Return the files that XLA printed between markers, and the text around them.

    A file whose end is missing ends before the next one.
    """
    text, files, spans = source.text, list[MemoryFile](), list[tuple[int, int]]()
    begin = _BEGIN.search(text) if "*** Begin " in text else None
    while begin is not None:
        end = _END.search(text, begin.end())
        stop = len(text) if end is None else end.start()
        data = text[begin.end() : stop].encode("utf-8", errors="surrogatepass")
        files.append(MemoryFile(path=f"{source.path}/{begin[1]}", data=data))
        is_ended = end is not None and end[0].startswith("*** End")
        spans.append((begin.start(), end.end() if end is not None and is_ended else stop))
        begin = _BEGIN.search(text, spans[-1][1])
    return files, Around(source, tuple(spans))


@dataclass(frozen=True, slots=True)
class Part:
    """A buffer-side text in a log."""

    kind: str
    start: int
    end: int


def buffer_parts(text: str) -> list[Part]:
    """Return the buffer-side texts in a text, in order, without overlaps."""
    starts: list[tuple[int, str]] = []
    for row in BUFFER_ROWS:
        places = _line_starts(text, row.headers[0])
        if row.kind is DumpKind.BUFFER_VALUES and places:
            places = [match.start() for match in _VALUES.finditer(text)]
        starts += [(place, row.part or "") for place in places]
    parts: list[Part] = []
    for start, kind in sorted(starts):
        if parts and start < parts[-1].end:
            continue
        other = _OTHERS.search(text, start + 1)
        parts.append(Part(kind, start, len(text) if other is None else other.start()))
    return parts


def _line_starts(text: str, word: str) -> list[int]:
    starts = [0] if text.startswith(word) else []
    start = text.find(f"\n{word}") + 1
    while start:
        starts.append(start)
        start = text.find(f"\n{word}", start) + 1
    return starts


@dataclass(frozen=True, slots=True)
class Around:
    """The text around the dumps in a text."""

    source: Source
    dumps: tuple[tuple[int, int], ...] = ()

    def has_any(self, words: Iterable[str]) -> bool:
        text = self.source.text
        ends = (*(start for start, _ in self.dumps), len(text))
        spans = list(zip((0, *(end for _, end in self.dumps)), ends, strict=True))
        return any(text.find(word, start, end) >= 0 for word in words for start, end in spans)

    @property
    def dump_lines(self) -> int:
        return sum(self.source.text.count("\n", start, end) for start, end in self.dumps)

    def rest(self) -> Source:
        """Return the text with blank lines in place of the dumps; offsets stay the same."""
        if not self.dumps:
            return self.source
        text = self.source.text
        pieces: list[str] = []
        done = 0
        for start, end in self.dumps:
            lines = text.count("\n", start, end)
            pieces += (text[done:start], " " * (end - start - lines), "\n" * lines)
            done = end
        pieces.append(text[done:])
        return replace(self.source, text="".join(pieces))


def around_parts(source: Source, parts: Sequence[Part]) -> Around:
    """Return the text around buffer-side texts."""
    return Around(source, tuple((part.start, part.end) for part in parts))


def around_modules(modules: Sequence[HloModule]) -> Around:
    """Return the text around the modules of one text, and the lines inside them that are no HLO."""
    source = modules[0].columns.source
    dumps: list[tuple[int, int]] = []
    done = 0
    for start, end in (span for module in modules for span in module.strange_spans):
        first = source.line_bounds(start)[0]
        dumps.append((done, start if source.text[first:start].strip() else max(done, first)))
        done = end
    dumps.append((done, len(source.text)))
    return Around(source, tuple(span for span in dumps if span[0] < span[1]))


def files_of_parts(
    source: Source, parts: Sequence[Part], lines: Sequence[int] | None
) -> list[dict[str, StoredFile]]:
    """Return the buffer-side texts of each module in a log, by kind.

    The line numbers of such a file are those of the log.

    Args:
        source: The log.
        parts: Its buffer-side texts.
        lines: First line of each module, to which the texts between it and the next one belong, and
            those before the first to that. None without HLO: a repeated kind begins a module.
    """
    modules: list[dict[str, StoredFile]] = [{} for _ in lines or ()]
    for part in parts:
        line = source.line_column(part.start)[0]
        text = "\n" * (line - 1) + source.text[part.start : part.end]
        file = MemoryFile(path=source.path, data=text.encode("utf-8", errors="surrogatepass"))
        if lines is not None:
            place = max((k for k, first in enumerate(lines) if first <= line), default=0)
            modules[place].setdefault(part.kind, file)
            continue
        if not modules or part.kind in modules[-1]:
            modules.append({})
        modules[-1][part.kind] = file
    return modules


def buffer_texts(parts: Mapping[str, StoredFile], source: Source | None = None) -> BufferTexts:
    """Return lazy readers of the buffer-side texts; before April 2026 one file held several."""
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
    return _parse(kind, _source(file, source))


def _source(file: StoredFile, source: Source | None) -> Source:
    return source if source is not None and source.path == file.path else read_source(file)


def _parse(kind: DumpKind, source: Source) -> Any:
    module, _, function = ROW_OF[kind].parser.partition(":")
    return getattr(import_module(module), function)(source)


def _combined_live_range(file: StoredFile, source: Source | None) -> HloLiveRange | None:
    text = _source(file, source)
    has_ranges = any(f"\n{word}" in text.text for word in ROW_OF[DumpKind.LIVE_RANGE].headers)
    ranges: HloLiveRange | None = _parse(DumpKind.LIVE_RANGE, text) if has_ranges else None
    return ranges


def later_buffers(read: Callable[[], BufferTexts]) -> BufferTexts:
    """Return the lazy reader of a buffer assignment."""
    return BufferTexts(assignment=Lazy(lambda: _assignment_of(read())))


def _assignment_of(buffers: BufferTexts) -> BufferAssignment | None:
    return None if buffers.assignment is None else buffers.assignment.get()


def lazy_log(source: Source, *, may_be_empty: bool = False, dump_lines: int = 0) -> Lazy[LogText]:
    """Return the lazy reader of a log."""
    return Lazy(partial(_parse_log, source, may_be_empty, dump_lines))


def _parse_log(source: Source, may_be_empty: bool, dump_lines: int) -> LogText:
    from hlo_lens.logs.log import parse_log

    log = parse_log(source, may_be_empty=may_be_empty)
    log.dump_lines = dump_lines
    return log


@dataclass(frozen=True, slots=True, kw_only=True)
class Siblings:
    """Other files of the module of a file."""

    outline: ModuleDump
    parts: Mapping[str, StoredFile] = field(default_factory=dict)


class Opened:
    """A file that is being read."""

    def __init__(self, file: StoredFile) -> None:
        self.cut: list[bool] = []
        self.pieces: Iterator[bytes] = chunks(file, self.cut)


def outline_of(file: StoredFile) -> ModuleDump:
    """Return what the name of a file says of its module."""
    name = split_file_name(name_of(file))
    return ModuleDump(name=name.module, kind=DumpKind.OTHER, stage=name.stage, number=name.number)


def modules_of(
    file: StoredFile,
    *,
    opened: Opened | None = None,
    progress: Progress | None = None,
    siblings: Siblings | None = None,
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
    others = siblings or Siblings(outline=outline_of(file))
    if proto_message(head[:PROTO_HEAD]) is not None:  # bytes, which are not decoded as text
        from hlo_lens.load.protos import read_proto

        module, buffers = read_proto(b"".join(pieces), file.path, progress=progress)
        yield replace(
            others.outline,
            name=module.name or others.outline.name,
            kind=DumpKind.HLO_PROTO,
            files=(file.path,),
            parts={} if buffers.assignment is None else {"buffer-assignment": file.path},
            module_text=already_read(module),
            buffers=buffers,
        )
        return
    if len(head) >= CHUNK and sniff(decode(head)) is DumpKind.BINARY:  # not read to its end
        raise DumpSyntaxError(ROW_OF[DumpKind.BINARY].refusal, path=file.path)
    for source in _texts(source_of(pieces, file, opened.cut)):
        if read_printed is not None:
            printed, around = printed_files(source)
            if printed:
                yield from read_printed(printed)
                yield from _around(file, around)
                continue
        kind = sniff(source.text)
        if not ROW_OF[kind].parser:
            raise DumpSyntaxError(ROW_OF[kind].refusal, path=source.path)
        yield from _text_modules(file, source, kind, siblings, progress)


def _texts(source: Source) -> list[Source]:
    if sniff(source.text) is DumpKind.OTHER:  # a log whose first lines have no prefix
        source = cut_log_prefixes(source) or source
    return without_leads(source)


_HEAD = 64


def _text_modules(
    file: StoredFile,
    source: Source,
    kind: DumpKind,
    siblings: Siblings | None,
    progress: Progress | None,
) -> Iterator[ModuleDump]:
    parts: list[Part] = []
    if siblings is not None:  # one that is read alone has one kind
        has_hlo = kind is DumpKind.HLO or f"\n{HLO_MODULE}" in source.text
        begins = source.text[:_HEAD].lstrip().startswith(BUFFER_HEADERS)
        if has_hlo or kind not in BUFFER_PARTS or not begins:
            parts = buffer_parts(source.text)
            kind = DumpKind.HLO if has_hlo else kind
    others = siblings or Siblings(outline=outline_of(file))
    named_by_file = ModuleDump(name=name_of(file), kind=kind, files=(source.path,))
    if kind is DumpKind.HLO:
        yield from _hlo_modules(file, source, parts, others, progress)
    elif kind is DumpKind.MLIR:
        from hlo_lens.hlo.lowered import parse_stablehlo

        yield replace(named_by_file, lowered_text=already_read(parse_stablehlo(source)))
    elif parts:
        for texts in files_of_parts(source, parts, None):
            paths = {part: text.path for part, text in texts.items()}
            yield replace(named_by_file, parts=paths, buffers=buffer_texts(texts))
        yield from _around(file, around_parts(source, parts))
    elif kind in BUFFER_PARTS:
        yield _buffer_module(file, source, kind, others)
        if has_log_words(source.text):
            yield _log_module(file, source)
    elif kind is DumpKind.CALL_TREE and not has_log_words(source.text):
        yield _tree_module(file, source)
    else:
        yield from _around(file, Around(source))


def _buffer_module(
    file: StoredFile, source: Source, kind: DumpKind, siblings: Siblings
) -> ModuleDump:
    files = {**siblings.parts, BUFFER_PARTS[kind]: file}
    proto = files.pop(PROTO, None)
    hlo = files.pop("", proto)
    return replace(
        siblings.outline,
        kind=kind,
        files=(*((hlo.path,) if hlo else ()), *(text.path for text in files.values())),
        parts={part: text.path for part, text in files.items()},
        module_text=lazy_module(hlo),
        buffers=buffer_texts(files, source),
    )


def _hlo_modules(
    file: StoredFile,
    source: Source,
    parts: Sequence[Part],
    siblings: Siblings,
    progress: Progress | None,
) -> Iterator[ModuleDump]:
    from hlo_lens.hlo.module_reader import parse_hlo_modules

    size = len(source.text)
    report = None if progress is None else lambda offset: progress(offset, size)
    rest = around_parts(source, parts).rest()  # without the buffer-side texts in it
    modules = parse_hlo_modules(rest, progress=report)
    lines = [module.columns.source.line_column(module.start)[0] for module in modules]
    inside = files_of_parts(source, parts, lines)
    others = siblings if len(modules) == 1 else Siblings(outline=outline_of(file))
    files = {part: text for part, text in others.parts.items() if part not in ("", PROTO)}
    for module, texts in zip(modules, inside, strict=True):
        yield replace(
            others.outline,
            name=module.name or others.outline.name,
            kind=DumpKind.HLO,
            files=(source.path, *(text.path for text in files.values())),
            parts={part: text.path for part, text in files.items()},
            module_text=already_read(module),
            buffers=buffer_texts({**files, **texts}),
        )
    yield from _around(file, around_modules(modules))


def _around(file: StoredFile, around: Around) -> Iterator[ModuleDump]:
    rest = None
    if around.has_any(BRANCHES):
        rest = around.rest()
        if draws_calls(rest.text):
            yield _tree_module(file, rest)
    if around.has_any(log_words.ALL):
        yield _log_module(file, rest or around.rest(), around.dump_lines)


def _log_module(file: StoredFile, source: Source, dump_lines: int = 0) -> ModuleDump:
    log = lazy_log(source, dump_lines=dump_lines)
    return ModuleDump(name=name_of(file), kind=DumpKind.LOG, files=(source.path,), log_text=log)


def _tree_module(file: StoredFile, source: Source) -> ModuleDump:
    trees = Lazy(partial(_parse, DumpKind.CALL_TREE, source))
    return ModuleDump(
        name=name_of(file), kind=DumpKind.CALL_TREE, files=(source.path,), trees=trees
    )


def lazy_module(file: StoredFile | None, *, strict: bool = False) -> Lazy[HloModule] | None:
    """Return the lazy reader of the module in a file, if there is one."""
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


def proto_buffers(file: StoredFile) -> BufferTexts:
    """Return lazy readers of the buffer-side texts of a proto, which is read when one is."""
    return later_buffers(partial(_buffers_of, file))


def _buffers_of(file: StoredFile) -> BufferTexts:
    return next(modules_of(file)).buffers


def reading_shares(folder: str | Path) -> dict[str, float]:
    """Return the shares of the dumps in a folder read by patterns, by Lark and by neither.

    Lines of another dump in the same file count as read by patterns, gaps as read by neither.
    """
    from hlo_lens.grammar.lines import READ_BY_LARK

    count: Counter[str] = Counter(pattern=0, lark=0, neither=0)
    for path in sorted(Path(folder).rglob("*.txt")):
        source = clean(decode(path.read_bytes()), str(path))
        kind, before = sniff(source.text), READ_BY_LARK["characters"]
        if kind not in (DumpKind.HLO, *BUFFER_PARTS):
            continue
        lines = source.text.splitlines(keepends=True)
        try:
            read = _parse(kind, source)
        except DumpSyntaxError:
            count["neither"] += len(source.text)
            continue
        gaps = [gap for text in (read if isinstance(read, list) else [read]) for gap in text.gaps]
        spans = (lines[gap.line - 1 : gap.line - 1 + gap.lines] for gap in gaps)
        lark, neither = READ_BY_LARK["characters"] - before, len("".join(itertools.chain(*spans)))
        count.update(pattern=len(source.text) - lark - neither, lark=lark, neither=neither)
    return {name: round(part / count.total(), 4) for name, part in count.items()}
