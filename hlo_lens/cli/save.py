"""``hlo-lens save``: a small file to compare later compiles with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import hlo_lens
from hlo_lens.cli.options import regular_expression
from hlo_lens.cli.progress import progress_bar
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    import re

_EXAMPLE = """\b
Example:
  hlo-lens save DIR -o base.json
  hlo-lens save DIR --module train_step -o base.json
  hlo-lens diff base.json DIR
"""


@click.command(epilog=_EXAMPLE)
@click.argument("path", type=click.Path(allow_dash=True, readable=False))
@click.option("-o", "--output", "path_out", metavar="FILE", help="File to write; else stdout.")
@click.option(
    "--module", "pattern", metavar="REGEX", callback=regular_expression, help="Only such modules."
)
def save(path: str, path_out: str | None, pattern: re.Pattern[str] | None) -> None:
    """Write what a compile is compared by: its numbers and what they are made of, no HLO text.

    PATH is a file, a folder of dumps, or - for standard input. The file is JSON, sorted, the same
    byte for byte for the same dump, without paths of this machine: fit to be committed.
    """
    from hlo_lens.api import snapshot
    from hlo_lens.model.snapshot.writing import snapshot_text

    with progress_bar("reading") as progress:
        kept = snapshot(path, pattern=pattern, progress=progress)
    text = snapshot_text(kept, tool_version=hlo_lens.__version__)
    if path_out is None or path_out == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(path_out).write_text(text, "ascii", newline="")
    except OSError as error:
        message = f"{path_out}: cannot be written: {error.strerror or error}"
        raise UsageError(message) from error
