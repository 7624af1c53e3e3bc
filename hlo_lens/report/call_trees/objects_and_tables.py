"""Call trees for people and for scripts: a trace and the stacks of a module read alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.call_trees.communication_paths import (
    COLLECTIVE,
    FOUND,
    REDISTRIBUTION,
    communication_paths,
)
from hlo_lens.analysis.call_trees.grouping import call_tree_by
from hlo_lens.analysis.call_trees.outline import call_tree_outline
from hlo_lens.analysis.call_trees.repeats import call_tree_repeats, subtree_shapes
from hlo_lens.analysis.call_trees.source_files import Places
from hlo_lens.report.call_trees.drawing import amount_text, outline_drawing
from hlo_lens.report.render.table import Section, Table
from hlo_lens.report.render.units import format_count, plural

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.analysis.call_trees.communication_paths import CommunicationPaths
    from hlo_lens.analysis.result import Result
    from hlo_lens.model.call_tree import CallTree, CallTrees
    from hlo_lens.model.dump import ModuleDump

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


def texts_drawn(dump: ModuleDump) -> Iterator[Section]:
    """Yield a section for each call tree that a text draws."""
    found = dump.call_trees
    if found is None:
        return
    for number, tree in enumerate(found.trees):
        notes = tuple(text_notes(found)) if number == 0 else ()
        yield tree_section(tree, tree_name(dump.name, found.trees, number), PAGE, notes=notes)


def tree_name(name: str, trees: Sequence[CallTree], number: int) -> str:
    """Return the name of one of the trees of a text."""
    title = trees[number].title
    which = f", tree {number + 1} of {len(trees)}" if len(trees) > 1 else ""
    return f"{name}{which}{f': {title}' if title else ''}"


def tree_section(
    tree: CallTree,
    name: str,
    view: TreeView,
    *,
    facts: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> Section:
    """Return the section of one tree.

    Args:
        tree: The tree.
        name: Its title.
        view: What is shown.
        facts: Lines at the head, after those on the tree.
        notes: Sentences at the end, after those on the tree.
    """
    shapes = subtree_shapes(tree)
    lines = OUTLINE_LINES if view.lines is None else view.lines
    outline = call_tree_outline(tree, shapes, lines=lines, depth=view.depth)
    paths = communication_paths(tree, find=view.find, program=view.program)
    is_trace = tree.measure == "calls"
    return Section(
        title=name,
        facts=(*_facts(tree, paths if is_trace else None), *facts),
        drawing=() if view.by else tuple(outline_drawing(outline)),
        tables=tuple(_tables(tree, shapes, paths, view)),
        notes=(*_notes(tree, paths if is_trace else None), *notes),
    )


def _facts(tree: CallTree, paths: CommunicationPaths | None) -> Iterator[tuple[str, str]]:
    """Yield the lines at the head of a tree."""
    files = {frame.file for frame in tree.frames} - {None}
    size = (
        f"{plural(len(tree.frames), 'function')} in {plural(len(files), 'file')}, "
        f"{plural(1 + max(tree.depths, default=-1), 'level')} deep"
    )
    if paths is None:
        yield tree.measure, amount_text(tree.total, tree.unknown_total, tree.measure)
        yield "stacks", f"{plural(len(tree), 'node')} of {size}"
        return
    repeated = "" if tree.total == len(tree) else f", drawn in {plural(len(tree), 'line')}"
    yield "calls", f"{format_count(tree.total)} of {size}{repeated}"
    yield "outermost", _roots_text(tree)
    yield "communication", _communication_text(paths)


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


def _tables(
    tree: CallTree, shapes: Sequence[int], paths: CommunicationPaths, view: TreeView
) -> Iterator[Table]:
    """Yield the tables of a tree, or the one that is asked for."""
    is_trace = tree.measure == "calls"
    by = view.by
    if is_trace and by in (None, "communication"):
        yield Table.of(paths.functions, title="Functions that communicate")
        shown = ["calls", "collectives", "function", "caller", "model", "operator", "line"]
        if not any(one.operator for one in paths.found):
            shown.remove("operator")
        title = "What triggers communication: calls inside no other that communicates"
        yield Table.of(paths, title=title, shown=shown)
    if by in (None, "function"):
        yield _groups(tree, "function", view.sort)
    if by == "file":
        yield _groups(tree, "file", view.sort)
    has_files = any(frame.file is not None for frame in tree.frames)
    if by == "package" or (by is None and is_trace and has_files):
        yield _groups(tree, "package", view.sort)
    if is_trace and by in (None, "repeats"):
        repeats = call_tree_repeats(tree, shapes)
        yield Table.of(repeats, title="Equal subtrees, wherever they are")


_SHOWN = {
    "function": ("own", "total", "share", "callers", "function", "file", "line"),
    "file": ("own", "total", "share", "callers", "file"),
    "package": ("own", "total", "share", "callers", "package"),
}


def _groups(tree: CallTree, by: str, sort: str) -> Table:
    what = {"function": "Functions", "file": "Files", "package": "Packages"}[by]
    order = "what they count themselves" if sort == "own" else "what is at and below them"
    shown = list(_SHOWN[by])
    if tree.unknown:
        shown.insert(2, "unknown")
    return Table.of(
        call_tree_by(tree, by, sort=sort), title=f"{what} by {order}", shown=tuple(shown)
    )


def _notes(tree: CallTree, paths: CommunicationPaths | None) -> Iterator[str]:
    """Yield what a reader must know of a tree."""
    if tree.is_cut:
        yield "the tree is not complete: its text begins late or ends early"
    if tree.missing_calls:
        yield (
            f"{plural(tree.missing_calls, 'branch')} announce further calls that are not there: "
            "lines are missing"
        ).replace("branchs", "branches")
    if tree.unknown_total:
        yield f"{plural(tree.unknown_total, 'amount')} not known (x?), not in the sums"
    if paths is None:
        return
    if _draws_once(tree):
        yield (
            "below no caller is a function drawn twice: the tracer drew each once, so that counts "
            "are of what it drew, and a later call may stand below another function than its caller"
        )
    if any(one.operator for one in paths.found):
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


def text_notes(found: CallTrees) -> Iterator[str]:
    """Yield what a text holds beside its trees."""
    if found.passed_over:
        yield (
            f"{plural(found.passed_lines, 'line')} of no tree passed over, the first is line "
            f"{found.passed_over[0][0]}"
        )
    if found.gaps:
        yield f"{plural(len(found.gaps), 'gap')} inside the trees, the first: {found.gaps[0]}"


# ---- for scripts -------------------------------------------------------------------------------


def tree_object(tree: CallTree, view: TreeView, *, with_nodes: bool) -> Mapping[str, object]:
    """Return the JSON object of a tree.

    Args:
        tree: The tree.
        view: What counts as communication, and the order of groups.
        with_nodes: Whether all nodes are in it, as columns in preorder.
    """
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
        found[f"by_{by}"] = _objects(call_tree_by(tree, by, sort=view.sort))
    if tree.measure == "calls":
        paths = communication_paths(tree, find=view.find, program=view.program)
        found["communication"] = {
            "functions": _objects(paths.functions),
            "triggers": _objects(paths),
        }
        found["repeats"] = _objects(call_tree_repeats(tree, subtree_shapes(tree)))
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


def trees_object(
    found: CallTrees, *, with_nodes: bool = False, view: TreeView = PAGE
) -> Mapping[str, object]:
    """Return the JSON objects of all trees of a text, and what was passed over."""
    return {
        "trees": [tree_object(tree, view, with_nodes=with_nodes) for tree in found.trees],
        "passed_over": [list(stretch) for stretch in found.passed_over],
        "gaps": [[gap.line, gap.column, gap.message, gap.lines] for gap in found.gaps],
    }


def _objects(result: Result) -> list[Mapping[str, object]]:
    """Return the rows of a result as objects."""
    names = [column.name for column in result.COLUMNS]
    return [dict(zip(names, row, strict=True)) for row in result.rows()]
