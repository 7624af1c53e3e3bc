"""HLO texts of tens of megabytes for the bench, made from the samples.

A sample's program is repeated under new names: each computation once per copy, and the body of its
entry inside one entry, over the same parameters, so that all copies run and the result is one valid
scheduled module, like an unrolled loop.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.corpus import SAMPLES, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_NAME = re.compile(r"%([\w.-]+)")
_TABLE = re.compile(
    r"^(FileNames|FunctionNames|FileLocations|StackFrames)\n((?:\d.*\n)+)", re.MULTILINE
)
_OWN_ID = re.compile(r"^\d+", re.MULTILINE)
_REFERENCE = re.compile(
    r"\b(file_name|function_name|file_location|parent_frame|stack_frame)_id=(\d+)"
)
_REFERRED = {
    "file_name": "FileNames",
    "function_name": "FunctionNames",
    "file_location": "FileLocations",
    "parent_frame": "StackFrames",
    "stack_frame": "StackFrames",
}


@dataclass(frozen=True)
class Growth:
    """A module to make from a sample.

    Attributes:
        name: Name of the file that is made.
        sample: Pattern of the sample's path below `SAMPLES`.
        megabytes: Size to reach.
        table_copies: Copies of the stack tables per copy of the program; 0 keeps the tables once.
    """

    name: str
    sample: str
    megabytes: int
    table_copies: int = 0


LARGE = (
    Growth("small", "gpu/fsdp_transformer/*gpu_after_optimizations.txt", 4),
    Growth("medium", "gpu/fsdp_transformer/*gpu_after_optimizations.txt", 19),
    Growth("large", "gpu/fsdp_transformer/*gpu_after_optimizations.txt", 159),
)
"""Modules to read without the corpus."""

SPECIAL = (
    Growth("collectives", "tpu/shard_map_collectives/*after_optimizations.txt", 25),
    Growth("before-optimizations", "gpu/fsdp_transformer/*before_optimizations.txt.gz", 20),
    Growth("stack-tables", "cpu/wasteful/*cpu_after_optimizations.txt", 20, table_copies=4),
)
"""Modules with more than 10,000 collectives; before optimizations; with long stack tables."""


def grown(growth: Growth, folder: Path) -> Path:
    """Return the path of a grown module, made in the folder at the first call."""
    (sample,) = SAMPLES.glob(growth.sample)
    stage = "before_optimizations" if "before" in growth.sample else "after_optimizations"
    target = folder / f"grown-{growth.name}-{growth.megabytes:03d}mb.{stage}.txt"
    if not target.exists():
        with target.open("w", encoding="utf-8") as out:
            out.writelines(_copies(read(sample).decode(), growth))
    return target


def _copies(text: str, growth: Growth) -> Iterator[str]:
    """Yield the parts of a text that repeats a program up to the size."""
    found = re.search(r"^(?:%|ENTRY )", text, re.MULTILINE)
    start = found.start() if found else 0
    entry = text.index("ENTRY ", start)
    end = text.index("\n}", entry)
    body = text.index("{\n", entry) + 2
    computations = text[start:entry]
    listed = text[body:end].splitlines(keepends=True)
    parameters = [line for line in listed if " parameter(" in line]
    lines = "".join(line for line in listed if " parameter(" not in line) + "\n"
    kept = frozenset(match[1] for match in map(_NAME.search, parameters) if match)
    tables = {match[1]: match[2] for match in _TABLE.finditer(text[:start])}
    counts = {name: rows.count("\n") for name, rows in tables.items()}
    length = growth.table_copies * sum(map(len, tables.values()))
    copies = growth.megabytes * 1_000_000 // (len(computations) + len(lines) + length)
    yield from _head(text[:start], tables, counts, growth.table_copies * copies)
    numbers = [(copy, growth.table_copies * copy) for copy in range(copies)]
    for copy, shift in numbers:
        yield _shifted(_renamed(computations, copy), counts, shift)
    yield text[entry:body] + "".join(parameters)
    for copy, shift in numbers:
        part = _shifted(_renamed(lines, copy, kept), counts, shift)
        yield part if copy == copies - 1 else part.replace("  ROOT %", "  %")
    yield text[end + 1 :]


def _renamed(text: str, copy: int, kept: frozenset[str] = frozenset()) -> str:
    """Return a text with the number of a copy appended to each name that is not kept."""
    return _NAME.sub(lambda m: m[0] if m[1] in kept else f"{m[0]}.copy{copy}", text)


def _shifted(text: str, counts: Mapping[str, int], shift: int) -> str:
    """Return a text with references into the stack tables moved to a later copy of the tables.

    Parents are printed plus one; 1 means none in each copy.
    """

    def moved(match: re.Match[str]) -> str:
        table, row = match[1], int(match[2])
        if table == "parent_frame" and row == 1:
            return match[0]
        return f"{table}_id={row + shift * counts[_REFERRED[table]]}"

    return _REFERENCE.sub(moved, text) if shift else text


def _head(
    text: str, tables: Mapping[str, str], counts: Mapping[str, int], copies: int
) -> Iterator[str]:
    """Yield the text above the first computation, each table repeated; 0 copies mean one."""
    if copies == 0 or not tables:
        yield text
        return
    yield text[: text.index(f"\n{next(iter(tables))}\n")] + "\n"
    for name, rows in tables.items():
        yield f"\n{name}\n"
        for copy in range(copies):
            yield _shifted(_numbered(rows, 1 + copy * counts[name]), counts, copy)
    yield "\n"


def _numbered(rows: str, first: int) -> str:
    """Return the rows of a table with consecutive ids from a number on."""
    numbers = itertools.count(first)
    return _OWN_ID.sub(lambda _: str(next(numbers)), rows)
