"""``hlo-lens fit``: changes and hardware with which a program fits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from hlo_lens.cli import exit_codes
from hlo_lens.cli.options import module_option
from hlo_lens.cli.output import Output
from hlo_lens.cli.progress import progress_bar
from hlo_lens.report import RENDERERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.text.name_pattern import NamePattern

_EXAMPLE = """\b
Example:
  hlo-lens fit DIR --limit 16GiB
  hlo-lens fit DIR --target v5e:4x4 --allow-dtype 'opt/**=bf16'
  hlo-lens fit DIR --target 'v5e:*' --minutes 60
"""


@click.command(epilog=_EXAMPLE)
@click.argument("path", type=click.Path(allow_dash=True, readable=False))
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
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Longest time of all compiles together.",
)
@click.option(
    "--python",
    default=sys.executable,
    metavar="FILE",
    help="Python interpreter whose jax compiles.  [default: that of hlo-lens]",
)
@module_option
@click.option(
    "-f",
    "--format",
    "format_",
    type=click.Choice(list(RENDERERS)),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.pass_context
def fit(
    context: click.Context,
    path: str,
    limit: str | None,
    targets: Sequence[str],
    dtypes: Sequence[str],
    minutes: float,
    python: str,
    pattern: NamePattern | None,
    format_: str,
) -> None:
    """Find changes with which a program fits in a device's memory, by compiling it with each.

    PATH is a dump with the texts from before optimizations. Tried are donations, shardings of
    replicated values, and element types that --allow-dtype names; each alone, then combined.
    Exit codes: 0 each module fits, as it is or with a plan; 1 one does not.
    """
    from hlo_lens.api.fit import Wanted, fit_modules
    from hlo_lens.api.modules import read_dump, select_modules
    from hlo_lens.api.recompiling import Means
    from hlo_lens.text.units import parse_size

    wanted = Wanted(
        limit_bytes=None if limit is None else parse_size(limit),
        targets=tuple(name.strip() for text in targets for name in text.split(",")),
        dtypes=tuple(dtypes),
    )
    modules = select_modules(read_dump(path).modules, pattern)
    means = Means(python=python, minutes=minutes)
    with progress_bar("compiling") as progress:
        found = fit_modules(modules, wanted, means=means, path=path, progress=progress)
    Output(format=format_, path_out=None, rows=None, color="auto").write(found.report)
    if not found.fits:
        context.exit(exit_codes.RULE_FAILED)
