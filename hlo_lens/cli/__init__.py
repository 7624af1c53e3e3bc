"""The command line: the group, the list of commands, and the exit codes of errors."""

from __future__ import annotations

import copy
import errno
import gc
import importlib
import shlex
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

import hlo_lens
from hlo_lens.cli import exit_codes, standard_streams
from hlo_lens.text.errors import DumpSyntaxError, HloLensError
from hlo_lens.text.printable import printable, printable_lines

COMMANDS: Mapping[str, str] = {
    "report": "Summarize a compiled program on one page.",
    "ls": "List the modules of a folder or archive and mark the training step.",
    "memory": "Show memory use over the program, by value, operation or source line.",
    "collectives": "Show collectives with mesh axes, bytes, counts and causes.",
    "show": "Show instructions: text, operands, users, source line, sharding, memory.",
    "passes": "Find the compiler pass in which something appears or disappears.",
    "loops": "Show loops with their trip counts and communication.",
    "sharding": "Show the sharding of parameters and outputs, and replicated bytes.",
    "lint": "Find what a program wastes, what the fix saves, and what to write instead.",
    "explain": "Explain a rule of lint: what it finds, why it costs, when it is fine.",
    "tree": "Show a call tree: of a trace, or of a module's Python stacks, with bytes.",
    "diff": "Show the differences between two compiles.",
    "what-if": "Compile a dump's program again: other hardware, other flags, without either.",
    "bisect": "Find the version of jax, or the flag, that made a program worse.",
    "fit": "Find changes or hardware with which a program fits in memory.",
    "check": "Judge a compile by a budget, for continuous integration.",
    "save": "Save the figures of a compile, to compare later compiles with.",
    "shard": "Draw which device holds which slice, and print all spellings.",
    "doctor": "Check flags and versions, and what a dump or an empty folder lacks.",
    "help": "Print the handbook: a topic for each command, the glossary, the limits.",
}
"""Purpose of each command."""

_HOMES: Mapping[str, str] = {
    "report": "questions.report.command",
    "ls": "questions.dumps.ls_command",
    "memory": "questions.memory.command",
    "collectives": "questions.collectives.command",
    "show": "questions.dumps.show_command",
    "passes": "questions.dumps.passes_command",
    "loops": "questions.collectives.loops_command",
    "sharding": "questions.sharding.command",
    "lint": "questions.plans.lint_command",
    "explain": "questions.findings.explain_command",
    "tree": "call_trees.command",
    "diff": "questions.diff.command",
    "what-if": "questions.what_if.command",
    "bisect": "questions.plans.bisect_command",
    "fit": "questions.plans.fit_command",
    "check": "questions.check.command",
    "save": "questions.snapshots.command",
    "shard": "questions.sharding.shard_command",
    "doctor": "questions.dumps.doctor_command",
    "help": "cli.help",
}
"""File of each command, which has a function of its name."""

_HINT = "this is a bug in hlo-lens: please report it with the lines above and, if you can, the dump"


class _Commands(click.Group):
    """A group whose commands are imported when they run, so that ``--help`` costs little."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        home = importlib.import_module(f"hlo_lens.{_HOMES[cmd_name]}")
        command = getattr(home, name)
        return _with_topic(command) if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from hlo_lens.text.nearest_names import did_you_mean

            hint = did_you_mean(args[0], COMMANDS) or f"; commands: {', '.join(COMMANDS)}"
            if Path(args[0]).exists():
                hint = f"; did you mean hlo-lens report {printable(shlex.quote(args[0]))}?"
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        standard_streams.occupy_closed_streams()
        standard_streams.buffer_stdout()
        with _error_boundary(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        with _error_boundary(ctx), _no_collections():
            result: object = super().invoke(ctx)
            standard_streams.flush_stdout()
            return result


def _with_topic(command: click.Command) -> click.Command:
    """Return a command whose help ends with its topic of the handbook."""
    topic = f"Topic: hlo-lens help {command.name}"
    described = copy.copy(command)
    described.epilog = f"{command.epilog or ''}\n\n{topic}"
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
        standard_streams.forget_stdout()
        ctx.exit(exit_codes.BROKEN_PIPE)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT):
            raise
        standard_streams.forget_stdout()
        click.echo(f"hlo-lens: error: cannot write the output: {error.strerror}", err=True)
        ctx.exit(exit_codes.OUTPUT)
    except (KeyboardInterrupt, click.Abort):
        click.echo("hlo-lens: interrupted", err=True)
        ctx.exit(exit_codes.INTERRUPTED)
    except (click.ClickException, click.exceptions.Exit):
        raise
    except Exception:
        traceback.print_exc()
        click.echo(f"hlo-lens: error: {_HINT}", err=True)
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
