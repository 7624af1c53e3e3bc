"""Source files of a checkout, which a dump names by the paths of the machine that compiled it."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

_WORKSPACE = "GITHUB_WORKSPACE"
_MOST_LOOKED_AT = 20_000
_NOT_SOURCE = frozenset({"node_modules", "__pycache__", "site-packages", "build", "dist"})


class Checkout:
    """Files of a repository, found by the last parts of the paths that a dump has.

    Args:
        root: Folder of the repository.
        is_repository: Whether it is one; in another folder, which may be the whole disk, files are
            looked for at the ends of a path only, not in all folders below.
    """

    def __init__(self, root: Path, *, is_repository: bool = True) -> None:
        self._root = root
        self._is_repository = is_repository
        self._lines: dict[str, list[str]] = {}
        self._found: dict[str, str | None] = {}

    @classmethod
    def here(cls) -> Checkout:
        """Return the repository of a run on GitHub, else that of the current folder, or the folder.

        GitHub reads paths relative to the folder that ``GITHUB_WORKSPACE`` names.
        """
        workspace = os.environ.get(_WORKSPACE)
        if workspace and Path(workspace).is_dir():
            return cls(Path(workspace).absolute())
        folder = Path.cwd()
        above = (one for one in (folder, *folder.parents) if (one / ".git").exists())
        root = next(above, None)
        return cls(root or folder, is_repository=root is not None)

    def find(self, file: str) -> str | None:
        """Return the path below the root of the file whose path ends as another one.

        The longest end that some file has decides. A file at the end itself, taken as a path below
        the root, is found before files in other folders.

        Args:
            file: Path in a dump, with or without the mark of an inferred place.

        Returns:
            None if no file or more than one matches.
        """
        if file not in self._found:
            self._found[file] = self._search(Path(file.removeprefix("~")))
        return self._found[file]

    def line_of(self, file: str, number: int) -> str | None:
        """Return a line of a file of the checkout, else of the same path outside; None for none.

        Args:
            file: Path in a dump.
            number: Number of the line.
        """
        found = self.find(file)
        if found is not None:
            return self.line(found, number)
        return self.line(file, number) if Path(file).is_absolute() else None

    def line(self, file: str, number: int) -> str | None:
        """Return a line of a file by its path below the root, or its whole path; None for none."""
        if file not in self._lines:
            path, text = self._root / file, ""
            try:
                if path.is_file():  # a device or a pipe may have no end
                    text = path.read_text("utf-8", errors="replace")
            except (OSError, ValueError):
                text = ""
            self._lines[file] = text.splitlines()
        lines = self._lines[file]
        return lines[number - 1] if 0 < number <= len(lines) else None

    def _search(self, path: Path) -> str | None:
        if ".." in path.parts:
            return None
        inside = None
        if path.is_absolute():
            if path.is_relative_to(self._root):
                path = path.relative_to(self._root)
                inside = path.as_posix()
            else:
                path = Path(*path.parts[1:])
        for start in range(len(path.parts)):
            tail = "/".join(path.parts[start:])
            if _is_file(self._root / tail):
                return tail
            found = [one for one in self._by_name.get(path.name, ()) if one.endswith(f"/{tail}")]
            if found:
                return found[0] if len(found) == 1 else inside
        return inside

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """Paths of the files of the repository, up to a limit, by their last part."""
        found: dict[str, list[str]] = {}
        if not self._is_repository:
            return found
        seen = 0
        for directory, folders, names in os.walk(self._root):
            folders[:] = sorted(
                f for f in folders if not f.startswith(".") and f not in _NOT_SOURCE
            )
            above = Path(directory).relative_to(self._root).as_posix()
            for name in names:
                found.setdefault(name, []).append(name if above == "." else f"{above}/{name}")
            seen += len(names)
            if seen > _MOST_LOOKED_AT:
                break
        return found


def _is_file(path: Path) -> bool:
    """Return whether there is a file; False for a path that the system does not accept."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
