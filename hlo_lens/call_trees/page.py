"""Pages of ``hlo-lens tree``: call trees, or the differences of pairs of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.call_trees.call_tree import PROFILES, in_unit
from hlo_lens.call_trees.section import PAGE, TreeView, total_text, tree_section
from hlo_lens.render.envelope import envelope
from hlo_lens.render.table import Report, Section, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.call_trees.call_tree import CallTrees
    from hlo_lens.call_trees.difference import CallTreeDiff
    from hlo_lens.call_trees.tree_analysis import CallTreeAnalysis


def tree_page(trees: Sequence[CallTreeAnalysis], view: TreeView) -> Report:
    """Return the report on some trees."""
    objects = [{"name": known.name, **tree_object(known, view, with_nodes=True)} for known in trees]
    return Report(
        kind="tree",
        sections=tuple(tree_section(known, view) for known in trees),
        data=envelope("tree", trees=objects),
    )


def tree_diff_page(
    pairs: Sequence[tuple[CallTreeAnalysis, CallTreeAnalysis, CallTreeDiff]],
) -> Report:
    """Return the report on the differences of pairs of trees: base, head, difference."""
    return Report(
        kind="tree-diff",
        sections=tuple(_diff_section(*pair) for pair in pairs),
        data=envelope("tree-diff", trees=[_diff_object(*pair) for pair in pairs]),
    )


def has_changes(report: Report) -> bool:
    """Return whether a report of `tree_diff_page` has any difference."""
    return any(table.row_count for section in report.sections for table in section.tables)


def _diff_section(base: CallTreeAnalysis, head: CallTreeAnalysis, diff: CallTreeDiff) -> Section:
    before, after = base.tree, head.tree
    counts: Counter[str] = Counter(change.status for change in diff.changes)
    words = ("added", "removed", "changed")
    parts = ", ".join(f"{counts[status]} {status}" for status in words if counts[status])
    return Section(
        title=base.name if base.name == head.name else f"{base.name} against {head.name}",
        facts=(
            ("base", total_text(before)),
            ("head", total_text(after)),
            ("paths", parts or "no difference"),
        ),
        tables=(Table.of(diff, title="Added, removed and changed calls, largest first"),),
        notes=(*base.notes, *head.notes),
    )


def _diff_object(
    base: CallTreeAnalysis, head: CallTreeAnalysis, diff: CallTreeDiff
) -> Mapping[str, object]:
    return {
        "name_base": base.name,
        "name_head": head.name,
        "measure": base.tree.measure,
        "total": {"base": diff.base_total, "head": diff.head_total},
        "upper_bound": {"base": base.tree.upper_bound, "head": head.tree.upper_bound},
        "unknown": {"base": base.tree.unknown_total, "head": head.tree.unknown_total},
        "changes": diff.objects(),
    }


# ---- JSON ---------------------------------------------------------------------------------------


def tree_object(known: CallTreeAnalysis, view: TreeView, *, with_nodes: bool) -> dict[str, object]:
    """Return the JSON object of a tree.

    Args:
        known: The tree.
        view: Order of groups.
        with_nodes: Whether to include all nodes, as columns in preorder.
    """
    tree = known.tree
    found: dict[str, object] = {
        "title": tree.title,
        "measure": tree.measure,
        "total": in_unit(tree.total, tree.measure),
        "upper_bound": tree.upper_bound,
        "unknown": tree.unknown_total,
        "nodes": len(tree),
        "functions": len(tree.frames),
        "depth": 1 + max(tree.depths, default=-1),
        "is_cut": tree.is_cut,
        "missing_calls": tree.missing_calls,
        "residuals": dict(tree.residuals),
    }
    for by in ("function", "file", "package"):
        found[f"by_{by}"] = known.by(by, view.sort).objects()
    if known.is_trace:
        found["communication"] = {
            "functions": known.paths.functions.objects(),
            "triggers": known.paths.objects(),
        }
        found["repeats"] = known.repeats.objects()
    if tree.measure in PROFILES:
        amounts = known.communication.of_function
        found["communication_totals"] = {
            name: in_unit(amount, tree.measure) for name, amount in amounts.items()
        }
    if with_nodes:
        found["frames"] = [[f.function, f.file, f.line] for f in tree.frames]
        found["node_columns"] = {
            "frame": list(tree.frame_ids),
            "parent": list(tree.parents),
            "own": [in_unit(amount, tree.measure) for amount in tree.own],
            "total": [in_unit(amount, tree.measure) for amount in tree.totals],
            "text_line": list(tree.lines),
        }
    return found


def trees_object(text: CallTrees, known: Sequence[CallTreeAnalysis]) -> dict[str, object]:
    """Return the JSON objects of all trees of a text, without nodes, and its other lines."""
    return {
        "trees": [tree_object(tree, PAGE, with_nodes=False) for tree in known],
        "passed_over": [list(stretch) for stretch in text.passed_over],
        "gaps": [[gap.line, gap.column, gap.message, gap.lines] for gap in text.gaps],
    }
