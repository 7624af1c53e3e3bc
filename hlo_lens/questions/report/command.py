"""``hlo-lens report``: summary of a compiled program on one page."""

from __future__ import annotations

from functools import partial

import click

from hlo_lens.cli.options import Reading, answer, limit_option, reading_options
from hlo_lens.cli.output import Output, output_options

_EXAMPLE = """\b
Example:
  hlo-lens report module_0001.jit_step.cpu_after_optimizations.txt
  hlo-lens report dump.txt.gz -f json | jq '.modules[].collectives.static'
  hlo-lens report DIR --log stderr.txt
"""


@click.command(epilog=_EXAMPLE)
@click.option(
    "--log",
    "log_path",
    metavar="LOG",
    help="Standard error of its compilation or run, to join with the dump.",
)
@limit_option
@click.option(
    "--full", "is_full", is_flag=True, help="Print all facts and tables instead of the first page."
)
@reading_options
@output_options
def report(
    path: str,
    log_path: str | None,
    limit: str | None,
    is_full: bool,
    reading: Reading,
    output: Output,
) -> None:
    """Summarize a compiled program on one page: whether it fits, what to fix, memory, work.

    A dump of several modules leads with the training step. --full adds all facts and the tables of
    single values, instructions and collectives.

    PATH is a file, a folder or archive of dumps, compressed or not, or - for standard input.
    After partitioning, the figures are those of one device. Loop bodies count once, except in
    columns of one run.
    """
    from hlo_lens.load.programs import read_log
    from hlo_lens.questions.report.page import report_modules
    from hlo_lens.text.units import parse_size

    log = None if log_path is None else read_log(log_path)
    makes = {"json": "data", "html": "html", "csv": "tables"}.get(output.format, "pages")
    limit_bytes = None if limit is None else parse_size(limit)
    ask = partial(report_modules, log=log, makes=makes, limit_bytes=limit_bytes, is_full=is_full)
    answer(path, reading, output, ask, log=log)
