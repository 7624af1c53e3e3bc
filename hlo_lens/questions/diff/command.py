"""Commands on compiles to compare: diff, and save, which keeps a side of later comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import comma_separated, force_option, module_option
from hlo_lens.cli.output import (
    CiOutput,
    Output,
    ci_options,
    finish,
    open_output,
    output_options,
    progress_bar,
)
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from hlo_lens.text.patterns import NamePattern


_SUBJECTS = "memory,collectives,sharding,program"

_EXAMPLE = """\b
Example:
  hlo-lens diff DIR_BEFORE DIR_AFTER
  hlo-lens diff DIR_BEFORE DIR_AFTER --by source
  hlo-lens diff base.json DIR --only memory,collectives
  hlo-lens diff base.json DIR --fail-on 'memory.temp_bytes>+2%' -f md -o comment.md
"""


@click.command(epilog=_EXAMPLE)
@click.argument("base", type=click.Path(allow_dash=True, readable=False))
@click.argument("head", type=click.Path(allow_dash=True, readable=False))
@module_option
@click.option(
    "--only",
    default=_SUBJECTS,
    metavar="SUBJECTS",
    callback=comma_separated,
    help=f"Subjects to compare, separated by commas: {_SUBJECTS}.",
)
@click.option(
    "--by",
    type=click.Choice(["source"]),
    help="Print only the lines of your program that changed, all of them.",
)
@click.option(
    "--no-ignore",
    default="",
    metavar="KINDS",
    callback=comma_separated,
    help="Noise kinds to report as changes (names, metadata, ...).",
)
@click.option(
    "--fail-on", multiple=True, metavar="RULE", help="Exit with 1 if this condition holds."
)
@click.option("--exit-code", "is_strict", is_flag=True, help="Exit with 1 if anything changed.")
@force_option
@ci_options
@output_options
def diff(
    base: str,
    head: str,
    pattern: NamePattern | None,
    only: tuple[str, ...],
    by: str | None,
    no_ignore: tuple[str, ...],
    fail_on: tuple[str, ...],
    is_strict: bool,
    force: bool,
    ci: CiOutput,
    output: Output,
) -> None:
    """Show the differences between two compiles: memory, communication, shardings, program.

    BASE and HEAD are files, folders of dumps, or snapshots written by hlo-lens save. Modules of two
    folders are paired by name and signature. A rule of --fail-on states what fails: a path into the
    JSON of hlo-lens report and a condition, such as 'memory.temp_bytes>+2%' (grew by more than 2%),
    'memory.temp_bytes>4GiB' or 'collectives.static.all-gather>+0'.
    """
    from hlo_lens.questions.check.checked import compare

    with progress_bar("reading") as progress:
        compared = compare(
            base,
            head,
            pattern=pattern,
            only=only,
            heed=no_ignore,
            rules=fail_on,
            force=force,
            progress=progress,
        )
    ci.write(compared.report(by=by), output, compared.annotations())
    finish(compared.checked, compared.diff if is_strict else None)


_SAVE_EXAMPLE = """\b
Example:
  hlo-lens save DIR -o base.json
  hlo-lens save DIR --module train_step -o base.json
  hlo-lens diff base.json DIR
  hlo-lens check DIR --baseline base.json --fail-on 'memory.total_bytes>+0.5%,64KiB' \\
    --fail-on 'collectives.static.*>+0' \\
    --fail-on 'collectives.wire_bytes_per_device>+0.5%,64KiB'
"""


@click.command(epilog=_SAVE_EXAMPLE)
@click.argument("path", type=click.Path(allow_dash=True, readable=False))
@click.option(
    "-o", "--output", "path_out", metavar="FILE", help="Write here instead of standard output."
)
@module_option
def save(path: str, path_out: str | None, pattern: NamePattern | None) -> None:
    """Write a snapshot of a compile: its figures and their parts, without HLO text.

    PATH is a file, a folder of dumps, or - for standard input. The file is sorted JSON, equal byte
    for byte for equal dumps and without paths of this machine, so that it can be committed.
    """
    from hlo_lens.questions.diff.sides import snapshot
    from hlo_lens.questions.snapshots.snapshot_file import snapshot_text

    with progress_bar("reading") as progress:
        kept = snapshot(path, pattern=pattern, progress=progress)
    with open_output(path_out) as out:
        out.write(snapshot_text(kept, tool_version=__version__))
