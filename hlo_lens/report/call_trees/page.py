"""What ``hlo-lens tree`` says: drawn trees, the stacks of modules, or two of either compared."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.analysis.call_trees.difference import CallTreeDiff, call_tree_diff
from hlo_lens.analysis.call_trees.folded_stacks import folded_stacks
from hlo_lens.analysis.call_trees.module_stacks import (
    count_call_tree,
    memory_call_tree,
    wire_call_tree,
)
from hlo_lens.analysis.collectives.collectives import collectives
from hlo_lens.analysis.memory.results import ESTIMATE, memory_results
from hlo_lens.analysis.program.backend import backend_of_dump
from hlo_lens.model.hlo.query import tabulate
from hlo_lens.report.call_trees.drawing import amount_text
from hlo_lens.report.call_trees.objects_and_tables import (
    TreeView,
    text_notes,
    tree_name,
    tree_object,
    tree_section,
)
from hlo_lens.report.render.envelope import SCHEMA_VERSION
from hlo_lens.report.render.table import Report, Section, Table
from hlo_lens.report.render.units import plural
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.model.call_tree import CallTree
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.hlo.module import HloModule

CALLS = "calls"
MEASURES = (CALLS, "memory", "wire-bytes", "count")


class NamedTree:
    """A tree with its name and what is said below it.

    Args:
        name: Title.
        tree: The tree.
        notes: Sentences on where it comes from.
    """

    def __init__(self, name: str, tree: CallTree, notes: Sequence[str] = ()) -> None:
        self.name = name
        self.tree = tree
        self.notes = tuple(notes)


def named_trees(modules: Sequence[ModuleDump], measure: str | None) -> list[NamedTree]:
    """Return the trees of some modules and texts.

    Args:
        modules: HLO modules, or texts that draw trees.
        measure: What nodes count; None for calls in traces, and in modules for the bytes alive at
            the peak, or the instructions where these are not known.

    Texts that cannot be counted so are left out where others can; the first tree says which.

    Raises:
        UsageError: If there is no tree that counts this.
    """
    found: list[NamedTree] = []
    refused: list[UsageError] = []
    for dump in modules:
        try:
            found += _trees_of(dump, measure)
        except UsageError as error:
            refused.append(error)
    if refused and not found:
        raise refused[0]
    if refused:
        first = found[0]
        more = f", and {len(refused) - 1} others" if len(refused) > 1 else ""
        left_out = f"left out: {refused[0]}{more}"
        first.notes = (*first.notes, left_out)
    if not found:
        names = ", ".join(dump.name for dump in modules) or "the input"
        message = f"{names}: no call tree, and no HLO text whose stacks could be one"
        raise UsageError(message)
    return found


def _trees_of(dump: ModuleDump, measure: str | None) -> Iterator[NamedTree]:
    if dump.call_trees is not None:
        if measure not in (None, CALLS):
            message = f"{dump.name}: a trace counts calls; --measure {measure} is for HLO modules"
            raise UsageError(message)
        trees = dump.call_trees.trees
        for number, tree in enumerate(trees):
            notes = text_notes(dump.call_trees) if number == 0 else ()
            yield NamedTree(tree_name(dump.name, trees, number), tree, tuple(notes))
    elif dump.hlo is not None:
        yield _module_tree(dump, dump.hlo, measure)


def _module_tree(dump: ModuleDump, module: HloModule, measure: str | None) -> NamedTree:
    """Return the tree of a module's stacks."""
    if measure == CALLS:
        message = f"{dump.title}: a module has no calls; --measure memory, wire-bytes or count"
        raise UsageError(message)
    notes = []
    if not module.stack_frames:
        notes.append("no stack frame tables in this text: each stack is its source line alone")
    if measure in (None, "memory"):
        results = memory_results(dump, backend=backend_of_dump(dump))
        if results is not None and results.peak is not None:
            if results.layout.source == "estimate":
                notes.append(ESTIMATE)
            return NamedTree(dump.title, memory_call_tree(results.peak), notes)
        if measure == "memory":
            message = (
                f"{dump.title}: memory not known: no buffer assignment and live ranges beside this "
                "text, and no schedule in it; try --measure count"
            )
            raise UsageError(message)
        notes.append("memory not known: nodes count instructions")
    table = tabulate(module)
    if measure == "wire-bytes":
        found = collectives(table, before=partial(_before, dump))
        return NamedTree(dump.title, wire_call_tree(module, found), notes)
    return NamedTree(dump.title, count_call_tree(table), notes)


def _before(dump: ModuleDump) -> HloModule | None:
    """Return a module's text from before optimizations, read at this call."""
    return dump.before


def tree_report(trees: Sequence[NamedTree], view: TreeView, *, tool_version: str) -> Report:
    """Return the report on some trees."""
    sections = []
    for named in trees:
        section = tree_section(named.tree, named.name, view, notes=named.notes)
        sections.append(section)
    data = {
        "schema_version": SCHEMA_VERSION,
        "kind": "tree",
        "tool_version": tool_version,
        "trees": [
            {"name": named.name, **tree_object(named.tree, view, with_nodes=True)}
            for named in trees
        ],
    }
    return Report(kind="tree", sections=tuple(sections), data=data)


def write_folded(trees: Sequence[NamedTree], path: str, *, depth: int | None) -> None:
    """Write the folded stacks of some trees to a file, or to standard output for ``-``.

    Raises:
        UsageError: If they are too long, or the file cannot be written.
    """
    lines = [folded_stacks(named.tree, depth=depth) for named in trees]
    if path == "-":
        sys.stdout.writelines(f"{line}\n" for found in lines for line in found)
        return
    try:
        with Path(path).open("w", encoding="utf-8", errors="backslashreplace") as out:
            out.writelines(f"{line}\n" for found in lines for line in found)
    except OSError as error:
        message = f"{path}: cannot be written: {error.strerror or error}"
        raise UsageError(message) from error


def tree_diff_report(
    base: Sequence[NamedTree], head: Sequence[NamedTree], *, tool_version: str
) -> Report:
    """Return the report on what differs between the trees of two inputs, in their order.

    Raises:
        UsageError: If they have not as many trees, or trees that do not count the same.
    """
    if len(base) != len(head):
        message = (
            f"{plural(len(base), 'tree')} and {plural(len(head), 'tree')} cannot be compared one "
            "by one; choose with --module"
        )
        raise UsageError(message)
    pairs = list(zip(base, head, strict=True))
    diffs = [call_tree_diff(a.tree, b.tree) for a, b in pairs]
    return Report(
        kind="tree-diff",
        sections=tuple(
            _diff_section(a, b, diff) for (a, b), diff in zip(pairs, diffs, strict=True)
        ),
        data={
            "schema_version": SCHEMA_VERSION,
            "kind": "tree-diff",
            "tool_version": tool_version,
            "trees": [_diff_object(a, b, diff) for (a, b), diff in zip(pairs, diffs, strict=True)],
        },
    )


def has_changes(report: Report) -> bool:
    """Return whether a report of `tree_diff_report` tells any difference."""
    return any(table.row_count for section in report.sections for table in section.tables)


def _diff_section(base: NamedTree, head: NamedTree, diff: CallTreeDiff) -> Section:
    measure = base.tree.measure
    before, after = base.tree, head.tree
    counts = {"added": 0, "removed": 0, "changed": 0}
    for change in diff.changes:
        counts[change.status] += 1
    parts = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return Section(
        title=base.name if base.name == head.name else f"{base.name} against {head.name}",
        facts=(
            ("base", amount_text(before.total, before.unknown_total, measure)),
            ("head", amount_text(after.total, after.unknown_total, measure)),
            ("paths", parts or "no difference"),
        ),
        tables=(Table.of(diff, title="What came, went and changed, the largest first"),),
        notes=(*base.notes, *head.notes),
    )


def _diff_object(base: NamedTree, head: NamedTree, diff: CallTreeDiff) -> Mapping[str, object]:
    names = [column.name for column in diff.COLUMNS]
    return {
        "name_base": base.name,
        "name_head": head.name,
        "measure": base.tree.measure,
        "total": {"base": diff.base_total, "head": diff.head_total},
        "unknown": {"base": base.tree.unknown_total, "head": head.tree.unknown_total},
        "changes": [dict(zip(names, row, strict=True)) for row in diff.rows()],
    }
