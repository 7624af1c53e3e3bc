"""``hlo-lens what-if``: the program of a dump compiled again, as it is and with changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from hlo_lens.cli import exit_codes
from hlo_lens.cli.options import compiling_options, module_option, read_meant
from hlo_lens.cli.output import Output, format_option, progress_bar, text_options
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.cli.options import Compiling
    from hlo_lens.text.names import NamePattern

_EXAMPLE = """\b
Example:
  hlo-lens what-if DIR
  hlo-lens what-if DIR --target v5p:2x2x2
  hlo-lens what-if DIR --donate 'state.opt.*' --shard "params['w']=P(None, 'model')"
  hlo-lens what-if DIR --mesh data=8,model=4 --dtype 'opt/**=bf16'
  hlo-lens what-if DIR --with 'jax==0.9.2'
  hlo-lens what-if DIR --flag xla_cpu_copy_insertion_use_region_analysis=true -o NEW
"""
_HARDWARE = {
    "--target NAME": "Device and topology: v5p:2x2x2, h100_sxm, h100_sxm:1x2x8, cpu.",
    "--mesh AXES": "Sizes of mesh axes: data=8,model=4.",
    "--with jax==V": "Versions that compile: jax==0.9.2, or jax==0.10.2,libtpu==0.0.51 (pip "
    "installs them).",
}
_CHANGES = {
    "--flag NAME=VALUE": "Flag of XLA for this compile.",
    "--donate PATTERN": "Donate arguments: state.opt.*, params/**/w.",
    "--undonate PATTERN": "No longer donate arguments.",
    "--shard PATTERN=P(..)": "Sharding of arguments, or of result{3}: \"params['w']=P(None, "
    "'model')\".",
    "--dtype PATTERN=TYPE": "Element type of stored arguments, and of the results that they "
    "become: 'opt/**=bf16'.",
    "--constraint ACTION LINE": "Sharding constraint: 'drop step.py:31', or \"add "
    "step.py:31=P('data')\".",
}


@click.command("what-if", epilog=_EXAMPLE)
@click.argument("path", type=click.Path(allow_dash=True, readable=False))
@text_options(_HARDWARE)
@text_options(_CHANGES, is_multiple=True)
@compiling_options("Longest time of one compile.")
@click.option(
    "--full",
    is_flag=True,
    help="Wait for the end of each compile: generated code, and the peak as jax gives it.",
)
@click.option("--each", is_flag=True, help="Compile each of several changes alone, too.")
@module_option
@click.option("-o", "--output", "folder", metavar="DIR", help="Keep the new dump here.")
@format_option
@click.pass_context
def what_if(
    context: click.Context,
    /,
    path: str,
    compiling: Compiling,
    full: bool,
    each: bool,
    pattern: NamePattern | None,
    folder: str | None,
    format_: str,
    **asked: str | Sequence[str] | None,
) -> None:
    """Compile a dump's program again, with changes, without the program and the hardware.

    PATH is a dump with the texts from before optimizations. Without options the program is compiled
    for its own target, and every figure is compared with the dump. Needs jax; libtpu for TPU, the
    CUDA plugin for GPU. A compile ends once memory and collectives are known. Nothing of the dump
    runs. Exit codes: 0; 4 where no module could be compiled.
    """
    from hlo_lens.questions.what_if.combinations import what_if_modules

    for flag in asked["flag"] or ():
        if not flag.partition("=")[1]:
            raise UsageError(f"--flag {flag!r}: write NAME=VALUE, such as xla_x=true")
    values = {kind: (v,) if isinstance(v, str) else v or () for kind, v in asked.items()}
    modules = read_meant(path, pattern)
    means = replace(compiling.means, is_full=full)
    with progress_bar("compiling") as progress:
        answer = what_if_modules(
            modules, values, means=means, output=folder, path=path, is_each=each, progress=progress
        )
    Output(format=format_, path_out=None, rows=0, color="auto").write(answer.report)
    if answer.is_undecided:
        context.exit(exit_codes.UNPARSABLE)
