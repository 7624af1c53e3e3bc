"""Page of ``hlo-lens tree``: call trees as outlines and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.call_trees.facts import (
    OTHERS,
    REDISTRIBUTION,
    call_tree_by,
    call_tree_outline,
    communication_paths,
)
from hlo_lens.call_trees.tree import BYTE_MEASURES, CALLS
from hlo_lens.render.table import Report, Section, Table, shorten
from hlo_lens.render.to_json import envelope
from hlo_lens.text.units import Amount, Kind, format_bytes, format_count, format_ratio, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.call_trees.facts import CommunicationPaths, OutlineLine
    from hlo_lens.call_trees.tree import CallTree, CallTrees

OUTLINE_LINES = 30
"""Default number of nodes of the outline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeView:
    """View of a call tree."""

    by: str | None = None
    sort: str = "own"
    lines: int | None = None
    depth: int | None = None


@dataclass(kw_only=True)
class TitledTree:
    """A call tree with its title, notes on where it comes from, and its view."""

    tree: CallTree
    title: str
    notes: tuple[str, ...] = ()
    view: TreeView = field(default_factory=TreeView)

    @property
    def is_trace(self) -> bool:
        """Whether nodes count calls, which the stacks of a module do not."""
        return self.tree.measure == CALLS

    @cached_property
    def paths(self) -> CommunicationPaths:
        return communication_paths(self.tree)


def drawn_trees(name: str, text: CallTrees, view: TreeView | None = None) -> Iterator[TitledTree]:
    """Yield the trees that a text draws; the first has notes on the lines of no tree."""
    notes = []
    if text.passed_over:
        notes.append(
            f"{plural(text.passed_lines, 'line')} of no tree passed over, the first is line "
            f"{text.passed_over[0][0]}"
        )
    if text.gaps:
        notes.append(f"{plural(len(text.gaps), 'gap')} inside the trees, the first: {text.gaps[0]}")
    for number, tree in enumerate(text.trees, 1):
        which = f", tree {number} of {len(text.trees)}" if len(text.trees) > 1 else ""
        title = f"{name}{which}"
        yield TitledTree(tree=tree, title=title, notes=tuple(notes), view=view or TreeView())
        notes = []


def tree_page(trees: Sequence[TitledTree]) -> Report:
    """Return the report on some trees."""
    objects = [{"name": one.title, **tree_object(one, with_nodes=True)} for one in trees]
    sections = tuple(tree_section(one) for one in trees)
    return Report(kind="tree", sections=sections, data=envelope("tree", trees=objects))


def tree_section(titled: TitledTree) -> Section:
    """Return the section of one tree."""
    return Section(
        title=titled.title,
        facts=tuple(_facts(titled)),
        drawing=() if titled.view.by else tuple(outline_drawing(titled)),
        tables=tuple(_tables(titled)),
        notes=(*_notes(titled), *titled.notes),
    )


_ROOTS_SHOWN = 3


def _facts(titled: TitledTree) -> Iterator[tuple[str, str]]:
    tree = titled.tree
    files = {frame.file for frame in tree.frames} - {None}
    size = (
        f"{plural(len(tree.frames), 'function')} in {plural(len(files), 'file')}, "
        f"{plural(1 + max(tree.depths, default=-1), 'level')} deep"
    )
    if not titled.is_trace:
        yield tree.measure, _total_text(tree)
        yield "stacks", f"{plural(len(tree), 'node')} of {size}"
        return
    yield "calls", f"{format_count(tree.total)} of {size}"
    roots = tree.roots
    shown = [tree.places.text(tree.frame(root)) for root in roots[:_ROOTS_SHOWN]]
    if len(roots) > _ROOTS_SHOWN:
        shown.append(plural(len(roots) - _ROOTS_SHOWN, "other"))
    yield "outermost", "; ".join(shown)
    yield "communication", _communication_text(titled.paths)


def _communication_text(paths: CommunicationPaths) -> str:
    parts = []
    counts = paths.collectives
    if counts:
        names = ", ".join(f"{count} {name}" for name, count in counts.items())
        parts.append(f"{plural(sum(counts.values()), 'collective')}: {names}")
    triggers = [group for group in paths.found if group.kind == REDISTRIBUTION]
    if triggers:
        calls = plural(sum(group.calls for group in triggers), "redistribution")
        idle = format_count(sum(group.idle for group in triggers))
        parts.append(f"{calls}, {idle} of them without a collective")
    return "; ".join(parts) or "none with a known name"


_SHOWN = {
    "function": ("Functions", ["callers", "function", "file", "line"]),
    "file": ("Files", ["callers", "file"]),
    "package": ("Packages", ["callers", "package"]),
}


def _tables(titled: TitledTree) -> Iterator[Table]:
    tree, by, sort = titled.tree, titled.view.by, titled.view.sort
    if titled.is_trace and by in (None, "communication"):
        shown = ("calls", "collectives", "function", "caller", "model", "line")
        title = "Calls that trigger communication, below no other such call"
        yield Table.of(titled.paths, title=title, shown=shown)
    has_packages = titled.is_trace and any(frame.file is not None for frame in tree.frames)
    groupings = ("function", "package") if has_packages else ("function",)
    for grouping in groupings if by is None else [by] if by in _SHOWN else []:
        what, columns = _SHOWN[grouping]
        unknown = ["unknown"] if tree.unknown else []
        order = "own amount" if sort == "own" else "amount at and below them"
        yield Table.of(
            call_tree_by(tree, grouping, sort=sort),
            title=f"{what} by {order}",
            shown=("own", "total", *unknown, "share", *columns),
        )


def _notes(titled: TitledTree) -> Iterator[str]:
    tree = titled.tree
    if tree.is_cut:
        yield "the tree is not complete: its text begins late or ends early"
    if tree.unknown_total:
        yield f"{plural(tree.unknown_total, 'amount')} not known (x?), not in the sums"


_WIDTH = 100
_LEAST = 30
_LEVELS = 16
"""Levels that are indented at most; deeper lines have the number of their level instead."""


def _total_text(tree: CallTree) -> str:
    total = _amount_text(tree.total, tree.unknown_total, tree.measure)
    if tree.upper_bound is None:
        return total
    bound = _amount_text(tree.upper_bound, tree.unknown_total, tree.measure, Kind.AT_MOST)
    return bound + f"; all branches together {total}" * (tree.upper_bound != tree.total)


def _amount_text(amount: int, unknown: int, measure: str, kind: Kind = Kind.EXACT) -> str:
    """Return an amount in its unit, with ``x?`` for unknown parts."""
    text = Amount(amount, kind).text(format_bytes if measure in BYTE_MEASURES else format_count)
    return f"{text} + {unknown} x?" if unknown else text


def outline_drawing(titled: TitledTree) -> Iterator[str]:
    """Yield a heading, the lines of a tree's outline, and its residuals."""
    tree, view, whole = titled.tree, titled.view, titled.tree.total
    lines = OUTLINE_LINES if view.lines is None else view.lines
    rows = [("total", "own", "share", "function")]
    bars: list[str] = []
    for line in call_tree_outline(tree, lines=lines, depth=view.depth):
        del bars[line.depth :]
        branch = "" if not line.depth else "└─ " if line.is_last else "├─ "
        label = _label(tree, line)
        own = "" if line.node == OTHERS else _amount_text(line.own, 0, tree.measure)
        is_deep = line.depth > _LEVELS
        rows.append(
            (
                _amount_text(line.total, line.unknown, tree.measure),
                own,
                format_ratio(line.total / whole) if whole else "",
                "".join(bars[: _LEVELS + 1])
                + (f"… level {line.depth + 1}: {label}" if is_deep else f"{branch}{label}"),
            )
        )
        bars.append("" if not line.depth else "   " if line.is_last else "│  ")
    for name, amount in tree.residuals:
        share = format_ratio(amount / whole) if whole else ""
        rows.append((_amount_text(amount, 0, tree.measure), "", share, name))

    columns = (0, 2) if titled.is_trace else (0, 1, 2)
    widths = [max(len(row[column]) for row in rows) for column in columns]
    for row in rows:
        numbers = "  ".join(f"{row[c]:>{width}}" for c, width in zip(columns, widths, strict=True))
        yield f"{numbers}  {_fitted(row[3], max(_LEAST, _WIDTH - len(numbers) - 2))}"


def _label(tree: CallTree, line: OutlineLine) -> str:
    if line.node == OTHERS:
        return f"[{plural(line.times, 'other')}]"
    text = tree.places.text(tree.frame(line.node))
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return f"{shown}  x{line.times}" if line.times > 1 else shown


def _fitted(text: str, room: int) -> str:
    """Return a line that fits: its branches and the end of its path are kept."""
    if len(text) <= room:
        return text
    start = len(text) - len(text.lstrip("│├└─ "))
    return text[:start] + shorten(text[start:], max(_LEAST, room - start))


def tree_object(titled: TitledTree, *, with_nodes: bool) -> dict[str, object]:
    """Return the JSON object of a tree; all nodes, if wanted, as columns in preorder."""
    tree = titled.tree
    data: dict[str, object] = {
        "measure": tree.measure,
        "total": tree.total,
        "upper_bound": tree.upper_bound,
        "unknown": tree.unknown_total,
        "nodes": len(tree),
        "functions": len(tree.frames),
        "depth": 1 + max(tree.depths, default=-1),
        "is_cut": tree.is_cut,
        "residuals": dict(tree.residuals),
    }
    for by in _SHOWN:
        data[f"by_{by}"] = call_tree_by(tree, by, sort=titled.view.sort).objects()
    if titled.is_trace:
        data["communication"] = {"triggers": titled.paths.objects()}
    if with_nodes:
        data["frames"] = [[f.function, f.file, f.line] for f in tree.frames]
        data["node_columns"] = {
            "frame": list(tree.frame_ids),
            "parent": list(tree.parents),
            "own": list(tree.own),
            "total": list(tree.totals),
            "text_line": list(tree.lines),
        }
    return data


def trees_object(text: CallTrees, trees: Iterable[TitledTree]) -> Mapping[str, object]:
    """Return the JSON objects of all trees of a text, without nodes, and its other lines."""
    return {
        "trees": [tree_object(titled, with_nodes=False) for titled in trees],
        "passed_over": [list(stretch) for stretch in text.passed_over],
        "gaps": [[gap.line, gap.column, gap.message, gap.lines] for gap in text.gaps],
    }
