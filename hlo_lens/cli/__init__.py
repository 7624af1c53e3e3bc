"""The command line: the group, the list of commands, and the exit codes of errors."""

from __future__ import annotations

import copy
import errno
import functools
import gc
import importlib
import io
import os
import re
import shlex
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path

import click

import hlo_lens
from hlo_lens.cli import exit_codes
from hlo_lens.text.errors import DumpSyntaxError, HloLensError, printable, printable_lines

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Commands": ("report", "memory", "collectives", "lint", "diff", "check", "what-if"),
    "A dump and its program": ("ls", "show", "source", "sharding", "tree", "passes", "doctor"),
    "Many compiles": ("fit", "bisect"),
    "Baselines and handbook": ("save", "help"),
}
"""Commands in the order of the list, by topic; others are older names, which the list omits."""

_RARE = frozenset(
    (
        *("--stage", "--strict", "--min-coverage", "--color", "--force", "--config"),
        *("--source-url", "--space", "--plot", "--python", "--no-ignore", "--static", "--folded"),
        *("--github-step-summary", "--github-annotations"),
    )
)
"""Options under "More options" in the help of a command."""

_COMMAND = re.compile(
    r'^@click\.command\(.*?^def (\w+)\(.*?^    """([^\n":]+)', re.MULTILINE | re.DOTALL
)


@functools.cache
def commands() -> Mapping[str, tuple[str, str]]:
    """Return module and purpose of each command: a function in the ``command.py`` of a room.

    The files are not imported for that.
    """
    homes: dict[str, tuple[str, str]] = {}
    package = files(hlo_lens)
    rooms = [f"questions.{room.name}" for room in (package / "questions").iterdir()]
    for room in (*rooms, "cli"):
        file = package.joinpath(*room.split("."), "command.py")
        for function, purpose in _COMMAND.findall(
            file.read_text("utf-8") if file.is_file() else ""
        ):
            purpose = f"{purpose.removesuffix('.')}."
            homes[function.replace("_", "-")] = f"hlo_lens.{room}.command", purpose
    order = [name for names in GROUPS.values() for name in names]
    return {name: homes[name] for name in (*order, *sorted(homes.keys() - set(order)))}


class _Commands(click.Group):
    """A group whose commands are imported when they run, so that ``--help`` costs little."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in GROUPS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in commands():
            return None
        module, _ = commands()[cmd_name]
        command = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        return _with_topic(command) if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in commands() and not args[0].startswith("-") and not ctx.resilient_parsing:
            from hlo_lens.text.names import did_you_mean

            listed = self.list_commands(ctx)
            hint = did_you_mean(args[0], listed) or f"; commands: {', '.join(listed)}"
            if Path(args[0]).exists():
                hint = f"; did you mean hlo-lens report {printable(shlex.quote(args[0]))}?"
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, commands()[name][1]) for name in names])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _occupy_closed_streams()
        _buffer_stdout()
        with _error_boundary(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        with _error_boundary(ctx), _no_collections():
            result: object = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result


def _with_topic(command: click.Command) -> click.Command:
    described = copy.copy(command)
    described.epilog = f"{command.epilog or ''}\n\nTopic: hlo-lens help {command.name}"

    def format_options(ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"Options": [], "More options": []}
        for parameter in command.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                rows["More options" if _RARE & {*parameter.opts} else "Options"].append(record)
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    vars(described)["format_options"] = format_options
    return described


@contextmanager
def _error_boundary(ctx: click.Context) -> Iterator[None]:
    try:
        yield
    except HloLensError as error:
        is_excerpt = isinstance(error, DumpSyntaxError)  # the only one of several lines
        text = str(error) if is_excerpt else f"hlo-lens: error: {printable(str(error))}"
        click.echo(printable_lines(text), err=True)
        ctx.exit(error.exit_code)
    except BrokenPipeError:
        _forget_stdout()
        ctx.exit(exit_codes.BROKEN_PIPE)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT):
            raise
        _forget_stdout()
        click.echo(f"hlo-lens: error: cannot write the output: {error.strerror}", err=True)
        ctx.exit(exit_codes.OUTPUT)
    except (KeyboardInterrupt, click.Abort):
        click.echo("hlo-lens: interrupted", err=True)
        ctx.exit(exit_codes.INTERRUPTED)
    except (click.ClickException, click.exceptions.Exit):
        raise
    except Exception:
        traceback.print_exc()
        hint = "please report it with the lines above and, if you can, the dump"
        click.echo(f"hlo-lens: error: this is a bug in hlo-lens: {hint}", err=True)
        ctx.exit(exit_codes.INTERNAL)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Disable the collection of cyclic garbage, which took a quarter of the time of a report.

    A dump has millions of objects, and few of them become garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# ---- standard streams: closed ones, unbuffered ones, and a broken output ------------------------


def _occupy_closed_streams() -> None:
    """Open the null device at the descriptors of closed streams; messages may be written to it.

    Python's stream of a closed descriptor is None (``2>&-``, services without a console).

    Files that are opened later would get these descriptors, and with them what libraries write to
    standard error. Input and output stay None, so that a read or write of them is an error.
    """
    for descriptor in (0, 1, 2):
        with suppress(OSError):
            os.fstat(descriptor)
            continue
        os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free: this one
        os.set_inheritable(descriptor, True)
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "replace")
    err = sys.stderr
    if isinstance(err, io.TextIOWrapper) and err is sys.__stderr__:
        sys.stderr = _Messages(err.buffer, err.encoding, err.errors)


class _Messages(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        written = super().write(text)
        self.flush()
        return written

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            super().flush()


def _buffer_stdout() -> None:
    """Put a buffer in front of standard output that has none (``PYTHONUNBUFFERED=1``).

    Without one Python takes a write of a part of the text for one of the whole.
    """
    out = sys.stdout
    is_own = isinstance(out, io.TextIOWrapper) and out is sys.__stdout__
    if is_own and isinstance(out.buffer, io.RawIOBase):
        binary = io.BufferedWriter(io.FileIO(out.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(binary, out.encoding, out.errors, line_buffering=True)


def _forget_stdout() -> None:
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: hlo-lens report module_0001.jit_step.cpu_after_optimizations.txt\n\n"
    "Handbook: hlo-lens help",
)
@click.version_option(hlo_lens.__version__, prog_name="hlo-lens")
def main() -> None:
    """Read what the XLA compiler dumps, without running the program.

    Dumps are written by XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text".
    """
