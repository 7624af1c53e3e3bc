"""Completion of option values in a shell: names of instructions and modules.

Click asks for them when the user presses tab; what takes long or fails has no completion.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

_PATHS = ("path", "head", "base")
"""Parameters of commands that are dumps."""


def complete_instruction(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return the instructions of the dump whose names begin with a word."""
    del parameter
    from hlo_lens.cli.names import instruction_names

    return _matching(word, (name for path in _dumps(ctx) for name in instruction_names(path)))


def complete_collective(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return the collectives of the dump whose names begin with a word."""
    del parameter
    from hlo_lens.cli.names import collective_names

    return _matching(word, (name for path in _dumps(ctx) for name in collective_names(path)))


def complete_subject(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return what ``passes --track`` takes: collectives, temp, alias, and instructions."""
    from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS

    fixed = _matching(word, ("temp", "alias", *COLLECTIVE_KINDS))
    return [*fixed, *complete_instruction(ctx, parameter, word)]


def complete_module(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Return the modules of the dump whose names begin with a word."""
    del parameter
    from hlo_lens.cli.names import module_names

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
