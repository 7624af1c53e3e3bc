"""``hlo-lens fit``: changes and hardware with which a program fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

from hlo_lens.cli import exit_codes
from hlo_lens.cli.options import compiling_options, module_option
from hlo_lens.cli.output import Output, output_options
from hlo_lens.cli.progress import progress_bar
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.cli.options import Compiling
    from hlo_lens.text.name_pattern import NamePattern

_EXAMPLE = """\b
Example:
  hlo-lens fit DIR --limit 16GiB
  hlo-lens fit DIR --target v5e:4x4 --allow-dtype 'opt/**=bf16'
  hlo-lens fit DIR --target 'v5e:*' --minutes 60
  hlo-lens fit AT_8 AT_16 --scale batch --limit 95GiB
"""


@click.command(epilog=_EXAMPLE)
@click.argument("paths", nargs=-1, required=True, type=click.Path(allow_dash=True, readable=False))
@click.option("--limit", metavar="SIZE", help="Memory of one device: 16GiB.  [default: target's]")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    help="Device and topology: v5e:4x4, h100_sxm; 'v5e:*' for the smallest slices.",
)
@click.option(
    "--allow-dtype",
    "dtypes",
    multiple=True,
    metavar="PATTERN=TYPE",
    help="Try an element type of stored arguments, which changes the numerics: 'opt/**=bf16'.",
)
@click.option(
    "--scale",
    metavar="NAME[=SIZES]",
    help="Size that differs between several dumps: batch, or batch=8,16.",
)
@compiling_options("Longest time of all compiles together.")
@module_option
@output_options
@click.pass_context
def fit(
    context: click.Context,
    paths: Sequence[str],
    limit: str | None,
    targets: Sequence[str],
    dtypes: Sequence[str],
    scale: str | None,
    compiling: Compiling,
    pattern: NamePattern | None,
    output: Output,
) -> None:
    """Find changes with which a program fits in a device's memory, by compiling it with each.

    PATHS is a dump with the texts from before optimizations. Tried are donations, shardings of
    replicated values, and element types that --allow-dtype names; each alone, then combined.
    With several dumps of one program at different sizes (--scale): the largest size that fits, an
    estimate that compiles nothing; dumps after the first two check it.
    Exit codes: 0 each module fits, as it is or with a plan; 1 one does not; 4 it is not known.
    """
    from hlo_lens.text.units import parse_size

    limit_bytes = None if limit is None else parse_size(limit)
    if len(paths) > 1:
        if targets or dtypes:
            raise UsageError("--target and --allow-dtype are for one dump")
        _write_largest(context, output, paths, scale or "", limit_bytes, pattern)
    if scale is not None:
        raise UsageError("--scale needs two dumps or more: hlo-lens fit A B --scale batch")
    from hlo_lens.load.programs import read_dump, select_modules
    from hlo_lens.questions.plans.fit import fit_modules
    from hlo_lens.questions.plans.fit_module import Wanted

    (path,) = paths
    wanted = Wanted(
        limit_bytes=limit_bytes,
        targets=tuple(name.strip() for text in targets for name in text.split(",")),
        dtypes=tuple(dtypes),
    )
    modules = select_modules(read_dump(path).modules, pattern)
    with progress_bar("compiling") as progress:
        found = fit_modules(modules, wanted, means=compiling.means, path=path, progress=progress)
    output.write(found.report)
    if not found.fits:
        context.exit(exit_codes.UNPARSABLE if found.is_undecided else exit_codes.RULE_FAILED)


def _write_largest(
    context: click.Context,
    output: Output,
    paths: Sequence[str],
    scale: str,
    limit_bytes: int | None,
    pattern: NamePattern | None,
) -> NoReturn:
    """Write the largest size that fits, from dumps at several, and end the command."""
    from hlo_lens.questions.plans.fit_scale import fit_scale

    found = fit_scale(paths, scale=scale, limit_bytes=limit_bytes, pattern=pattern)
    output.write(found.report)
    context.exit(exit_codes.DONE if found.fits else exit_codes.RULE_FAILED)
