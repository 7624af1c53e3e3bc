"""Section of a call tree: facts, outline and tables, for traces and stacks of modules alike."""

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
from hlo_lens.text.units import format_count, plural

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from hlo_lens.analysis.call_trees.communication_paths import CommunicationPaths
    from hlo_lens.analysis.call_trees.tree_analysis import CallTreeAnalysis
    from hlo_lens.model.call_tree import CallTree

OUTLINE_LINES = 30
"""Default number of nodes of the outline."""

_ROOTS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeView:
    """View of a call tree.

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
    """Return the number of collectives, and of redistributions without one."""
    functions = paths.functions
    parts = []
    for kind, noun in ((COLLECTIVE, "collective"), (FOUND, "call matched by --find")):
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
    return "; ".join(parts) or "none with a known name; --find REGEX adds names"


def _tables(known: CallTreeAnalysis, view: TreeView) -> Iterator[Table]:
    """Yield the tables of a tree, or the one that the view names."""
    by, is_trace = view.by, known.is_trace
    if is_trace and by in (None, "communication"):
        paths = known.paths
        yield Table.of(paths.functions, title="Functions that communicate")
        shown = ["calls", "collectives", "function", "caller", "model", "operator", "line"]
        if not any(one.operator for one in paths.found):
            shown.remove("operator")
        title = "Calls that trigger communication, below no other such call"
        yield Table.of(paths, title=title, shown=shown)
    if by in (None, "function"):
        yield _groups(known, "function", view.sort)
    if by == "file":
        yield _groups(known, "file", view.sort)
    has_files = any(frame.file is not None for frame in known.tree.frames)
    if by == "package" or (by is None and is_trace and has_files):
        yield _groups(known, "package", view.sort)
    if is_trace and by in (None, "repeats"):
        yield Table.of(known.repeats, title="Equal subtrees")


_SHOWN = {
    "function": ("own", "total", "share", "callers", "function", "file", "line"),
    "file": ("own", "total", "share", "callers", "file"),
    "package": ("own", "total", "share", "callers", "package"),
}


def _groups(known: CallTreeAnalysis, by: str, sort: str) -> Table:
    what = {"function": "Functions", "file": "Files", "package": "Packages"}[by]
    order = "own amount" if sort == "own" else "amount at and below them"
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
            f"{plural(tree.missing_calls, 'branch')} announce further calls that do not follow: "
            "lines are missing"
        ).replace("branchs", "branches")
    if tree.unknown_total:
        yield f"{plural(tree.unknown_total, 'amount')} not known (x?), not in the sums"
    if not known.is_trace:
        return
    if _draws_once(tree):
        yield (
            "no function occurs twice below one caller: the tracer drew each once, so that counts "
            "are of drawn calls, and a later call may be below another function than its caller"
        )
    if any(one.operator for one in known.paths.found):
        yield (
            "operator: the sharding rules drawn before the calls; a rule from a cache is not drawn"
        )


_LARGE = 100


def _draws_once(tree: CallTree) -> bool:
    """Return whether, in a tree of some size, no caller has two calls of one function."""
    if len(tree) < _LARGE or len(tree.frames) * 2 > len(tree):
        return False
    seen: set[tuple[int, int]] = set()
    for parent, frame in zip(tree.parents, tree.frame_ids, strict=True):
        if (parent, frame) in seen:
            return False
        seen.add((parent, frame))
    return True
