"""Output of commands: options, files and streams, the progress bar, and what CI reads."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from inspect import signature
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

import click

from hlo_lens.cli import exit_codes
from hlo_lens.render.replaced_file import replaced_file
from hlo_lens.render.table import FORMATS, RENDERERS, RenderOptions, Report, render_as
from hlo_lens.text.dump_kinds import split_file_name
from hlo_lens.text.errors import OutputError, UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.progress import Progress

    from hlo_lens.questions.check.checked import Checked
    from hlo_lens.questions.diff.dump_diff import Diff
    from hlo_lens.render.to_markdown import Annotation


_QUIET_SECONDS = 0.5
_SECONDS_BETWEEN = 0.1


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Provide a callback for progress (done, total); None where there is no terminal.

    The bar appears after half a second of work; rich is imported then.
    """
    if not sys.stderr.isatty():
        yield None
        return
    shown: list[Progress] = []
    next_time = time.monotonic() + _QUIET_SECONDS

    def show(done: int, total: int) -> None:
        nonlocal next_time
        now = time.monotonic()
        if now < next_time:
            return
        next_time = now + _SECONDS_BETWEEN
        if not shown:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}", markup=False), BarColumn()
            console = Console(file=sys.stderr)
            bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
            shown.append(stack.enter_context(bar))
            bar.add_task(title, total=total)
        shown[0].update(shown[0].task_ids[0], completed=done, total=total)

    with ExitStack() as stack:
        yield show


Decorator: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"

_OUTPUTS = frozenset({"folded", "path_out", "plot"})
"""Parameters of commands that name a file to write."""


def option_group(name: str, make: Callable[..., object], *options: Decorator) -> Decorator:
    """Return a decorator that adds options; the command gets an object of their values as `name`.

    The object is made of the values of the options that have the names of its parameters.
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


def text_options(options: Mapping[str, str], *, is_multiple: bool = False) -> Decorator:
    """Return a decorator that adds options: ``--name METAVAR`` to the help of each."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for words, text in reversed(list(options.items())):
            name, _, metavar = words.partition(" ")
            option = click.option(name, multiple=is_multiple, metavar=metavar, help=text)
            command = option(command)
        return command

    return add


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Destination (None for standard output) and format of a report; see `RenderOptions`."""

    format: str
    path_out: str | None
    rows: int | None
    color: str
    source_url: str | None = None

    def write(self, report: Report) -> None:
        with open_output(self.path_out) as out:
            options = RenderOptions(rows=self.rows, color=self.color, source_url=self.source_url)
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
    replaced = replaced_file(path) if mode == "w" else nullcontext(Path(path))
    try:
        with (
            replaced as file,
            file.open(mode, encoding="utf-8", errors="backslashreplace", newline="") as out,
        ):
            yield out
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
    return click.option(
        *("-f", "--format", *names),
        type=click.Choice(list(formats)),
        default="text",
        show_default=True,
        help="Output format.",
    )


format_option = _format_option(FORMATS, "format_")
"""The format alone, for commands whose ``-o`` is a folder; the command gets it as ``format_``."""


def _source_url(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is None or ("{path}" in value and not value.lower().startswith(_SCRIPTS)):
        return value
    raise click.BadParameter("has no {path}" if "{path}" not in value else "is a script")


_SCRIPTS = ("javascript:", "data:", "vbscript:", "{path}")


def _output_options(formats: Sequence[str]) -> Decorator:
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
        click.option(
            "--source-url",
            metavar="URL",
            callback=_source_url,
            help="Links of source lines in html: https://HOST/{path}#L{line}, or an editor's "
            "vscode://file/{path}:{line}.",
        ),
    )


output_options = _output_options(FORMATS)
"""The options about output; the command gets them as ``output``."""

finding_output_options = _output_options(tuple(RENDERERS))
"""The same with the formats of findings."""


_VARIABLE = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True, slots=True, kw_only=True)
class CiOutput:
    """Output for GitHub besides the report: a summary of the step, and workflow commands."""

    has_summary: bool
    has_annotations: bool

    def write(self, report: Report, output: Output, annotations: Sequence[Annotation]) -> None:
        """Write the report, then the summary and the annotations if they are enabled.

        Workflow commands are written to standard output, or to standard error where standard
        output has a report for programs; GitHub reads both.
        """
        output.write(report)
        path = os.environ.get(_VARIABLE)
        if self.has_summary and path:
            with open_output(path, "a") as out:
                render_as("markdown", report, out, RenderOptions())
        elif self.has_summary:
            click.echo(f"hlo-lens: {_VARIABLE} is not set: no summary written", err=True)
        if self.has_annotations:
            from hlo_lens.render.to_markdown import annotation_lines

            is_free = output.format == "text" or output.path_out not in (None, "-")
            for line in annotation_lines(annotations):
                click.echo(line, err=not is_free)


ci_options = option_group(
    "ci",
    CiOutput,
    click.option(
        "--github-step-summary",
        "has_summary",
        is_flag=True,
        help=f"Append the report as Markdown to the file ${_VARIABLE}.",
    ),
    click.option(
        "--github-annotations",
        "has_annotations",
        is_flag=True,
        help="Print ::warning commands on the lines of your program: what got worse, findings.",
    ),
)
"""The options about continuous integration; the command gets them as ``ci``."""


def finish(checked: Checked | None, diff: Diff | None = None, cut: Sequence[str] = ()) -> None:
    """Exit with 1 if a rule failed, 4 if one cannot be decided or a text is cut, else 0.

    Args:
        checked: Verdicts on rules, if there are any.
        diff: Differences, each of which is a failure; None if none is.
        cut: Modules whose text ends too early.
    """
    is_changed = diff is not None and not diff.identical and not diff.is_undecided
    code = exit_codes.DONE
    if is_changed or (checked is not None and checked.judgement.is_failed):
        code = exit_codes.RULE_FAILED
    else:
        unknown = {} if diff is None else diff.unknown
        texts = [
            f"{name}: whether it changed is not known: {', '.join(subjects)}"
            for name, subjects in unknown.items()
        ]
        texts += [f"{name}: the text ends too early; the output is not whole" for name in cut]
        for text in (*texts, *_undecided(checked)):
            code = exit_codes.UNPARSABLE
            click.echo(f"hlo-lens: error: {printable(text)}", err=True)
    click.get_current_context().exit(code)


def _undecided(checked: Checked | None) -> list[str]:
    if checked is None or not checked.judgement.is_undecided:
        return []
    found = []
    for verdict in (one for one in checked.judgement.verdicts if one.is_undecided):
        where = f" of {verdict.module}" if verdict.module else ""
        text = f"{verdict.rule.metric.text}{where} cannot be decided: {verdict.reason}"
        found.append(f"{verdict.rule.place}: {text}")
    return found or ["no rule could be decided, not even an informational one"]
