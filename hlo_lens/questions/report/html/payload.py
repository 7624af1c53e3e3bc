"""Data of a page: strings once, columns of numbers, and their text in script elements."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.text.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.load.devices import Topology
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.diff.matching.program_diff import ComputationPair
    from hlo_lens.questions.diff.module_diff import ModuleDiff

LARGEST_PLAIN = 1 << 20
"""Bytes of the largest JSON text that is stored as it is; a larger one is compressed."""

GZIP = "gzip+base64"
"""Value of ``data-encoding`` for compressed data."""


class Subject(NamedTuple):
    """Module that a view shows.

    Attributes:
        analysis: The module; of a diff its head.
        title: Its name on the page, different from those of other modules.
        role: Its place among the modules of the dump, such as the training step.
        command_tail: Path and module, as arguments of a command on it alone.
        base: The module before; None outside diffs, and if only a snapshot of it is known.
        diff: Changes of the module; None outside diffs.
        pair_tail: Paths of both sides, as arguments of ``hlo-lens diff``.
        objects: JSON objects of the module by command, where the JSON of the page is another one.
        limit_bytes: Memory of the device it was compiled for; None if not known.
        limit_source: Source of that number.
        topology: Places of the devices that it was compiled for; None if not known.
    """

    analysis: ModuleDump
    title: str
    role: str = ""
    command_tail: str = "PATH"
    base: ModuleDump | None = None
    diff: ModuleDiff | None = None
    pair_tail: str = "BASE HEAD"
    objects: Mapping[str, object] | None = None
    computations: Sequence[ComputationPair] = ()
    limit_bytes: int | None = None
    limit_source: str = ""
    topology: Topology | None = None


class Strings:
    """Different strings of a page, without control characters; data has their numbers.

    The number of None is -1.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        """Return the number of a string, which is added if it is new."""
        return -1 if text is None else self._places.setdefault(printable(text), len(self._places))

    def numbers(self, texts: Iterable[str | None]) -> list[int]:
        """Return the numbers of strings."""
        return [self.number(text) for text in texts]

    @property
    def texts(self) -> list[str]:
        """The strings by number."""
        return list(self._places)


def printable_list(texts: Iterable[str]) -> list[str]:
    """Return texts without control characters."""
    return [printable(text) for text in texts]


def differences(numbers: Iterable[int]) -> list[int]:
    """Return ascending numbers as differences to the one before, which compress well.

    >>> differences([5, 6, 9])
    [5, 1, 3]
    """
    found, last = [], 0
    for number in numbers:
        found.append(number - last)
        last = number
    return found


class Encoded(NamedTuple):
    """Text of a script element, and its ``data-encoding``; empty for plain JSON."""

    text: str
    encoding: str = ""


def encoded(text: str, *, largest_plain: int = LARGEST_PLAIN) -> Encoded:
    r"""Return a JSON text for a script element, compressed if it is large.

    ``<`` is escaped, so that no string ends the element or begins a comment.

    >>> print(encoded('{"name": "</script>"}').text)
    {"name": "\u003c/script>"}
    """
    plain = text.replace("<", "\\u003c")
    if len(plain) <= largest_plain:
        return Encoded(plain)
    packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
    return Encoded(base64.b64encode(packed).decode(), GZIP)


def compact(data: Mapping[str, object]) -> str:
    """Return an object as JSON on one line."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True)
