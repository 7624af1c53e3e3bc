"""Memory held at the peaks of a module, in groups of one origin and shape."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.questions.diff.pairs import Delta, pair_items, pair_record
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.results import MOST_ESTIMATED, not_estimated_text
from hlo_lens.questions.memory.statement import FEW_BYTES, MemoryStatement, SpaceFacts
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.names import last_scopes
from hlo_lens.text.units import Kind, bounded_int

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from hlo_lens.questions.snapshots.figures import AliveGroup, SpacePeak
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot


_OF_SPACES = tuple(field.name for field in fields(SpaceFacts) if field.name.endswith("_bytes"))
_METRICS = tuple(field.name for field in fields(MemoryStatement) if field.name in _OF_SPACES)

_SPACE_METRICS = (*_METRICS, *(name for name in _OF_SPACES if name not in _METRICS))

PEAK = "peak.bytes"
TOTAL = "total_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiff:
    """Changes of the memory of one module.

    Attributes:
        metrics: Path below `MemoryStatement` to the values of that line of the statement.
        base_source: ``buffer-assignment``, ``estimate``, or None where nothing is known.
        head_source: The same of the head.
        peaks: One for each memory space of either side; empty if the sides cannot be compared.
        problem: Reason why they cannot; empty if they can.
        is_comparable: Whether they were compared, having no problem or in spite of it.
        unexplained: Spaces with live ranges on one side only, where nothing attributes the
            difference to values.
    """

    metrics: Mapping[str, Delta]
    base_source: str | None
    head_source: str | None
    peaks: tuple[PeakDiff, ...] = ()
    problem: str = ""
    is_comparable: bool = True
    unexplained: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """Whether total and peak of base and head are exact, or estimates."""
        sources = (self.base_source, self.head_source)
        base, head = (Kind.ESTIMATE if one == "estimate" else Kind.EXACT for one in sources)
        return base, head

    @property
    def is_changed(self) -> bool:
        """Whether any line or any group of values differs; False if they cannot be compared."""
        differs = self.has_other_numbers or any(peak.changed for peak in self.peaks)
        return self.is_comparable and differs

    @property
    def has_other_numbers(self) -> bool:
        """Whether any line of the statement that can be compared differs."""
        return any(delta.is_changed and delta.is_comparable for delta in self.metrics.values())


def memory_diff(
    base: ModuleSnapshot, head: ModuleSnapshot, *, is_forced: bool = False
) -> MemoryDiff | None:
    """Return the changes of a module's memory; None where neither side has any."""
    mine, yours = base.facts.memory, head.facts.memory
    if mine is None and yours is None:
        return None
    problem = memory_problem(base, head)
    is_comparable = not problem or (is_forced and None not in (mine, yours))
    metrics = dict(_metrics(mine, yours, is_comparable=is_comparable))
    if code_problem(base, head):
        metrics[TOTAL] = replace(metrics[TOTAL], is_comparable=False)
    peaks, unexplained = _peaks(base, head, metrics) if is_comparable else ((), ())
    return MemoryDiff(
        metrics=metrics,
        base_source=None if mine is None else mine.source,
        head_source=None if yours is None else yours.source,
        peaks=peaks,
        problem=problem,
        is_comparable=is_comparable,
        unexplained=unexplained,
    )


def memory_problem(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return why the memory of two modules cannot be compared; empty if it can."""
    mine, yours = base.facts.memory, head.facts.memory
    if mine is None or yours is None:
        which, one = ("base", base) if mine is None else ("head", head)
        why = missing_memory(one) or "not known: no buffer assignment and no schedule"
        return f"the memory of the {which} is {why}"
    for which, memory in (("base", mine), ("head", yours)):
        if not memory.is_complete:
            return (
                f"the buffer texts of the {which} are not complete: not compared; dump them again, "
                "or give --force"
            )
    if mine.source == yours.source:
        return ""
    which = "base" if mine.source == "estimate" else "head"
    return (
        f"the memory of the {which} is an estimate, that of the other as XLA assigned it: not "
        "compared; dump the buffer assignment of both, or give --force"
    )


def code_problem(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return why totals cannot be compared: one has the generated code; empty if they can."""
    codes = [side.facts.memory and side.facts.memory.generated_code_bytes for side in (base, head)]
    if bool(codes[0]) == bool(codes[1]):
        return ""
    which = "base" if codes[0] else "head"
    return (
        f"the total of the {which} has the generated code, whose size is not known of the other: "
        "memory.spaces[HBM].total_bytes leaves it out"
    )


def missing_memory(module: ModuleSnapshot) -> str:
    """Return why the memory of a module was not estimated; empty where it could not be."""
    instructions = module.facts.instructions or 0
    if not module.facts.is_scheduled or instructions <= MOST_ESTIMATED:
        return ""
    return not_estimated_text(instructions, module.path, module.name)


def _metrics(
    mine: MemoryStatement | None, yours: MemoryStatement | None, *, is_comparable: bool
) -> Iterator[tuple[str, Delta]]:

    def delta(one: object, other: object, name: str) -> Delta:
        base, head = getattr(one, name, None), getattr(other, name, None)
        return Delta(base, head, is_comparable=is_comparable)

    for name in _METRICS:
        yield name, delta(mine, yours, name)
    yield PEAK, delta(mine and mine.peak, yours and yours.peak, "bytes")
    left, right = _spaces(mine), _spaces(yours)
    for color, known in sorted({**left, **right}.items()):
        # spaces without bytes are not listed; without any space nothing is known
        empty = SpaceFacts(color=color, name=known.name, **dict.fromkeys(_SPACE_METRICS, 0))
        one, other = (side.get(color, empty if side else None) for side in (left, right))
        for name in _SPACE_METRICS:
            yield f"spaces[{known.name}].{name}", delta(one, other, name)


def _spaces(memory: MemoryStatement | None) -> dict[int, SpaceFacts]:
    return {} if memory is None else {space.color: space for space in memory.spaces}


FREE = "[fragmentation]"

_LINE = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRow:
    """Values of one origin at the peaks of both sides, or other bytes of the space."""

    space: Annotated[str, "memory space"]
    delta_bytes: Annotated[int, Unit.BYTES_DELTA, "bytes of the head minus those of the base"]
    base_bytes: Annotated[int | None, Unit.BYTES, "bytes at the base's peak"]
    head_bytes: Annotated[int | None, Unit.BYTES, "bytes at the head's peak"]
    change: Annotated[str, "new, gone, grown or shrunk"]
    source: Annotated[str | None, "place in the user's program"] = None
    shape: Annotated[str | None, "shape and number of values"] = None
    op_name: Annotated[str | None, "operation path, or name of the argument"]
    category: Annotated[str | None, "purpose of their allocations"] = None
    opcode: Annotated[str | None, "opcode that makes them"] = None
    base_values: Annotated[int | None, Unit.COUNT, "values in the base"] = None
    head_values: Annotated[int | None, Unit.COUNT, "values in the head"] = None
    base_shape: Annotated[str | None, "shape in the base"] = None
    head_shape: Annotated[str | None, "shape in the head"] = None
    base_source: Annotated[str | None, "place in the base's program"] = None
    head_source: Annotated[str | None, "place in the head's program"] = None
    origin_basis: Annotated[str | None, "way that source and op_name were found"] = None


def shape_text(group: AliveGroup) -> str:
    """Return the shape, and the number of values if there are several."""
    return group.shape if group.values == 1 else f"{group.shape} x {group.values}"


@dataclass(frozen=True, kw_only=True)
class PeakDiff(Records[PeakRow]):
    """Differences of one memory space between two compiles, largest first.

    Values alive at the peak are compared if `is_peak`, else all allocated values. A space that is
    empty on a side has no peak there. `rest` is allocated bytes beyond those at the peak (`FREE`),
    which are an entry if they differ; None if they are not known.
    """

    KIND: ClassVar[str] = "memory-diff"
    entries: tuple[PeakRow, ...] = field(repr=False)
    color: int
    space: str
    is_peak: bool
    base: SpacePeak | None
    head: SpacePeak | None
    unchanged_groups: int
    rest: Delta | None = None

    @property
    def changed(self) -> tuple[PeakRow, ...]:
        return tuple(row for row in self.entries if row.op_name != FREE)

    @property
    def delta_bytes(self) -> int:
        return (self.head.bytes if self.head else 0) - (self.base.bytes if self.base else 0)

    @property
    def most_bytes(self) -> int:
        return max(one.bytes for one in (self.base, self.head) if one is not None)

    @property
    def is_small(self) -> bool:
        """Whether it is not the default space, and of few bytes on both sides."""
        return self.color != DEFAULT_SPACE and self.most_bytes < FEW_BYTES

    def totals(self) -> Mapping[str, int]:
        """Return the difference of all allocations, or of the peaks if the rest is not known."""
        rest = 0 if self.rest is None else self.rest.delta or 0
        return {"delta_bytes": self.delta_bytes + rest}

    @property
    def has_moved(self) -> bool:
        """Whether the peak is at another instruction, whatever its line and enclosing scopes."""
        if self.base is None or self.head is None or not self.is_peak:
            return False
        base, head = (
            (last_scopes(peak.op_name), _LINE.sub("", peak.source or ""), peak.opcode)
            for peak in (self.base, self.head)
        )
        return base != head


def _peaks(
    base: ModuleSnapshot, head: ModuleSnapshot, metrics: Mapping[str, Delta]
) -> tuple[tuple[PeakDiff, ...], tuple[str, ...]]:
    """Return the difference of each space, and the spaces with live ranges on one side only.

    The default space is first, others follow by size.
    """
    left, right = ({peak.color: peak for peak in side.peaks} for side in (base, head))
    spaces = {**_spaces(base.facts.memory), **_spaces(head.facts.memory)}
    found: list[PeakDiff] = []
    unexplained: list[str] = []
    for color, peak in sorted({**left, **right}.items()):
        one, other = left.get(color), right.get(color)
        if one and other and one.is_peak != other.is_peak:
            unexplained.append(peak.name)
            continue
        name = spaces[color].name if color in spaces else peak.name
        free = metrics.get(f"spaces[{name}].fragmentation_bytes") if peak.is_peak else None
        rest = None if free is None or free.delta is None else free
        found.append(peak_diff(one, other, space=name, rest=rest))
    found.sort(key=lambda one: (one.color != DEFAULT_SPACE, -one.most_bytes, one.color))
    return tuple(found), tuple(unexplained)


def peak_diff(
    base: SpacePeak | None, head: SpacePeak | None, *, space: str = "", rest: Delta | None = None
) -> PeakDiff:
    """Return the differences of two peaks; None is the peak of an empty space.

    `rest` is allocated bytes beyond those at the peak; None if they are not known.
    """
    peak = head or base
    assert peak is not None
    space = space or peak.name
    sides = (base.groups if base else (), head.groups if head else ())
    rows = [_peak_row(space, *pair) for pair in pair_items(*sides, _STAGES, _order)]
    changed = [row for row in rows if row.delta_bytes]
    unchanged = len(rows) - len(changed)
    changed.sort(
        key=lambda r: (-abs(r.delta_bytes), r.op_name or "", r.source or "", r.shape, r.category)
    )
    if rest is not None and rest.delta:
        free = PeakRow(
            space=space,
            delta_bytes=rest.delta,
            base_bytes=rest.base,
            head_bytes=rest.head,
            change="grown" if rest.delta > 0 else "shrunk",
            op_name=FREE,
        )
        changed = sorted([*changed, free], key=lambda row: -abs(row.delta_bytes))
    return PeakDiff(
        entries=tuple(changed),
        color=peak.color,
        space=space,
        is_peak=peak.is_peak,
        base=base,
        head=head,
        unchanged_groups=unchanged,
        rest=rest,
    )


def _peak_row(space: str, base: AliveGroup | None, head: AliveGroup | None) -> PeakRow:
    before, after = (0 if group is None else group.size_bytes for group in (base, head))
    change = "=" if before == after else "grown" if after > before else "shrunk"
    shapes = [shape_text(group) for group in (base, head) if group is not None]
    return pair_record(
        PeakRow,
        base,
        head,
        space=space,
        delta_bytes=after - before,
        base_bytes=base and base.size_bytes,
        head_bytes=head and head.size_bytes,
        change="new" if base is None else "gone" if head is None else change,
        shape=" -> ".join(dict.fromkeys(shapes)),
        base_values=base.values if base else 0,
        head_values=head.values if head else 0,
    )


def _file(group: AliveGroup) -> str:
    return _LINE.sub("", group.source or "")


def _scope(group: AliveGroup) -> str | None:
    return last_scopes(group.op_name) or None if group.source else None


def _loop(group: AliveGroup) -> str | None:
    """Return the path of the loop that stores values of each iteration; None for other values."""
    if group.origin_basis != "loop body":
        return None
    return (group.op_name or "").rpartition("/while/body/")[0] or None


def _dims(shape: str) -> str:
    return shape[shape.find("[") :]


_STAGES: tuple[Callable[[AliveGroup], Hashable], ...] = (
    attrgetter("category", "op_name", "source", "opcode", "shape"),
    attrgetter("category", "op_name", "source", "shape"),
    lambda g: (g.category, g.op_name, _file(g), g.shape),
    attrgetter("category", "op_name", "shape"),
    lambda g: _scope(g) and (g.category, _scope(g), g.source, g.shape),
    lambda g: _scope(g) and (g.category, _scope(g), _file(g), g.shape),
    lambda g: g.op_name and (g.op_name, g.shape),
    lambda g: g.op_name and (g.category, g.op_name, _file(g), _dims(g.shape)),
    lambda g: g.op_name and (g.category, g.op_name, _file(g), g.shape.count(",")),
    lambda g: _loop(g) and (g.category, _loop(g), g.shape.count(",")),
)


def _order(group: AliveGroup) -> tuple[object, ...]:
    line = (group.source or "").rpartition(":")[2]
    number = bounded_int(line) if line.isdecimal() else None
    return (number, group.size_bytes, group.shape, group.category, group.opcode, group.source)
