"""Memory held at one instant: its values, and their bytes in groups.

Each byte of a group counts once: bytes that several values share at that instant belong to the
value defined last. Groups sum to the bytes held; values without a label are bracketed groups:
results of the program, which XLA often makes of constants that have no metadata, and all others.
Source lines, operation paths and stacks are of the origin of a value (`origins`); what is computed
from an argument alone, and has no line, has the argument's name.

Operation paths are also a tree, like a flame graph: a branch holds the bytes of all values whose
``op_name`` begins with its path; branches of one scope are in order of size, and a chain of scopes
that does not fork is one line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.buffers.assignment import parse_index
from hlo_lens.hlo.query import rows_named
from hlo_lens.program.origins import NO_ORIGIN, Origin, Origins, origins, origins_of, stack_texts
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.memory.layout import (
    DEFAULT_SPACE,
    LaidAllocation,
    LaidValue,
    MemoryLayout,
    owned_bytes,
)
from hlo_lens.render.result import Records, Row, Unit
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import Stack
    from hlo_lens.questions.memory.layout import MemoryLayout

_STEPS = 64
"""Loops around an instruction that are followed, at most."""


def values_of(module: HloModule | None, names: Iterable[str]) -> dict[str, Value]:
    """Return values by the name that dumps print (``fusion.3{1}``), those that the module has."""
    if module is None:
        return {}
    parts = [(one, *one.partition("{")[::2]) for one in names]
    rows = rows_of_names(module, {name for _, name, _ in parts})
    return {
        one: Value(rows[name], parse_index(element)) for one, name, element in parts if name in rows
    }


def instructions_by_name(module: HloModule, names: set[str]) -> dict[str, HloInstruction]:
    """Return the instruction of each name; of several, the one in the first computation."""
    rows = rows_of_names(module, names)
    return {name: module.instruction(row) for name, row in rows.items()}


def rows_of_names(module: HloModule, names: set[str]) -> dict[str, int]:
    """Return the row of the instruction of each name, as `instructions_by_name`."""
    owners = module.links.owners
    found: dict[str, tuple[int, int]] = {}
    for row, name in rows_named(module, names):
        place = (owners[row], row)
        found[name] = min(found.get(name, place), place)
    return {name: row for name, (_, row) in found.items()}


def loop_path(instruction: HloInstruction) -> tuple[str, ...]:
    """Return the names of the loops around an instruction, outermost first."""
    path: list[str] = []
    inner: HloInstruction | None = instruction
    while inner is not None and len(path) < _STEPS:
        callers = reversed(inner.computation.callers)
        inner = next((caller for caller in callers if caller.opcode == "while"), None)
        path += [] if inner is None else [inner.name]
    return tuple(reversed(path))


DESCRIPTIONS = ("opcode", "source", "op_name", "argument", "stack")


def described_values(module: ModuleDump, names: Sequence[str]) -> list[tuple[str | None, ...]]:
    """Return what `DESCRIPTIONS` name of values: opcode of the maker, and origin."""
    known = values_of(module.hlo, names)
    stacks: dict[Stack, str | None] = {}
    found: list[tuple[str | None, ...]] = []
    for name in names:
        if name not in known:
            found.append((None,) * len(DESCRIPTIONS))
            continue
        places, value = origins(module), known[name]
        origin = places.of_value(value)
        opcode, stack = places.opcode(places.maker(value)), places.stack(origin)
        if stack not in stacks:
            stacks[stack] = " < ".join(stack_texts(stack)) or None
        texts = origin.marked_source, origin.op_name, origin.argument
        found.append((opcode, *texts, stacks[stack]))
    return found


SHARED = "[bytes counted twice]"


class LiveValue(NamedTuple):
    """A temporary value alive, or an allocation held from start to end, named by its value.

    Attributes:
        owned_bytes: Its bytes that no later value of the same instant holds; these sum to the
            bytes held.
    """

    value: str
    size_bytes: int
    category: str
    shape: str
    start: int | None
    end: int | None
    offset: int
    allocation: int
    parameter_number: int | None
    owned_bytes: int

    @property
    def padding_bytes(self) -> int | None:
        """Owned bytes beyond the elements; None for tables of tuples, and if not known."""
        try:
            logical = Shape.parse(self.shape).size_bytes
        except DumpSyntaxError:
            return None
        if logical is None or self.shape.startswith("("):
            return None
        return max(0, self.owned_bytes - logical) if self.owned_bytes else 0


class PeakRow(NamedTuple):
    """A value or held allocation with its origin."""

    value: Annotated[str, "instruction and shape index"]
    size_bytes: Annotated[int, Unit.BYTES, "bytes it holds, padding included"]
    category: Annotated[str, "use of its allocation: argument, output, temp, ..."]
    source: Annotated[str | None, "source line that it comes from"]
    opcode: Annotated[str | None, "opcode of the instruction that made it"]
    shape: Annotated[str, "its shape with layout"]
    op_name: Annotated[str | None, "operation path, or name of the argument"]
    start: Annotated[int | None, "first instant of its live range"]
    end: Annotated[int | None, "last instant, inclusive"]
    offset: Annotated[int, "first byte in its allocation"]
    allocation: Annotated[int, "index of the allocation"]
    origin_basis: Annotated[str | None, "way that source and op_name were found"]
    argument: Annotated[str | None, "argument that it is, or is computed from alone"]
    library_source: Annotated[str | None, "line of a library that source calls there"]


@dataclass(frozen=True, kw_only=True)
class PeakMemory(Records[PeakRow]):
    """Memory held at one instant, largest allocations and values first.

    Attributes:
        source: ``buffer-assignment`` or ``estimate``.
        position: The instant; None for the peak of a program without temporaries, which holds the
            same memory at all instants.
        instruction: The instruction that runs then; None after the last one.
        total_bytes: Bytes held: whole allocations, and the union of the temporaries.
        is_peak: Whether it is the peak, or another instant that was asked for.
    """

    KIND: ClassVar[str] = "peak-memory"
    source: str
    color: int
    position: int | None
    instruction: str | None
    total_bytes: int
    temp_bytes: int
    live: tuple[LiveValue, ...]
    is_peak: bool = True
    module: HloModule | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _origins(self) -> Origins | None:
        return None if self.module is None else origins_of(self.module)

    @cached_property
    def _values(self) -> Mapping[str, Value]:
        return values_of(self.module, (value.value for value in self.live))

    @cached_property
    def makers(self) -> Mapping[str, HloInstruction]:
        module, origins = self.module, self._origins
        if module is None or origins is None:
            return {}
        return {k: module.instruction(origins.maker(v)) for k, v in self._values.items()}

    @cached_property
    def instruction_origin(self) -> Origin:
        if self.module is None or self._origins is None or self.instruction is None:
            return NO_ORIGIN
        row = rows_of_names(self.module, {self.instruction}).get(self.instruction)
        return NO_ORIGIN if row is None else self._origins.of_row(row)

    def origin_of(self, value: LiveValue) -> Origin:
        known, origins = self._values.get(value.value), self._origins
        return NO_ORIGIN if known is None or origins is None else origins.of_value(known)

    def stack_of(self, value: LiveValue) -> Stack:
        return () if self._origins is None else self._origins.stack(self.origin_of(value))

    @property
    def records(self) -> Sequence[PeakRow]:
        """Held allocations and temporary values with their origins, each found when asked for."""
        return Rows(self._row, range(len(self.live)))

    def _row(self, place: int) -> PeakRow:
        value = self.live[place]
        maker, origin = self.makers.get(value.value), self.origin_of(value)
        frames = self.stack_of(value)
        library = str(frames[0]) if frames and str(frames[0]) != origin.source else None
        return PeakRow(
            *value[:3],
            origin.source,
            None if maker is None else maker.opcode,
            value.shape,
            origin.op_name,
            value.start,
            value.end,
            value.offset,
            value.allocation,
            origin.basis,
            origin.argument,
            library,
        )

    @property
    def shared_bytes(self) -> int:
        return sum(value.size_bytes for value in self.live) - self.total_bytes

    def residual_rows(self) -> tuple[Row, ...]:
        if not self.shared_bytes:
            return ()
        return ((SHARED, -self.shared_bytes, *(None,) * (len(self.COLUMNS) - 2)),)

    def totals(self) -> Mapping[str, int]:
        return {"size_bytes": self.total_bytes}


def peak_memory(
    layout: MemoryLayout,
    *,
    color: int = DEFAULT_SPACE,
    at: int | None = None,
    module: HloModule | None = None,
) -> PeakMemory | None:
    """Return the memory held at the peak of a memory space, or at another instant.

    None where no live ranges are known. Origins of values are those of `module`.
    """
    series = layout.temporary_series(color)
    if layout.schedule is None or not series:
        return None
    peak = max(range(len(series)), key=series.__getitem__) if any(series) else None
    position = peak if at is None else at
    held = _held(layout, color)
    temporaries = [] if position is None else _temporaries(layout, color, position)
    live = sorted((*held, *temporaries), key=lambda one: (-one.size_bytes, one.value))
    is_inside = position is not None and 0 <= position < len(layout.schedule)
    return PeakMemory(
        source=layout.source,
        color=color,
        position=position,
        instruction=layout.schedule[position] if is_inside and position is not None else None,
        total_bytes=sum(one.owned_bytes for one in live),
        temp_bytes=sum(one.owned_bytes for one in temporaries),
        live=tuple(live),
        is_peak=position == peak,
        module=module,
    )


def peaks_of(layout: MemoryLayout, module: HloModule | None = None) -> dict[int, PeakMemory | None]:
    """Return the peak of each memory space, as `peak_memory` does."""
    return {color: peak_memory(layout, color=color, module=module) for color in layout.colors}


def _held(layout: MemoryLayout, color: int) -> Iterator[LiveValue]:
    held = layout.held(color)
    if not held:
        return
    values: dict[int, list[LaidValue]] = {one.index: [] for one in held}
    for value in layout.values:
        if value.allocation in values:
            values[value.allocation].append(value)
    end = len(layout.schedule or ())
    for one in held:
        named = _named(one, values[one.index])
        name = f"allocation {one.index}" if named is None else named.name
        shape, place = "" if named is None else named.shape_text, (0, one.index)
        number = one.parameter_number
        yield LiveValue(name, one.size, one.category, shape, 0, end, *place, number, one.size)


def _named(allocation: LaidAllocation, values: list[LaidValue]) -> LaidValue | None:
    """Return the value that an allocation is named by: the argument, the result, or the largest.

    Other values may use the memory of an argument after it, and that of a result before it.
    """
    if not values or allocation.parameter_number is not None:
        return min(values, key=lambda one: one.start or 0, default=None)
    return max(values, key=lambda one: (allocation.is_output and (one.end or 0), one.size))


def _temporaries(layout: MemoryLayout, color: int, position: int) -> list[LiveValue]:
    """Return the temporary values alive at an instant; bytes belong to the youngest."""
    occupants = [o for o in layout.occupants(color, is_temp=True) if o.start <= position <= o.end]
    occupants.sort(key=lambda o: (-o.start, o.key))
    # allocations one after the other, far apart
    owned = owned_bytes([((o.allocation << 64) + o.offset, o.size) for o in occupants])
    found = []
    for occupant, part in zip(occupants, owned, strict=True):
        one, span = layout.values[occupant.key], (occupant.start, occupant.end)
        place = one.offset, one.allocation
        found.append(
            LiveValue(one.name, one.size, "temp", one.shape_text, *span, *place, None, part)
        )
    return found


# ---- groups ------------------------------------------------------------------------------------

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
    """Bytes of groups, largest first, bracketed ones too; they sum to the total."""

    KIND: ClassVar[str] = "memory-by"
    groups: tuple[MemoryGroup, ...]
    by: str
    total_bytes: int

    @property
    def records(self) -> tuple[MemoryGroup, ...]:
        return tuple(group for group in self.groups if not group.group.startswith("["))

    def residual_rows(self) -> tuple[Row, ...]:
        bracketed = (group for group in self.groups if group.group.startswith("["))
        return tuple(map(tuple, bracketed))

    def totals(self) -> Mapping[str, int]:
        return {"size_bytes": self.total_bytes, "values": sum(one.values for one in self.groups)}

    @property
    def is_unattributed(self) -> bool:
        sizes = {group.group: group.size_bytes for group in self.groups}
        nameless = sizes.get(UNATTRIBUTED, 0) + sizes.get(RESULTS, 0)
        return nameless * 2 > self.total_bytes - sizes.get(PARAMETERS, 0)


def memory_by(
    peak: PeakMemory, by: str, role_of: Callable[[LiveValue], str] | None = None
) -> MemoryBy:
    """Return the bytes of an instant in groups.

    Groups are by ``buffer``, ``opcode``, ``op``, ``source``, ``stack``, ``param``, ``category`` or
    ``role``, which `role_of` returns.
    """
    is_by_origin = by in ("op", "source", "stack")
    members: dict[str, list[LiveValue]] = defaultdict(list)
    for value in peak.live:
        label = role_of(value) if role_of is not None else _label(peak, value, by)
        members[label].append(value)
    groups = []
    for label, values in members.items():
        largest = max(values, key=lambda one: one.owned_bytes)
        origin, size = peak.origin_of(largest), sum(one.owned_bytes for one in values)
        inferred = (one for one in values if is_by_origin and peak.origin_of(one).is_inferred)
        share = size / peak.total_bytes if peak.total_bytes else None
        sums = size, share, len(values), sum(one.owned_bytes for one in inferred)
        text = origin.argument or origin.op_name
        groups.append(MemoryGroup(label, *sums, largest.value, largest.shape, text))
    groups.sort(key=lambda one: (-one.size_bytes, one.group))
    return MemoryBy(groups=tuple(groups), by=by, total_bytes=peak.total_bytes)


def nameless_group(category: str | None) -> str:
    """Return the bracketed group of a value without a label."""
    return RESULTS if category == "output" else UNATTRIBUTED


def _label(peak: PeakMemory, value: LiveValue, by: str) -> str:
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
    name: str
    size_bytes: int = 0
    values: int = 0
    children: dict[str, _Branch] = field(default_factory=dict)


def memory_tree(by_op: MemoryBy) -> MemoryTree:
    """Return the tree of groups that are operation paths (``memory_by(..., "op")``)."""
    root = _Branch("")
    for group in by_op.groups:
        label = group.group
        scopes = [label] if label.startswith("[") else filter(None, _PATH.split(label))
        path = [root]
        for scope in scopes:
            path.append(path[-1].children.setdefault(scope, _Branch(scope)))
        for branch in path:
            branch.size_bytes += group.size_bytes
            branch.values += group.values
    found = []
    stack = [(root, -1)]
    while stack:
        branch, depth = stack.pop()
        name, last = branch.name, branch
        while depth >= 0 and len(last.children) == 1:
            (only,) = last.children.values()
            if only.size_bytes != last.size_bytes:
                break
            name, last = f"{name}/{only.name}", only
        if depth >= 0:
            share = branch.size_bytes / root.size_bytes if root.size_bytes else None
            found.append(Scope(name, branch.size_bytes, share, branch.values, depth))
        inner = sorted(last.children.values(), key=lambda one: (-one.size_bytes, one.name))
        stack += [(child, depth + 1) for child in reversed(inner)]
    return MemoryTree(scopes=tuple(found))
