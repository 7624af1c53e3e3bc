"""``hlo-lens tree``: a trace of calls, or the Python stacks of a module, as a tree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from hlo_lens.call_trees.page import TitledTree, TreeView, drawn_trees
from hlo_lens.call_trees.tree import CALLS, NO_PARENT, CallFrame, CallTree, with_below
from hlo_lens.cli.options import Reading, reading_options
from hlo_lens.cli.output import Output, open_output, option_group, output_options, progress_bar
from hlo_lens.hlo.metadata import SourceLocation
from hlo_lens.program.origins import origins
from hlo_lens.program.summary import hlo_text, instruction_table, no_hlo_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.peak import PARAMETERS, UNATTRIBUTED, nameless_group
from hlo_lens.questions.memory.results import ESTIMATE, memory_results
from hlo_lens.text.dump_kinds import ROW_OF, TREE_FORMS, DumpKind
from hlo_lens.text.errors import DumpSyntaxError, MissingDumpError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.call_trees.facts import PathNodes
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import Origins
    from hlo_lens.questions.collectives.collective import Collectives
    from hlo_lens.questions.memory.peak import PeakMemory


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
    from hlo_lens.questions.stacks.command import call_trees

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


_AT_MOST = "each row is at most, and counts every branch of a conditional, though one of them runs"


def call_trees(
    modules: Sequence[ModuleDump], measure: str | None, view: TreeView
) -> list[TitledTree]:
    """Return the trees of some modules and texts.

    Modules that cannot be counted by the measure are left out where others can; the first tree has
    a note on them.

    Args:
        modules: HLO modules, or texts that draw trees.
        measure: Amount of a node: ``calls``, ``memory``, ``wire-bytes`` or ``count``; None for
            calls in traces, and in modules for the bytes alive at the peak, or the instructions
            where these are not known.
        view: What is shown of each.

    Raises:
        UsageError: If there is no tree with this measure.
    """
    trees: list[TitledTree] = []
    refused: list[UsageError] = []
    for dump in modules:
        try:
            trees += _trees_of(dump, measure, view)
        except UsageError as error:
            refused.append(error)
    if refused and not trees:
        raise refused[0]
    if not trees:
        names = ", ".join(dump.name for dump in modules) or "the input"
        why = dict.fromkeys(no_hlo_text(dump) for dump in modules)
        raise MissingDumpError(f"{names}: no call tree, and {'; '.join(why) or 'no HLO text'}")
    first = trees[0]
    if view.by == "communication" and not any(titled.is_trace for titled in trees):
        raise UsageError(
            f"{first.title}: --by {view.by} is for traces of calls; this tree counts "
            f"{first.tree.measure}"
        )
    if refused:
        more = f", and {len(refused) - 1} others" if len(refused) > 1 else ""
        first.notes = (*first.notes, f"left out: {refused[0]}{more}")
    return trees


def _trees_of(dump: ModuleDump, measure: str | None, view: TreeView) -> Iterator[TitledTree]:
    if dump.call_trees is not None:
        if measure not in (None, CALLS):
            raise UsageError(
                f"{dump.name}: a trace counts calls; --measure {measure} is for HLO modules"
            )
        yield from drawn_trees(dump.name, dump.call_trees, view)
    elif dump.hlo is not None:
        tree, notes = _module_tree(dump, measure)
        if not dump.hlo.stack_frames:
            lead = "no stack frame tables in this text: each stack is its source line alone"
            notes = (lead, *notes)
        yield TitledTree(tree=tree, title=dump.title, notes=notes, view=view)


def _module_tree(module: ModuleDump, measure: str | None) -> tuple[CallTree, tuple[str, ...]]:
    if measure == CALLS:
        raise UsageError(
            f"{module.title}: a module has no calls; --measure memory, wire-bytes or count"
        )
    if measure == "wire-bytes":
        is_at_most = collectives(module).known_wire_bytes.is_at_most
        tree = wire_call_tree(hlo_text(module), collectives(module))
        return tree, (_AT_MOST,) if is_at_most else ()
    memory = None if measure == "count" else memory_results(module)
    if memory is not None and memory.peak is not None:
        is_estimate = memory.layout.source == "estimate"
        return memory_call_tree(memory.peak), (ESTIMATE,) if is_estimate else ()
    if measure == "memory":
        raise UsageError(
            f"{module.title}: memory not known: no buffer assignment and live ranges next to "
            "this text, and no schedule in it; try --measure count"
        )
    notes = () if measure == "count" else ("memory not known: nodes count instructions",)
    return count_call_tree(instruction_table(module), origins(module)), notes


def memory_call_tree(peak: PeakMemory) -> CallTree:
    """Return the bytes alive at an instant, by the stack that made them.

    Each byte counts once, for the value defined last; the sum is the bytes held.
    """
    return _stack_tree(
        "memory",
        (
            ((), value.owned_bytes, PARAMETERS)
            if value.category == "argument"
            else (peak.stack_of(value), value.owned_bytes, nameless_group(value.category))
            for value in peak.live
        ),
    )


def wire_call_tree(module: HloModule, facts: Collectives) -> CallTree:
    """Return the bytes that leave each device in one run, by the stack of each collective.

    Combined collectives are divided over the stacks of what was combined.

    Bytes of each collective times its number of runs; if either is unknown it adds to the
    unknowns of its node. They sum to `Collectives.wire_bytes_per_device` where that is known and
    no branches exclude each other: nodes count all branches, the upper bound the largest ones.
    """
    tables = module.stack_frames
    places = filter(None, map(tables.location, range(1, len(tables.frames) + 1)))
    frames = {
        f"{place} ({place.function})" if place.function else str(place): place for place in places
    }  # by their text in `Collective.stack`

    def stacks() -> Iterator[_StackAmount]:
        for collective in facts.collectives:
            for part in collective.parts:
                stack = tuple(frames[text] for text in part.stack or ())
                if not part.stack and part.source_file is not None:
                    stack = (SourceLocation(file=part.source_file, line=part.source_line),)
                yield stack, part.wire_bytes_per_run, UNATTRIBUTED

    tree, bounds = _stack_tree("wire-bytes", stacks()), facts.known_wire_bytes
    return replace(tree, upper_bound=bounds.most) if bounds.is_at_most else tree


def count_call_tree(table: InstructionTable, origins: Origins) -> CallTree:
    """Return the instructions of the text, each once, by the stacks of their origins."""
    return _stack_tree(
        "count",
        (
            (origins.places.stack(row), 1, PARAMETERS)
            if opcode == "parameter"
            else (origins.stack(origins.of_row(row)), 1, UNATTRIBUTED)
            for row, opcode in enumerate(table.opcodes)
        ),
    )


_StackAmount = tuple["Sequence[SourceLocation]", "int | None", str]
"""Stack, innermost first; amount, None if unknown; residual that gets it if the stack is empty."""


def _stack_tree(measure: str, stacks: Iterable[_StackAmount]) -> CallTree:
    """Return the tree of the amounts of stacks, in preorder, largest callees first."""
    frame_ids: dict[CallFrame, int] = {}
    nodes: PathNodes = {}
    amounts: defaultdict[int, int] = defaultdict(int)
    unknown: defaultdict[int, int] = defaultdict(int)
    residuals: defaultdict[str, int] = defaultdict(int)
    for stack, amount, residual in stacks:
        node = NO_PARENT
        for place in reversed(stack):
            frame = CallFrame(function=place.function or "", file=place.file, line=place.line)
            key = node, frame_ids.setdefault(frame, len(frame_ids))
            node = nodes.setdefault(key, len(nodes))
        if stack:
            amounts[node] += amount or 0
        else:
            residuals[residual] += amount or 0
        unknown[node] += amount is None

    frames, callers = list(frame_ids), list(nodes)
    totals = with_below([amounts[n] for n in range(len(nodes))], [caller for caller, _ in nodes])
    children: defaultdict[int, list[int]] = defaultdict(list)
    for node in range(len(nodes) - 1, -1, -1):
        children[callers[node][0]].append(node)
    for below in children.values():
        below.sort(key=lambda node: str(frames[callers[node][1]]), reverse=True)
        below.sort(key=totals.__getitem__)
    place_of: dict[int, int] = {NO_PARENT: NO_PARENT}
    preorder: list[int] = []
    waiting = children[NO_PARENT]
    while waiting:
        node = waiting.pop()
        place_of[node] = len(preorder)
        preorder.append(node)
        waiting += children[node]
    no_stack = unknown.pop(NO_PARENT, 0)
    return CallTree(
        frames=tuple(frames),
        frame_ids=[callers[node][1] for node in preorder],
        parents=[place_of[callers[node][0]] for node in preorder],
        own=[amounts[node] for node in preorder],
        measure=measure,
        unknown=[unknown[node] for node in preorder] if any(unknown.values()) else (),
        residuals=tuple(sorted(residuals.items())),
        residual_unknown=no_stack,
    )
