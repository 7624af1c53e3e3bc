"""Call trees for the tests of passes, written as indented functions."""

from __future__ import annotations

from hlo_lens.call_trees.tree import NO_PARENT, CallFrame, CallTree, call_label


def tree_of(text: str, measure: str = "calls") -> CallTree:
    """Return the tree whose nodes are the lines of a text, indented by two blanks a level.

    A number before a colon is the node's own amount: ``3: f, a.py:1``.
    """
    frames: dict[CallFrame, int] = {}
    numbers: list[int] = []
    parents: list[int] = []
    own: list[int] = []
    lines: list[int] = []
    stack: list[int] = []
    for line, row in enumerate(text.strip("\n").splitlines(), 1):
        depth = (len(row) - len(row.lstrip())) // 2
        amount, _, label = row.strip().rpartition(": ")
        del stack[depth:]
        parents.append(stack[-1] if stack else NO_PARENT)
        stack.append(len(numbers))
        numbers.append(frames.setdefault(call_label(label), len(frames)))
        own.append(int(amount or 1))
        lines.append(line)
    return CallTree(
        frames=tuple(frames),
        frame_ids=numbers,
        parents=parents,
        own=own,
        lines=lines,
        measure=measure,
    )


def chain(length: int) -> CallTree:
    """Return a tree of one path."""
    return CallTree(
        frames=(CallFrame(function="f", file="a.py", line=1),),
        frame_ids=[0] * length,
        parents=list(range(-1, length - 1)),
        own=[1] * length,
        lines=list(range(1, length + 1)),
    )


TREE = tree_of("""
main, /w/train.py:1
  f, /w/lib/a.py:1
    g, /w/lib/a.py:9
    f, /w/lib/a.py:1
      g, /w/lib/a.py:9
  f, /w/lib/a.py:1
  h, /w/site-packages/numpy/core/x.py:3
  h, /w/site-packages/numpy/core/x.py:3
""")
