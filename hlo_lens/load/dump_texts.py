"""The texts of a path, one file after the other, each with its kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.stored import STDIN, DiskFile, StoredFile, head_kind, head_of, read_source
from hlo_lens.model.dump import SkippedCounter
from hlo_lens.text.content_kind import archive_form, sniff
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.text.source import Source


def files_at(path: str) -> Sequence[DiskFile]:
    """Return the files of a folder, archives unopened, or the one file of a path."""
    if path != STDIN and Path(path).is_dir():
        from hlo_lens.load.module_files import files_of

        return list(files_of(Path(path), SkippedCounter()))
    return [DiskFile(path)]


def members_of(file: DiskFile) -> Iterator[StoredFile]:
    """Yield the files in an archive; a file that is no archive itself.

    Raises:
        UnreadableError: If it is an archive that cannot be read.
    """
    form = None if file.path == STDIN else archive_form(head_of(file))
    if form is None:
        yield file
        return
    from hlo_lens.load.archive import archive_files

    yield from archive_files(file, form, SkippedCounter())


_NO_TEXT = frozenset({DumpKind.BINARY, DumpKind.ARCHIVE, DumpKind.HLO_PROTO, DumpKind.EMPTY})


def dump_text(file: StoredFile) -> tuple[DumpKind, Source] | None:
    """Return kind and text of a file; None if it is no text.

    Raises:
        UnreadableError: If the file cannot be read.
    """
    if head_kind(file) in _NO_TEXT:
        return None
    source = read_source(file)
    return sniff(source.text), source
