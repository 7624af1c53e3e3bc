"""The other texts of the same module that stand beside a file on a disk."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.stored import STDIN, DiskFile, head_kind, name_of
from hlo_lens.load.texts import part_of
from hlo_lens.text.dump_files import DumpKind, split_file_name

if TYPE_CHECKING:
    from hlo_lens.load.stored import StoredFile

BEFORE = "before_optimizations"
"""The stage whose text has the program as the framework gave it."""


class FileBeside:
    """Finds the texts beside a file; a file counts only if its content is what its name says.

    Args:
        file: The file; None, standard input or one in an archive has nothing beside it.
    """

    def __init__(self, file: StoredFile | None) -> None:
        self._own = None
        if isinstance(file, DiskFile) and file.path != STDIN:
            self._name = split_file_name(name_of(file))
            path = Path(file.path)
            if self._name.stage is not None and path.is_file():
                self._own = path

    def same_stage(self) -> dict[str, StoredFile]:
        """Return the other texts of the same module and stage: part, empty for HLO, to file."""
        found: dict[str, StoredFile] = {}
        if self._own is None:
            return found
        for path in self._files(""):
            other = split_file_name(path.name)
            if (other.module, other.stage) != (self._name.module, self._name.stage):
                continue
            file = DiskFile(str(path))
            if other.part not in found and part_of(head_kind(file)) == other.part:
                found[other.part] = file
        return found

    def before(self) -> StoredFile | None:
        """Return the HLO text from before optimizations; None for a file of that stage."""
        if self._own is None or self._name.stage == BEFORE:
            return None
        for path in self._files(f"{BEFORE}."):
            other = split_file_name(path.name)
            same = (other.module, other.stage, other.part) == (self._name.module, BEFORE, "")
            file = DiskFile(str(path))
            if same and head_kind(file) is DumpKind.HLO:
                return file
        return None

    def _files(self, start: str) -> list[Path]:
        """Return the other files of the module whose stage begins so, by name."""
        if self._own is None:
            return []
        pattern = f"{glob.escape(self._name.module)}.{start}*"
        return [path for path in sorted(self._own.parent.glob(pattern)) if path != self._own]
