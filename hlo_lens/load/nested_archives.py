"""Archives in a folder, each read as a folder of its name.

Archives next to a folder of the same name are skipped as duplicates; so are archives without dumps
and archives in archives.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from hlo_lens.load.stored import DiskFile, head_kind, head_of
from hlo_lens.load.unread_files import LeftAsides
from hlo_lens.model.dump import REFUSED, UNPACKED
from hlo_lens.text.content_kind import archive_form
from hlo_lens.text.dump_files import without_archive_end
from hlo_lens.text.dump_kinds import DumpKind, part_of
from hlo_lens.text.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hlo_lens.load.archive import Kept
    from hlo_lens.load.stored import StoredFile


def with_archives_open(
    files: Iterable[tuple[StoredFile, DumpKind | None]], left: LeftAsides
) -> Iterator[tuple[StoredFile, DumpKind | None]]:
    """Yield files with their kinds; for an archive with dumps, its members."""
    from hlo_lens.load.archive import Kept

    kept = Kept()
    for file, kind in files:
        if kind is not DumpKind.ARCHIVE or not isinstance(file, DiskFile):
            yield file, kind
        elif _is_unpacked_beside(file):
            left.add(UNPACKED, file.path)
        else:
            yield from _members(file, left, kept)


def _is_unpacked_beside(file: DiskFile) -> bool:
    """Whether a folder with the archive's name is next to it."""
    path = Path(file.path)
    return path.with_name(without_archive_end(path.name)).is_dir()


def _members(
    file: DiskFile, left: LeftAsides, kept: Kept
) -> Iterator[tuple[StoredFile, DumpKind | None]]:
    """Yield the members of an archive as files of a folder of its name."""
    from hlo_lens.load.archive import archive_files

    form = archive_form(head_of(file))
    links = LeftAsides()
    folder = "/".join(filter(None, (file.folder, PurePath(file.path).name)))
    found: list[tuple[StoredFile, DumpKind | None]] = []
    try:
        for member in archive_files(file, form or "", links, kept):
            below = "/".join(filter(None, (folder, member.folder)))
            found.append((replace(member, folder=below), head_kind(member)))  # type: ignore[type-var] # all are dataclasses
    except UnreadableError:
        left.add(REFUSED, file.path)
        return
    if not any(part_of(kind) is not None for _, kind in found):
        left.add(DumpKind.ARCHIVE.value, file.path)
        return
    left.add_all(links)
    yield from found
