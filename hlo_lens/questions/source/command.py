"""``hlo-lens source``: the program's lines with what they cost in the margin."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from hlo_lens.cli.options import Reading, answer_pages, reading_options
from hlo_lens.cli.output import Output, output_options

_EXAMPLE = """\b
Example:
  hlo-lens source DIR
  hlo-lens source DIR model.py --all
  hlo-lens source DIR_BEFORE DIR_AFTER
  hlo-lens source DIR --root ~/project
"""


@click.command(epilog=_EXAMPLE)
@reading_options
@click.argument("others", metavar="[HEAD] [FILE]", nargs=-1)
@click.option("--all", "is_whole", is_flag=True, help="Show whole files.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the sources; the current repository if not given.",
)
@output_options
def source(
    path: str,
    others: tuple[str, ...],
    is_whole: bool,
    root: Path | None,
    reading: Reading,
    output: Output,
) -> None:
    """Show your code with what each line costs: memory at the peak, bytes sent, FLOP, findings.

    PATH is any dump of a module, HEAD a later one, whose differences are then shown, and FILE the
    end of the path of one of the program's files. A second path that exists and is no .py file is
    HEAD.
    """
    from hlo_lens.questions.source.page import View, change_pages, pages
    from hlo_lens.text.source_files import Checkout

    is_pair = bool(others) and not others[0].endswith(".py") and Path(others[0]).exists()
    files = others[is_pair:]
    if len(files) > 1:
        raise click.UsageError(f"more than one FILE: {' '.join(files)}")
    view = View(
        file=files[0] if files else "",
        is_whole=is_whole,
        rows=output.rows,
        checkout=Checkout.here() if root is None else Checkout(root.absolute()),
    )
    if is_pair:
        base = reading.read(path)
        answer_pages(others[0], reading, output, "source", partial(change_pages, base, view=view))
    else:
        answer_pages(path, reading, output, "source", partial(pages, view=view))
