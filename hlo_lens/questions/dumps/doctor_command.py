"""``hlo-lens doctor``: flags and versions of this machine, and the state of a dump."""

from __future__ import annotations

import click

from hlo_lens.cli.output import Output, output_options
from hlo_lens.text.errors import UnreadableError

_EXAMPLE = """\b
Example:
  hlo-lens doctor DIR
  hlo-lens doctor --clear-cache
  XLA_FLAGS="--xla_dump_to=DIR" hlo-lens doctor -f json | jq '.variables'
"""


@click.command(epilog=_EXAMPLE)
@click.argument("path", required=False, type=click.Path(allow_dash=True, readable=False))
@click.option(
    "--clear-cache",
    is_flag=True,
    help="First delete the compiles and virtual environments that what-if keeps.",
)
@output_options
def doctor(path: str | None, clear_cache: bool, output: Output) -> None:
    """Check versions, XLA_FLAGS and similar variables, and, with PATH, the texts of a dump.

    Prints the flags to set, the texts that a dump lacks, and why a folder has nothing to read. jax
    is not imported and nothing is compiled. Exit code 3 if PATH has nothing to read.
    """
    from hlo_lens.questions.dumps.doctor import examine
    from hlo_lens.questions.dumps.doctor_page import doctor_page

    if clear_cache:
        from hlo_lens.questions.what_if.process.cache import clear_cache as clear

        freed = clear()
        click.echo(f"deleted {freed.compiles} compiles, {freed.size_bytes:,} bytes", err=True)
    examination = examine(path)
    output.write(doctor_page(examination))
    if path is not None and examination.dump is None:
        raise UnreadableError(f"{path}: nothing to read")
