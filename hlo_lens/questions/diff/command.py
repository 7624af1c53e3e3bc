"""``hlo-lens diff``: differences between two compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import comma_separated, force_option, module_option
from hlo_lens.cli.output import CiOutput, Output, ci_options, finish, output_options, progress_bar

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
