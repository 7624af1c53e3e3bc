"""``hlo-lens loops``: loops of a program with trip counts and communication."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import Reading, answer, mesh_option, reading_options
from hlo_lens.cli.output import Output, output_options

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh

_EXAMPLE = """\b
Example:
  hlo-lens loops DIR/module_0001.jit_step.cpu_after_optimizations.txt
  hlo-lens loops DIR --mesh data=4,model=2
  hlo-lens loops DIR -f json | jq '.modules[].loops[] | {loop, trip_count}'
"""


@click.command(epilog=_EXAMPLE)
@mesh_option
@reading_options
@output_options
def loops(path: str, mesh: Mesh | None, reading: Reading, output: Output) -> None:
    """Show the loops of a program with their trip counts and the communication at each level.

    PATH is a file, a folder or archive of dumps, compressed or not, or - for standard input.
    Trip counts are XLA's where it prints them, else derived from start, step and condition.
    """
    from hlo_lens.questions.collectives.api import loops_report

    answer(path, reading, output, partial(loops_report, mesh=mesh))
