"""``hlo-lens lint``: findings, most saving first."""

from __future__ import annotations

import click

from hlo_lens.cli.options import Reading, answer, reading_options
from hlo_lens.cli.output import Output, output_options

_EXAMPLE = """\b
Example:
  hlo-lens lint DIR
  hlo-lens lint DIR --module train_step -f json
  hlo-lens explain M001
"""


@click.command(epilog=_EXAMPLE)
@reading_options
@output_options
def lint(path: str, reading: Reading, output: Output) -> None:
    """Find what a program wastes: what the fix saves, the line to blame, what to write instead.

    PATH is a file, a folder or archive of dumps, or - for standard input. Findings of each module
    are sorted by what they save. Savings are proven, simulated, or at most.
    """
    from hlo_lens.api.lint import lint_report

    answer(path, reading, output, lint_report)
