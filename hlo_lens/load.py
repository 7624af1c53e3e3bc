"""A path to the modules behind it: finds, reads and parses the dumps of a file or folder."""

from __future__ import annotations

import sys
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.model.dump import Dump, ModuleDump
from hlo_lens.text.dump_files import DumpKind, sniff, split_file_name
from hlo_lens.text.errors import DumpSyntaxError, UnreadableError
from hlo_lens.text.source import clean, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from hlo_lens.model.hlo import HloModule
    from hlo_lens.text.source import Source

    Progress = Callable[[int, int], None]

STDIN = "-"

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
    if name != STDIN and Path(path).is_dir():
        return Dump(path=name, modules=tuple(_folder_modules(Path(path), strict=strict)))
    dump = Dump(path=name, modules=tuple(_file_modules(name, progress)))
    if strict and dump.gaps:
        raise dump.gaps[0].as_error()
    return dump


def read_source(path: str) -> Source:
    """Return the text of a file, unpacked, or of standard input for ``-``.

    Raises:
        UnreadableError: If it cannot be read.
    """
    return clean(_read_text(path), "<stdin>" if path == STDIN else path)


def _read_text(path: str) -> str:
    """Return the text of a file: ASCII, which nearly all dumps are, without a second copy of it."""
    chunks = _chunks(path)
    text = ""
    for chunk in chunks:
        if not chunk.isascii():
            return decode(b"".join((text.encode("ascii"), chunk, *chunks)))
        text += chunk.decode("ascii")  # grows in place: nothing else refers to it
    return text


def _chunks(path: str) -> Iterator[bytes]:
    """Yield the content of a file or of standard input, unpacked if it is gzip'ed."""
    try:
        if path == STDIN:
            yield from _unpacked(sys.stdin.buffer, path)
            return
        with Path(path).open("rb") as file:
            yield from _unpacked(file, path)
    except FileNotFoundError as error:
        message = f"{path}: no such file or folder"
        raise UnreadableError(message) from error
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error}"
        raise UnreadableError(message) from error


def _unpacked(file: BinaryIO, path: str) -> Iterator[bytes]:
    """Yield what a file holds, piece by piece; of a gzip file that is cut off, what is there."""
    head = file.read(_CHUNK)
    if not head.startswith(_GZIP):
        while head:
            yield head
            head = file.read(_CHUNK)
        return
    unpack = zlib.decompressobj(wbits=31)
    total, packed = 0, len(head)
    while head:
        try:
            piece = unpack.decompress(head, _CHUNK)
        except zlib.error as error:
            if not total:
                message = f"{path}: cannot be unpacked: {error}"
                raise UnreadableError(message) from error
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
            unpack = zlib.decompressobj(wbits=31)
            if not head.startswith(_GZIP):
                return


def _file_modules(path: str, progress: Progress | None) -> Iterator[ModuleDump]:
    from hlo_lens.syntax.hlo_module import parse_hlo_modules  # Lark, which --help must not pay

    source = read_source(path)
    kind = sniff(source.text)
    if kind is not DumpKind.HLO:
        raise _no_hlo(source.path, kind)
    size = len(source.text)
    report = None if progress is None else lambda offset: progress(offset, size)
    name = split_file_name(Path(path).name)
    for module in parse_hlo_modules(source, progress=report):
        yield ModuleDump(
            name=module.name or name.module,
            kind=kind,
            stage=name.stage,
            files=(source.path,),
            read=partial(_given, module),
        )


def _given(module: HloModule) -> HloModule:
    return module


def _no_hlo(path: str, kind: DumpKind) -> DumpSyntaxError:
    hint = _HINTS.get(kind)
    return DumpSyntaxError(hint or f"this is a {kind.value}, not HLO", path=path)


def _folder_modules(folder: Path, *, strict: bool) -> Iterator[ModuleDump]:
    """Yield the modules of a folder, in order of file names, each with its latest stage first."""
    groups: dict[str, list[tuple[int, str, str | None]]] = {}
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = split_file_name(file.name)
        if name.part or not _is_hlo(file):
            continue
        key = str(file.parent / name.module)
        groups.setdefault(key, []).append((_rank(name.stage), str(file), name.stage))
    if not groups:
        message = (
            f"{folder}: no HLO text in this folder; "
            'run the program with XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"'
        )
        raise UnreadableError(message)
    for key, found in groups.items():
        ordered = sorted(found, key=lambda item: -item[0])
        yield ModuleDump(
            name=Path(key).name,
            kind=DumpKind.HLO,
            stage=ordered[0][2],
            files=tuple(file for _, file, _ in ordered),
            read=partial(_read_module, ordered[0][1], strict=strict),
        )


def _read_module(file: str, *, strict: bool) -> HloModule:
    """Return the module of a file; one that cannot be read is an empty module with a gap."""
    from hlo_lens.syntax.hlo_module import unread_module

    try:
        return load(file, strict=strict).modules[0].hlo or unread_module(file)
    except DumpSyntaxError as error:
        if strict:
            raise
        return unread_module(file, error)


def _is_hlo(file: Path) -> bool:
    try:
        return sniff(decode(next(_chunks(str(file)), b"")[:_HEAD])) is DumpKind.HLO
    except UnreadableError:
        return False


def _rank(stage: str | None) -> int:
    """Return how late in compilation a stage is; final optimized text is latest."""
    if stage is None:
        return 50
    if stage == "before_optimizations":
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
