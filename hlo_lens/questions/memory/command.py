"""``hlo-lens memory``: memory statement, values at the peak, timeline."""

from __future__ import annotations

from functools import partial

import click

from hlo_lens.cli.options import Reading, answer_pages, reading_options
from hlo_lens.cli.output import Output, output_options, refuse_input

_BY = ("buffer", "opcode", "op", "source", "stack", "param", "category", "role")

_EXAMPLE = """\b
Example:
  hlo-lens memory DIR/module_0001.jit_step.cpu_after_optimizations.txt
  hlo-lens memory DIR --by op -n 0
  hlo-lens memory DIR --at fusion.12 --by source
  hlo-lens memory DIR --timeline --plot memory.svg
"""


@click.command(epilog=_EXAMPLE)
@click.option("--by", type=click.Choice(_BY), help="Group the live bytes.")
@click.option(
    "--at",
    default="peak",
    show_default=True,
    help="Instant to show: peak, an instruction, or a position in the schedule.",
)
@click.option("--space", default=0, show_default=True, help="Number of the memory space.")
@click.option("--timeline", is_flag=True, help="Show the bytes held and in use over the schedule.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    help="Draw memory over the schedule, by role, to FILE.svg, .png, .pdf; needs matplotlib.",
)
@reading_options
@output_options
def memory(
    path: str,
    by: str | None,
    at: str,
    space: int,
    timeline: bool,
    plot: str | None,
    reading: Reading,
    output: Output,
) -> None:
    """Show the memory of a program: the statement per memory space, and the values at the peak.

    PATH is any dump of a module: its HLO text or a buffer text; the others are found next to it.
    Without a buffer assignment the figures are an estimate, marked as such.
    """
    from hlo_lens.questions.memory.page import pages

    if plot is not None:
        refuse_input(plot)
    view = partial(pages, by=by, at=at, color=space, timeline=timeline, plot=plot)
    answer_pages(path, reading, output, "memory", view)
