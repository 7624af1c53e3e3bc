"""``hlo-lens loops``: the loops of a program, how often they run, what they communicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import hlo_lens
from hlo_lens.cli.options import output_options, reading_options
from hlo_lens.cli.progress import progress_bar

if TYPE_CHECKING:
    from hlo_lens.cli.options import Output, Reading

_EXAMPLE = """\b
Example:
  hlo-lens loops DIR/module_0001.jit_step.cpu_after_optimizations.txt
  hlo-lens loops DIR --mesh data=4,model=2
  hlo-lens loops DIR -f json | jq '.modules[].loops[] | {loop, trip_count}'
"""


@click.command(epilog=_EXAMPLE)
@click.argument("path", type=click.Path(allow_dash=True, readable=False))
@click.option("--mesh", "mesh_text", metavar="AXES", help="Name the mesh: data=4,model=2.")
@reading_options
@output_options
def loops(path: str, mesh_text: str | None, reading: Reading, output: Output) -> None:
    """Show the loops of a program: how often each runs, and what is communicated at each level.

    PATH is a file, a folder or archive of dumps, compressed or not, or - for standard input.
    Trip counts are XLA's where it prints them, else derived from condition, start and step.
    """
    from hlo_lens.load import load
    from hlo_lens.model.shapes.mesh import Mesh
    from hlo_lens.report.collectives.loops import loops_report

    mesh = None if mesh_text is None else Mesh.from_sizes_text(mesh_text)
    with progress_bar("reading") as progress:
        modules = reading.select(load(path, progress=progress).modules)
        report = loops_report(
            modules, mesh=mesh, tool_version=hlo_lens.__version__, progress=progress
        )
    output.write(report)
    reading.judge(modules)
