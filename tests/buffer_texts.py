"""Buffer-side texts for tests: our samples, and the corpus next to the checkout."""

from __future__ import annotations

import re
import tarfile
from typing import TYPE_CHECKING

from tests import corpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hlo_lens.buffers.assignment import AssignedValue, BufferAssignment

KINDS = ("buffer-assignment", "buffer-assignment-values", "live-range", "memory-usage-report")
_NAME = re.compile(rf"(.*?)-?({'|'.join(sorted(KINDS, key=len, reverse=True))})\.txt(?:\.gz)?$")

MOST = 16_000
"""Characters of one text that the grammar reads; it takes a second for half a megabyte."""


def kind_of(name: str) -> str:
    """Return the kind of a file by its name, or an empty text."""
    match = _NAME.search(name)
    return match[2] if match else ""


def stem_of(name: str) -> str:
    """Return the common part of the names of all texts of a module and stage."""
    match = _NAME.search(name)
    return match[1] if match else name


def sample_texts(kind: str) -> list[Path]:
    """Return the texts of a kind among our own samples."""
    return sorted(p for p in corpus.SAMPLES.rglob("*.txt*") if kind_of(p.name) == kind)


def corpus_texts(kind: str) -> list[Path]:
    """Return the texts of a kind in the corpus in files of their own."""
    if not corpus.CORPUS.is_dir():
        return []
    folders = (corpus.CORPUS / "buffer", corpus.CORPUS / "reference")
    found = [p for f in folders for p in f.rglob("*") if kind_of(p.name) == kind]
    if kind == "buffer-assignment":
        found += (corpus.SHARED / "seeds").glob("004_*")
    return sorted(found)


def archived_texts(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each buffer-side text in an archive."""
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if kind_of(member.name) else None
            if file is not None:
                yield member.name, file.read()


def combined_parts(text: str) -> tuple[str, str, str]:
    """Return allocations, used values and live range of a text of before April 2026."""
    values = text.find("\nTotal bytes used: ")
    ranges = text.find("HloLiveRange ")
    end = len(text)
    values = end if values < 0 else values
    ranges = end if ranges < 0 else ranges
    return text[: min(values, ranges)], text[values:ranges], text[ranges:]


def shortened(text: str, kind: str) -> str:
    """Return a text as far as the grammar can read it in time, cut where a unit ends."""
    if len(text) <= MOST:
        return text
    if kind == "live-range":
        return _shortened_range(text)
    ends = {
        "buffer-assignment": "\nallocation ",
        "buffer-assignment-values": "\n<",
        "memory-usage-report": "\n\n",
    }
    end = text.rfind(ends[kind], 0, MOST)
    return text[: len(text) if end < 0 else end + 1]


def _shortened_range(text: str) -> str:
    """Return the first lines of each section of a live range."""
    lines: list[str] = []
    left = 0
    for line in text.split("\n"):
        if re.match(r"(?:HloLiveRange|  [A-Z])", line):
            left = 60
        left -= 1
        if left >= 0:
            lines.append(line)
    return "\n".join(lines) + "\n"


def assigned_values(assignment: BufferAssignment) -> list[AssignedValue]:
    """Return the values of all allocations, in the order of the text."""
    return [value for allocation in assignment.allocations for value in allocation.values]
