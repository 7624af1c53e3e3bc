"""Workflow commands of GitHub Actions: annotations on source lines.

Source: docs.github.com, "Workflow commands for GitHub Actions"; escapes as in @actions/core's
command.ts: %, CR and LF in messages, and : and , too in properties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.text.errors import printable
from hlo_lens.text.source_files import Checkout

if TYPE_CHECKING:
    from pathlib import Path

MOST_ANNOTATIONS = 10
"""Warnings, and errors, that GitHub shows of one step."""


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
        root: Folder of the repository, to which files are relative; None for `Checkout.here`.
    """
    checkout = Checkout.here() if root is None else Checkout(root)
    shown: Counter[str] = Counter()
    lines: list[str] = []
    for one in annotations:
        shown[one.level] += 1
        if shown[one.level] <= MOST_ANNOTATIONS:
            lines.append(_line(one, checkout))
    return lines


def _line(one: Annotation, checkout: Checkout) -> str:
    properties: list[tuple[str, str]] = []
    message = one.message
    if one.source is not None:
        file, _, line = one.source.rpartition(":")
        if not file or not line.isdecimal():
            file, line = one.source, ""
        found = checkout.find(file)
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
