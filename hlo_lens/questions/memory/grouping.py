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
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.load.fact import fact
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.render.result import Records, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory
    from hlo_lens.questions.memory.roles import MemoryRoles

UNATTRIBUTED = "[unattributed]"
PARAMETERS = "[parameters]"
RESULTS = "[results]"
"""Group of the results of the program that have no other label."""

_PATH = re.compile(r"/(?![^\[]*\])")
"""A slash that is not inside ``['a/b']``: pytree keys stay whole."""


class MemoryGroup(NamedTuple):
    """Bytes of the values of one label."""

    group: Annotated[str, "label that the values share"]
    size_bytes: Annotated[int, Unit.BYTES, "bytes that belong to them"]
    share: Annotated[float | None, Unit.RATIO, "share of all bytes held, 0 to 1"]
    values: Annotated[int, Unit.COUNT, "number of values"]
    inferred_bytes: Annotated[int, Unit.BYTES, "bytes whose label is not of the value's metadata"]
    value: Annotated[str, "its largest value"]
    shape: Annotated[str, "shape of that value"]
    op_name: Annotated[str | None, "operation path, or argument, of that value"]


@dataclass(frozen=True, kw_only=True)
class MemoryBy(Records[MemoryGroup]):
    """Bytes of groups, largest first.

    Attributes:
        groups: The groups, bracketed ones too.
        by: Kind of the groups.
        total_bytes: Occupied bytes, the sum over all groups.
    """

    KIND: ClassVar[str] = "memory-by"
    groups: tuple[MemoryGroup, ...]
    by: str
    total_bytes: int

    @property
    def records(self) -> tuple[MemoryGroup, ...]:
        """The groups without brackets."""
        return tuple(group for group in self.groups if not group.group.startswith("["))

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the bracketed groups."""
        bracketed = (group for group in self.groups if group.group.startswith("["))
        return tuple(map(tuple, bracketed))

    def totals(self) -> Mapping[str, int]:
        """Return the bytes held and the number of values."""
        return {"size_bytes": self.total_bytes, "values": sum(one.values for one in self.groups)}

    @property
    def is_unattributed(self) -> bool:
        """Whether most bytes that are not of arguments belong to no group."""
        sizes = {group.group: group.size_bytes for group in self.groups}
        nameless = sizes.get(UNATTRIBUTED, 0) + sizes.get(RESULTS, 0)
        return nameless * 2 > self.total_bytes - sizes.get(PARAMETERS, 0)


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
        by: ``buffer``, ``opcode``, ``op``, ``source``, ``stack``, ``param``, ``category`` or
            ``role``.
        roles: Roles of the values, for groups by role.
    """
    is_by_origin = by in ("op", "source", "stack")
    members: dict[str, list[LiveValue]] = defaultdict(list)
    for value in peak.live:
        label = _label(peak, value, by) if by != "role" else UNATTRIBUTED
        if by == "role" and roles is not None:
            label = roles.of_value(value.value, value.allocation).role
        members[label].append(value)
    groups = []
    for label, values in members.items():
        largest = max(values, key=lambda one: one.owned_bytes)
        origin, size = peak.origin_of(largest), sum(one.owned_bytes for one in values)
        inferred = (one for one in values if is_by_origin and peak.origin_of(one).is_inferred)
        groups.append(
            MemoryGroup(
                group=label,
                size_bytes=size,
                share=size / peak.total_bytes if peak.total_bytes else None,
                values=len(values),
                inferred_bytes=sum(one.owned_bytes for one in inferred),
                value=largest.value,
                shape=largest.shape,
                op_name=origin.argument or origin.op_name,
            )
        )
    groups.sort(key=lambda one: (-one.size_bytes, one.group))
    return MemoryBy(groups=tuple(groups), by=by, total_bytes=peak.total_bytes)


def nameless_group(category: str | None) -> str:
    """Return the bracketed group of a value without a label."""
    return RESULTS if category == "output" else UNATTRIBUTED


def _label(peak: PeakMemory, value: LiveValue, by: str) -> str:
    """Return the label of a value at an instant, by a kind of group."""
    if by in ("buffer", "category"):
        return value.value if by == "buffer" else value.category
    maker = peak.makers.get(value.value)
    if by == "param":
        number = value.parameter_number
        name = maker.op_name if maker is not None and maker.opcode == "parameter" else None
        text = f"{number}: {name}" if name else str(number)
        return "[not an argument]" if number is None else text
    if value.category == "argument":
        return "parameter" if by == "opcode" else PARAMETERS
    origin = peak.origin_of(value)
    if by == "opcode":
        label = None if maker is None else maker.opcode
    elif by == "stack":
        frames = peak.stack_of(value)
        has_functions = any(frame.function for frame in frames)
        texts = (f"{frame.function or '?'} ({frame})" for frame in frames)
        label = " < ".join(texts) if has_functions else origin.source
    else:
        label = origin.op_name if by == "op" else origin.source or origin.argument
    return label or nameless_group(value.category)


class Scope(NamedTuple):
    """A part of operation paths, with the bytes of all values below it."""

    scope: Annotated[str, "part of the operation path"]
    size_bytes: Annotated[int, Unit.BYTES, "bytes of all values below it"]
    share: Annotated[float | None, Unit.RATIO, "share of all bytes held, 0 to 1"]
    values: Annotated[int, Unit.COUNT, "number of values"]
    depth: Annotated[int, "0 for outermost scopes"]


@dataclass(frozen=True, kw_only=True)
class MemoryTree(Records[Scope]):
    """Bytes per scope, outermost and larger first; no totals, as a branch includes its children."""

    KIND: ClassVar[str] = "memory-tree"
    scopes: tuple[Scope, ...]


@dataclass(slots=True)
class _Branch:
    """A scope with its bytes and values, those of inner scopes included."""

    name: str
    size_bytes: int = 0
    values: int = 0
    children: dict[str, _Branch] = field(default_factory=dict)

    @property
    def ordered(self) -> list[_Branch]:
        """Inner scopes, smallest first."""
        return sorted(self.children.values(), key=lambda one: (-one.size_bytes, one.name))[::-1]


def memory_tree(by_op: MemoryBy) -> MemoryTree:
    """Return the tree of groups that are operation paths (``memory_by(..., "op")``)."""
    root = _Branch("")
    for group in by_op.groups:
        label = group.group
        scopes = (label,) if label.startswith("[") else filter(None, _PATH.split(label))
        branch = root
        for scope in ("", *scopes):
            branch = branch.children.setdefault(scope, _Branch(scope)) if scope else root
            branch.size_bytes += group.size_bytes
            branch.values += group.values
    found = []
    stack = [(branch, 0) for branch in root.ordered]
    while stack:
        branch, depth = stack.pop()
        name, last = branch.name, branch
        while len(last.children) == 1:
            (only,) = last.children.values()
            if only.size_bytes != last.size_bytes:
                break
            name, last = f"{name}/{only.name}", only
        share = branch.size_bytes / root.size_bytes if root.size_bytes else None
        found.append(Scope(name, branch.size_bytes, share, branch.values, depth))
        stack.extend((child, depth + 1) for child in last.ordered)
    return MemoryTree(scopes=tuple(found))
