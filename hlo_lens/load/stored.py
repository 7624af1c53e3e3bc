"""Sources of a file's bytes: a disk, standard input, or an opened archive.

A stored file can be sent to another process, which then reads the bytes itself.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, BinaryIO, Protocol

from hlo_lens.load.compressed import CHUNK, MOST_UNPACKED, unpacked
from hlo_lens.text.content_kind import sniff, sniff_start
from hlo_lens.text.errors import UnreadableError
from hlo_lens.text.source import Source, clean, decode, decode_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.text.dump_kinds import DumpKind

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
        """Return its bytes, as they are stored; raises UnreadableError for closed input."""
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
        """Return its bytes."""
        return io.BytesIO(self.data)


def name_of(file: StoredFile) -> str:
    """Return the last part of a file's path."""
    return PurePath(file.path).name


def chunks(file: StoredFile, cut: list[bool] | None = None) -> Iterator[bytes]:
    """Yield the content of a file, unpacked if it is compressed.

    Args:
        file: The file.
        cut: Gets an item if a compressed file ends too early.

    Raises:
        UnreadableError: If it is missing, or cannot be read or unpacked.
    """
    try:
        opened = file.open()
        if sys.stdin is not None and opened is sys.stdin.buffer:
            yield from _bounded(unpacked(opened, file.path, cut), opened, file.path)
            return
        with opened:
            yield from _bounded(unpacked(opened, file.path, cut), opened, file.path)
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
    """Return the text of a file from its bytes.

    Args:
        pieces: The bytes, piece by piece.
        file: The file, for its name.
        cut: Has an item, once all pieces are read, if the file is known to end too early.
    """
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
