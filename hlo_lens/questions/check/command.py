"""``hlo-lens check``: a compile judged by a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import force_option, module_option
from hlo_lens.cli.output import CiOutput, Output, ci_options, finish, output_options, progress_bar

if TYPE_CHECKING:
    from hlo_lens.text.patterns import NamePattern


_EXAMPLE = """\b
Example:
  hlo-lens check DIR --budget hlo-lens.toml
  hlo-lens check DIR --baseline base.json --budget hlo-lens.toml
  hlo-lens check DIR --baseline base.json --fail-on 'memory.total_bytes>+0.5%,64KiB'
"""


@click.command(epilog=_EXAMPLE)
@click.argument("head", type=click.Path(allow_dash=True, readable=False))
@click.option("--baseline", metavar="PATH", help="Snapshot, file or folder to compare with.")
@click.option("--budget", metavar="FILE", help="TOML file of rules.")
@click.option(
    "--fail-on", multiple=True, metavar="RULE", help="Exit with 1 if this condition holds, too."
)
@module_option
@force_option
@ci_options
@output_options
def check(
    head: str,
    baseline: str | None,
    budget: str | None,
    fail_on: tuple[str, ...],
    pattern: NamePattern | None,
    force: bool,
    ci: CiOutput,
    output: Output,
) -> None:
    """Judge a compile by rules: absolute limits, and limits on growth against a baseline.

    With a baseline but no rules, no collective may be added, and memory and bytes on the wire may
    not grow by more than the larger of 0.1 % and 64 KiB. Exit codes: 0 all rules hold; 1 a rule
    failed; 4 a rule cannot be decided, which is not a pass.

    Rules such as 'findings.new>0' count the findings of lint, by the settings that lint has here:
    [lint] of the nearest hlo-lens.toml. A table [lint] in the --budget file is not read.
    """
    from hlo_lens.questions import check as room

    with progress_bar("reading") as progress:
        checked = room.check(
            head,
            baseline=baseline,
            budget=budget,
            rules=fail_on,
            pattern=pattern,
            force=force,
            progress=progress,
        )
    ci.write(checked.report(), output, checked.annotations())
    finish(checked)
