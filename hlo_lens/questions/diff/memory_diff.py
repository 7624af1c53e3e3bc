"""Memory of two compiles: the statement line by line, and the values that differ.

`peak_diff` attributes the difference of each memory space to values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.peak_diff import FREE, PeakDiff, peak_diff
from hlo_lens.questions.diff.side_pair import Delta
from hlo_lens.questions.memory import estimate_limit
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.statement import FEW_BYTES
from hlo_lens.questions.snapshots.facts import MemoryFacts, SpaceFacts
from hlo_lens.text.amount import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot

_OF_SPACES = tuple(field.name for field in fields(SpaceFacts) if field.name.endswith("_bytes"))
_METRICS = tuple(field.name for field in fields(MemoryFacts) if field.name in _OF_SPACES)
"""Lines of the statement of one device."""

_SPACE_METRICS = (*_METRICS, *(name for name in _OF_SPACES if name not in _METRICS))
"""Lines of the statement of one memory space."""

PEAK = "peak.bytes"
TOTAL = "total_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiff:
    """Changes of the memory of one module.

    Attributes:
        metrics: Path below `MemoryFacts` to the values of that line of the statement.
        base_source: ``buffer-assignment``, ``estimate``, or None where nothing is known.
        head_source: The same of the head.
        peaks: One for each memory space of either side; empty if the sides cannot be compared.
        problem: Reason why they cannot; empty if they can.
        is_comparable: Whether they were compared, having no problem or in spite of it.
        unexplained: Spaces with live ranges on one side only, or with peaks of an older definition,
            where nothing attributes the difference to values.
        is_outdated: Whether a side has totals and peaks by an older definition, not compared.
    """

    metrics: Mapping[str, Delta]
    base_source: str | None
    head_source: str | None
    peaks: tuple[PeakDiff, ...] = ()
    problem: str = ""
    is_comparable: bool = True
    unexplained: tuple[str, ...] = ()
    is_outdated: bool = False

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

    @property
    def small_spaces(self) -> frozenset[str]:
        """Names of spaces, other than the default one, of few bytes on both sides."""
        totals = {peak.space: f"spaces[{peak.space}].total_bytes" for peak in self.peaks}
        for peak in self.peaks:
            if peak.color == DEFAULT_SPACE:
                del totals[peak.space]
        return frozenset(
            space
            for space, name in totals.items()
            if max(self.metrics[name].base or 0, self.metrics[name].head or 0) < FEW_BYTES
        )

    @property
    def unchanged_peaks(self) -> tuple[PeakDiff, ...]:
        """Spaces in which no group of values differs."""
        return tuple(peak for peak in self.peaks if not peak.changed)


def memory_diff(
    base: ModuleSnapshot, head: ModuleSnapshot, *, is_forced: bool = False
) -> MemoryDiff | None:
    """Return the changes of a module's memory; None where neither side has any.

    Args:
        base: Before.
        head: After.
        is_forced: Whether to compare an estimate with what XLA assigned.
    """
    mine, yours = base.facts.memory, head.facts.memory
    if mine is None and yours is None:
        return None
    problem = memory_problem(base, head)
    is_comparable = not problem or (is_forced and None not in (mine, yours))
    outdated = {*base.outdated}, {*head.outdated}
    metrics = dict(_metrics(mine, yours, outdated, is_comparable=is_comparable))
    if code_problem(base, head):
        metrics[TOTAL] = replace(metrics[TOTAL], is_comparable=False)
    peaks, unexplained = _peaks(base, head, metrics) if is_comparable else ((), ())
    return MemoryDiff(
        metrics=metrics,
        base_source=None if mine is None else mine.source,
        head_source=None if yours is None else yours.source,
        peaks=peaks,
        is_outdated=base.has_old_peaks or head.has_old_peaks,
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
    is_left_out = module.facts.is_scheduled and instructions > estimate_limit.MOST_ESTIMATED
    if not is_left_out:
        return ""
    return estimate_limit.not_estimated_text(instructions, module.path, module.name)


def _metrics(
    mine: MemoryFacts | None,
    yours: MemoryFacts | None,
    outdated: tuple[Collection[str], Collection[str]],
    *,
    is_comparable: bool,
) -> Iterator[tuple[str, Delta]]:
    """Yield path and values of each line of the statement; outdated ones are not known."""

    def delta(one: object, other: object, name: str, path: str = "") -> Delta:
        is_old = [f"memory.{path}{name}" in old for old in outdated]
        base, head = (
            None if old else getattr(side, name, None)
            for side, old in zip((one, other), is_old, strict=True)
        )
        return Delta(base=base, head=head, is_comparable=is_comparable and not any(is_old))

    for name in _METRICS:
        yield name, delta(mine, yours, name)
    yield PEAK, delta(mine and mine.peak, yours and yours.peak, "bytes", "peak.")
    left, right = _spaces(mine), _spaces(yours)
    for color in sorted({*left, *right}):
        one, other = left.get(color), right.get(color)
        known = other or one
        if known is None:
            continue
        # spaces without bytes are not listed; without any space nothing is known
        empty = SpaceFacts(color=color, name=known.name, **dict.fromkeys(_SPACE_METRICS, 0))
        for name in _SPACE_METRICS:
            values = (one or (empty if left else None), other or (empty if right else None))
            yield f"spaces[{known.name}].{name}", delta(*values, name, "spaces.")


def _spaces(memory: MemoryFacts | None) -> dict[int, SpaceFacts]:
    return {} if memory is None else {space.color: space for space in memory.spaces}


# ---- the peaks ---------------------------------------------------------------------------------


def _peaks(
    base: ModuleSnapshot, head: ModuleSnapshot, metrics: Mapping[str, Delta]
) -> tuple[tuple[PeakDiff, ...], tuple[str, ...]]:
    """Return the difference of each space, and the spaces that cannot be compared.

    The default space is first, others follow by size.
    These have live ranges on one side only, or peaks by an older definition.
    """
    is_outdated = base.has_old_peaks or head.has_old_peaks
    left = {peak.color: peak for peak in base.peaks}
    right = {peak.color: peak for peak in head.peaks}
    memory = base.facts.memory, head.facts.memory
    names = {color: space.name for side in memory for color, space in _spaces(side).items()}
    found: list[PeakDiff] = []
    unexplained: list[str] = []
    for color in sorted({*left, *right}):
        one, other = left.get(color), right.get(color)
        known = other or one
        if one is not None and other is not None and one.is_peak != other.is_peak:
            unexplained.append(other.name)
        elif known is not None and is_outdated:
            unexplained.append(known.name)
        elif known is not None:
            name = names.get(color, known.name)
            rest = _rest(name, metrics) if known.is_peak else {}
            found.append(replace(peak_diff(one, other, rest=rest), space=name))
    found.sort(key=lambda one: (one.color != DEFAULT_SPACE, -one.most_bytes, one.color))
    return tuple(found), tuple(unexplained)


def _rest(space: str, metrics: Mapping[str, Delta]) -> Mapping[str, Delta]:
    """Return the bytes of a space beyond those held at its peak; empty if not known."""
    free = metrics.get(f"spaces[{space}].fragmentation_bytes")
    return {} if free is None or free.delta is None else {FREE: free}
