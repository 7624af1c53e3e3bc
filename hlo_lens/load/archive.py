"""Files in zip and tar archives, the latter also compressed; nothing is written to disk.

Members of a zip are read in place on first access. A tar is read in order: its dumps are kept in
memory, those beyond `MOST_KEPT` bytes compressed.

An archive in a folder is read as a folder of its name; archives in archives are not opened.

Refused are member names that point out of the archive, encrypted members, and archives that unpack
to more than `check_growth` allows. Links and devices are skipped.
"""

from __future__ import annotations

import gzip
import io
import os
import posixpath
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, BinaryIO

from hlo_lens.load.files import (
    CHUNK,
    MemoryFile,
    StoredFile,
    check_growth,
    chunks,
    head_kind,
    is_packed,
)
from hlo_lens.load.module import REST_OF_ARCHIVE
from hlo_lens.text.dump_kinds import part_of
from hlo_lens.text.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import SkippedCounter

MOST_KEPT = 1 << 30
"""Most bytes of the dumps in tars that are kept in memory as they are."""

_MOST_MEMBERS = 2_000_000
_MOST_HEADER = 1 << 20
_LOCAL_HEADER = 30
_SMALL = (".debug_options", ".target_arguments.txt", ".gpu_target_config.pbtxt")
"""Name endings of small files that are kept although they are no dumps."""
_SPECIAL = "link, device or pipe of an archive"
_DRIVE = re.compile(r"[A-Za-z]:")


class Kept:
    """Bytes of tars kept in memory, of all archives of one folder together."""

    def __init__(self) -> None:
        self.size = 0


def archive_files(
    file: StoredFile, form: str, skipped: SkippedCounter, kept: Kept | None = None
) -> Iterator[StoredFile]:
    """Yield the files in an archive, in its order.

    Raises:
        UnreadableError: If it is damaged, or has a member that is refused.
    """
    number = 0
    try:
        members = (
            _zip_files(file, skipped)
            if form == "zip"
            else _tar_files(file, skipped, kept or Kept())
        )
        for number, member in enumerate(members, start=1):
            if number > _MOST_MEMBERS:
                raise UnreadableError(
                    f"{file.path}: more than {_MOST_MEMBERS} files; unpack it by hand"
                )
            yield member
    except tarfile.ReadError as error:
        if not number:
            raise UnreadableError(f"{file.path}: cannot be read as tar archive: {error}") from error
        skipped.add(REST_OF_ARCHIVE, file.path)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise UnreadableError(f"{file.path}: cannot be read as {form} archive: {error}") from error


def _checked(archive: str, name: str) -> str:
    """Return a member's name, normalized; raises UnreadableError if it leaves the archive."""
    parts = [part for part in re.split(r"[/\\]", name) if part not in ("", ".")]
    if name.startswith(("/", "\\")) or _DRIVE.match(name) or ".." in parts or "\0" in name:
        raise UnreadableError(f"{archive}: refused: {name!r} points out of the archive")
    return posixpath.normpath(name)


def _place(archive: str, name: str) -> tuple[str, str]:
    return f"{archive}/{name}", posixpath.dirname(name)


@dataclass(frozen=True, slots=True)
class ZipMember:
    """A file in a zip archive, identified by its offset: names may repeat."""

    path: str
    folder: str
    archive: StoredFile
    info: zipfile.ZipInfo

    def open(self) -> BinaryIO:
        return _Member(self.archive, self.info)  # type: ignore[return-value] # reads


class _Member(io.BufferedIOBase):
    """Reader of the bytes of a zip member; raises OSError for damage."""

    def __init__(self, archive: StoredFile, info: zipfile.ZipInfo) -> None:
        self._file = archive.open()
        self._file.seek(info.header_offset)
        header = self._file.read(_LOCAL_HEADER)
        if header[:4] != b"PK\3\4" or len(header) < _LOCAL_HEADER:
            self._file.close()
            raise OSError("no member at the place that the archive's directory names")
        self._file.seek(sum(struct.unpack("<HH", header[26:30])), os.SEEK_CUR)
        try:
            self._member = zipfile.ZipExtFile(self._file, "r", info)
        except NotImplementedError as error:
            self._file.close()
            raise OSError(str(error)) from error

    def close(self) -> None:
        self._file.close()
        super().close()

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            return self._member.read(-1 if size is None else size)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
            raise OSError(str(error)) from error


def _zip_files(file: StoredFile, skipped: SkippedCounter) -> Iterator[StoredFile]:
    with file.open() as opened, zipfile.ZipFile(opened) as archive:
        infos = archive.infolist()
        whole = opened.seek(0, os.SEEK_END)
    stated = sum(i.compress_size for i in infos)  # members may overlap
    methods = {i.compress_type for i in infos}
    check_growth(
        sum(i.file_size for i in infos),
        min(stated, whole),
        file.path,
        is_deflated=methods <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED},
    )
    for info in infos:
        name = _checked(file.path, info.filename)
        mode = info.external_attr >> 16 if info.create_system == 3 else 0
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            skipped.add(_SPECIAL, f"{file.path}/{name}")
        elif info.flag_bits & 1:
            raise UnreadableError(f"{file.path}: {name!r} is encrypted; unpack it by hand")
        elif not info.is_dir():
            yield ZipMember(*_place(file.path, name), file, info)


class _Stream(io.RawIOBase):
    """A file as an unpacked stream; the length of a member's header is bounded."""

    def __init__(self, file: StoredFile) -> None:
        self._chunks = chunks(file)
        self._path = file.path
        self._held = b""
        self.allowed: int | None = _MOST_HEADER

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = CHUNK if size is None or size < 0 else size
        while len(self._held) < wanted and (piece := next(self._chunks, None)) is not None:
            self._held += piece
        data, self._held = self._held[:wanted], self._held[wanted:]
        if self.allowed is not None:
            self.allowed -= len(data)
            if self.allowed < 0:
                raise UnreadableError(
                    f"{self._path}: refused: a header is more than {_MOST_HEADER} bytes long"
                )
        return data


def _tar_files(file: StoredFile, skipped: SkippedCounter, kept: Kept) -> Iterator[StoredFile]:
    with file.open() as opened:
        is_small = is_packed(opened.read(CHUNK))
    with _Stream(file) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        while True:
            stream.allowed = _MOST_HEADER
            member = tar.next()
            stream.allowed = None
            if member is None:
                return
            name = _checked(file.path, member.name)
            content = tar.extractfile(member) if member.isreg() and not member.issparse() else None
            if content is not None:
                yield _kept_file(file, name, content, kept, is_small=is_small)
                while content.read(CHUNK):
                    pass
            elif not member.isdir():
                skipped.add(_SPECIAL, f"{file.path}/{name}")


def _kept_file(
    file: StoredFile, name: str, opened: IO[bytes], kept: Kept, *, is_small: bool
) -> StoredFile:
    """Return a file of a tar with its bytes; of a small, compressed tar others have their kind."""
    place, head = _place(file.path, name), opened.read(CHUNK)
    kind = head_kind(MemoryFile(*place, head))
    if is_small and part_of(kind) is None:
        return MemoryFile(*place, data=head if name.endswith(_SMALL) else b"", kind=kind)
    data = head + opened.read()
    if kept.size + len(data) > MOST_KEPT:
        data = gzip.compress(data, 1)  # which readers unpack
    kept.size += len(data)
    return MemoryFile(*place, data)
