"""Output of commands: its options, and the file or stream that a report is written to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Literal, TextIO

import click

from hlo_lens.cli.options import option_group
from hlo_lens.report import RENDERERS
from hlo_lens.report.render.table import RenderOptions, Report
from hlo_lens.text.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Destination and format of a report.

    Attributes:
        format: One of `RENDERERS`.
        path_out: File to write; None for standard output.
        rows: Rows of each table, as in `RenderOptions`.
        color: Whether to colour, as in `RenderOptions`.
    """

    format: str
    path_out: str | None
    rows: int | None
    color: str

    def write(self, report: Report) -> None:
        """Write a report; raises UsageError where the file cannot be written."""
        with open_output(self.path_out) as out:
            options = RenderOptions(rows=self.rows, color=self.color)
            RENDERERS[self.format](report, out, options)


@contextmanager
def open_output(path: str | None, mode: Literal["w", "a"] = "w") -> Iterator[TextIO]:
    """Open a file for writing, or standard output for None and ``-``.

    Characters that an encoding lacks are written as escapes.

    Raises:
        UsageError: If the file cannot be written.
    """
    if path is None or path == "-":
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        yield sys.stdout
        return
    try:
        with Path(path).open(mode, encoding="utf-8", errors="backslashreplace", newline="") as out:
            yield out
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error


output_options = option_group(
    "output",
    Output,
    click.option(
        "-f",
        "--format",
        type=click.Choice(list(RENDERERS)),
        default="text",
        show_default=True,
        help="Output format.",
    ),
    click.option(
        "-o", "--output", "path_out", metavar="FILE", help="Write here instead of standard output."
    ),
    click.option(
        "-n",
        "--rows",
        type=click.IntRange(min=0),
        metavar="N",
        help="Rows to print of each table, 0 for all; csv and json always have all.  [default: 10 "
        "in text, 20 in md]",
    ),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colour in text; auto means on a terminal unless NO_COLOR is set.",
    ),
)
"""The options about output; the command gets them as ``output``."""
