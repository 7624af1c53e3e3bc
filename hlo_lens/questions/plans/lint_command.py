"""``hlo-lens lint``: findings, most saving first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hlo_lens.cli import exit_codes
from hlo_lens.cli.ci import CiOutput, ci_options
from hlo_lens.cli.options import (
    Reading,
    comma_separated,
    compiling_options,
    option_group,
    reading_options,
)
from hlo_lens.cli.output import Output, finding_output_options
from hlo_lens.cli.progress import progress_bar
from hlo_lens.text.printable import printable

if TYPE_CHECKING:
    from hlo_lens.cli.options import Compiling
    from hlo_lens.questions.findings.finding import Severity
    from hlo_lens.questions.findings.run_settings import Sieve
    from hlo_lens.questions.plans.lint import Lint

_EXAMPLE = """\b
Example:
  hlo-lens lint DIR
  hlo-lens lint DIR --select M,C001 --min-saving 1%
  hlo-lens lint DIR -f json -o known.json
  hlo-lens lint DIR --baseline known.json --fail-on warning
  hlo-lens lint DIR --prove --minutes 5
  hlo-lens lint TPU_DIR --prove --python tpu-env/bin/python
  hlo-lens lint DIR -f sarif -o findings.sarif
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Options that choose findings; None or empty for those of the settings."""

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    min_saving: str | None
    config: str | None
    baseline: str | None
    fail_on: str | None

    def sieve(self) -> Sieve:
        """Return settings, comments and baseline."""
        from hlo_lens.questions.findings.run_settings import nearest_settings, with_options
        from hlo_lens.questions.plans.lint_baseline import sieve_of

        settings = with_options(
            nearest_settings(self.config),
            select=self.select,
            ignore=self.ignore,
            min_saving=self.min_saving,
            fail_on=self.fail_on,
        )
        return sieve_of(settings, self.baseline)


choice_options = option_group(
    "choice",
    Choice,
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
    click.option(
        "--min-saving",
        metavar="AMOUNT",
        help="Least saving: 1% of the program's memory, communication or work, or 64MiB.",
    ),
    click.option(
        "--config",
        metavar="FILE",
        help="Settings: [lint] in this file.  [default: nearest hlo-lens.toml]",
    ),
    click.option(
        "--baseline",
        metavar="FILE",
        help="Known findings, which do not count: output of lint -f json, snapshot or dump.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "info"]),
        help="Exit with 1 from this severity on. A level here; in check and diff a rule, such as "
        "'findings.new>0'.",
    ),
)


@click.command(epilog=_EXAMPLE)
@click.option(
    "--prove",
    is_flag=True,
    help="Compile the program again with the fix of each finding, where what-if can; needs jax.",
)
@click.option(
    "--target",
    metavar="NAME",
    help="Device that --prove compiles for, if the dump does not name it: v5e:2x4, h100_sxm.",
)
@compiling_options(
    "Time for all compiles of --prove.",
    default=10.0,
    python="Python interpreter whose jax, libtpu or CUDA plugin compiles with --prove.",
)
@choice_options
@reading_options
@ci_options
@finding_output_options
def lint(
    path: str,
    prove: bool,
    target: str | None,
    compiling: Compiling,
    choice: Choice,
    reading: Reading,
    ci: CiOutput,
    output: Output,
) -> None:
    """Find what a program wastes: what the fix saves, the line to blame, what to write instead.

    PATH is a file, a folder or archive of dumps, or - for standard input. Findings of each module
    are sorted by what they save. Savings are proven, simulated, or at most. A comment
    "# hlo-lens: ignore[M003]" at the line of a finding suppresses it. Exit codes: 0; 1 with
    --fail-on, 4 where that cannot be decided.
    """
    from hlo_lens.questions.plans.lint import lint_modules
    from hlo_lens.questions.plans.proof import Proof

    sieve = choice.sieve()
    with progress_bar("reading") as progress:
        modules = reading.read(path, progress)
    with progress_bar("compiling" if prove else "judging") as progress:
        targets = () if target is None else (target,)
        means = compiling.means
        proof = Proof(means=means, targets=targets, progress=progress) if prove else None
        found = lint_modules(
            modules,
            sieve=sieve,
            progress=progress,
            proof=proof,
        )
    ci.write(found.report, output, found.annotations)
    reading.judge(modules)
    least = sieve.settings.fail_on
    if least is not None:
        _finish(found, least)


def _finish(found: Lint, least: Severity) -> None:
    """Exit with 1 for a finding of a severity or a graver one; with 4 if some are not known."""
    if found.reaches(least):
        click.get_current_context().exit(exit_codes.RULE_FAILED)
    for text in found.open_questions:
        click.echo(f"hlo-lens: error: --fail-on cannot be decided: {printable(text)}", err=True)
    if found.open_questions:
        click.get_current_context().exit(exit_codes.UNPARSABLE)
