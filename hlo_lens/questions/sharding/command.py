"""``hlo-lens sharding``: sharding of parameters and outputs, replication, donation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import Reading, answer, mesh_option, reading_options
from hlo_lens.cli.output import Output, output_options
from hlo_lens.text.units import parse_size

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh

_EXAMPLE = """\b
Example:
  hlo-lens sharding DIR/module_0001.jit_step.cpu_after_optimizations.txt
  hlo-lens sharding DIR --min-size 1MiB -n 0
  hlo-lens sharding DIR --mesh data=2,model=4 --params -f csv
"""


@click.command(epilog=_EXAMPLE)
@mesh_option
@click.option(
    "--min-size",
    default="0",
    metavar="SIZE",
    help="Hide values with fewer bytes on a device: 1MiB.",
)
@click.option("--params", is_flag=True, help="Show only the parameters.")
@reading_options
@output_options
def sharding(
    path: str, mesh: Mesh | None, min_size: str, params: bool, reading: Reading, output: Output
) -> None:
    """Show the shardings of parameters and outputs, replicated values and donated arguments.

    PATH is an HLO text or a folder of dumps. Global shapes, and the shardings that newer XLA leaves
    out of its final text, are read from the before_optimizations text next to it.
    """
    from hlo_lens.questions.sharding.api import sharding_report
    from hlo_lens.questions.sharding.page import ShardingView

    view = ShardingView(min_bytes=parse_size(min_size), is_parameters_only=params)
    answer(path, reading, output, partial(sharding_report, view=view, mesh=mesh))
