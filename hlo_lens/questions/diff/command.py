"""``hlo-lens save``: a side of later comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import module_option
from hlo_lens.cli.output import open_output, progress_bar
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from hlo_lens.text.names import NamePattern


_EXAMPLE = """\b
Example:
  hlo-lens save DIR -o base.json
  hlo-lens save DIR --module train_step -o base.json
  hlo-lens diff base.json DIR
  hlo-lens check DIR --baseline base.json --fail-on 'memory.total_bytes>+0.5%,64KiB' \\
    --fail-on 'collectives.static.*>+0' \\
    --fail-on 'collectives.wire_bytes_per_device>+0.5%,64KiB'
"""


@click.command(epilog=_EXAMPLE)
@click.argument("path", type=click.Path(allow_dash=True, readable=False))
@click.option(
    "-o", "--output", "path_out", metavar="FILE", help="Write here instead of standard output."
)
@click.option(
    "--no-program",
    is_flag=True,
    help="Leave out the program, in which causes of changes are found.",
)
@module_option
def save(path: str, path_out: str | None, no_program: bool, pattern: NamePattern | None) -> None:
    """Write a snapshot of a compile: its figures, their parts, and its program in packed form.

    PATH is a file, a folder of dumps, or - for standard input. The file is sorted JSON, equal byte
    for byte for equal dumps and without paths of this machine, so that it can be committed.
    """
    from hlo_lens.questions.diff.sides import snapshot
    from hlo_lens.questions.snapshots.snapshot_file import snapshot_text

    with progress_bar("reading") as progress:
        kept = snapshot(path, pattern=pattern, progress=progress, with_program=not no_program)
    with open_output(path_out) as out:
        out.write(snapshot_text(kept, tool_version=__version__))
    cut = [one.name for one in kept.modules if one.is_truncated]
    if cut:
        raise HloLensError(f"{cut[0]}: the text ends too early; the snapshot is not whole")
