"""Options for continuous integration: step summary and annotations on source lines."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from hlo_lens.cli.output import open_output
from hlo_lens.report import render_as
from hlo_lens.report.render.table import RenderOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hlo_lens.cli.output import Output
    from hlo_lens.report.render.table import Report
    from hlo_lens.report.render.to_github import Annotation

R = TypeVar("R")

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
            from hlo_lens.report.render.to_github import annotation_lines

            is_free = output.format == "text" or output.path not in (None, "-")
            for line in annotation_lines(annotations):
                click.echo(line, err=not is_free)

    def _append_summary(self, report: Report) -> None:
        path = os.environ.get(_VARIABLE)
        if not path:
            click.echo(f"hlo-lens: {_VARIABLE} is not set: no summary written", err=True)
            return
        with open_output(path, "a") as out:
            render_as("markdown", report, out, RenderOptions())


def ci_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options about continuous integration; the command gets them as ``ci``."""

    @click.option(
        "--github-step-summary",
        is_flag=True,
        help=f"Append the report as Markdown to the file ${_VARIABLE}.",
    )
    @click.option(
        "--github-annotations",
        is_flag=True,
        help="Print ::warning commands for what got worse, on the lines of your program.",
    )
    @functools.wraps(command)
    def with_ci(
        *args: object, github_step_summary: bool, github_annotations: bool, **kwargs: object
    ) -> R:
        ci = CiOutput(has_summary=github_step_summary, has_annotations=github_annotations)
        return command(*args, ci=ci, **kwargs)

    return with_ci
