"""Section of a call tree: facts, outline and tables, for traces and stacks of modules alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.call_trees.call_tree import PERCENT, PROFILES, SECONDS, in_unit
from hlo_lens.call_trees.communication_kind import COLLECTIVE, FOUND, REDISTRIBUTION
from hlo_lens.call_trees.grouping import BYTE_MEASURES
from hlo_lens.call_trees.outline import OTHERS, CallTreeOutline, OutlineLine
from hlo_lens.call_trees.source_files import Places
from hlo_lens.render.table import Section, Table, shorten
from hlo_lens.text.units import format_bytes, format_count, format_ratio, format_seconds, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.call_trees.call_tree import CallTree
    from hlo_lens.call_trees.communication_paths import CommunicationPaths
    from hlo_lens.call_trees.tree_analysis import CallTreeAnalysis
    from hlo_lens.text.name_pattern import NamePattern

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
    find: NamePattern | None = None
    program: NamePattern | None = None
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
    tree = known.tree
    files = {frame.file for frame in tree.frames} - {None}
    size = (
        f"{plural(len(tree.frames), 'function')} in {plural(len(files), 'file')}, "
        f"{plural(1 + max(tree.depths, default=-1), 'level')} deep"
    )
    if not known.is_trace:
        yield tree.measure, total_text(tree)
        yield "stacks", f"{plural(len(tree), 'node')} of {size}"
        if tree.measure in PROFILES:
            yield "communication", _share_text(known)
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


def _share_text(known: CallTreeAnalysis) -> str:
    """Return the amounts of the communicating functions of a profile."""
    amounts, tree = known.communication, known.tree
    if not amounts.total:
        return "none with a known name; --find REGEX adds names"
    share = format_ratio(amounts.total / tree.total)
    names = ", ".join(
        f"{name} {amount_text(amount, 0, tree.measure)}"
        for name, amount in amounts.of_function.items()
    )
    return f"{amount_text(amounts.total, 0, tree.measure)}, {share}: {names}"


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


# ---- drawing ------------------------------------------------------------------------------------


_WIDTH = 100
_LEAST = 30
_LEVELS = 16
"""Levels that are indented at most; deeper lines have the number of their level instead."""


def total_text(tree: CallTree) -> str:
    """Return the sum of all amounts, as an upper bound where it is one."""
    total = amount_text(tree.total, tree.unknown_total, tree.measure)
    if tree.upper_bound is None:
        return total
    bound = amount_text(tree.upper_bound, tree.unknown_total, tree.measure)
    return f"at most {bound}" + f"; all branches together {total}" * (bound != total)


def amount_text(amount: int, unknown: int, measure: str) -> str:
    """Return an amount in its unit, with ``x?`` for unknown parts."""
    if measure == PERCENT:
        return f"{in_unit(amount, measure):.6g}%"
    if measure == SECONDS:
        return format_seconds(in_unit(amount, measure))
    text = format_bytes(amount) if measure in BYTE_MEASURES else format_count(amount)
    return f"{text} + {unknown} x?" if unknown else text


def outline_drawing(outline: CallTreeOutline) -> Iterator[str]:
    """Yield a heading, the lines of an outline, and its residuals."""
    tree = outline.tree
    places = Places(tree.frames)
    is_trace = tree.measure == "calls"
    whole = tree.total
    rows: list[tuple[str, str, str, str]] = []
    bars: list[str] = []
    for line in outline.lines:
        del bars[line.depth :]
        label = _label(outline, line, places)
        branch = "" if not line.depth else "└─ " if line.is_last else "├─ "
        rows.append(
            (
                amount_text(line.total, line.unknown, tree.measure),
                amount_text(line.own, 0, tree.measure) if line.node != OTHERS else "",
                format_ratio(line.total / whole) if whole else "",
                _joined("".join(bars[: _LEVELS + 1]), branch, label, line.depth),
            )
        )
        bars.append("" if not line.depth else "   " if line.is_last else "│  ")
    for name, amount in tree.residuals:
        share = format_ratio(amount / whole) if whole else ""
        rows.append((amount_text(amount, 0, tree.measure), "", share, name))
    columns = (0, 2, 3) if is_trace else (0, 1, 2, 3)
    heading = ("total", "own", "share", "function")
    lines = [heading, *rows]
    widths = [max(len(row[column]) for row in lines) for column in range(3)]
    for row in lines:
        numbers = "  ".join(f"{row[c]:>{widths[c]}}" for c in columns[:-1])
        room = max(_LEAST, _WIDTH - len(numbers) - 2)
        yield f"{numbers}  {_fitted(row[3], room)}"


def _label(outline: CallTreeOutline, line: OutlineLine, places: Places) -> str:
    if line.node == OTHERS:
        return f"[{format_count(line.times)} other{'' if line.times == 1 else 's'}]"
    text = places.text(outline.tree.frame(line.node))
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    times = line.times * (outline.tree.repeats(line.node) if outline.tree.measure == "calls" else 1)
    return f"{shown}  x{times}" if times > 1 else shown


def _joined(bars: str, branch: str, label: str, depth: int) -> str:
    """Return a line of the drawing; a deep one has the number of its level as indentation."""
    if depth <= _LEVELS:
        return f"{bars}{branch}{label}"
    return f"{bars}… level {depth + 1}: {label}"


def _fitted(text: str, room: int) -> str:
    """Return a line that fits: its branches and the end of its path are kept."""
    if len(text) <= room:
        return text
    start = len(text) - len(text.lstrip("│├└─ "))
    return text[:start] + shorten(text[start:], max(_LEAST, room - start))
