"""``hlo-lens what-if``: the program of a dump compiled again, as it is and with changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from hlo_lens.cli import exit_codes
from hlo_lens.cli.options import compiling_options, module_option, read_meant
from hlo_lens.cli.output import Output, format_option, option_group, progress_bar
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.cli.options import Compiling
    from hlo_lens.questions.what_if.combinations import Asked
    from hlo_lens.text.patterns import NamePattern

_EXAMPLE = """\b
Example:
  hlo-lens what-if DIR
  hlo-lens what-if DIR --target v5p:2x2x2
  hlo-lens what-if DIR --target v5e:4x4,v5e:4x8 -f json
  hlo-lens what-if DIR --donate 'state.opt.*' --shard "params['w']=P(None, 'model')"
  hlo-lens what-if DIR --mesh '*' --dtype 'opt/**=bf16'
  hlo-lens what-if DIR --with 'jax==0.9.2'
  hlo-lens what-if DIR --flag xla_cpu_copy_insertion_use_region_analysis=true -o NEW
"""


def _asked(
    targets: Sequence[str],
    flags: Sequence[str],
    donate: Sequence[str],
    undonate: Sequence[str],
    shard: Sequence[str],
    dtype: Sequence[str],
    constraint: Sequence[str],
    meshes: Sequence[str],
    versions: Sequence[str],
) -> Asked:
    """Return the changes that the options name; several targets and flags are split at commas."""
    from hlo_lens.questions.what_if.combinations import Asked

    values: dict[str, tuple[str, ...]] = {}
    for flag in flags:
        name, equals, text = flag.removeprefix("--").partition("=")
        if not equals or not name:
            raise UsageError(f"--flag {flag!r}: write NAME=VALUE, such as xla_x=true")
        values[name] = (*values.get(name, ()), *text.split(","))
    edits = {
        "donate": donate,
        "undonate": undonate,
        "shard": shard,
        "dtype": dtype,
        "constraint": constraint,
    }
    words = (word.strip() for text in targets for word in text.split(","))
    return Asked(
        targets=tuple(filter(None, words)),
        flags=values,
        edits=tuple((kind, value) for kind, texts in edits.items() for value in texts),
        versions=tuple(versions),
        meshes=tuple(meshes),
    )


_change_options = option_group(
    "asked",
    _asked,
    click.option(
        "--target",
        "targets",
        multiple=True,
        metavar="NAME",
        help="Device and topology: v5p:2x2x2, h100_sxm, h100_sxm:1x2x8, cpu; several with commas.",
    ),
    click.option(
        "--flag",
        "flags",
        multiple=True,
        metavar="NAME=VALUE",
        help="Flag of XLA for this compile; several values with commas.",
    ),
    click.option(
        "--donate",
        multiple=True,
        metavar="PATTERN",
        help="Donate arguments: state.opt.*, params/**/w.",
    ),
    click.option(
        "--undonate", multiple=True, metavar="PATTERN", help="No longer donate arguments."
    ),
    click.option(
        "--shard",
        multiple=True,
        metavar="PATTERN=P(..)",
        help="Sharding of arguments, or of result{3}: \"params['w']=P(None, 'model')\".",
    ),
    click.option(
        "--dtype",
        multiple=True,
        metavar="PATTERN=TYPE",
        help="Element type of stored arguments, and of the results that they become: "
        "'opt/**=bf16'.",
    ),
    click.option(
        "--constraint",
        multiple=True,
        metavar="ACTION LINE",
        help="Sharding constraint: 'drop step.py:31', or \"add step.py:31=P('data')\".",
    ),
    click.option(
        "--mesh",
        "meshes",
        multiple=True,
        metavar="AXES",
        help="Sizes of mesh axes: data=8,model=4; '*' for every split of the devices.",
    ),
    click.option(
        "--with",
        "versions",
        multiple=True,
        metavar="jax==V",
        help="Versions that compile: jax==0.9.2, or jax==0.10.2,libtpu==0.0.51 (pip installs "
        "them).",
    ),
)


@click.command("what-if", epilog=_EXAMPLE)
@click.argument("path", type=click.Path(allow_dash=True, readable=False))
@_change_options
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
    path: str,
    asked: Asked,
    compiling: Compiling,
    full: bool,
    each: bool,
    pattern: NamePattern | None,
    folder: str | None,
    format_: str,
) -> None:
    """Compile a dump's program again, with changes, without the program and the hardware.

    PATH is a dump with the texts from before optimizations. Without options the program is compiled
    for its own target, and every figure is compared with the dump. Needs jax; libtpu for TPU, the
    CUDA plugin for GPU. A compile ends once memory and collectives are known. Nothing of the dump
    runs. Exit codes: 0; 4 where no module could be compiled.
    """
    from hlo_lens.questions.what_if.combinations import what_if_modules

    modules = read_meant(path, pattern)
    with progress_bar("compiling") as progress:
        answer = what_if_modules(
            modules,
            asked,
            means=replace(compiling.means, is_full=full),
            output=folder,
            path=path,
            is_each=each,
            progress=progress,
        )
    Output(format=format_, path_out=None, rows=0, color="auto").write(answer.report)
    if answer.is_undecided:
        context.exit(exit_codes.UNPARSABLE)
