"""Commands on shardings: sharding, shard."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import Reading, answer_pages, mesh_option, reading_options
from hlo_lens.cli.output import Output, output_options
from hlo_lens.text.errors import DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh


_EXAMPLE = """\b
Example:
  hlo-lens sharding DIR/module_0001.jit_step.cpu_after_optimizations.txt
  hlo-lens sharding DIR -n 0
  hlo-lens sharding DIR --mesh data=2,model=4 -f csv
  hlo-lens sharding '{devices=[4,1]<=[4]}' --shape 20,16
  hlo-lens sharding "P('x', None)" --mesh x=4,y=2 --shape 32,16
"""


@click.command(epilog=_EXAMPLE)
@mesh_option
@click.option(
    "--shape",
    help="Draw one sharding, given in place of PATH, for an array of this shape: bf16[20,16].",
)
@reading_options
@output_options
def sharding(
    path: str,
    mesh: Mesh | None,
    shape: str | None,
    reading: Reading,
    output: Output,
) -> None:
    """Show the shardings of parameters and outputs, replicated values and donated arguments.

    With --shape, which device holds which slice of one array: PATH is then a sharding as XLA, JAX
    or Shardy prints it, or P('x', None) with --mesh.

    PATH is an HLO text or a folder of dumps. Global shapes, and the shardings that newer XLA leaves
    out of its final text, are read from the before_optimizations text next to it.
    """
    from hlo_lens.questions.sharding.mesh_axes import stating_mesh
    from hlo_lens.questions.sharding.page import pages

    if shape is not None:
        _draw(path, mesh, None, shape, output)
        return
    choose = partial(stating_mesh, mesh=mesh)
    answer_pages(path, reading, output, "sharding", pages, choose=choose)


_SHARD_EXAMPLE = """\b
Example:
  hlo-lens shard '{devices=[4,1]<=[4]}' --shape 20,16
  hlo-lens shard --mesh x=4,y=1 --spec "x,None" --shape bf16[20,16]
  hlo-lens shard --mesh x=4,y=2 --spec "('x','y'),None" --shape 32,16
"""

_WIDTH = 100


@click.command(epilog=_SHARD_EXAMPLE)
@click.argument("sharding", required=False)
@click.option("--shape", required=True, help="Global shape: 20,16 or bf16[20,16].")
@mesh_option
@click.option("--spec", help="PartitionSpec in place of SHARDING: \"('x','y'),None\".")
@output_options
def shard(
    sharding: str | None,
    shape: str,
    mesh: Mesh | None,
    spec: str | None,
    output: Output,
) -> None:
    """Draw which device holds which slice of a value, and print all spellings of the sharding.

    SHARDING is a sharding as XLA, JAX or Shardy prints it: {devices=[4,1]<=[4]}, {replicated},
    {mesh['x'=4], [{'x'}, {}]}, NamedSharding(mesh=Mesh('x': 4), spec=P('x', None)),
    #sdy.sharding<...>; with --mesh also P('x', None) or ('x', None). A mesh and a PartitionSpec can
    be given instead.
    """
    _draw(sharding, mesh, spec, shape, output)


def _draw(
    text: str | None, mesh: Mesh | None, spec: str | None, shape: str, output: Output
) -> None:
    """Write the drawing of a sharding, given by its text, or by a mesh and a PartitionSpec."""
    from hlo_lens.questions.sharding.shard import read_sharding, shard_report
    from hlo_lens.shapes.named_sharding import read_partition_spec
    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding

    sizes = shape.strip().strip("()").rstrip(",")
    try:
        value = Shape.parse(shape if "[" in shape else f"f32[{sizes}]")
    except DumpSyntaxError as error:
        raise UsageError(f"not a shape: {shape}; write it like 20,16 or bf16[20,16]") from error
    if (text is None) == (spec is None):
        raise UsageError("give either SHARDING or --spec")
    if text is not None:
        placed, mesh = read_sharding(text, mesh, value.rank)
    elif mesh is None:
        raise UsageError("--spec needs --mesh")
    else:
        entries = read_partition_spec(spec or "")
        if len(entries) > value.rank:
            raise UsageError(
                f"--spec has {len(entries)} entries, the shape {value.rank} dimensions"
            )
        placed = HloSharding.from_partition_spec(mesh, entries, rank=value.rank)
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    output.write(shard_report(placed, value, mesh=mesh, width=width))
