"""The memory of two compiles: the statement line by line, and which values make the difference.

What makes the difference of a space is told by `peak_diff`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.delta import Delta
from hlo_lens.analysis.comparison.peak_diff import FREE, NO_HEAP, PeakDiff, peak_diff

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.model.snapshot.facts import ModuleSnapshot

METRICS = (
    "argument_bytes",
    "output_bytes",
    "alias_bytes",
    "temp_bytes",
    "constant_bytes",
    "thread_local_bytes",
    "total_bytes",
)
"""Lines of the statement of one device, as in the report's MEMORY object."""

SPACE_METRICS = (
    "argument_bytes",
    "output_bytes",
    "alias_bytes",
    "temp_bytes",
    "constant_bytes",
    "thread_local_bytes",
    "total_bytes",
    "peak_bytes",
    "fragmentation_bytes",
    "padding_bytes",
)
"""Lines of the statement of one memory space."""

PEAK = "peak.bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiff:
    """What changed in the memory of one module.

    Attributes:
        metrics: Line of the statement, as a path into MEMORY, to its values.
        base_source: ``buffer-assignment``, ``estimate``, or None where nothing is known.
        head_source: The same of the head.
        peaks: One for each memory space of either side; none where the sides cannot be compared.
        problem: Why they cannot be; empty where they can.
        is_comparable: Whether they were compared: there is no problem, or in spite of it.
        unexplained: Spaces of which only one side tells when what is alive, so that nothing says
            which values make the difference.
    """

    metrics: Mapping[str, Delta]
    base_source: str | None
    head_source: str | None
    peaks: tuple[PeakDiff, ...] = ()
    problem: str = ""
    is_comparable: bool = True
    unexplained: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether any line or any group of values differs; not where they cannot be compared."""
        differs = self.has_other_numbers or any(peak.changed for peak in self.peaks)
        return self.is_comparable and differs

    @property
    def has_other_numbers(self) -> bool:
        """Whether any line of the statement differs."""
        return any(delta.is_changed for delta in self.metrics.values())

    @property
    def unchanged_peaks(self) -> tuple[PeakDiff, ...]:
        """Spaces in which no group of values differs."""
        return tuple(peak for peak in self.peaks if not peak.changed)


def memory_diff(
    base: ModuleSnapshot, head: ModuleSnapshot, *, is_forced: bool = False
) -> MemoryDiff | None:
    """Return what changed in the memory of a module; None where neither side knows anything.

    Args:
        base: Before.
        head: After.
        is_forced: Whether to compare an estimate with what XLA assigned.
    """
    mine, yours = base.section("memory"), head.section("memory")
    if mine is None and yours is None:
        return None
    sources = (_source(mine), _source(yours))
    problem = memory_problem(base, head)
    is_comparable = not problem or (is_forced and None not in sources)
    metrics = dict(_metrics(mine or {}, yours or {}, is_comparable=is_comparable))
    peaks, unexplained = _peaks(base, head, metrics) if is_comparable else ((), ())
    return MemoryDiff(
        metrics=metrics,
        base_source=sources[0],
        head_source=sources[1],
        peaks=peaks,
        problem=problem,
        is_comparable=is_comparable,
        unexplained=unexplained,
    )


def memory_problem(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return why the memory of two modules cannot be compared; empty where it can."""
    sections = base.section("memory"), head.section("memory")
    mine, yours = map(_source, sections)
    if mine is None or yours is None:
        which = "base" if mine is None else "head"
        return f"the memory of the {which} is not known: no buffer assignment and no schedule"
    for which, memory in zip(("base", "head"), sections, strict=True):
        if memory is not None and memory.get("is_complete") is False:
            return (
                f"the buffer texts of the {which} are not complete: not compared; dump them anew, "
                "or give --force"
            )
    if mine == yours:
        return ""
    which = "base" if mine == "estimate" else "head"
    return (
        f"the memory of the {which} is an estimate, that of the other as XLA assigned it: not "
        "compared; dump the buffer assignment of both, or give --force"
    )


def _source(memory: Mapping[str, object] | None) -> str | None:
    found = None if memory is None else memory.get("source")
    return found if isinstance(found, str) else None


def _metrics(
    mine: Mapping[str, object], yours: Mapping[str, object], *, is_comparable: bool
) -> Iterator[tuple[str, Delta]]:
    """Yield path and values of all lines of the statement."""

    def delta(one: Mapping[str, object], other: Mapping[str, object], name: str) -> Delta:
        return Delta(base=_int(one, name), head=_int(other, name), is_comparable=is_comparable)

    for name in METRICS:
        yield name, delta(mine, yours, name)
    yield PEAK, delta(_object(mine, "peak"), _object(yours, "peak"), "bytes")
    left, right = _spaces(mine), _spaces(yours)
    absent: Mapping[str, object] = dict.fromkeys(SPACE_METRICS, 0)
    for color in sorted({*left, *right}):
        one, other = left.get(color), right.get(color)
        label = str((other or one or {}).get("name"))
        for name in SPACE_METRICS:
            # a space in which nothing lies is not listed: its bytes are 0 if the others are known
            values = (one or (absent if left else {}), other or (absent if right else {}))
            yield f"spaces[{label}].{name}", delta(*values, name)


def _spaces(memory: Mapping[str, object]) -> dict[int, Mapping[str, object]]:
    listed = memory.get("spaces")
    spaces = listed if isinstance(listed, (list, tuple)) else ()
    found = [space for space in spaces if isinstance(space, dict)]
    return {space["color"]: space for space in found if isinstance(space.get("color"), int)}


def _object(data: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _int(data: Mapping[str, object], name: str) -> int | None:
    found = data.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


# ---- the peaks ---------------------------------------------------------------------------------


def _peaks(
    base: ModuleSnapshot, head: ModuleSnapshot, metrics: Mapping[str, Delta]
) -> tuple[tuple[PeakDiff, ...], tuple[str, ...]]:
    """Return what makes the difference of each space, and the spaces where nothing tells it."""
    left = {peak.color: peak for peak in base.peaks}
    right = {peak.color: peak for peak in head.peaks}
    found: list[PeakDiff] = []
    unexplained: list[str] = []
    for color in sorted({*left, *right}):
        one, other = left.get(color), right.get(color)
        known = other or one
        if one is not None and other is not None and one.is_peak != other.is_peak:
            unexplained.append(other.name)
        elif known is not None:
            rest = _rest(known.name, metrics) if known.is_peak else {}
            found.append(peak_diff(one, other, rest=rest))
    return tuple(found), tuple(unexplained)


def _rest(space: str, metrics: Mapping[str, Delta]) -> Mapping[str, Delta]:
    """Return what is allocated in a space besides what is alive at its peak; empty if unknown."""
    lines = ((FREE, "fragmentation_bytes"), (NO_HEAP, "thread_local_bytes"))
    found = {label: metrics.get(f"spaces[{space}].{name}") for label, name in lines}
    if any(delta is None or delta.delta is None for delta in found.values()):
        return {}
    return {label: delta for label, delta in found.items() if delta is not None}
