"""Continuous integration: step summary, annotations on source lines, exit code of a verdict."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hlo_lens.cli import exit_codes
from hlo_lens.cli.output import Output, open_output, option_group
from hlo_lens.render.table import RenderOptions, Report, render_as
from hlo_lens.text.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.check.api import Checked
    from hlo_lens.questions.diff.dump_diff import Diff
    from hlo_lens.render.to_github import Annotation

_VARIABLE = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True, slots=True, kw_only=True)
class CiOutput:
    """Output for GitHub besides the report.

    Attributes:
        has_summary: Whether the report is appended, as Markdown, to the summary of the step.
        has_annotations: Whether regressions are written as workflow commands.
    """

    has_summary: bool
    has_annotations: bool

    def write(self, report: Report, output: Output, annotations: Sequence[Annotation]) -> None:
        """Write the report, then the summary and the annotations if they are enabled.

        Workflow commands are written to standard output, or to standard error where standard
        output has a report for programs; GitHub reads both.
        """
        output.write(report)
        if self.has_summary:
            self._append_summary(report)
        if self.has_annotations:
            from hlo_lens.render.to_github import annotation_lines

            is_free = output.format == "text" or output.path_out not in (None, "-")
            for line in annotation_lines(annotations):
                click.echo(line, err=not is_free)

    def _append_summary(self, report: Report) -> None:
        path = os.environ.get(_VARIABLE)
        if not path:
            click.echo(f"hlo-lens: {_VARIABLE} is not set: no summary written", err=True)
            return
        with open_output(path, "a") as out:
            render_as("markdown", report, out, RenderOptions())


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


def finish(checked: Checked | None, diff: Diff | None = None) -> None:
    """Exit with 1 if a rule failed, 4 if one cannot be decided, else 0.

    Args:
        checked: Verdicts on rules, if there are any.
        diff: Differences, each of which is a failure; None if none is.
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
        for text in (*texts, *_undecided(checked)):
            code = exit_codes.UNPARSABLE
            click.echo(f"hlo-lens: error: {printable(text)}", err=True)
    click.get_current_context().exit(code)


def _undecided(checked: Checked | None) -> Iterator[str]:
    """Yield the rules that cannot be decided, with the reason."""
    if checked is None or not checked.judgement.is_undecided:
        return
    undecided = [one for one in checked.judgement.verdicts if one.is_undecided]
    for verdict in undecided:
        where = f" of {verdict.module}" if verdict.module else ""
        text = f"{verdict.rule.metric.label}{where} cannot be decided: {verdict.reason}"
        yield f"{verdict.rule.place}: {text}"
    if not undecided:
        yield "no rule could be decided, not even an informational one"
