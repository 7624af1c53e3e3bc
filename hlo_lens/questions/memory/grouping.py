"""Bytes alive at one instant, grouped by opcode, operation path, source line, and so on.

Each byte counts once: bytes that several values share at that instant belong to the value defined
last. Groups sum to the bytes held; values without a label are bracketed groups: results of the
program, which XLA often makes of constants that have no metadata, and all others. Source lines,
operation paths and stacks are of the origin of a value (`origins`); what is computed from an
argument alone, and has no line, has the argument's name.

Operation paths are also a tree, like a flame graph: a branch holds the bytes of all values whose
``op_name`` begins with its path; branches of one scope are in order of size, and a chain of scopes
that does not fork is one line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.load.fact import fact
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory
    from hlo_lens.questions.memory.roles import MemoryRoles

UNATTRIBUTED = "[unattributed]"
PARAMETERS = "[parameters]"
RESULTS = "[results]"
"""Group of the results of the program that have no other label."""

_PATH = re.compile(r"/(?![^\[]*\])")
"""A slash that is not inside ``['a/b']``: pytree keys stay whole."""


@dataclass(frozen=True, kw_only=True)
class MemoryBy(Result):
    """Bytes of groups, largest first.

    Attributes:
        by: Kind of the groups, a key of `LABELS`.
        groups: Label, bytes, number of values, and the bytes whose label is inferred.
        largest: Label to the value with the most bytes of its group, its shape and op_name.
        total_bytes: Occupied bytes, the sum over all groups.
    """

    KIND: ClassVar[str] = "memory-by"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("group", Unit.NONE, "label that the values share"),
        Column("size_bytes", Unit.BYTES, "bytes that belong to them"),
        Column("share", Unit.RATIO, "share of all bytes held, 0 to 1"),
        Column("values", Unit.COUNT, "number of values"),
        Column("inferred_bytes", Unit.BYTES, "bytes whose label is not of the value's metadata"),
        Column("value", Unit.NONE, "its largest value"),
        Column("shape", Unit.NONE, "shape of that value"),
        Column("op_name", Unit.NONE, "operation path, or argument, of that value"),
    )
    by: str
    groups: tuple[tuple[str, int, int, int], ...]
    total_bytes: int
    largest: Mapping[str, tuple[str, str, str | None]] = field(default_factory=dict)

    @property
    def is_unattributed(self) -> bool:
        """Whether most bytes that are not of arguments belong to no group."""
        sizes = {label: size for label, size, *_ in self.groups}
        nameless = sizes.get(UNATTRIBUTED, 0) + sizes.get(RESULTS, 0)
        return nameless * 2 > self.total_bytes - sizes.get(PARAMETERS, 0)

    def all_rows(self) -> Iterator[Row]:
        """Yield the groups, bracketed ones too."""
        for label, size, count, inferred in self.groups:
            share = size / self.total_bytes if self.total_bytes else None
            largest = self.largest.get(label, (None, None, None))
            yield label, size, share, count, inferred, *largest

    def rows(self) -> Iterator[Row]:
        """Yield the groups without brackets."""
        return (row for row in self.all_rows() if not str(row[0]).startswith("["))

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the bracketed groups."""
        return tuple(row for row in self.all_rows() if str(row[0]).startswith("["))

    def totals(self) -> Mapping[str, int]:
        """Return the bytes held and the number of values."""
        return {"size_bytes": self.total_bytes, "values": sum(g[2] for g in self.groups)}


def peak_by(module: ModuleDump, by: str) -> MemoryBy | None:
    """Return the bytes at the peak in groups, such as ``op``; None where it is not known."""
    memory = memory_results(module)
    return None if memory is None or memory.peak is None else memory_by(memory.peak, by)


@fact
def peak_by_source(module: ModuleDump) -> MemoryBy | None:
    """Return the bytes at the peak by source line; None where the peak is not known."""
    return peak_by(module, "source")


def memory_by(peak: PeakMemory, by: str, roles: MemoryRoles | None = None) -> MemoryBy:
    """Return the bytes of an instant in groups.

    Args:
        peak: The values alive at the instant.
        by: A key of `LABELS`, or ``role``.
        roles: Roles of the values, for groups by role.
    """
    label, is_by_origin = LABELS.get(by, _unlabelled), by in _OF_ORIGINS
    if roles is not None:
        label = partial(_role, roles)
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    largest: dict[str, LiveValue] = {}
    for value in peak.live:
        is_inferred = is_by_origin and peak.origin_of(value).is_inferred
        name = label(peak, value)
        sums = found[name]
        if name not in largest or value.owned_bytes > largest[name].owned_bytes:
            largest[name] = value
        sums[0] += value.owned_bytes
        sums[1] += 1
        sums[2] += value.owned_bytes if is_inferred else 0
    groups = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
    return MemoryBy(
        by=by,
        groups=tuple((name, size, count, inferred) for name, (size, count, inferred) in groups),
        total_bytes=peak.total_bytes,
        largest={name: _described(peak, value) for name, value in largest.items()},
    )


def _described(peak: PeakMemory, value: LiveValue) -> tuple[str, str, str | None]:
    """Return a value, its shape, and its operation path or argument."""
    origin = peak.origin_of(value)
    return value.value, value.shape, origin.argument or origin.op_name


def _by_origin(
    label: Callable[[PeakMemory, LiveValue], str | None], parameters: str = PARAMETERS
) -> Callable[[PeakMemory, LiveValue], str]:
    """Return the label of a value, or that of all parameters."""

    def labelled(peak: PeakMemory, value: LiveValue) -> str:
        if value.category == "argument":
            return parameters
        return label(peak, value) or nameless_group(value.category)

    return labelled


def nameless_group(category: str | None) -> str:
    """Return the bracketed group of a value without a label."""
    return RESULTS if category == "output" else UNATTRIBUTED


def _opcode(peak: PeakMemory, value: LiveValue) -> str | None:
    maker = peak.makers.get(value.value)
    return None if maker is None else maker.opcode


def _source(peak: PeakMemory, value: LiveValue) -> str | None:
    origin = peak.origin_of(value)
    return origin.source or origin.argument


def _stack(peak: PeakMemory, value: LiveValue) -> str | None:
    frames = peak.stack_of(value)
    if not any(frame.function for frame in frames):
        return peak.origin_of(value).source
    return " < ".join(f"{frame.function or '?'} ({frame})" for frame in frames)


def _by_param(peak: PeakMemory, value: LiveValue) -> str:
    if value.parameter_number is None:
        return "[not an argument]"
    maker = peak.makers.get(value.value)
    name = maker.op_name if maker is not None and maker.opcode == "parameter" else None
    return f"{value.parameter_number}: {name}" if name else str(value.parameter_number)


def _role(roles: MemoryRoles, _: PeakMemory, value: LiveValue) -> str:
    return roles.of_value(value.value, value.allocation).role


def _unlabelled(_: PeakMemory, value: LiveValue) -> str:
    del value
    return UNATTRIBUTED


_OF_ORIGINS = frozenset({"op", "source", "stack"})
LABELS: Mapping[str, Callable[[PeakMemory, LiveValue], str]] = {
    "buffer": lambda _, value: value.value,
    "opcode": _by_origin(_opcode, "parameter"),
    "op": _by_origin(lambda peak, value: peak.origin_of(value).op_name),
    "source": _by_origin(_source),
    "stack": _by_origin(_stack),
    "param": _by_param,
    "category": lambda _, value: value.category,
}
"""Label of a value at an instant, by kind of group."""


def split_op_name(op_name: str) -> tuple[str, ...]:
    """Return the scopes of an operation path, outermost first; ``params['a/b']`` stays whole."""
    return tuple(part for part in _PATH.split(op_name) if part)


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
        root: The whole; its bytes are all bytes held.
    """

    KIND: ClassVar[str] = "memory-tree"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("scope", Unit.NONE, "part of the operation path"),
        Column("size_bytes", Unit.BYTES, "bytes of all values below it"),
        Column("share", Unit.RATIO, "share of all bytes held, 0 to 1"),
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
    for label, size, count, _ in by_op.groups:
        branch = root
        branch.size_bytes += size
        branch.values += count
        for part in (label,) if label.startswith("[") else split_op_name(label):
            branch = branch.children.setdefault(part, Branch(part))
            branch.size_bytes += size
            branch.values += count
    return MemoryTree(root=root)
