"""``hlo-lens explain``: the description of a rule of ``lint``."""

from __future__ import annotations

from dataclasses import replace

import click

from hlo_lens.cli.output import Output, output_options

_EXAMPLE = """\b
Example:
  hlo-lens explain M001
"""


@click.command(epilog=_EXAMPLE)
@click.argument("code", required=False)
@output_options
def explain(code: str | None, output: Output) -> None:
    """Explain a rule of lint: what it finds, why it costs, the fix, and when it is fine.

    CODE is the code or the name of a rule; without it, all rules are listed.
    """
    from hlo_lens.questions.findings.page import rule_report, rules_report
    from hlo_lens.questions.findings.rule import all_rules, find_rule

    if code is None and output.rows is None:
        output = replace(output, rows=0)
    output.write(rules_report(all_rules()) if code is None else rule_report(find_rule(code)))
