"""Call trees: drawn in texts, the Python stacks of modules, or two of either compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.call_trees.call_tree import CALLS
from hlo_lens.call_trees.difference import call_tree_diff
from hlo_lens.call_trees.folded_stacks import folded_stacks
from hlo_lens.call_trees.module_stacks import count_call_tree, memory_call_tree, wire_call_tree
from hlo_lens.call_trees.page import tree_diff_page, tree_page
from hlo_lens.call_trees.tree_analysis import CallTreeAnalysis
from hlo_lens.load.module import ModuleDump
from hlo_lens.program.hlo_text import hlo_text, instruction_table, no_hlo_text
from hlo_lens.program.origins import origins
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.memory.results import ESTIMATE, memory_results
from hlo_lens.questions.report.leading import training_step_first
from hlo_lens.render.table import Sections
from hlo_lens.text.errors import MissingDumpError, UsageError
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.call_trees.call_tree import CallTree, CallTrees
    from hlo_lens.call_trees.section import TreeView
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.table import Report, Section

_OF_TRACES = ("communication", "repeats")
"""Tables that only traces of calls have."""

_AT_MOST = "each row is at most, and counts every branch of a conditional, though one of them runs"


def call_trees(
    modules: Sequence[ModuleDump], measure: str | None, view: TreeView
) -> list[CallTreeAnalysis]:
    """Return the trees of some modules and texts.

    Modules that cannot be counted by the measure are left out where others can; the first tree has
    a note on them.

    Args:
        modules: HLO modules, or texts that draw trees.
        measure: Amount of a node: ``calls``, ``memory``, ``wire-bytes`` or ``count``; None for
            calls in traces, and in modules for the bytes alive at the peak, or the instructions
            where these are not known.
        view: Functions that count as communication, and files of the program.

    Raises:
        UsageError: If there is no tree with this measure.
    """
    found: list[CallTreeAnalysis] = []
    refused: list[UsageError] = []
    for dump in modules:
        try:
            for tree, name, notes in _trees_of(dump, measure):
                found.append(
                    CallTreeAnalysis(tree, name, notes, find=view.find, program=view.program)
                )
        except UsageError as error:
            refused.append(error)
    if refused and not found:
        raise refused[0]
    if found and view.by in _OF_TRACES and not any(known.is_trace for known in found):
        raise UsageError(
            f"{found[0].name}: --by {view.by} is for traces of calls; this tree counts "
            f"{found[0].tree.measure}"
        )
    if refused:
        first = found[0]
        more = f", and {len(refused) - 1} others" if len(refused) > 1 else ""
        first.notes = (*first.notes, f"left out: {refused[0]}{more}")
    if not found:
        names = ", ".join(dump.name for dump in modules) or "the input"
        why = dict.fromkeys(no_hlo_text(dump) for dump in modules)
        raise MissingDumpError(f"{names}: no call tree, and {'; '.join(why) or 'no HLO text'}")
    return found


def drawn_trees(name: str, text: CallTrees) -> Iterator[tuple[CallTree, str, tuple[str, ...]]]:
    """Yield the trees that a text draws, with their names and notes."""
    for number, tree in enumerate(text.trees):
        which = f", tree {number + 1} of {len(text.trees)}" if len(text.trees) > 1 else ""
        title = f": {tree.title}" if tree.title else ""
        yield tree, f"{name}{which}{title}", tuple(_text_notes(text)) if number == 0 else ()


def _text_notes(text: CallTrees) -> Iterator[str]:
    """Yield notes on the lines of a text that are in no tree."""
    if text.passed_over:
        yield (
            f"{plural(text.passed_lines, 'line')} of no tree passed over, the first is line "
            f"{text.passed_over[0][0]}"
        )
    if text.gaps:
        yield f"{plural(len(text.gaps), 'gap')} inside the trees, the first: {text.gaps[0]}"


def _trees_of(
    dump: ModuleDump, measure: str | None
) -> Iterator[tuple[CallTree, str, tuple[str, ...]]]:
    if dump.call_trees is not None:
        counted = sorted({tree.measure for tree in dump.call_trees.trees})
        if measure is not None and counted != [measure]:
            raise UsageError(
                f"{dump.name}: a trace counts {' and '.join(counted)}; --measure {measure} is for "
                "HLO modules"
            )
        yield from drawn_trees(dump.name, dump.call_trees)
    elif dump.hlo is not None:
        notes = ["no stack frame tables in this text: each stack is its source line alone"]
        tree, more = _module_tree(dump, measure)
        has_frames = bool(dump.hlo.stack_frames)
        yield tree, dump.title, (*(() if has_frames else notes), *more)


def _module_tree(known: ModuleDump, measure: str | None) -> tuple[CallTree, tuple[str, ...]]:
    """Return the tree of a module's stacks, with notes."""
    if measure == CALLS:
        raise UsageError(
            f"{known.title}: a module has no calls; --measure memory, wire-bytes or count"
        )
    if measure == "wire-bytes":
        bounds = collectives(known).known_wire_bytes
        notes = (_AT_MOST,) if bounds.is_at_most else ()
        return wire_call_tree(hlo_text(known), collectives(known)), notes
    if measure == "count":
        return count_call_tree(instruction_table(known), origins(known)), ()
    memory = memory_results(known)
    if memory is not None and memory.peak is not None:
        is_estimate = memory.layout.source == "estimate"
        return memory_call_tree(memory.peak), (ESTIMATE,) if is_estimate else ()
    if measure == "memory":
        raise UsageError(
            f"{known.title}: memory not known: no buffer assignment and live ranges next to "
            "this text, and no schedule in it; try --measure count"
        )
    return count_call_tree(instruction_table(known), origins(known)), (
        "memory not known: nodes count instructions",
    )


def tree_report(
    trees: Sequence[CallTreeAnalysis], view: TreeView, modules: Sequence[ModuleDump]
) -> Report:
    """Return the report on some trees; people see that of the likely training step first.

    Args:
        trees: The trees, in the order of JSON and CSV.
        view: What is shown.
        modules: The modules that they are from.
    """
    report = tree_page(trees, view)
    ranks = {tree.name: place for place, tree in enumerate(trees)}
    if len(ranks) < 2 or len(report.sections) != len(trees):
        return report

    def first() -> Iterator[Section]:
        known = [one for one in modules if one.title in ranks]
        (lead,) = training_step_first(known)[:1] or (0,)
        place = ranks[known[lead].title] if known else 0
        yield report.sections[place]
        yield from (one for k, one in enumerate(report.sections) if k != place)

    return replace(report, first_page=Sections(first))


def folded_lines(trees: Sequence[CallTreeAnalysis], depth: int | None) -> list[str]:
    """Return the folded stacks of some trees, one stack on each line.

    Raises:
        UsageError: If a tree has too many.
    """
    return [line for known in trees for line in folded_stacks(known.tree, depth=depth)]


def tree_diff_report(base: Sequence[CallTreeAnalysis], head: Sequence[CallTreeAnalysis]) -> Report:
    """Return the report on the differences between the trees of two inputs, in their order.

    Raises:
        UsageError: If the numbers of trees differ, or trees have different measures.
    """
    if len(base) != len(head):
        raise UsageError(
            f"{plural(len(base), 'tree')} and {plural(len(head), 'tree')} cannot be compared one "
            "by one; choose with --module"
        )
    pairs = zip(base, head, strict=True)
    return tree_diff_page(
        [(one, other, call_tree_diff(one.tree, other.tree)) for one, other in pairs]
    )
