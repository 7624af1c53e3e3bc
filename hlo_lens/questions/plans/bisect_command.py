"""``hlo-lens bisect``: which version, or which flag, made a program worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hlo_lens.cli import exit_codes
from hlo_lens.cli.options import compiling_options, module_option
from hlo_lens.cli.output import Output, format_option
from hlo_lens.cli.progress import progress_bar
from hlo_lens.text.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.cli.options import Compiling
    from hlo_lens.text.name_pattern import NamePattern

_COMMAND = "hlo_lens.command"

_EXAMPLE = """\b
Example:
  hlo-lens bisect DIR --good 'jax==0.8.0' --bad 'jax==0.9.2' --fail-on 'memory.total_bytes>+1%'
  hlo-lens bisect DIR --good 'jax==0.10.2,libtpu==0.0.42' --bad 'jax==0.10.2,libtpu==0.0.52' \\
      --fail-on 'memory.total_bytes>+5%' -o NEIGHBOURS
  hlo-lens bisect --good 'jax==0.8.0' --bad 'jax==0.9.2' --fail-on 'memory.total_bytes>4GiB' \\
      -- python aot.py
  hlo-lens bisect DIR --flags GOOD_DUMP BAD_DUMP --fail-on 'memory.total_bytes>+1%'
"""


class _WithCommand(click.Command):
    """A command whose arguments after ``--`` are a command of the user."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = tuple(args[place + 1 :])
        return super().parse_args(ctx, args[:place])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND]"]


@click.command(cls=_WithCommand, epilog=_EXAMPLE)
@click.argument("path", required=False, type=click.Path(allow_dash=True, readable=False))
@click.option("--good", default="", metavar="jax==V", help="Version that is good.")
@click.option("--bad", default="", metavar="jax==V", help="Version that is bad.")
@click.option(
    "--flags",
    nargs=2,
    metavar="GOOD BAD",
    help="Two dumps, or files of debug_options: find the flag that differs and is the cause.",
)
@click.option(
    "--fail-on", multiple=True, required=True, metavar="RULE", help="Condition that is bad."
)
@click.option(
    "--target",
    default="",
    metavar="NAME",
    help="Device and topology; with a command: whose packages it needs.  [default: the dump's]",
)
@module_option
@compiling_options(
    "Longest time of one step.", python="Python interpreter whose jax compiles with --flags."
)
@click.option(
    "-o", "--output", "folder", metavar="DIR", help="Keep the last good and first bad dump here."
)
@format_option
@click.pass_context
def bisect(
    ctx: click.Context,
    path: str | None,
    good: str,
    bad: str,
    flags: tuple[str, str] | None,
    fail_on: Sequence[str],
    target: str,
    pattern: NamePattern | None,
    compiling: Compiling,
    folder: str | None,
    format_: str,
) -> None:
    """Find the version of jax or libtpu, or the flag of XLA, that made a program worse.

    PATH is a dump with the texts from before optimizations: its program is compiled with the
    released versions between two, which pip installs into the cache. A COMMAND that compiles is
    run instead, by each version's python, its dump written by XLA_FLAGS. The rules are those of
    hlo-lens diff, against the good end. Versions that do not compile are skipped. Exit codes:
    0 found; 4 the good end is not good, or the bad one not bad.
    """
    from hlo_lens.questions.plans.bisect import bisect as api

    with progress_bar("compiling") as progress:
        found = api(
            path,
            good=good,
            bad=bad,
            flags=flags or None,
            fail_on=tuple(fail_on),
            command=ctx.meta[_COMMAND],
            module=None if pattern is None else pattern.text,
            target=target,
            output=folder,
            python=compiling.python,
            minutes=compiling.minutes,
            progress=progress,
        )
    Output(format=format_, path_out=None, rows=0, color="auto").write(found.report)
    if found.bisection.problem:
        click.echo(f"hlo-lens: error: {printable(found.bisection.problem)}", err=True)
        ctx.exit(exit_codes.UNPARSABLE)
