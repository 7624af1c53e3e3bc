"""Largest size that fits, from dumps of one program at two sizes or more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.memory import memory_diff, memory_problem
from hlo_lens.questions.diff.pairs import pair_modules
from hlo_lens.questions.diff.sides import LoadedSide, Side, load_side
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.plans.scaling import Check, Scaling, predicted, sized_total, value_growth
from hlo_lens.questions.plans.scaling_page import scaling_report
from hlo_lens.questions.plans.unit_sizes import UnitSizes, unit_sizes
from hlo_lens.questions.what_if.process.program import own_target
from hlo_lens.text.errors import DumpMismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.diff.sides import SideModule
    from hlo_lens.questions.plans.scaling import SizedTotal
    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot
    from hlo_lens.render.table import Report
    from hlo_lens.text.name_pattern import NamePattern

_UNIT = "size"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledFit:
    """Growth of the modules of several dumps with one size.

    Attributes:
        paths: The dumps, in the order given.
        modules: One for each module that all dumps have, and whose parameters differ.
    """

    paths: tuple[str, ...]
    modules: tuple[Scaling, ...]

    @property
    def fits(self) -> bool:
        """Whether each module fits at some size, or no limit is known."""
        return all(one.limit_bytes is None or one.largest != 0 for one in self.modules)

    @property
    def report(self) -> Report:
        """The output of ``hlo-lens fit A B``."""
        return scaling_report(self.modules, self.paths)

    def __str__(self) -> str:
        return str(self.report)


def fit_scale(
    sides: Sequence[Side],
    *,
    scale: str = "",
    limit_bytes: int | None = None,
    pattern: NamePattern | None = None,
) -> ScaledFit:
    """Return the growth of memory between dumps at several sizes, and the largest that fits.

    Args:
        sides: Dumps or snapshots, two or more.
        scale: Name of the size, ``batch``, or name and size of each dump, ``batch=8,16``.
        limit_bytes: Memory of one device; None for that of the dump's target.
        pattern: Modules in whose names this is found; None for all.

    Raises:
        UsageError: If the sizes are not known.
        DumpMismatchError: If the dumps have no module in common whose parameters differ.
    """
    unit, given = _unit(scale, len(sides))
    loaded = [load_side(side, pattern=pattern).without_copies() for side in sides]
    found = []
    problems: list[str] = []
    for group in _groups(loaded):
        try:
            found.append(_scaling(group, loaded, unit, given, limit_bytes))
        except UsageError as error:
            problems.append(f"{group[0].snapshot.name}: {error}")
    if not found and problems:
        raise UsageError(problems[0])
    if not found:
        raise DumpMismatchError("the dumps have no module in common")
    found.sort(key=lambda one: -one.bytes_per_unit)
    return ScaledFit(paths=tuple(side.path for side in loaded), modules=tuple(found))


def _unit(scale: str, count: int) -> tuple[str, tuple[int, ...]]:
    """Return the name of a size, and its value in each dump; none if only named."""
    name, sign, values = scale.partition("=")
    if not sign:
        return name.strip() or _UNIT, ()
    words = [word.strip() for word in values.split(",")]
    sizes = tuple(int(word) for word in words if word.isdecimal())
    if len(sizes) != len(words) or len(set(sizes)) != count or 0 in sizes:
        raise UsageError(f"--scale {scale!r}: give one size for each dump: batch=8,16")
    return name.strip(), sizes


def _groups(loaded: Sequence[LoadedSide]) -> list[tuple[SideModule, ...]]:
    """Return the modules that all dumps have."""
    first, *others = ([one.snapshot for one in side.modules] for side in loaded)
    places = [
        {mine: yours for mine, yours, _ in pair_modules(first, other).pairs} for other in others
    ]
    return [
        (
            loaded[0].modules[mine],
            *(s.modules[p[mine]] for s, p in zip(loaded[1:], places, strict=True)),
        )
        for mine in range(len(first))
        if all(mine in pairs for pairs in places)
    ]


def _scaling(
    group: Sequence[SideModule],
    loaded: Sequence[LoadedSide],
    unit: str,
    given: tuple[int, ...],
    limit_bytes: int | None,
) -> Scaling:
    """Return the growth of one module."""
    snapshots = [one.snapshot for one in group]
    for other in snapshots[1:]:
        if other.facts.backend != snapshots[0].facts.backend:
            names = f"{snapshots[0].facts.backend} and {other.facts.backend}"
            raise UsageError(f"the dumps are of different hardware: {names}")
        if problem := memory_problem(snapshots[0], other):
            raise UsageError(problem)
    known = UnitSizes(sizes=given, step=1, arguments=()) if given else unit_sizes(snapshots)
    totals = [
        _total(one, size, side.path)
        for one, size, side in zip(snapshots, known.sizes, loaded, strict=True)
    ]
    first = sorted(totals[:2], key=lambda one: one.size)
    ordered = sorted(zip(totals, snapshots, strict=True), key=lambda pair: pair[0].size)
    small, large = ordered[0], ordered[-1]
    changed = memory_diff(small[1], large[1])
    peaks = [] if changed is None else [p for p in changed.peaks if p.color == DEFAULT_SPACE]
    limit, source = _limit(limit_bytes, group[0])
    return Scaling(
        name=snapshots[0].name,
        unit=unit,
        dumps=tuple(total for total, _ in ordered),
        values=value_growth(peaks[0], (small[0].size, large[0].size)) if peaks else (),
        step=known.step,
        limit_bytes=limit,
        limit_source=source,
        checks=tuple(Check(predicted=predicted(first, one.size), actual=one) for one in totals[2:]),
        is_moved=bool(peaks) and peaks[0].has_moved,
    )


def _total(module: ModuleSnapshot, size: int, path: str) -> SizedTotal:
    found = sized_total(module, size, path)
    if found is None:
        raise UsageError(f"the memory of {path} is not known")
    return found


def _limit(limit_bytes: int | None, module: SideModule) -> tuple[int | None, str]:
    """Return the memory of one device, and its source."""
    if limit_bytes is not None:
        return limit_bytes, "--limit"
    if module.dump is None:
        return None, ""
    target = own_target(module.dump, module.snapshot.facts.backend)
    return (None, "") if target is None else (target.memory_bytes, target.memory_source)
