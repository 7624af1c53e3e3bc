"""``hlo-lens tree``: a trace of calls, or the Python stacks of a module, as a tree."""

from __future__ import annotations

from dataclasses import replace

import click

from hlo_lens.call_trees.page import TreeView
from hlo_lens.cli.options import Reading, reading_options
from hlo_lens.cli.output import Output, open_output, option_group, output_options, progress_bar
from hlo_lens.text.dump_kinds import ROW_OF, TREE_FORMS, DumpKind
from hlo_lens.text.errors import DumpSyntaxError

_MEASURES = ("calls", "memory", "wire-bytes", "count")
_BY = ("function", "file", "package", "communication")

_EXAMPLE = """\b
Example:
  hlo-lens tree trace.txt
  hlo-lens tree trace.txt --by communication
  hlo-lens tree DIR --measure wire-bytes
  hlo-lens tree trace.txt --folded - | flamegraph.pl > calls.svg
"""


_view_options = option_group(
    "view",
    TreeView,
    click.option("--by", type=click.Choice(_BY), help="Show one table alone."),
    click.option(
        "--sort",
        type=click.Choice(["own", "total"]),
        default="own",
        show_default=True,
        help="Order of groups: by their own amounts, or with all nodes below them.",
    ),
    click.option("--depth", type=click.IntRange(min=1), help="Levels of the tree to show."),
)
"""The options of the view; the command gets them as ``view``."""


@click.command(epilog=_EXAMPLE)
@click.option(
    "--measure",
    type=click.Choice(_MEASURES),
    help="Amount of a node: calls (of a trace), or for a module bytes alive at the peak (memory), "
    "bytes that leave each device in one run (wire-bytes), or instructions (count).",
)
@click.option(
    "--folded", metavar="FILE", help="Write folded stacks for flame graphs; - is standard output."
)
@reading_options
@output_options
@_view_options
def tree(
    path: str,
    measure: str | None,
    folded: str | None,
    view: TreeView,
    reading: Reading,
    output: Output,
) -> None:
    """Show a call tree: callers, callees, counts, and the calls that communicate.

    PATH is a trace with drawn branches, a log that contains one, or any dump of a module, whose
    Python call stacks are then the tree.
    """
    from hlo_lens.call_trees.facts import folded_stacks
    from hlo_lens.call_trees.page import tree_page
    from hlo_lens.questions.stacks.stacks import call_trees

    with progress_bar("reading") as progress:
        try:
            modules = reading.read(path, progress)
        except DumpSyntaxError as error:
            if error.message != ROW_OF[DumpKind.OTHER].refusal:
                raise
            raise DumpSyntaxError(
                f"found neither HLO text nor a call tree; expected {TREE_FORMS}", path=error.path
            ) from error
    trees = call_trees(modules, measure, replace(view, lines=output.rows))
    if folded is not None:
        lines = [line for one in trees for line in folded_stacks(one.tree, depth=view.depth)]
        with open_output(folded) as out:
            out.writelines(f"{line}\n" for line in lines)
    else:
        output.write(tree_page(trees))
    reading.judge(modules)
