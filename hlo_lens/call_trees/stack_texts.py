"""Readers of stacks that are listed and not drawn: folded stacks, and stacks of threads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.call_trees.call_tree import NO_PARENT, SAMPLES, CallTree, CallTrees
from hlo_lens.call_trees.draft import TreeDraft
from hlo_lens.call_trees.tree_lines import Label, label_of
from hlo_lens.text.errors import Gap
from hlo_lens.text.source import Span
from hlo_lens.text.stack_texts import COMMENT, THREAD_LINE, folded_stack, has_threads, is_folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.text.source import Source

_MOST_GAPS = 1000
_AUSTIN = re.compile(r"([^:\s]+\.\w+):([^:\s]+):(\d{1,9})")
_FAULT_FRAME = re.compile(r'File "([^"\n]+)", line (\d{1,9}) in (\S[^\n]*)')


def stack_trees(source: Source) -> CallTrees | None:
    """Return the stacks of a text as trees; None if it has none."""
    if is_folded(source.text):
        return _folded(source)
    return _threads(source) if has_threads(source.text) else None


def _folded(source: Source) -> CallTrees:
    """Return the tree of folded stacks; equal functions of one caller are one node."""
    draft = TreeDraft()
    known: dict[tuple[int, int], int] = {}
    gaps: list[Gap] = []
    for number, start, line in _lines(source.text):
        found = folded_stack(line)
        if line.startswith(COMMENT):
            continue
        if found is None:
            span = Span(start, start + len(line))
            if len(gaps) < _MOST_GAPS:
                gaps.append(Gap.at(source, span, "expected a stack such as 'a;b;c 12'"))
            continue
        node = NO_PARENT
        for name in found[0].split(";"):
            key = (node, draft.label(name.strip(), _folded_label)[0])
            if key not in known:
                known[key] = draft.add_below(node, number, key[1], 0)
            node = known[key]
        draft.own[node] += found[1]
    tree = _in_preorder(draft)
    return CallTrees(trees=(tree,), gaps=tuple(gaps), path=source.path)


def _folded_label(text: str) -> Label:
    """Return function and place of a name, also as austin writes it: ``file:function:line``."""
    austin = _AUSTIN.fullmatch(text)
    return label_of(f"{austin[2]} ({austin[1]}:{austin[3]})" if austin is not None else text)


def _threads(source: Source) -> CallTrees:
    """Return a tree for the stack of each thread, outermost function first."""
    trees: list[CallTree] = []
    passed_over: list[tuple[int, int]] = []
    title, stack = "", list[tuple[int, str]]()
    indent = 0
    for number, _, line in [*_lines(source.text), (0, 0, "")]:
        depth = len(line) - len(line.lstrip())
        if title and depth and (not stack or depth == indent) and _is_frame(line.strip()):
            indent = depth
            stack.append((number, line.strip()))
            continue
        if stack and depth > indent:
            continue  # arguments and local variables of the function above
        if stack:
            trees.append(_stack(stack, title))
        title, stack = "", []
        if THREAD_LINE.match(line):
            title = line.strip().rstrip(":")
        elif line:
            passed_over.append((number, 1))
    return CallTrees(trees=tuple(trees), passed_over=tuple(passed_over), path=source.path)


def _is_frame(text: str) -> bool:
    """Whether a text is ``step (prog.py:14)`` or ``File "prog.py", line 14 in step``."""
    return (text.endswith(")") and "(" in text) or _FAULT_FRAME.fullmatch(text) is not None


def _stack(stack: list[tuple[int, str]], title: str) -> CallTree:
    draft = TreeDraft()
    draft.title = title
    node = NO_PARENT
    for number, text in reversed(stack):
        fault = _FAULT_FRAME.fullmatch(text)
        label = f"{fault[3]} ({fault[1]}:{fault[2]})" if fault is not None else text
        node = draft.add_below(node, number, draft.label(label, label_of)[0], 1)
    return draft.done()


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield number, offset and text of each line that is not blank."""
    start = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, start, line
        start += len(line) + 1


def _in_preorder(draft: TreeDraft) -> CallTree:
    """Return the tree of a draft whose nodes were added in any order below their callers."""
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(draft.parents):
        below.setdefault(parent, []).append(node)
    done = TreeDraft()
    done.frames = draft.frames
    open_nodes = [(node, NO_PARENT) for node in reversed(below.get(NO_PARENT, []))]
    while open_nodes:
        node, parent = open_nodes.pop()
        at = done.add_below(parent, draft.lines[node], draft.frame_ids[node], draft.own[node])
        open_nodes += [(child, at) for child in reversed(below.get(node, []))]
    done.measure = SAMPLES
    return done.done()
