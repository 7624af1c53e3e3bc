"""Loading of dumps: finds, reads and parses the modules in files, folders and archives."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.load.files import STDIN, DiskFile, MemoryFile, StoredFile, cannot_be_read, read_source
from hlo_lens.load.module import (
    REST_OF_ARCHIVE,
    Dump,
    ModuleDump,
    SkippedCounter,
    SkippedFiles,
)
from hlo_lens.load.readers import Opened, modules_of
from hlo_lens.text.dump_kinds import TEXT_FLAGS, DumpKind, archive_form
from hlo_lens.text.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Progress = Callable[[int, int], None]

T = TypeVar("T")

__all__ = ["STDIN", "EmptyDumpError", "load", "load_log", "read_source"]

_LONGEST_NAME = 200


def load(path: str | Path, *, strict: bool = False, progress: Progress | None = None) -> Dump:
    """Return the modules that a file, folder or archive holds.

    A file may be compressed, hold several modules, or be a log with modules in it; ``-`` is
    standard input. A folder is one written by ``--xla_dump_to``: it gives one module for each
    compiled module, from its latest stage, read on first access. An archive (zip, tar, compressed
    or not) is read as the folder it was made from, without unpacking it to disk. So are archives
    in a folder, each as a subfolder of its name, but not archives in an archive.

    Args:
        path: File, folder or ``-``.
        strict: Raise at the first part of a file that cannot be read.
        progress: Called with characters done and in all; of a folder with files done and in all.

    Raises:
        UnreadableError: If the path is missing or cannot be read or unpacked.
        DumpSyntaxError: If no part of it could be read, or, when strict, at the first gap.
    """
    name = str(path)
    skipped = SkippedCounter()
    try:
        is_folder = name != STDIN and Path(path).is_dir()
    except OSError as error:
        shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
        raise cannot_be_read(shown, error) from error
    if is_folder:
        from hlo_lens.load.folder import files_of

        files = list(files_of(Path(path), skipped))
        return _folder_dump(name, _counted(files, progress), skipped, strict=strict)
    file = DiskFile(name)
    opened = Opened(file)
    head = next(opened.pieces, b"")
    form = archive_form(head)
    if form is not None:
        from hlo_lens.load.archive import archive_files

        archive: StoredFile = file
        if name == STDIN:
            archive = MemoryFile("<stdin>", data=b"".join((head, *opened.pieces)))
        return _folder_dump(name, archive_files(archive, form, skipped), skipped, strict=strict)
    opened.pieces = chain((head,), opened.pieces)
    dump = _file_dump(file, opened, skipped, progress)
    if strict and dump.gaps:
        raise dump.gaps[0].as_error()
    return dump


def _counted(files: Sequence[T], progress: Progress | None) -> Iterator[T]:
    for done, file in enumerate(files):
        if progress is not None:
            progress(done, len(files))
        yield file


def _folder_dump(
    path: str, files: Iterable[StoredFile], skipped: SkippedCounter, *, strict: bool
) -> Dump:
    from hlo_lens.load.folder import folder_modules, sort_files

    groups = sort_files(files, skipped, opens_archives=True)
    if not groups:
        raise _nothing_in(path, skipped)
    modules = list(folder_modules(groups, strict=strict))
    used = sum(len(parts) for group in groups for parts in group.stages.values())
    return _dump_of(
        path, modules, skipped, files=used + sum(aside.count for aside in skipped.all())
    )


def _file_dump(
    file: DiskFile, opened: Opened, skipped: SkippedCounter, progress: Progress | None
) -> Dump:
    from hlo_lens.load.folder import folder_modules, siblings_of, sort_files

    printed: list[StoredFile] = []

    def read_printed(files: Sequence[StoredFile]) -> Iterator[ModuleDump]:
        printed.extend(files)
        return folder_modules(sort_files(files, skipped))

    siblings = siblings_of(file)
    modules = list(
        modules_of(
            file, opened=opened, progress=progress, siblings=siblings, read_printed=read_printed
        )
    )
    if printed and not modules:
        raise _nothing_in(file.path, skipped)
    return _dump_of(file.path, modules, skipped, files=max(1, len(printed)))


def _dump_of(
    path: str, modules: Sequence[ModuleDump], skipped: SkippedCounter, *, files: int
) -> Dump:
    asides = skipped.all()
    is_cut = any(one.kind == REST_OF_ARCHIVE for one in asides)
    for module in modules:
        module.path, module.is_only, module.is_in_cut_archive = path, len(modules) == 1, is_cut
    return Dump(path=path, modules=tuple(modules), skipped=asides, files=files)


_ASIDES_SHOWN = 4


class EmptyDumpError(UnreadableError):
    """A folder or archive holds no text of a module."""

    def __init__(self, message: str, skipped: tuple[SkippedFiles, ...]) -> None:
        super().__init__(message)
        self.skipped = skipped


def _nothing_in(path: str, skipped: SkippedCounter) -> EmptyDumpError:
    asides = skipped.all()
    kinds = [f"{aside.count} {aside.kind}" for aside in asides[:_ASIDES_SHOWN]]
    there = f"it holds {', '.join(kinds)}" if kinds else "it holds no file at all"
    archive = next((aside.example for aside in asides if aside.kind == "archive"), None)
    if archive is not None:
        there += f" (such as {archive}; archives in archives, and those without dumps, are skipped)"
    return EmptyDumpError(
        f"{path}: no HLO text in it; {there}; "
        f'run the program with XLA_FLAGS="{TEXT_FLAGS}", '
        f"or run hlo-lens doctor {path}",
        asides,
    )


def load_log(path: str | Path) -> ModuleDump:
    """Return the messages of a log, without the dumps in it; an empty log if it has none.

    Raises:
        UnreadableError: If it cannot be read.
    """
    from hlo_lens.load.readers import lazy_log

    source = read_source(DiskFile(str(path)))
    return ModuleDump(
        name=Path(source.path).name,
        kind=DumpKind.LOG,
        files=(source.path,),
        log_text=lazy_log(source, may_be_empty=True),
    )


class _Callable(ModuleType):
    """This package, callable as its function `load`.

    Importing the package binds the name `hlo_lens.load`, which is also that of the public function.
    A callable package serves both, and needs not be imported before it is used.
    """

    __call__ = staticmethod(load)


sys.modules[__name__].__class__ = _Callable
