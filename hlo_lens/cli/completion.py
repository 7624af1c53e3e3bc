"""Completion of option values in a shell: names of instructions and modules, read from small files.

Click asks for them when the user presses tab; what takes long or fails has no completion. Names of
modules come from names of files where there are such. Texts are read up to a bound and searched
with one regular expression; archives and protos are not read.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.text.dump_kinds import AFTER, split_file_name, title_of
from hlo_lens.text.source import decode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import click


MOST_BYTES = 1 << 22
"""Bytes of all texts that are searched; a dump with more has no completion of instructions."""

_MOST_FILES = 20_000
_INSTRUCTION = re.compile(r"^[ \t]*(?:ROOT[ ]+)?%?([\w.-]+)[ ]+=[ ]+(\S[^\n]*)", re.MULTILINE)
_HEADER = re.compile(r"^HloModule[ ]+([\w.-]+)", re.MULTILINE)
_OPCODE = re.compile(r"(?<=[ ])([a-z][a-z0-9-]*)\(")
_SUFFIXES = (".txt", ".hlo")


def instruction_names(path: str, opcodes: Collection[str] = ()) -> list[str]:
    """Return the names of the instructions of a dump; none if it is large or no text.

    Args:
        path: A file or a folder.
        opcodes: Beginnings of opcodes; only these instructions if there are any.
    """
    files = list(_texts(Path(path)))
    if sum(size for _, size in files) > MOST_BYTES:
        return []
    names: dict[str, None] = {}
    for file, _ in files:
        for match in _INSTRUCTION.finditer(_read(file)):
            if not opcodes or _has_opcode(match[2], opcodes):
                names[match[1]] = None
    return list(names)


def collective_names(path: str) -> list[str]:
    """Return the names of the collectives of a small dump."""
    return instruction_names(path, COLLECTIVE_KINDS)


def module_names(path: str) -> list[str]:
    """Return the names of the modules of a dump, without their numbers in names of files."""
    place = Path(path)
    if place.is_dir():
        files = islice(place.iterdir(), _MOST_FILES)
        names = [split_file_name(file.name) for file in files]
        return sorted({title_of(name.module) for name in names if name.stage})
    if _size(place) > MOST_BYTES:
        return []
    return list(dict.fromkeys(_HEADER.findall(_read(place))))


def _has_opcode(text: str, opcodes: Collection[str]) -> bool:
    match = _OPCODE.search(text)
    return match is not None and match[1].startswith(tuple(opcodes))


def _texts(place: Path) -> Iterator[tuple[Path, int]]:
    """Yield the HLO texts of a dump with their sizes: those of the programs that run, if known."""
    if not place.is_dir():
        if place.is_file():
            yield place, _size(place)
        return
    files = [file for file in islice(place.iterdir(), _MOST_FILES) if file.suffix in _SUFFIXES]
    named = [(file, split_file_name(file.name)) for file in files]
    texts = [(file, name.stage or "") for file, name in named if not name.part]
    final = [file for file, stage in texts if stage.endswith(AFTER)]
    for file in final or [file for file, _ in texts]:
        if file.is_file():
            yield file, _size(file)


def _size(file: Path) -> int:
    """Return the size of a regular file; more than any bound for others."""
    with suppress(OSError):
        if file.is_file():
            return file.stat().st_size
    return MOST_BYTES + 1


def _read(file: Path) -> str:
    with suppress(OSError), file.open("rb") as opened:
        return decode(opened.read(MOST_BYTES))
    return ""


_PATHS = ("path", "head", "base")
"""Parameters of commands that are dumps."""


def complete_instruction(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return the instructions of the dump whose names begin with a word."""
    del parameter

    return _matching(word, (name for path in _dumps(ctx) for name in instruction_names(path)))


def complete_collective(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return the collectives of the dump whose names begin with a word."""
    del parameter

    return _matching(word, (name for path in _dumps(ctx) for name in collective_names(path)))


def complete_subject(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return what ``passes --track`` takes: collectives, temp, alias, and instructions."""
    from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS

    fixed = _matching(word, ("temp", "alias", *COLLECTIVE_KINDS))
    return [*fixed, *complete_instruction(ctx, parameter, word)]


def complete_module(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return the modules of the dump whose names begin with a word."""
    del parameter

    return _matching(word, (name for path in _dumps(ctx) for name in module_names(path)))


def _dumps(ctx: click.Context) -> list[str]:
    """Return the dumps given before the cursor.

    An option without its value ends the parsing, so that arguments are still in ``ctx.args``.
    """
    given = (ctx.params.get(key) for key in _PATHS)
    return [*(path for path in given if isinstance(path, str)), *ctx.args]


def _matching(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin with a word, without a leading ``%``, each once."""
    found: list[str] = []
    with suppress(OSError):
        found = [name for name in dict.fromkeys(names) if name.startswith(word.removeprefix("%"))]
    return found
