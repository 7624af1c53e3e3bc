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

from hlo_lens.text.dump_kinds import AFTER, split_file_name, title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    import click

MOST_BYTES = 1 << 22
"""Bytes of all texts that are searched; a dump with more has no completion of instructions."""

_MOST_FILES = 20_000
_INSTRUCTION = re.compile(r"^[ \t]*(?:ROOT[ ]+)?%?([\w.-]+)[ ]+=[ ]+(\S[^\n]*)", re.MULTILINE)
_HEADER = re.compile(r"^HloModule[ ]+([\w.-]+)", re.MULTILINE)
_OPCODE = re.compile(r"(?<=[ ])([a-z][a-z0-9-]*)\(")
_PATHS = ("path", "head", "base")
"""Parameters of commands that are dumps."""


def complete_instruction(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return the instructions of the dump whose names begin with a word."""
    del parameter
    return _matching(word, _of_dumps(ctx, instruction_names))


def complete_collective(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return the collectives of the dump whose names begin with a word."""
    del parameter
    from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS

    return _matching(word, _of_dumps(ctx, lambda path: instruction_names(path, COLLECTIVE_KINDS)))


def complete_subject(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return what ``passes --track`` takes: collectives, temp, alias, and instructions."""
    del parameter
    from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS

    fixed = _matching(word, ("temp", "alias", *COLLECTIVE_KINDS))
    return [*fixed, *_matching(word, _of_dumps(ctx, instruction_names))]


def complete_module(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return the modules of the dump whose names begin with a word."""
    del parameter
    return _matching(word, _of_dumps(ctx, module_names))


def _of_dumps(ctx: click.Context, names_of: Callable[[str], list[str]]) -> Iterator[str]:
    """Yield names in the dumps given before the cursor.

    An option without its value ends the parsing, so that arguments are still in ``ctx.args``.
    """
    given = (ctx.params.get(key) for key in _PATHS)
    for path in (*(path for path in given if isinstance(path, str)), *ctx.args):
        yield from names_of(path)


def _matching(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin with a word, without a leading ``%``, each once."""
    with suppress(OSError):
        return [name for name in dict.fromkeys(names) if name.startswith(word.removeprefix("%"))]
    return []


def instruction_names(path: str, opcodes: Collection[str] = ()) -> list[str]:
    """Return the names of the instructions of a dump; none if it is large or no text.

    Args:
        path: A file or a folder.
        opcodes: Beginnings of opcodes; only these instructions if there are any.
    """
    files = [file for file in _texts(Path(path)) if file.is_file()]
    if sum(map(_size, files)) > MOST_BYTES:
        return []
    names: dict[str, None] = {}
    for file in files:
        for match in _INSTRUCTION.finditer(_read(file)):
            opcode = _OPCODE.search(match[2])
            if not opcodes or (opcode is not None and opcode[1].startswith(tuple(opcodes))):
                names[match[1]] = None
    return list(names)


def module_names(path: str) -> list[str]:
    """Return the names of the modules of a dump, without their numbers in names of files."""
    place = Path(path)
    if place.is_dir():
        names = [split_file_name(file.name) for file in islice(place.iterdir(), _MOST_FILES)]
        return sorted({title_of(name.module) for name in names if name.stage})
    if _size(place) > MOST_BYTES:
        return []
    return list(dict.fromkeys(_HEADER.findall(_read(place))))


def _texts(place: Path) -> list[Path]:
    """Return the HLO texts of a dump: those of the programs that run, if these are known."""
    if not place.is_dir():
        return [place]
    files = [f for f in islice(place.iterdir(), _MOST_FILES) if f.suffix in (".txt", ".hlo")]
    named = [(file, split_file_name(file.name)) for file in files]
    texts = [(file, name.stage or "") for file, name in named if not name.part]
    final = [file for file, stage in texts if stage.endswith(AFTER)]
    return final or [file for file, _ in texts]


def _size(file: Path) -> int:
    """Return the size of a regular file; more than any bound for others."""
    with suppress(OSError):
        if file.is_file():
            return file.stat().st_size
    return MOST_BYTES + 1


def _read(file: Path) -> str:
    from hlo_lens.text.source import decode

    with suppress(OSError), file.open("rb") as opened:
        return decode(opened.read(MOST_BYTES))
    return ""
