"""Source files of a checkout, which a dump names by the paths of the machine that compiled it."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_LOOKED_AT = 50_000
_NOT_SOURCE = frozenset({"node_modules", "__pycache__", "site-packages", "build", "dist"})


class Checkout:
    """Files of a repository, found by the last parts of the paths that a dump has.

    Args:
        root: Folder of the repository.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lines: dict[str, list[str]] = {}

    @classmethod
    def here(cls) -> Checkout:
        """Return the repository that the current folder is in, else the folder itself."""
        folder = Path.cwd()
        above = (one for one in (folder, *folder.parents) if (one / ".git").exists())
        return cls(next(above, folder))

    def near(self, file: str) -> str | None:
        """Return a path below the root that ends a file's path, without a search; None for none."""
        parts = Path(file.removeprefix("~")).parts
        if ".." in parts:
            return None
        tails = (
            Path(*parts[start:]) for start in range(bool(Path(file).is_absolute()), len(parts))
        )
        return next((one.as_posix() for one in tails if (self._root / one).is_file()), None)

    def line(self, file: str, number: int) -> str | None:
        """Return a line of a file by its path below the root, or its whole path; None for none."""
        if file not in self._lines:
            try:
                text = (self._root / file).read_text("utf-8", errors="replace")
            except (OSError, ValueError):
                text = ""
            self._lines[file] = text.splitlines()
        lines = self._lines[file]
        return lines[number - 1] if 0 < number <= len(lines) else None

    def find(self, file: str) -> str | None:
        """Return the path below the root; None if no file or more than one matches."""
        path = Path(file)
        if path.is_absolute():
            try:
                return path.relative_to(self._root).as_posix()
            except ValueError:
                path = Path(*path.parts[1:])
        if ".." in path.parts:
            return None
        if (self._root / path).is_file():
            return path.as_posix()
        for start in range(len(path.parts)):
            tail = "/".join(path.parts[start:])
            found = [one for one in self._files if one == tail or one.endswith(f"/{tail}")]
            if found:
                return found[0] if len(found) == 1 else None
        return None

    @cached_property
    def _files(self) -> list[str]:
        return list(self._walk())

    def _walk(self) -> Iterator[str]:
        """Yield the files of the repository, up to a limit."""
        seen = 0
        for directory, folders, names in os.walk(self._root):
            folders[:] = sorted(
                f for f in folders if not f.startswith(".") and f not in _NOT_SOURCE
            )
            for name in sorted(names):
                seen += 1
                if seen > _MOST_LOOKED_AT:
                    return
                yield (Path(directory) / name).relative_to(self._root).as_posix()
