"""``hlo-lens passes``: compiler pass in which something appears or disappears."""

from __future__ import annotations

import click

from hlo_lens.cli.completion import complete_subject
from hlo_lens.cli.options import Reading, reading_options
from hlo_lens.cli.output import Output, output_options
from hlo_lens.cli.progress import progress_bar

_EXAMPLE = """\b
Example:
  hlo-lens passes DIR --track all-gather
  hlo-lens passes dump.tar.gz --track alias --track temp
  hlo-lens passes DIR --module train_step --track fusion.12 -f json
"""


@click.command(epilog=_EXAMPLE)
@click.option(
    "--track",
    "words",
    metavar="WHAT",
    multiple=True,
    required=True,
    shell_complete=complete_subject,
    help="Subject to track: a kind of collective, an opcode such as copy, temp, alias, or the name "
    "of an instruction. May be repeated.",
)
@reading_options
@output_options
def passes(path: str, words: tuple[str, ...], reading: Reading, output: Output) -> None:
    """Find the pass after which a collective, a copy, a buffer or an alias appears or disappears.

    PATH is a folder or archive with the texts that XLA writes after each pass when the flag
    --xla_dump_hlo_pass_re=.* is set besides --xla_dump_to=DIR and --xla_dump_hlo_as_text.
    """
    from hlo_lens.questions.dumps.passes import passes_report

    with progress_bar("reading passes") as progress:
        report = passes_report(reading.read(path), words, progress=progress)
    output.write(report)
