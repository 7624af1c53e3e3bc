"""A path to the modules behind it: finds, reads and parses the dumps of a file or folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.folder import files_of, folder_modules
from hlo_lens.load.readers import modules_of
from hlo_lens.load.stored import STDIN, DiskFile, read_source
from hlo_lens.model.dump import Dump
from hlo_lens.text.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[int, int], None]

__all__ = ["STDIN", "load", "read_source"]

_LONGEST_NAME = 200


def load(path: str | Path, *, strict: bool = False, progress: Progress | None = None) -> Dump:
    """Return the modules that a file or folder holds.

    A file may be compressed, hold several modules, or be a log with modules in it; ``-`` is
    standard input. A folder is what ``--xla_dump_to`` filled: one module for each module that
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
        found = folder_modules(name, files_of(Path(path)), strict=strict)
        return Dump(path=name, modules=tuple(found))
    dump = Dump(path=name, modules=tuple(modules_of(DiskFile(name), progress=progress)))
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
