"""Source files of the functions of a call tree: relative paths, packages.

Paths of installed packages begin after ``site-packages``, those of the standard library with
``python/``. All others are relative to the folder they share, usually the checkout, so that traces
of two machines can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hlo_lens.call_trees.call_tree import NO_PARENT, CallFrame, CallTree
from hlo_lens.text.library_files import INSTALLED, STANDARD, SYNTHETIC, is_library_file

NO_FILE = "[no file]"
TOP = "."
"""Package of files directly in the shared folder."""


class Places:
    """Source files of some functions.

    Args:
        frames: All functions that share a root.
    """

    def __init__(self, frames: Iterable[CallFrame]) -> None:
        files = {frame.file for frame in frames if frame.file is not None}
        self._files = {file: file.replace("\\", "/") for file in files}
        self.root = _shared_folder(
            file for file in self._files.values() if not is_library_file(file)
        )
        self._relative = {file: self._shortened(path) for file, path in self._files.items()}

    def _shortened(self, path: str) -> str:
        if (found := INSTALLED.match(path)) is not None:
            return path[found.end() :]
        if (found := STANDARD.match(path)) is not None:
            return f"python/{path[found.end() :].rstrip('>')}"
        return path.removeprefix(self.root)

    def file(self, frame: CallFrame) -> str | None:
        """Return the relative file of a function; None if unknown."""
        return None if frame.file is None else self._relative[frame.file]

    def place(self, frame: CallFrame) -> str | None:
        """Return the relative ``file:line`` of a function; None if unknown."""
        file = self.file(frame)
        return file if file is None or frame.line is None else f"{file}:{frame.line}"

    def text(self, frame: CallFrame) -> str:
        """Return ``function, file:line``, relative."""
        return ", ".join(part for part in (frame.function, self.place(frame)) if part)

    def package(self, frame: CallFrame) -> str:
        """Return the folder of a function's file, relative."""
        file = self.file(frame)
        if file is None:
            return NO_FILE
        if SYNTHETIC.match(file):
            return file
        return file.rpartition("/")[0] or TOP

    def top(self, frame: CallFrame) -> str:
        """Return the outermost folder of a function's file, or the file if it is in none."""
        return (self.file(frame) or NO_FILE).partition("/")[0]

    def is_own(self, frame: CallFrame) -> bool:
        """Whether a function is in a file that was neither installed nor came with Python."""
        return frame.file is not None and not is_library_file(self._files[frame.file])


def _shared_folder(paths: Iterable[str]) -> str:
    """Return the folder that all paths share, with its last slash; empty for none."""
    shared: Sequence[str] | None = None
    for path in paths:
        parts = path.split("/")[:-1]
        if shared is None:
            shared = parts
            continue
        same = 0
        while same < min(len(shared), len(parts)) and shared[same] == parts[same]:
            same += 1
        shared = shared[:same]
    return "".join(f"{part}/" for part in shared or ())


_SHOWN = 12
"""Functions of a path that are printed at most: those at its end."""


def path_text(tree: CallTree, node: int, start: int = NO_PARENT) -> str:
    """Return the functions that lead to a node, joined by `` > ``; of a long path its end.

    Args:
        tree: The tree.
        node: The last function of the path.
        start: First function of the path; `NO_PARENT` for the outermost.
    """
    names: list[str] = []
    at = node
    while at >= 0 and len(names) < _SHOWN:
        names.append(tree.frame(at).function or "?")
        at = NO_PARENT if at == start else tree.parents[at]
    if at >= 0:
        names.append("...")
    return " > ".join(reversed(names))
