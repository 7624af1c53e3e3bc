"""``hlo-lens show``: instructions, with text, operands, users, source and memory."""

from __future__ import annotations

from functools import partial

import click

from hlo_lens.cli.completion import complete_instruction
from hlo_lens.cli.options import Reading, answer, reading_options
from hlo_lens.cli.output import Output, output_options

_EXAMPLE = """\b
Example:
  hlo-lens show DIR/module_0001.jit_step.cpu_after_optimizations.txt fusion.12
  hlo-lens show DIR all-gather.3 while.36
  hlo-lens show DIR --module jit_step main.10
  hlo-lens show DIR -n 0
"""


@click.command(epilog=_EXAMPLE)
@reading_options
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_instruction)
@output_options
def show(path: str, names: tuple[str, ...], reading: Reading, output: Output) -> None:
    """Show instructions: text, operands, users, source line, call stack, sharding and memory.

    NAME is an instruction or a value, as tables and texts print it, or a computation, whose
    instructions are listed. Without a NAME all instructions are listed. PATH is a file, a folder
    or archive of dumps, compressed or not, or - for standard input.
    """
    from hlo_lens.questions.dumps.show import show_report

    answer(path, reading, output, partial(show_report, names=names))
