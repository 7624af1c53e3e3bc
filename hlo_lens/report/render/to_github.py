"""Workflow commands of GitHub Actions: annotations on source lines.

Source: docs.github.com, "Workflow commands for GitHub Actions"; escapes as in @actions/core's
command.ts: %, CR and LF in messages, and : and , too in properties.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hlo_lens.text.printable import printable

MOST_ANNOTATIONS = 10
"""Warnings, and errors, that GitHub shows of one step."""

_MOST_LOOKED_AT = 50_000
_NOT_SOURCE = frozenset({"node_modules", "__pycache__", "site-packages", "build", "dist"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A message on one line of the user's program.

    Attributes:
        level: ``error``, ``warning`` or ``notice``.
        title: Subject, in a few words.
        message: The message.
        source: ``file:line`` as in the dump; None if unknown.
    """

    level: str
    title: str
    message: str
    source: str | None = None


def annotation_lines(annotations: Sequence[Annotation], root: Path | None = None) -> list[str]:
    """Return workflow commands, at most `MOST_ANNOTATIONS` of each level.

    Args:
        annotations: The most important first.
        root: Folder of the repository, to which files are relative; the current one if None.
    """
    finder = _Finder(root or Path.cwd())
    shown: Counter[str] = Counter()
    lines: list[str] = []
    for one in annotations:
        shown[one.level] += 1
        if shown[one.level] <= MOST_ANNOTATIONS:
            lines.append(_line(one, finder))
    return lines


def _line(one: Annotation, finder: _Finder) -> str:
    properties: list[tuple[str, str]] = []
    message = one.message
    if one.source is not None:
        file, _, line = one.source.rpartition(":")
        if not file or not line.isdecimal():
            file, line = one.source, ""
        found = finder.find(file.removeprefix("~"))
        if found is None:
            message = f"{message} (at {one.source})"
        else:
            properties += [("file", found), *([("line", line)] if line else [])]
    properties.append(("title", one.title))
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties)
    return f"::{one.level} {listed}::{_data(message)}"


def _data(text: str) -> str:
    codes = {"%": "%25", "\r": "%0D", "\n": "%0A"}
    return "".join(codes.get(character) or printable(character) for character in text)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


class _Finder:
    """Search for the files of a dump in a repository, by the last parts of their paths.

    Args:
        root: Folder of the repository.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

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
