"""Commands on a whole dump: ls, passes, show, doctor."""

from __future__ import annotations

from functools import partial

import click

from hlo_lens.cli.options import Reading, answer_pages, reading_options
from hlo_lens.cli.output import Output, output_options, progress_bar
from hlo_lens.text.errors import UnreadableError

_EXAMPLE = """\b
Example:
  hlo-lens ls DIR --each -f json | jq '.modules[] | {key, peak_bytes, flops}'
"""


@click.command(epilog=_EXAMPLE)
@click.option(
    "--sort",
    type=click.Choice(("peak", "size", "flops", "name")),
    default="peak",
    show_default=True,
    help="Order of rows: by peak memory, instructions (size), arithmetic (flops) or name.",
)
@click.option("--each", is_flag=True, help="Print a row for each compile instead of each function.")
@reading_options
@output_options
def ls(path: str, sort: str, each: bool, reading: Reading, output: Output) -> None:
    """List the modules of a folder or archive: compiles, stages, size, memory, arithmetic.

    The likely training step is marked. Modules are read on all cores, and the programs of several
    processes are compared. PATH is a folder, an archive (zip, tar, compressed or not), a file or -.
    """
    from hlo_lens.load.programs import read_dump
    from hlo_lens.questions.dumps.listing import facts_of
    from hlo_lens.questions.dumps.page import ls_report

    with progress_bar("listing files") as progress:
        dump = read_dump(path, progress=progress)
        modules = reading.select(dump.modules)
    with progress_bar("reading modules") as progress:
        facts = facts_of(modules, progress=progress)
        report = ls_report(dump, modules, facts, sort=sort, is_grouped=not each)
    output.write(report)
    reading.judge_facts(facts)


_PASSES_EXAMPLE = """\b
Example:
  hlo-lens passes dump.tar.gz --track alias --track temp --track all-gather
"""


@click.command(epilog=_PASSES_EXAMPLE)
@click.option(
    "--track",
    "words",
    metavar="WHAT",
    multiple=True,
    required=True,
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
    from hlo_lens.questions.dumps.passes import pages
    from hlo_lens.render.to_json import report_of_pages

    with progress_bar("reading passes") as progress:
        report = report_of_pages("passes", pages(reading.read(path), words, progress=progress))
    output.write(report)


_SHOW_EXAMPLE = """\b
Example:
  hlo-lens show DIR --module jit_step all-gather.3 while.36
"""


@click.command(epilog=_SHOW_EXAMPLE)
@reading_options
@click.argument("names", nargs=-1, metavar="[NAME]...")
@output_options
def show(path: str, names: tuple[str, ...], reading: Reading, output: Output) -> None:
    """Show instructions: text, operands, users, source line, call stack, sharding and memory.

    NAME is an instruction, a value or an argument (params['w'], or params with all its arrays), as
    tables and texts print it, or a computation, whose instructions are listed. Without a NAME all
    instructions are listed. PATH is a file, a folder or archive of dumps, compressed or not, or -
    for standard input.
    """
    from hlo_lens.questions.dumps.show import modules_with, pages

    choose = partial(modules_with, names=names)
    view = partial(pages, names=names)
    answer_pages(path, reading, output, "show", view, choose=choose, reads_all=True)


_DOCTOR_EXAMPLE = """\b
Example:
  hlo-lens doctor DIR
"""


@click.command(epilog=_DOCTOR_EXAMPLE)
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
    from hlo_lens.questions.dumps.doctor import doctor_report

    if clear_cache:
        from hlo_lens.text.user_cache import clear_cache as clear

        freed = clear()
        click.echo(f"deleted {freed.compiles} compiles, {freed.size_bytes:,} bytes", err=True)
    report = doctor_report(path)
    output.write(report)
    if path is not None and report.data["modules"] is None:
        raise UnreadableError(f"{path}: nothing to read")
