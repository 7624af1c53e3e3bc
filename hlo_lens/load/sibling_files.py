"""Other texts of the same module, next to a file on disk."""

from __future__ import annotations

import glob
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.stored import STDIN, DiskFile, head_kind, name_of
from hlo_lens.model.dump import Lazy
from hlo_lens.text.dump_files import BEFORE, split_file_name
from hlo_lens.text.dump_kinds import PROTO, part_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.load.stored import StoredFile
    from hlo_lens.model.dump import Stage


class SiblingFiles:
    """Finds the files next to a file; their content must be of the kind that their name says.

    Args:
        file: The file; None, standard input and files in archives have no siblings.
        stages: Returns all stages of the module that a path belongs to.
    """

    def __init__(
        self,
        file: StoredFile | None = None,
        stages: Callable[[str], tuple[Stage, ...]] = lambda _: (),
    ) -> None:
        self._own = None
        self._stages = stages
        if isinstance(file, DiskFile) and file.path != STDIN:
            self._name = split_file_name(name_of(file))
            path = Path(file.path)
            if self._name.stage is not None and path.is_file():
                self._own = path

    def same_stage(self) -> dict[str, StoredFile]:
        """Return the other files of the module and stage by part (empty for HLO)."""
        found: dict[str, StoredFile] = {}
        for path in self._files():
            other = split_file_name(path.name)
            if other.stage != self._name.stage:
                continue
            file = DiskFile(str(path))
            if other.part not in found and part_of(head_kind(file)) == other.part:
                found[other.part] = file
        return found

    def before(self) -> StoredFile | None:
        """Return the HLO text from before optimizations; None for a file of that stage."""
        if self._own is None or self._name.stage == BEFORE:
            return None
        found: dict[str, StoredFile] = {}
        for path in self._files(f"{BEFORE}."):
            other = split_file_name(path.name)
            file = DiskFile(str(path))
            if other.stage == BEFORE and other.part in ("", PROTO):
                found.setdefault(other.part, file)
        texts = (found.get(part) for part in ("", PROTO))
        return next((f for f in texts if f and part_of(head_kind(f)) in ("", PROTO)), None)

    def stages(self) -> Lazy[tuple[Stage, ...]] | None:
        """Return the lazy stages of the module; None for a file of no stage."""
        return None if self._own is None else Lazy(partial(self._stages, str(self._own)))

    def _files(self, start: str = "") -> list[Path]:
        """Return the other files of the module, nearest in time first.

        Args:
            start: First characters of their stage.
        """
        if self._own is None:
            return []
        is_stamped = self._name.stamp_us is not None
        pattern = f"{'*.' * is_stamped}{glob.escape(self._name.key)}.{start}*"
        found = [path for path in self._own.parent.glob(pattern) if path != self._own]
        names = [(split_file_name(path.name), path) for path in sorted(found)]
        own = self._name.stamp_us or 0
        same = [(name, path) for name, path in names if name.key == self._name.key]
        same.sort(key=lambda pair: abs((pair[0].stamp_us or own) - own))
        return [path for _, path in same]
