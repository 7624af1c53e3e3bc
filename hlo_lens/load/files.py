"""Bytes of a file: on a disk, standard input, or in an opened archive.

A stored file can be sent to another process, which then reads the bytes itself.

Compressed files are recognized by content: gzip, xz, bzip2. The
unpacked size is bounded, so that no small file fills the memory: at most `MOST_UNPACKED` bytes;
above 16 MiB at most `MOST_EXPANSION` times the packed size; of gzip and zip above 256 MiB at most
`MOST_DEFLATED` times.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from hlo_lens.text.dump_kinds import sniff, sniff_start
from hlo_lens.text.errors import UnreadableError
from hlo_lens.text.source import Source, clean, decode, decode_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.text.dump_kinds import DumpKind


MOST_UNPACKED = 8 << 30
"""Most bytes that a compressed file or an archive may unpack to."""

MOST_EXPANSION = 2000
"""Largest ratio of unpacked to packed bytes; xz packs repeated texts of passes very small."""

MOST_DEFLATED = 250
"""The same for deflate (gzip, zip); dumps have 5 to 60, zeros 1030, the largest possible."""

CHUNK = 1 << 16
_UNPACKED_ANYWAY = 1 << 24
_DEFLATED_ANYWAY = 1 << 28
_GZIP = b"\x1f\x8b"


class _Gunzip:
    """zlib's decompressor with the interface of the others: it keeps the input not yet used."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._zlib, name)  # eof, unused_data

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail and not self._zlib.eof

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


_MOST_LZMA = 1 << 30
"""Bytes that unpacking itself may take; xz -9 takes 65 MiB."""

_MAGIC: tuple[tuple[bytes, Callable[[str], Any]], ...] = (
    (_GZIP, lambda _: _Gunzip()),
    (b"\xfd7zXZ\0", lambda _: import_module("lzma").LZMADecompressor(memlimit=_MOST_LZMA)),
    (b"BZh", lambda _: import_module("bz2").BZ2Decompressor()),
)
"""Compressed files by their first bytes, with decompressors of one member, piece by piece."""


def _unpacker(head: bytes) -> tuple[bytes, Callable[[str], Any]] | None:
    for magic, make in _MAGIC:
        if head.startswith(magic) and (magic != b"BZh" or head[4:7] in (b"1AY", b"\x17rE")):
            return magic, make
    return None


def is_packed(head: bytes) -> bool:
    """Whether a file that begins like this is compressed."""
    return _unpacker(head) is not None


_DAMAGE = (zlib.error, OSError, EOFError, ValueError, MemoryError)


def unpacked(file: BinaryIO, path: str, cut: list[bool]) -> Iterator[bytes]:
    """Yield the unpacked content of a file, piece by piece; of a cut file, what can be unpacked.

    Raises:
        UnreadableError: If nothing of it can be unpacked, or if it unpacks to too much.
    """
    head = file.read(CHUNK)
    if is_packed(head):
        yield from _unpacked_members(file, head, path, cut)
        return
    while head:
        yield head
        head = file.read(CHUNK)


def _unpacked_members(file: BinaryIO, head: bytes, path: str, cut: list[bool]) -> Iterator[bytes]:
    total, packed, unpacker = 0, len(head), _unpacker(head)
    while unpacker is not None:
        magic, make = unpacker
        decompressor = make(path)
        while not decompressor.eof:
            try:
                piece = decompressor.decompress(head, CHUNK)
            except Exception as error:  # lzma has an error of its own, imported lazily
                if not isinstance(error, _DAMAGE) and type(error).__name__ != "LZMAError":
                    raise
                if not total:
                    raise UnreadableError(f"{path}: cannot be unpacked: {error}") from error
                cut.append(True)
                return
            total += len(piece)
            check_growth(total, packed, path, is_deflated=magic == _GZIP)
            if piece:
                yield piece
            head = b""
            if getattr(decompressor, "needs_input", True) and not decompressor.eof:
                head = file.read(CHUNK)
                packed += len(head)
                if not head and not piece:
                    cut.append(True)
                    return
        head = decompressor.unused_data
        if len(head) < len(magic):  # the next member may begin at a chunk's end
            more = file.read(CHUNK)
            packed += len(more)
            head += more
        unpacker = _unpacker(head)


def check_growth(total: int, packed: int, path: str, *, is_deflated: bool = False) -> None:
    """Raise UnreadableError if a file unpacks to more than text does."""
    most = max(_UNPACKED_ANYWAY, packed * MOST_EXPANSION)
    if is_deflated:
        most = min(most, max(_DEFLATED_ANYWAY, packed * MOST_DEFLATED))
    if total > min(most, MOST_UNPACKED):
        raise UnreadableError(f"{path}: unpacks to more than {total} bytes; unpack it by hand")


STDIN = "-"


class StoredFile(Protocol):
    """A file, wherever it is stored."""

    @property
    def path(self) -> str:
        """Its name for messages and reports."""

    @property
    def folder(self) -> str:
        """Its folder, relative to the loaded path; empty for the top."""

    def open(self) -> BinaryIO:
        """Return its bytes, as they are stored; raises OSError."""


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A file on a disk, or ``-`` for standard input."""

    path: str
    folder: str = ""

    def open(self) -> BinaryIO:
        if self.path != STDIN:
            return Path(self.path).open("rb")
        if sys.stdin is None:
            raise UnreadableError("standard input is closed; name a file")
        return sys.stdin.buffer


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file whose bytes are in memory, such as a member of a compressed tar.

    Of files known to be no dump, the kind is kept without the bytes.
    """

    path: str
    folder: str = ""
    data: bytes = field(default=b"", repr=False)
    kind: DumpKind | None = None

    def open(self) -> BinaryIO:
        return io.BytesIO(self.data)


def name_of(file: StoredFile) -> str:
    """Return the last part of a file's path."""
    return PurePath(file.path).name


def chunks(file: StoredFile, cut: list[bool] | None = None) -> Iterator[bytes]:
    """Yield the content of a file, unpacked if it is compressed.

    Raises:
        UnreadableError: If it is missing, or cannot be read or unpacked.
    """
    try:
        opened = file.open()
        is_stdin = sys.stdin is not None and opened is sys.stdin.buffer
        with nullcontext() if is_stdin else opened:
            yield from _bounded(
                unpacked(opened, file.path, [] if cut is None else cut), opened, file.path
            )
    except FileNotFoundError as error:
        raise _missing(file.path) from error
    except OSError as error:
        raise cannot_be_read(file.path, error) from error


MOST_OF_DEVICE = 1 << 28
"""Most bytes read of a device: ``/dev/zero`` has no end."""


def _bounded(pieces: Iterable[bytes], opened: BinaryIO, path: str) -> Iterator[bytes]:
    """Yield pieces up to the bound of a device or pipe; files on a disk have none."""
    try:
        mode = os.fstat(opened.fileno()).st_mode
    except io.UnsupportedOperation:
        mode = stat.S_IFREG
    most = MOST_OF_DEVICE if stat.S_ISCHR(mode) else MOST_UNPACKED
    is_bounded = not stat.S_ISREG(mode)
    total = 0
    for piece in pieces:
        total += len(piece)
        if is_bounded and total > most:
            raise UnreadableError(f"{path}: gives more than {most >> 20} MiB; write it to a file")
        yield piece


def cannot_be_read(path: str, error: OSError) -> UnreadableError:
    """Return the error for a file or folder that the system refuses to read."""
    return UnreadableError(f"{path}: cannot be read: {error.strerror or error}")


def require(path: str) -> None:
    """Raise UnreadableError if nothing is at a path; standard input is always there."""
    if path != STDIN and not os.path.lexists(path):
        raise _missing(path)


def _missing(path: str) -> UnreadableError:
    return UnreadableError(f"{path}: no such file or folder")


def read_source(file: StoredFile | str) -> Source:
    """Return the text of a file, unpacked.

    Raises:
        UnreadableError: If it cannot be read.
    """
    stored = DiskFile(file) if isinstance(file, str) else file
    cut: list[bool] = []
    return source_of(chunks(stored, cut), stored, cut)


def source_of(pieces: Iterable[bytes], file: StoredFile, cut: Sequence[bool] = ()) -> Source:
    """Return the text of a file from its bytes."""
    source = clean(decode_pieces(pieces), "<stdin>" if file.path == STDIN else file.path)
    source.is_cut = bool(cut)
    return source


def head_of(file: StoredFile) -> bytes:
    """Return the first bytes of a file, unpacked; empty if it cannot be read."""
    try:
        return next(chunks(file), b"")[:CHUNK]
    except UnreadableError:
        return b""


def head_kind(file: StoredFile) -> DumpKind | None:
    """Return the kind of a file by its beginning; None if it cannot be read."""
    if isinstance(file, MemoryFile) and file.kind is not None:
        return file.kind
    try:
        head = next(chunks(file), b"")[:CHUNK]
    except UnreadableError:
        return None
    return sniff_start(head[:512]) or sniff(decode(head))
