"""``hlo-lens ls``: list of the modules of a folder or archive, with the training step marked."""

from __future__ import annotations

import click

from hlo_lens.cli.options import Reading, reading_options
from hlo_lens.cli.output import Output, output_options
from hlo_lens.cli.progress import progress_bar

_EXAMPLE = """\b
Example:
  hlo-lens ls DIR
  hlo-lens ls dump.tar.gz --sort size -n 0
  hlo-lens ls DIR --each -f json | jq '.modules[] | {key, peak_bytes, flops}'
"""


@click.command(epilog=_EXAMPLE)
@click.option(
    "--sort",
    type=click.Choice(("peak", "size", "flops", "name")),
    default="peak",
    show_default=True,
    help="Order of rows: by peak memory, instructions (size), arithmetic (flops) or name.",
)
@click.option("--each", is_flag=True, help="Print a row for each compile instead of each function.")
@reading_options
@output_options
def ls(path: str, sort: str, each: bool, reading: Reading, output: Output) -> None:
    """List the modules of a folder or archive: compiles, stages, size, memory, arithmetic.

    The likely training step is marked. Modules are read on all cores, and the programs of several
    processes are compared. PATH is a folder, an archive (zip, tar, compressed or not), a file or -.
    """
    from hlo_lens.load.programs import read_dump
    from hlo_lens.questions.dumps.listing import list_modules
    from hlo_lens.questions.dumps.listing_page import ls_page

    with progress_bar("listing files") as progress:
        dump = read_dump(path, progress=progress)
        modules = reading.select(dump.modules)
    with progress_bar("reading modules") as progress:
        listing = list_modules(dump, modules, sort=sort, is_grouped=not each, progress=progress)
    output.write(ls_page(listing))
    reading.judge_facts(listing.facts)
