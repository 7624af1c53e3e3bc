"""``hlo-lens report``: what a compiled program is, on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import output_options, reading_options
from hlo_lens.cli.progress import progress_bar

if TYPE_CHECKING:
    from hlo_lens.cli.options import Output, Reading


_EXAMPLE = """\b
Example:
  hlo-lens report module_0001.jit_step.cpu_after_optimizations.txt
  hlo-lens report dump.txt.gz -f json | jq '.modules[].collectives.static'
  hlo-lens report DIR --module train_step --min-coverage 99.5
  hlo-lens report DIR --log stderr.txt
"""


@click.command(epilog=_EXAMPLE)
@click.argument("path", type=click.Path(allow_dash=True, readable=False))
@click.option("--log", "log_path", metavar="LOG", help="What its compilation wrote to stderr.")
@reading_options
@output_options
def report(path: str, log_path: str | None, reading: Reading, output: Output) -> None:
    """Show what a compiled program is: size, interface, communication, largest values.

    PATH is a file, a folder or archive of dumps, compressed or not, or - for standard input.
    Numbers are those of the text: one device's after partitioning, loops not multiplied.
    """
    from hlo_lens.api.report import report_modules
    from hlo_lens.load import load, load_log

    with progress_bar("reading") as progress:
        modules = reading.select(load(path, progress=progress).modules)
        log = None if log_path is None else load_log(log_path)
        built = report_modules(modules, log=log, progress=progress)
    output.write(built)
    reading.judge(modules if log is None else (*modules, log))
