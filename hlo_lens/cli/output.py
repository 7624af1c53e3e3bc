"""Output of commands: its options, and the file or stream that a report is written to."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from inspect import signature
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

import click

from hlo_lens.render.replaced_file import replaced_file
from hlo_lens.render.table import FORMATS, RENDERERS, RenderOptions, Report
from hlo_lens.text.dump_kinds import split_file_name
from hlo_lens.text.errors import OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


Decorator: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"

_OUTPUTS = frozenset({"folded", "path_out", "plot"})
"""Parameters of commands that name a file to write."""


def option_group(name: str, make: Callable[..., object], *options: Decorator) -> Decorator:
    """Return a decorator that adds options; the command gets their values as one object.

    Args:
        name: Parameter of the command.
        make: Makes the object, of the values of the options that have the names of its parameters.
        options: The options, in the order of the help.
    """
    names = signature(make).parameters

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_group(*args: object, **values: object) -> object:
            own = {key: values.pop(key) for key in names if key in values}
            return command(*args, **{name: make(**own)}, **values)

        added: Callable[..., Any] = with_group
        for option in reversed(options):
            added = option(added)
        return added

    return add


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Destination and format of a report.

    Attributes:
        format: One of `RENDERERS`.
        path_out: File to write; None for standard output.
        rows: Rows of each table, as in `RenderOptions`.
        color: Whether to colour, as in `RenderOptions`.
    """

    format: str
    path_out: str | None
    rows: int | None
    color: str

    def write(self, report: Report) -> None:
        """Write a report; raises OutputError where the file cannot be written."""
        with open_output(self.path_out) as out:
            options = RenderOptions(rows=self.rows, color=self.color)
            RENDERERS[self.format](report, out, options)


@contextmanager
def open_output(path: str | None, mode: Literal["w", "a"] = "w") -> Iterator[TextIO]:
    """Open a file for writing, or standard output for None and ``-``.

    Characters that an encoding lacks are written as escapes.

    A file is replaced only when all is written; with mode ``a`` it is appended to.

    Raises:
        OutputError: If the file cannot be written.
        UsageError: If the file is read by this command.
    """
    if path is None or path == "-":
        if sys.stdout is None:
            raise OutputError("standard output is closed; write to a file with -o FILE")
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        yield sys.stdout
        return
    refuse_input(path)
    with ExitStack() as stack:
        file = stack.enter_context(replaced_file(path)) if mode == "w" else Path(path)
        stack.enter_context(_write_errors(path))
        yield stack.enter_context(
            file.open(mode, encoding="utf-8", errors="backslashreplace", newline="")
        )


@contextmanager
def _write_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def refuse_input(path: str) -> None:
    """Raise UsageError if a file to write is an input of the running command.

    Inputs are the paths among its arguments and options, and the dump files of folders among them.
    """
    context = click.get_current_context(silent=True)
    target = Path(path)
    if context is None or not target.is_file():
        return
    for name, value in context.params.items():
        for given in value if isinstance(value, tuple) else (value,):
            if name not in _OUTPUTS and isinstance(given, str) and _reads(Path(given), target):
                raise UsageError(f"{path}: is an input of this command; write to another file")


def _reads(given: Path, target: Path) -> bool:
    """Whether a command that is given a path reads a file: it, one in it, or one of its module."""
    try:
        name = split_file_name(target.name)
        is_dump = name.stage is not None
        if given.is_dir():
            return is_dump and target.resolve().is_relative_to(given.resolve())
        if is_dump and split_file_name(given.name).key == name.key:
            return given.parent.samefile(target.parent)
        return given.samefile(target)
    except OSError:
        return False


def _format_option(formats: Sequence[str], *names: str) -> Decorator:
    """Return the option that chooses one of some formats, as a parameter of a name."""
    return click.option(
        *("-f", "--format", *names),
        type=click.Choice(list(formats)),
        default="text",
        show_default=True,
        help="Output format.",
    )


format_option = _format_option(FORMATS, "format_")
"""The format alone, for commands whose ``-o`` is a folder; the command gets it as ``format_``."""


def _output_options(formats: Sequence[str]) -> Decorator:
    """Return the options about output, with a choice of some formats."""
    return option_group(
        "output",
        Output,
        _format_option(formats),
        click.option(
            *("-o", "--output", "path_out"),
            metavar="FILE",
            help="Write here instead of standard output.",
        ),
        click.option(
            "-n",
            "--rows",
            type=click.IntRange(min=0),
            metavar="N",
            help="Rows to print of each table, 0 for all; csv and json always have all.  [default: "
            "10 in text, 20 in md]",
        ),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            show_default=True,
            help="Colour in text; auto means on a terminal unless NO_COLOR is set.",
        ),
    )


output_options = _output_options(FORMATS)
"""The options about output; the command gets them as ``output``."""

finding_output_options = _output_options(tuple(RENDERERS))
"""The same with the formats of findings."""
