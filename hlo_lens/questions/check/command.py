"""``hlo-lens check`` and ``diff``: a compile judged by rules, and two compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import comma_separated, force_option, module_option
from hlo_lens.cli.output import CiOutput, Output, ci_options, finish, output_options, progress_bar

if TYPE_CHECKING:
    from hlo_lens.text.names import NamePattern


_EXAMPLE = """\b
Example:
  hlo-lens check DIR --budget hlo-lens.toml
  hlo-lens check DIR --baseline base.json --budget hlo-lens.toml
  hlo-lens check DIR --baseline base.json --fail-on 'memory.total_bytes>+0.5%,64KiB'
"""


@click.command(epilog=_EXAMPLE)
@click.argument("head", type=click.Path(allow_dash=True, readable=False))
@click.option("--baseline", metavar="PATH", help="Snapshot, file or folder to compare with.")
@click.option("--budget", metavar="FILE", help="TOML file of rules.")
@click.option(
    "--fail-on", multiple=True, metavar="RULE", help="Exit with 1 if this condition holds, too."
)
@module_option
@force_option
@ci_options
@output_options
def check(
    head: str,
    baseline: str | None,
    budget: str | None,
    fail_on: tuple[str, ...],
    pattern: NamePattern | None,
    force: bool,
    ci: CiOutput,
    output: Output,
) -> None:
    """Judge a compile by rules: absolute limits, and limits on growth against a baseline.

    With a baseline but no rules, no collective may be added, and memory and bytes on the wire may
    not grow by more than the larger of 0.1 % and 64 KiB. Exit codes: 0 all rules hold; 1 a rule
    failed; 4 a rule cannot be decided, which is not a pass.

    Rules such as 'findings.new>0' count the findings of lint, by the settings that lint has here:
    [lint] of the nearest hlo-lens.toml. A table [lint] in the --budget file is not read.
    """
    from hlo_lens.questions import check as room

    with progress_bar("reading") as progress:
        checked = room.check(
            head,
            baseline=baseline,
            budget=budget,
            rules=fail_on,
            pattern=pattern,
            force=force,
            progress=progress,
        )
    ci.write(checked.report(), output, checked.annotations())
    finish(checked)


_SUBJECTS = "memory,collectives,sharding,program"

_DIFF_EXAMPLE = """\b
Example:
  hlo-lens diff DIR_BEFORE DIR_AFTER
  hlo-lens diff DIR_BEFORE DIR_AFTER --by source
  hlo-lens diff base.json DIR --only memory,collectives
  hlo-lens diff base.json DIR --fail-on 'memory.temp_bytes>+2%' -f md -o comment.md
"""


@click.command(epilog=_DIFF_EXAMPLE)
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
    modules = compared.diff.modules
    cut = [one.head.name for one in modules if one.base.is_truncated or one.head.is_truncated]
    finish(compared.checked, compared.diff if is_strict else None, cut)
