"""Commands on shardings: sharding, shard."""

from __future__ import annotations

import re
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
    path: str, mesh: Mesh | None, shape: str | None, reading: Reading, output: Output
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
        _draw(path, mesh, shape, output)
        return
    choose = partial(stating_mesh, mesh=mesh)
    answer_pages(path, reading, output, "sharding", pages, choose=choose)


_SHARD_EXAMPLE = """\b
Example:
  hlo-lens shard '{devices=[4,1]<=[4]}' --shape 20,16
  hlo-lens shard --mesh x=4,y=1 --spec "x,None" --shape bf16[20,16]
"""

_WIDTH = 100
_NAME = re.compile(r"""(['"]).*?\1|\bNone\b|\b([A-Za-z_][\w.]*)(?![\w.(])""")
"""A name without quotes, in group 2, that is no call as of ``P(``."""


@click.command(epilog=_SHARD_EXAMPLE)
@click.argument("sharding", required=False)
@click.option("--shape", required=True, help="Global shape: 20,16 or bf16[20,16].")
@mesh_option
@click.option("--spec", help="PartitionSpec in place of SHARDING: \"('x','y'),None\".")
@output_options
def shard(
    sharding: str | None, shape: str, mesh: Mesh | None, spec: str | None, output: Output
) -> None:
    """Draw one sharding, as hlo-lens sharding --shape does."""
    if (sharding is None) == (spec is None):
        raise UsageError("give either SHARDING or --spec")
    if spec is not None:
        words = _NAME.sub(lambda one: repr(one[2]) if one[2] else one[0], spec.strip())
        sharding = words if words.startswith("P") else f"P({words})"
    _draw(sharding or "", mesh, shape, output)


def _draw(text: str, mesh: Mesh | None, shape: str, output: Output) -> None:
    from hlo_lens.questions.sharding.shard import read_sharding, shard_report
    from hlo_lens.shapes.shape import Shape

    sizes = shape.strip().strip("()").rstrip(",")
    try:
        value = Shape.parse(shape if "[" in shape else f"f32[{sizes}]")
    except DumpSyntaxError as error:
        raise UsageError(f"not a shape: {shape}; write it like 20,16 or bf16[20,16]") from error
    placed, mesh = read_sharding(text, mesh, value.rank)
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    output.write(shard_report(placed, value, mesh=mesh, width=width))
