"""Call trees for people and for scripts: a trace and the stacks of a module read alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.call_trees.communication_kind import (
    COLLECTIVE,
    FOUND,
    REDISTRIBUTION,
)
from hlo_lens.analysis.call_trees.source_files import Places
from hlo_lens.report.call_trees.drawing import amount_text, outline_drawing
from hlo_lens.report.render.table import Section, Table
from hlo_lens.report.render.units import format_count, plural

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.call_trees.communication_paths import CommunicationPaths
    from hlo_lens.analysis.call_trees.tree_analysis import CallTreeAnalysis
    from hlo_lens.model.call_tree import CallTree, CallTrees

OUTLINE_LINES = 30
"""Nodes of the outline where nobody says how many."""

_ROOTS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeView:
    """What of a tree is shown.

    Attributes:
        by: One table only: ``function``, ``file``, ``package``, ``communication`` or ``repeats``;
            None for the page.
        sort: ``own`` or ``total``.
        find: Functions that count as communication too.
        program: Files of the program.
        lines: Nodes of the outline, 0 for all; None for `OUTLINE_LINES`.
        depth: Levels of the outline; None for all.
    """

    by: str | None = None
    sort: str = "own"
    find: re.Pattern[str] | None = None
    program: re.Pattern[str] | None = None
    lines: int | None = None
    depth: int | None = None


PAGE = TreeView()


def tree_section(known: CallTreeAnalysis, view: TreeView = PAGE) -> Section:
    """Return the section of one tree."""
    lines = OUTLINE_LINES if view.lines is None else view.lines
    drawn = () if view.by else outline_drawing(known.outline(lines=lines, depth=view.depth))
    return Section(
        title=known.name,
        facts=tuple(_facts(known)),
        drawing=tuple(drawn),
        tables=tuple(_tables(known, view)),
        notes=(*_notes(known), *known.notes),
    )


def _facts(known: CallTreeAnalysis) -> Iterator[tuple[str, str]]:
    """Yield the lines at the head of a tree."""
    tree = known.tree
    files = {frame.file for frame in tree.frames} - {None}
    size = (
        f"{plural(len(tree.frames), 'function')} in {plural(len(files), 'file')}, "
        f"{plural(1 + max(tree.depths, default=-1), 'level')} deep"
    )
    if not known.is_trace:
        yield tree.measure, amount_text(tree.total, tree.unknown_total, tree.measure)
        yield "stacks", f"{plural(len(tree), 'node')} of {size}"
        return
    repeated = "" if tree.total == len(tree) else f", drawn in {plural(len(tree), 'line')}"
    yield "calls", f"{format_count(tree.total)} of {size}{repeated}"
    yield "outermost", _roots_text(tree)
    yield "communication", _communication_text(known.paths)


def _roots_text(tree: CallTree) -> str:
    places, roots = Places(tree.frames), tree.roots
    shown = "; ".join(places.text(tree.frame(root)) for root in roots[:_ROOTS_SHOWN])
    rest = len(roots) - _ROOTS_SHOWN
    return f"{shown}; {plural(rest, 'other')}" if rest > 0 else shown


def _communication_text(paths: CommunicationPaths) -> str:
    """Return how many collectives there are, and what redistributes without any."""
    functions = paths.functions
    parts = []
    for kind, noun in ((COLLECTIVE, "collective"), (FOUND, "call asked for")):
        counts = functions.counts(kind)
        if counts:
            names = ", ".join(f"{count} {name}" for name, count in counts.items())
            parts.append(f"{plural(sum(counts.values()), noun)}: {names}")
    triggers = [one for one in paths.found if one.kind == REDISTRIBUTION]
    if triggers:
        calls = sum(one.calls for one in triggers)
        idle = sum(one.idle for one in triggers)
        parts.append(
            f"{plural(calls, 'redistribution')}, {format_count(idle)} of them without a collective"
        )
    return "; ".join(parts) or "none by the names that are known; --find REGEX adds some"


def _tables(known: CallTreeAnalysis, view: TreeView) -> Iterator[Table]:
    """Yield the tables of a tree, or the one that is asked for."""
    by, is_trace = view.by, known.is_trace
    if is_trace and by in (None, "communication"):
        paths = known.paths
        yield Table.of(paths.functions, title="Functions that communicate")
        shown = ["calls", "collectives", "function", "caller", "model", "operator", "line"]
        if not any(one.operator for one in paths.found):
            shown.remove("operator")
        title = "What triggers communication: calls inside no other that communicates"
        yield Table.of(paths, title=title, shown=shown)
    if by in (None, "function"):
        yield _groups(known, "function", view.sort)
    if by == "file":
        yield _groups(known, "file", view.sort)
    has_files = any(frame.file is not None for frame in known.tree.frames)
    if by == "package" or (by is None and is_trace and has_files):
        yield _groups(known, "package", view.sort)
    if is_trace and by in (None, "repeats"):
        yield Table.of(known.repeats, title="Equal subtrees, wherever they are")


_SHOWN = {
    "function": ("own", "total", "share", "callers", "function", "file", "line"),
    "file": ("own", "total", "share", "callers", "file"),
    "package": ("own", "total", "share", "callers", "package"),
}


def _groups(known: CallTreeAnalysis, by: str, sort: str) -> Table:
    what = {"function": "Functions", "file": "Files", "package": "Packages"}[by]
    order = "what they count themselves" if sort == "own" else "what is at and below them"
    shown = list(_SHOWN[by])
    if known.tree.unknown:
        shown.insert(2, "unknown")
    return Table.of(known.by(by, sort), title=f"{what} by {order}", shown=tuple(shown))


def _notes(known: CallTreeAnalysis) -> Iterator[str]:
    """Yield the notes on a tree: missing parts and limits of its counts."""
    tree = known.tree
    if tree.is_cut:
        yield "the tree is not complete: its text begins late or ends early"
    if tree.missing_calls:
        yield (
            f"{plural(tree.missing_calls, 'branch')} announce further calls that are not there: "
            "lines are missing"
        ).replace("branchs", "branches")
    if tree.unknown_total:
        yield f"{plural(tree.unknown_total, 'amount')} not known (x?), not in the sums"
    if not known.is_trace:
        return
    if _draws_once(tree):
        yield (
            "below no caller is a function drawn twice: the tracer drew each once, so that counts "
            "are of what it drew, and a later call may stand below another function than its caller"
        )
    if any(one.operator for one in known.paths.found):
        yield (
            "operator: the sharding rules that are drawn before the calls; a rule that came from a "
            "cache is not drawn"
        )


_LARGE = 100


def _draws_once(tree: CallTree) -> bool:
    """Whether no two calls of one function stand below one caller, in a tree of some size."""
    if len(tree) < _LARGE or len(tree.frames) * 2 > len(tree):
        return False
    seen: set[tuple[int, int]] = set()
    for parent, frame in zip(tree.parents, tree.frame_ids, strict=True):
        if (parent, frame) in seen:
            return False
        seen.add((parent, frame))
    return True


# ---- for scripts -------------------------------------------------------------------------------


def tree_object(known: CallTreeAnalysis, view: TreeView, *, with_nodes: bool) -> dict[str, object]:
    """Return the JSON object of a tree.

    Args:
        known: The tree.
        view: Order of groups.
        with_nodes: Whether all nodes are in it, as columns in preorder.
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
