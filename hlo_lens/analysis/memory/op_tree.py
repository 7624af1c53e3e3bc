"""Bytes alive at one instant as a tree of operation paths, like a flame graph.

A branch holds the bytes of all values whose ``op_name`` begins with its path; branches of one scope
are in order of size, and a chain of scopes that does not fork is one line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.memory.grouping import split_op_name
from hlo_lens.analysis.result import Column, Result, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.memory.grouping import MemoryBy
    from hlo_lens.analysis.result import Row


@dataclass(slots=True)
class Branch:
    """A scope with its bytes and values, those of inner scopes included."""

    name: str
    size_bytes: int = 0
    values: int = 0
    children: dict[str, Branch] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MemoryTree(Result):
    """Bytes per scope, outermost first; no totals, as a branch includes its children.

    Attributes:
        root: The whole; its bytes are all occupied bytes.
    """

    KIND: ClassVar[str] = "memory-tree"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("scope", Unit.NONE, "part of the operation path"),
        Column("size_bytes", Unit.BYTES, "bytes of all values below it"),
        Column("share", Unit.RATIO, "share of all occupied bytes, 0 to 1"),
        Column("values", Unit.COUNT, "number of values"),
        Column("depth", Unit.NONE, "0 for outermost scopes"),
    )
    root: Branch

    def branches(self) -> Iterator[tuple[str, int, Branch]]:
        """Yield scope, depth and branch, depth first, larger branches first."""
        stack = [(branch, 0) for branch in reversed(_ordered(self.root))]
        while stack:
            branch, depth = stack.pop()
            name, last = branch.name, branch
            while len(last.children) == 1:
                (only,) = last.children.values()
                if only.size_bytes != last.size_bytes:
                    break
                name, last = f"{name}/{only.name}", only
            yield name, depth, branch
            stack.extend((child, depth + 1) for child in reversed(_ordered(last)))

    def rows(self) -> Iterator[Row]:
        """Yield the branches, depth first, larger ones first."""
        whole = self.root.size_bytes
        for name, depth, branch in self.branches():
            share = branch.size_bytes / whole if whole else None
            yield name, branch.size_bytes, share, branch.values, depth


def _ordered(branch: Branch) -> list[Branch]:
    return sorted(branch.children.values(), key=lambda child: (-child.size_bytes, child.name))


def memory_tree(by_op: MemoryBy) -> MemoryTree:
    """Return the tree of groups that are operation paths (``memory_by(..., "op", ...)``)."""
    root = Branch("")
    for label, size, count in by_op.groups:
        branch = root
        branch.size_bytes += size
        branch.values += count
        for part in (label,) if label.startswith("[") else split_op_name(label):
            branch = branch.children.setdefault(part, Branch(part))
            branch.size_bytes += size
            branch.values += count
    return MemoryTree(root=root)
