"""Commands on collectives: collectives, loops."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from hlo_lens.cli.options import (
    Reading,
    answer_pages,
    mesh_option,
    reading_options,
)
from hlo_lens.cli.output import Output, output_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.shapes.mesh import Mesh


_BY = ("kind", "axis", "source", "loop", "op")

_EXAMPLE = """\b
Example:
  hlo-lens collectives DIR/module_0001.jit_step.cpu_after_optimizations.txt
  hlo-lens collectives DIR --by source --static
  hlo-lens collectives DIR --by loop
  hlo-lens collectives DIR --mesh data=4,model=2 --by axis
  hlo-lens collectives DIR --why all-gather.3
"""


@click.command(epilog=_EXAMPLE)
@click.option(
    "--by",
    type=click.Choice(_BY),
    help="Group the collectives by this alone; loop prints the tree of loops.",
)
@click.option(
    "--static/--dynamic",
    "is_static",
    help="Count each collective once (static), or as often as one run performs it (the default).",
)
@mesh_option
@click.option(
    "--why",
    metavar="NAME",
    help="Explain one collective by its operands and users; of a kind (all-gather) the largest.",
)
@reading_options
@output_options
def collectives(
    path: str,
    by: str | None,
    is_static: bool,
    mesh: Mesh | None,
    why: str | None,
    reading: Reading,
    output: Output,
) -> None:
    """Show the collectives of a program with mesh axes, bytes, loops and source lines.

    PATH is a file, a folder or archive of dumps, compressed or not, or - for standard input.
    Meshes that the optimized text does not name are read from the before_optimizations text next
    to it.
    """
    from hlo_lens.questions.collectives.explanation import modules_with_collective
    from hlo_lens.questions.collectives.page import pages
    from hlo_lens.questions.sharding.mesh_axes import stating_mesh

    view = partial(pages, by=by, is_dynamic=not is_static, why=why)

    def choose(modules: Sequence[ModuleDump]) -> Sequence[ModuleDump]:
        stated = stating_mesh(modules, mesh)
        return stated if why is None else modules_with_collective(stated, why)

    answer_pages(path, reading, output, "collectives", view, choose=choose)


_LOOPS_EXAMPLE = """\b
Example:
  hlo-lens loops DIR/module_0001.jit_step.cpu_after_optimizations.txt
  hlo-lens loops DIR --mesh data=4,model=2
  hlo-lens loops DIR -f json | jq '.modules[].loops[] | {loop, trip_count}'
"""


@click.command(epilog=_LOOPS_EXAMPLE)
@mesh_option
@reading_options
@output_options
def loops(path: str, mesh: Mesh | None, reading: Reading, output: Output) -> None:
    """Show the loops of a program, as hlo-lens collectives --by loop does.

    PATH is a file, a folder or archive of dumps, compressed or not, or - for standard input.
    Trip counts are XLA's where it prints them, else derived from start, step and condition.
    """
    from hlo_lens.questions.collectives.page import loop_pages
    from hlo_lens.questions.sharding.mesh_axes import stating_mesh

    answer_pages(
        path, reading, output, "loops", loop_pages, choose=partial(stating_mesh, mesh=mesh)
    )
