"""Commands that compile programs many times: lint, fit, bisect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from hlo_lens.cli import exit_codes
from hlo_lens.cli.options import (
    Reading,
    comma_separated,
    compiling_options,
    limit_option,
    module_option,
    read_meant,
    reading_options,
    refuse_cut,
)
from hlo_lens.cli.output import (
    CiOutput,
    Output,
    ci_options,
    finding_output_options,
    format_option,
    option_group,
    output_options,
    progress_bar,
    text_options,
)
from hlo_lens.text.errors import MissingPackageError, OutputError, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.cli.options import Compiling
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.findings import Findings
    from hlo_lens.questions.findings.settings import Sieve
    from hlo_lens.text.names import NamePattern


def _number(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None or value.isdecimal():
        return None if value is None else int(value)
    if value not in ("none", "all"):
        raise click.BadParameter("write a number, or all", ctx, parameter)
    return math.inf if value == "all" else 0


_EXAMPLE = """\b
Example:
  hlo-lens lint DIR
  hlo-lens lint DIR -f json -o known.json
  hlo-lens lint DIR --baseline known.json --fail-level warning
  hlo-lens lint DIR --prove all --minutes 5
  hlo-lens lint DIR -f sarif -o findings.sarif
"""


def _sieve(
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    min_saving: str | None,
    config: str | None,
    baseline: str | None,
    fail_on: str | None,
    fail_on_level: str | None,
) -> Sieve:
    from hlo_lens.questions.plans.lint import sieve_of

    level = fail_on or fail_on_level
    return sieve_of(config, baseline, select, ignore, min_saving=min_saving, fail_on=level)


_sieve_options = option_group(
    "sieve",
    _sieve,
    click.option(
        "--select",
        default="",
        callback=comma_separated,
        metavar="CODES",
        help="Only these rules: codes or their beginnings, with commas: M,C001.",
    ),
    click.option(
        "--ignore",
        default="",
        callback=comma_separated,
        metavar="CODES",
        help="Not these rules; of two that match, the longer code counts.",
    ),
    text_options(
        {
            "--min-saving AMOUNT": "Least saving: 1% of the program's memory, communication or "
            "work, or 64MiB.",
            "--config FILE": "Settings: [lint] in this file.  [default: nearest hlo-lens.toml]",
            "--baseline FILE": "Known findings, which do not count: output of lint -f json, "
            "snapshot or dump.",
        }
    ),
    click.option(
        *("--fail-level", "fail_on"),
        type=click.Choice(["error", "warning", "info"]),
        help="Exit with 1 where a finding is of this severity or a graver one.",
    ),
    click.option(  # as --fail-level was called
        *("--fail-on", "fail_on_level"),
        type=click.Choice(["error", "warning", "info"]),
        hidden=True,
    ),
)


@click.command(epilog=_EXAMPLE)
@click.option(
    "--prove",
    is_flag=False,
    flag_value="all",
    metavar="N|all",
    envvar="HLO_LENS_PROVE",
    callback=_number,
    help="Fixes to compile the program again with, the gravest first.  [default: 3, where jax is]",
)
@click.option("--no-prove", is_flag=True, help="Compile nothing; savings of earlier compiles stay.")
@text_options(
    {"--target NAME": "Device to compile for, if the dump does not name it: v5e:2x4, h100_sxm."}
)
@limit_option
@compiling_options(
    "Time for all compiles.",
    default=10.0,
    python="Python interpreter whose jax, libtpu or CUDA plugin compiles.",
)
@_sieve_options
@reading_options
@ci_options
@finding_output_options
def lint(
    path: str,
    prove: float | None,
    no_prove: bool,
    target: str | None,
    limit: str | None,
    compiling: Compiling,
    sieve: Sieve,
    reading: Reading,
    ci: CiOutput,
    output: Output,
) -> None:
    """Find what a program wastes: what the fix saves, the line to blame, what to write instead.

    PATH is a file, a folder or archive of dumps, or - for standard input. Findings of each module
    are sorted by what they save. If jax is installed, the program is compiled with the first
    fixes, whose savings are then exact; others ("up to") are sizes of values. A comment
    "# hlo-lens: ignore[M003]" at the line of a finding suppresses it. Exit codes: 0; 1 with
    --fail-level, 4 if that cannot be decided.
    """
    from hlo_lens.questions.findings.findings import module_findings
    from hlo_lens.questions.plans.lint import MOST_PROOFS, lint_modules, proven_findings
    from hlo_lens.text.units import parse_size

    with progress_bar("reading") as progress:
        modules = reading.meant(reading.read(path, progress))
    if limit is not None:
        modules = [one.stating(limit_bytes=parse_size(limit)) for one in modules]
    targets = () if target is None else (target,)

    def prove_(modules: Sequence[ModuleDump]) -> list[Findings]:
        most = MOST_PROOFS if prove is None else None if prove == math.inf else int(prove)
        try:
            with progress_bar("compiling") as progress:
                return proven_findings(
                    modules, compiling.means, most=most, targets=targets, progress=progress
                )
        except (MissingPackageError, OutputError) as error:
            if prove is not None:
                raise
            if isinstance(error, OutputError):
                text = printable(str(error))
                click.echo(f"hlo-lens: fixes are not compiled: {text}", err=True)
        return list(map(module_findings, modules))

    with progress_bar("judging") as progress:
        findings = lint_modules(
            modules,
            sieve=sieve,
            targets=targets,
            prove=None if no_prove or prove == 0 else prove_,
            progress=progress,
        )
    ci.write(findings.report, output, findings.annotations)
    reading.judge(modules)
    least = sieve.settings.fail_on
    if least is None:
        refuse_cut(modules)
        return
    context = click.get_current_context()
    if findings.reaches(least):
        context.exit(exit_codes.RULE_FAILED)
    for text in findings.open_questions:
        click.echo(f"hlo-lens: error: --fail-level cannot be decided: {printable(text)}", err=True)
    if findings.open_questions:
        context.exit(exit_codes.UNPARSABLE)


_FIT_EXAMPLE = """\b
Example:
  hlo-lens fit DIR --limit 16GiB
  hlo-lens fit DIR --target v5e:4x4 --minutes 60
"""


@click.command(epilog=_FIT_EXAMPLE)
@click.argument("path", type=click.Path(allow_dash=True, readable=False))
@limit_option
@text_options({"--target NAME": "Device and topology: v5e:4x4.  [default: the dump's]"})
@compiling_options("Longest time of all compiles together.")
@module_option
@output_options
@click.pass_context
def fit(
    context: click.Context,
    path: str,
    limit: str | None,
    target: str | None,
    compiling: Compiling,
    pattern: NamePattern | None,
    output: Output,
) -> None:
    """Find changes with which a program fits in a device's memory, by compiling it with each.

    PATH is a dump with the texts from before optimizations. Tried are the fixes of findings,
    donations, shardings of replicated values, and other meshes; each alone, then combined. Exit
    codes: 0 each module fits, as it is or with a plan; 1 one does not; 4 it is not known.
    """
    from hlo_lens.questions.plans.fit import fit_modules

    modules = read_meant(path, pattern)
    with progress_bar("compiling") as progress:
        plans = fit_modules(
            modules,
            limit=limit,
            target=target,
            means=compiling.means,
            path=path,
            progress=progress,
        )
    output.write(plans.report)
    if not plans.fits:
        context.exit(exit_codes.UNPARSABLE if plans.is_undecided else exit_codes.RULE_FAILED)


_COMMAND = "hlo_lens.command"

_BISECT_EXAMPLE = """\b
Example:
  hlo-lens bisect DIR --good 'jax==0.8.0' --bad 'jax==0.9.2' --fail-on 'memory.total_bytes>+1%'
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


@click.command(cls=_WithCommand, epilog=_BISECT_EXAMPLE)
@click.argument("path", required=False, type=click.Path(allow_dash=True, readable=False))
@text_options({"--good jax==V": "Version that is good.", "--bad jax==V": "Version that is bad."})
@click.option(
    "--flags",
    nargs=2,
    metavar="GOOD BAD",
    help="Two dumps, or files of debug_options: find the flag that differs and is the cause.",
)
@click.option(
    "--fail-on", multiple=True, required=True, metavar="RULE", help="Condition that is bad."
)
@text_options(
    {
        "--target NAME": "Device and topology; with a command: whose packages it needs.  "
        "[default: the dump's]"
    }
)
@module_option
@compiling_options(
    "Longest time of one step.", python="Python interpreter whose jax compiles with --flags."
)
@format_option
@click.pass_context
def bisect(
    ctx: click.Context,
    path: str | None,
    good: str | None,
    bad: str | None,
    flags: tuple[str, str] | None,
    fail_on: Sequence[str],
    target: str | None,
    pattern: NamePattern | None,
    compiling: Compiling,
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
        answer = api(
            path,
            good=good or "",
            bad=bad or "",
            flags=flags or None,
            fail_on=tuple(fail_on),
            command=ctx.meta[_COMMAND],
            module=None if pattern is None else pattern.text,
            target=target or "",
            python=compiling.python,
            minutes=compiling.minutes,
            progress=progress,
        )
    Output(format=format_, path_out=None, rows=0, color="auto").write(answer.report)
    if answer.problem:
        click.echo(f"hlo-lens: error: {printable(answer.problem)}", err=True)
        ctx.exit(exit_codes.UNPARSABLE)
