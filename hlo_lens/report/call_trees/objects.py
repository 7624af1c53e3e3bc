"""JSON objects of call trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.report.call_trees.section import PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.call_trees.tree_analysis import CallTreeAnalysis
    from hlo_lens.model.call_tree import CallTrees
    from hlo_lens.report.call_trees.section import TreeView


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
        "total": tree.total,
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
    if with_nodes:
        found["frames"] = [[f.function, f.file, f.line] for f in tree.frames]
        found["node_columns"] = {
            "frame": list(tree.frame_ids),
            "parent": list(tree.parents),
            "own": list(tree.own),
            "total": list(tree.totals),
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
