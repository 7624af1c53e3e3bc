"""A path to the modules behind it: finds, reads and parses the dumps of a file or folder."""

from __future__ import annotations

import glob
import os
import re
import sys
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.model.dump import BufferTexts, Dump, Lazy, ModuleDump, given
from hlo_lens.text.dump_files import DumpKind, sniff, split_file_name
from hlo_lens.text.errors import DumpSyntaxError, UnreadableError
from hlo_lens.text.source import clean, cut_log_prefixes, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import BinaryIO

    from hlo_lens.model.buffer_log import BufferLog
    from hlo_lens.model.buffers import BufferAssignment, BufferValues
    from hlo_lens.model.hlo import HloModule
    from hlo_lens.model.live_range import HloLiveRange
    from hlo_lens.model.memory_usage_report import MemoryUsageReport
    from hlo_lens.text.source import Source

    Progress = Callable[[int, int], None]

STDIN = "-"

BEFORE = "before_optimizations"
"""The stage whose text has the program as the framework gave it."""

_MOST_UNPACKED = 8 << 30
"""Bytes to which a compressed file may grow."""

_MOST_EXPANSION = 2000
"""How many times its size a compressed file may grow; deflate cannot do more than 1032."""

_UNPACKED_ANYWAY = 1 << 24
_HEAD = 1 << 16
_CHUNK = 1 << 16
_GZIP = b"\x1f\x8b"

_HINTS = {
    DumpKind.EMPTY: "the file is empty",
    DumpKind.BINARY: "this is binary data, not text; dump text with --xla_dump_hlo_as_text",
    DumpKind.MLIR: "this is MLIR; HLO text is in *before_ and *after_optimizations.txt",
    DumpKind.LLVM_IR: "this is LLVM IR, not HLO",
    DumpKind.PTX: "this is PTX, not HLO",
    DumpKind.TEXTPROTO: "this looks like a text proto, not HLO",
    DumpKind.OTHER: "expected 'HloModule' or a computation, found no dump of XLA",
}


def load(path: str | Path, *, strict: bool = False, progress: Progress | None = None) -> Dump:
    """Return the modules that a file or folder holds.

    A file may be compressed with gzip, hold several modules, or be a log with modules in it; ``-``
    is standard input. A folder is what ``--xla_dump_to`` filled: one module for each module that
    was compiled, read when it is asked for, from its latest stage.

    Args:
        path: File, folder or ``-``.
        strict: Raise at the first part of a file that cannot be read.
        progress: Called with characters done and characters in all.

    Raises:
        UnreadableError: If the path is missing or cannot be read or unpacked.
        DumpSyntaxError: If no part of it could be read, or, when strict, at the first gap.
    """
    name = str(path)
    if name != STDIN and _is_folder(path):
        return Dump(path=name, modules=tuple(_folder_modules(Path(path), strict=strict)))
    dump = Dump(path=name, modules=tuple(_file_modules(name, progress)))
    if strict and dump.gaps:
        raise dump.gaps[0].as_error()
    return dump


def _is_folder(path: str | Path) -> bool:
    try:
        return Path(path).is_dir()
    except OSError as error:
        shown = str(path) if len(str(path)) <= _LONGEST_NAME else f"{str(path)[:_LONGEST_NAME]}..."
        message = f"{shown}: cannot be read: {error.strerror or error}"
        raise UnreadableError(message) from error


_LONGEST_NAME = 200


def _files_of(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its folders, in order; what cannot be looked at is left."""
    for directory, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(directory) / name
            try:
                if file.is_file():
                    yield file
            except OSError:
                continue


def read_source(path: str) -> Source:
    """Return the text of a file, unpacked, or of standard input for ``-``.

    Raises:
        UnreadableError: If it cannot be read.
    """
    cut: list[bool] = []
    data = b"".join(_chunks(path, cut))
    source = clean(decode(data), "<stdin>" if path == STDIN else path)
    source.is_cut = bool(cut)
    return source


def _chunks(path: str, cut: list[bool] | None = None) -> Iterator[bytes]:
    """Yield the content of a file or of standard input, unpacked if it is gzip'ed.

    Args:
        path: File or ``-``.
        cut: Gets an item if a compressed file ends too early.
    """
    try:
        if path == STDIN:
            yield from _unpacked(sys.stdin.buffer, path, cut)
            return
        with Path(path).open("rb") as file:
            yield from _unpacked(file, path, cut)
    except FileNotFoundError as error:
        message = f"{path}: no such file or folder"
        raise UnreadableError(message) from error
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error}"
        raise UnreadableError(message) from error


def _unpacked(file: BinaryIO, path: str, cut: list[bool] | None) -> Iterator[bytes]:
    """Yield what a file holds, piece by piece; of a gzip file that is cut off, what is there."""
    head = file.read(_CHUNK)
    if not head.startswith(_GZIP):
        yield head
        if len(head) == _CHUNK:
            yield file.read()
    else:
        yield from _gunzip(file, head, path, cut)


def _gunzip(file: BinaryIO, head: bytes, path: str, cut: list[bool] | None) -> Iterator[bytes]:
    """Yield what a gzip file holds, of which `head` has been read."""
    unpack = zlib.decompressobj(wbits=31)
    total, packed = 0, len(head)
    while head:
        try:
            piece = unpack.decompress(head, _CHUNK)
        except zlib.error as error:
            if not total:
                message = f"{path}: cannot be unpacked: {error}"
                raise UnreadableError(message) from error
            _note(cut)
            return
        total += len(piece)
        if total > _MOST_UNPACKED or total > max(_UNPACKED_ANYWAY, packed * _MOST_EXPANSION):
            message = f"{path}: unpacks to more than {total} bytes; unpack it by hand"
            raise UnreadableError(message)
        yield piece
        head = unpack.unconsumed_tail or unpack.unused_data
        if not head:
            head = file.read(_CHUNK)
            packed += len(head)
        if unpack.eof:
            if len(head) < len(_GZIP):  # the next member may begin at a chunk's end
                head += file.read(_CHUNK)
            if not head.startswith(_GZIP):
                return
            unpack = zlib.decompressobj(wbits=31)
    yield unpack.flush()
    if not unpack.eof:
        _note(cut)


def _note(cut: list[bool] | None) -> None:
    """Note that a compressed file ends too early, for whoever wants to know."""
    if cut is not None:
        cut.append(True)


_BUFFER_KINDS = {
    DumpKind.BUFFER_ASSIGNMENT: "buffer-assignment",
    DumpKind.BUFFER_VALUES: "buffer-assignment-values",
    DumpKind.LIVE_RANGE: "live-range",
    DumpKind.MEMORY_USAGE_REPORT: "memory-usage-report",
}
"""Kinds of buffer-side text, and the word for each in XLA's file names."""


def _file_modules(path: str, progress: Progress | None) -> Iterator[ModuleDump]:
    source = read_source(path)
    kind = sniff(source.text)
    if kind is DumpKind.OTHER and (cut := cut_log_prefixes(source)) is not None:
        source, kind = cut, sniff(cut.text)  # a log whose prefixes begin late
    if kind in _BUFFER_KINDS:
        yield _buffer_dump(source, kind)
        return
    if kind is DumpKind.BUFFER_LOG:
        log = BufferTexts(log=Lazy(partial(_parse_buffer_log, source)))
        yield ModuleDump(name=Path(source.path).name, kind=kind, files=(source.path,), buffers=log)
        return
    if kind is not DumpKind.HLO:
        raise _no_hlo(source.path, kind)
    from hlo_lens.syntax.hlo_module import parse_hlo_modules  # Lark, which --help must not pay

    size = len(source.text)
    report = None if progress is None else lambda offset: progress(offset, size)
    name = split_file_name(Path(path).name)
    modules = parse_hlo_modules(source, progress=report)
    parts = _siblings(source.path) if len(modules) == 1 else {}
    parts.pop("", None)
    before = _before(source.path) if len(modules) == 1 else None
    for module in modules:
        yield ModuleDump(
            name=module.name or name.module,
            kind=kind,
            stage=name.stage,
            files=(source.path, *parts.values()),
            parts=parts,
            module_text=given(module),
            before_text=_lazy_module(before),
            buffers=_buffer_texts(parts),
        )


def _buffer_dump(source: Source, kind: DumpKind) -> ModuleDump:
    """Return the module that a buffer-side text belongs to, with the other texts of the same."""
    path = source.path
    name = split_file_name(Path(path).name)
    parts = {**_siblings(path), _BUFFER_KINDS[kind]: path}
    hlo = parts.pop("", None)
    return ModuleDump(
        name=name.module,
        kind=kind,
        stage=name.stage,
        files=(*((hlo,) if hlo else ()), *parts.values()),
        parts=parts,
        module_text=_lazy_module(hlo),
        before_text=_lazy_module(_before(path)),
        buffers=_buffer_texts(parts, source),
    )


def _siblings(path: str) -> dict[str, str]:
    """Return the files of the same module and stage beside a file: part, empty for HLO, to path.

    A file counts only if its content is what its name says.
    """
    own = Path(path)
    name = split_file_name(own.name)
    if path == STDIN or name.stage is None or not own.is_file():
        return {}
    found: dict[str, str] = {}
    for file in sorted(own.parent.glob(f"{glob.escape(name.module)}.*")):
        other = split_file_name(file.name)
        if (other.module, other.stage) != (name.module, name.stage) or file == own:
            continue
        if other.part not in found and _part_of(_head_kind(file)) == other.part:
            found[other.part] = str(file)
    return found


def _before(path: str) -> str | None:
    """Return the HLO text from before optimizations that stands beside a file of a later stage."""
    own = Path(path)
    name = split_file_name(own.name)
    if path == STDIN or name.stage in (None, BEFORE) or not own.is_file():
        return None
    for file in sorted(own.parent.glob(f"{glob.escape(name.module)}.{BEFORE}.*")):
        other = split_file_name(file.name)
        same = (other.module, other.stage, other.part) == (name.module, BEFORE, "")
        if same and _head_kind(file) is DumpKind.HLO:
            return str(file)
    return None


def _lazy_module(file: str | None, *, strict: bool = False) -> Lazy[HloModule] | None:
    return None if file is None else Lazy(partial(_read_module, file, strict=strict))


def _part_of(kind: DumpKind | None) -> str | None:
    return "" if kind is DumpKind.HLO else _BUFFER_KINDS.get(kind) if kind else None


def _buffer_texts(parts: Mapping[str, str], source: Source | None = None) -> BufferTexts:
    """Return readers of the buffer-side texts; before April 2026 one file held several.

    Args:
        parts: Kind of text to its file.
        source: One of these files, where it has been read already.
    """

    def text(path: str) -> Source:
        return source if source is not None and source.path == path else read_source(path)

    texts = BufferTexts()
    assignment = parts.get("buffer-assignment")
    if assignment is not None:
        texts.assignment = Lazy(lambda: _parse_assignment(text(assignment)))
    values = parts.get("buffer-assignment-values")
    if values is not None:
        texts.values = Lazy(lambda: _parse_values(text(values)))
    ranges = parts.get("live-range")
    if ranges is not None:
        texts.live_range = Lazy(lambda: _parse_live_range(text(ranges)))
    elif assignment is not None:
        texts.live_range = Lazy(lambda: _combined_live_range(text(assignment)))
    report = parts.get("memory-usage-report")
    if report is not None:
        texts.usage_report = Lazy(lambda: _parse_usage_report(text(report)))
    return texts


def _parse_assignment(source: Source) -> BufferAssignment:
    from hlo_lens.syntax.buffer_assignment import parse_buffer_assignment

    return parse_buffer_assignment(source)


def _parse_values(source: Source) -> BufferValues:
    from hlo_lens.syntax.buffer_assignment import parse_buffer_values

    return parse_buffer_values(source)


def _parse_live_range(source: Source) -> HloLiveRange:
    from hlo_lens.syntax.live_range import parse_live_range

    return parse_live_range(source)


def _combined_live_range(source: Source) -> HloLiveRange | None:
    """Return the live ranges that stand after the allocations, as until April 2026; or None."""
    return _parse_live_range(source) if "\nHloLiveRange " in source.text else None


def _parse_buffer_log(source: Source) -> BufferLog:
    from hlo_lens.syntax.buffer_log import parse_buffer_log

    return parse_buffer_log(source)


def _parse_usage_report(source: Source) -> MemoryUsageReport:
    from hlo_lens.syntax.memory_usage_report import parse_memory_usage_report

    return parse_memory_usage_report(source)


def _no_hlo(path: str, kind: DumpKind) -> DumpSyntaxError:
    hint = _HINTS.get(kind)
    return DumpSyntaxError(hint or f"this is a {kind.value}, not HLO", path=path)


def _folder_modules(folder: Path, *, strict: bool) -> Iterator[ModuleDump]:
    """Yield the modules of a folder, in order of file names, each with its latest stage first."""
    groups: dict[str, dict[str, dict[str, str]]] = {}
    for file in _files_of(folder):
        name = split_file_name(file.name)
        if _part_of(_head_kind(file)) != name.part:
            continue
        stages = groups.setdefault(str(file.parent / name.module), {})
        stages.setdefault(name.stage or "", {}).setdefault(name.part, str(file))
    if not groups:
        message = (
            f"{folder}: no HLO text in this folder; "
            'run the program with XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"'
        )
        raise UnreadableError(message)
    for key, stages in groups.items():
        plain = stages.get("", {}).get("")
        if plain is not None and _holds_several(plain):
            yield from _file_modules(plain, None)
            continue
        ordered = sorted(stages, key=lambda stage: (-_rank(stage), stage))
        texts = [stages[stage][""] for stage in ordered if "" in stages[stage]]
        stage = next((s for s in ordered if stages[s].get("")), ordered[0])
        parts = {part: file for part, file in stages[stage].items() if part}
        yield ModuleDump(
            name=Path(key).name,
            kind=DumpKind.HLO if texts else DumpKind.BUFFER_ASSIGNMENT,
            stage=stage or None,
            files=(*texts, *parts.values()),
            parts=parts,
            module_text=_lazy_module(texts[0] if texts else None, strict=strict),
            before_text=_lazy_module(None if stage == BEFORE else stages.get(BEFORE, {}).get("")),
            buffers=_buffer_texts(parts),
        )


_HEADERS = re.compile(r"^[ \t]*HloModule[ ,]", re.MULTILINE)


def _holds_several(file: str) -> bool:
    """Whether a file of no stage of XLA's holds more than one module."""
    try:
        return len(_HEADERS.findall(read_source(file).text)) > 1
    except UnreadableError:
        return False


def _read_module(file: str, *, strict: bool) -> HloModule:
    """Return the module of a file; one that cannot be read is an empty module with a gap."""
    from hlo_lens.syntax.hlo_module import unread_module

    try:
        return load(file, strict=strict).modules[0].hlo or unread_module(file)
    except DumpSyntaxError as error:
        if strict:
            raise
        return unread_module(file, error)


def _head_kind(file: Path) -> DumpKind | None:
    """Return the kind of a file by its beginning; None where it cannot be read."""
    try:
        return sniff(decode(next(_chunks(str(file)), b"")[:_HEAD]))
    except UnreadableError:
        return None


def _rank(stage: str) -> int:
    """Return how late in compilation a stage is; final optimized text is latest."""
    if not stage:
        return 50
    if stage == BEFORE:
        return 0
    if stage[:4].isdecimal():
        return 10
    if stage.endswith("after_optimizations"):
        return 100
    if stage.endswith("_before_buffer_assignment"):
        return 60
    if stage.endswith("_after_buffer_assignment"):
        return 90
    return 55 if stage.startswith("after_codegen") else 40
