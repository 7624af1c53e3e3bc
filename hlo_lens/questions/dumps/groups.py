"""Modules grouped by function and process, the likely training step, programs of several processes.

Modules of one name in one process are compiles of one function: each beyond the first is a retrace.
A text without a number in its name, such as one of ``compiled.as_text()``, is no compile, and no
step if others have numbers.
The likely training step is the module with the most arithmetic and the largest memory; a larger one
without any arithmetic, such as one that draws weights on one device, is no step. If these are two
modules, each is marked with its own maximum. Modules with texts of single passes alone are parts of
others, and never the step. A text from before the program is divided over devices has the work of
all of them, and is compared by a device's share.

The process of a module is its folder, without the part with the module's own name. Compiles of one
name are paired over processes first by equal text up to names, then by equal parameter shapes; of
the rest, the k-th of one process with the k-th of another. So an extra compile in one process
shifts no others. Folders without names of processes (``rank_0``, ``host3``, a number, an address,
XLA's ``MODULE/HOST_PID``) are compared alike, but are no processes of one job.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.program.pages import MOST_OF_LEADING
from hlo_lens.questions.dumps.listing import (
    ListingFacts,
    has_processes,
    known_listings,
    processes_of,
)
from hlo_lens.render.result import Records, Result, Row, Unit, columns_of
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress

STEP = "step"
MOST_FLOPS = "most flops"
MOST_MEMORY = "largest memory"

_ROLES = {
    STEP: "the training step, 1 of {}",
    MOST_FLOPS: "the most arithmetic of {}",
    MOST_MEMORY: "the most memory of {}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleGroup:
    """Compiles of one function in one process."""

    name: Annotated[str, "name of the module"]
    process: Annotated[str, "folder of the process that compiled it"]
    modules: tuple[ListingFacts, ...]
    largest: ListingFacts
    mark: Annotated[str | None, "step, most flops, or largest memory"] = None

    @property
    def shapes(self) -> Counter[tuple[str, ...]]:
        """Number of compiles for each list of parameter shapes, in order of appearance.

        Shapes of all devices together are not compared with those of one.
        """
        devices = self.largest.undivided_devices
        alike = (m for m in self.modules if m.undivided_devices == devices)
        return Counter(m.signature for m in alike if m.signature is not None)

    @property
    def compiles(self) -> Annotated[int, Unit.COUNT, "number of compiles"]:
        return len(self.modules)

    @property
    def signatures(self) -> Annotated[int | None, Unit.COUNT, "different parameter shapes"]:
        return len(self.shapes) or None

    @property
    def files(self) -> Annotated[int, Unit.COUNT, "files of all its compiles"]:
        return sum(module.files for module in self.modules)

    @property
    def problem(self) -> Annotated[str | None, "reason why facts are missing"]:
        return next((module.problem for module in self.modules if module.problem), None)


_OWN = {column.name: column for column in columns_of(ModuleGroup)}
_OF_LARGEST = {column.name: column for column in columns_of(ListingFacts)}
_COLUMNS = (
    *("name", "process", "number", "compiles", "signatures", "stage", "stages", "passes"),
    *("backend", "partitions", "instructions", "peak_bytes", "total_bytes", "is_estimated"),
    *("flops", "flops_at_least", "flops_is_at_most", "opaque", "files", "mark", "problem"),
)


@dataclass(frozen=True, kw_only=True)
class ModuleGroups(Result):
    """Modules of a dump in groups: columns of the group, and of its largest module."""

    KIND: ClassVar[str] = "modules"
    COLUMNS = tuple({**_OF_LARGEST, **_OWN}[name] for name in _COLUMNS)
    groups: tuple[ModuleGroup, ...]
    processes: tuple[str, ...]

    def rows(self) -> Iterator[Row]:
        for group in self.groups:
            yield tuple(
                getattr(group if name in _OWN else group.largest, name) for name in _COLUMNS
            )

    @property
    def lead(self) -> ModuleGroup | None:
        ranks = {STEP: 3, MOST_FLOPS: 2, MOST_MEMORY: 1}

        def size(group: ModuleGroup) -> tuple[int, int, int]:
            return ranks.get(group.mark or "", 0), _flops(group.largest), _memory(group.largest)

        return max(self.groups, key=size, default=None)


def module_groups(
    modules: Sequence[ListingFacts], *, sort: str = "peak", is_grouped: bool = True
) -> ModuleGroups:
    """Return modules grouped by process and name.

    Args:
        modules: Modules in the order of folder and number.
        sort: Order of the groups: largest ``peak`` first, most instructions (``size``), ``name``,
            or most ``flops``.
        is_grouped: Whether the compiles of one function form one group.
    """
    members: dict[tuple[str, str, str], list[ListingFacts]] = {}
    for place, module in enumerate(modules):
        own = "" if is_grouped and module.number is not None else str(place)
        members.setdefault((module.process, module.name, own), []).append(module)
    groups = [
        ModuleGroup(
            name=name,
            process=process,
            modules=tuple(own),
            largest=max(
                own, key=lambda m: (_memory(m), m.instructions or 0, m.flops_at_least or 0)
            ),
        )
        for (process, name, _), own in members.items()
    ]
    has_numbers = any(group.largest.number is not None for group in groups)
    marks: dict[int, str] = {}
    for process in {group.process for group in groups}:
        marks |= _marks([g for g in groups if g.process == process], has_numbers=has_numbers)
    groups = [replace(group, mark=marks.get(id(group))) for group in groups]

    def sort_key(group: ModuleGroup) -> tuple[int | str, ...]:
        top = group.largest
        name = (group.name, group.process, top.number or 0)
        if sort == "name":
            return name
        measures = {"size": 0, "flops": -_flops(top), "peak": -_memory(top)}
        return (measures[sort], -(top.instructions or 0), *name)

    return ModuleGroups(groups=tuple(sorted(groups, key=sort_key)), processes=processes_of(modules))


def _flops(module: ListingFacts) -> int:
    known = module.flops if module.flops is not None else module.flops_at_least or 0
    return known // module.undivided_devices


def _memory(module: ListingFacts) -> int:
    return module.peak_bytes if module.peak_bytes is not None else module.total_bytes or 0


def _marks(own: Sequence[ModuleGroup], *, has_numbers: bool) -> dict[int, str]:
    """Return the marks of the groups of a process, by identity."""
    whole = [
        group
        for group in own
        if (group.largest.stages or not group.largest.passes)
        and (group.largest.number is not None or not has_numbers)
    ]

    def largest(
        groups: Iterable[ModuleGroup], size: Callable[[ListingFacts], int] = _memory
    ) -> ModuleGroup | None:
        return max(
            (g for g in groups if size(g.largest)), key=lambda g: size(g.largest), default=None
        )

    busiest, biggest = largest(whole, _flops), largest(whole)
    if busiest is None:
        return {} if biggest is None else {id(biggest): STEP}
    rival = largest(g for g in whole if g.largest.flops_at_least or g.largest.opaque)
    is_step = biggest is None or rival is busiest
    marks = {} if biggest is None else {id(biggest): MOST_MEMORY}
    return {**marks, id(busiest): STEP if is_step else MOST_FLOPS}


# ---- order for people ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The module that a page leads with, and the others of the dump; None for a single module."""

    group: ModuleGroup | None = None
    others: ModuleGroups | None = None

    @property
    def is_beside_helpers(self) -> bool:
        """Whether all other modules are helpers, which questions about one program leave out."""
        if self.group is None or self.others is None or self.group.compiles > 1:
            return False
        most = MOST_OF_LEADING * _memory(self.group.largest)
        others = [one for group in self.others.groups for one in group.modules]
        return bool(others) and all(
            one.number is not None and one.total_bytes is not None and one.total_bytes <= most
            for one in others
        )

    @property
    def role(self) -> str:
        if self.group is None or self.others is None:
            return ""
        compiles = self.group.compiles
        count = compiles + sum(group.compiles for group in self.others.groups)
        parts = [
            _ROLES.get(self.group.mark or "", "1 of {}").format(plural(count, "module")),
            f"the largest of {compiles} compiles" if compiles > 1 else "",
            f"in {self.group.process}" if self.group.process else "",
        ]
        return ", ".join(filter(None, parts))


class ModuleOrder(NamedTuple):
    """Order of the modules of a dump for people, as positions: the one to lead with first.

    `others` has the largest module of each of the other groups, in their order.
    """

    places: list[int]
    lead: Lead
    others: list[int]


def module_order(modules: Sequence[ModuleDump], progress: Progress | None = None) -> ModuleOrder:
    """Return the order of some modules for people."""
    all_places = list(range(len(modules)))
    if len(modules) < 2:
        return ModuleOrder(all_places, Lead(), [])
    facts = known_listings(modules, progress=progress, on_all_cores=True)
    groups = module_groups(facts)
    best = groups.lead
    if best is None:
        return ModuleOrder(all_places, Lead(), [])
    place_of = {id(one): k for k, one in enumerate(facts)}
    listed = (place_of[id(one)] for group in groups.groups for one in group.modules)
    others = tuple(group for group in groups.groups if group is not best)
    return ModuleOrder(
        list(dict.fromkeys((place_of[id(best.largest)], *listed, *all_places))),
        Lead(group=best, others=replace(groups, groups=others)),
        [place_of[id(group.largest)] for group in others],
    )


def lead_of(modules: Sequence[ModuleDump], progress: Progress | None) -> tuple[int, Lead]:
    """Return the position of the module to lead with, and its place among the others."""
    order = module_order(modules, progress)
    return next(iter(order.places), 0), order.lead


def training_step_first(modules: Sequence[ModuleDump]) -> list[int]:
    """Return the positions of modules, that of the likely training step first, logs last."""
    logs = [k for k, module in enumerate(modules) if module.log is not None]
    rest = [k for k, module in enumerate(modules) if module.log is None]
    place, _ = lead_of([modules[k] for k in rest], None)
    return [*rest[place : place + 1], *rest[:place], *rest[place + 1 :], *logs]


# ---- programs of several processes --------------------------------------------------------------


SAME = "same"
DIFFERENT = "different"
MISSING = "not in all processes"
UNKNOWN = "not known"
_ORDER = (DIFFERENT, UNKNOWN, MISSING, SAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedProgram:
    """One compile, over all processes.

    `modules` are the indices of its module in the first process and in `odd`; None where these are
    the same, or not known.
    """

    name: Annotated[str, "name of the module"]
    compile: Annotated[int, "index among the programs of that name, from 0"]
    verdict: Annotated[str, "same, different, or not in all processes"]
    processes: Annotated[int, Unit.COUNT, "number of processes that have it"]
    odd: Annotated[str | None, "the first process that differs, or lacks it"]
    having: tuple[str, ...]
    modules: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class AcrossProcesses(Records[SharedProgram]):
    """Programs of a job, differences first."""

    KIND: ClassVar[str] = "across-processes"
    programs: tuple[SharedProgram, ...]
    processes: tuple[str, ...]
    are_processes: bool = True

    def count(self, verdict: str) -> int:
        return sum(program.verdict == verdict for program in self.programs)


def across_processes(modules: Sequence[ListingFacts]) -> AcrossProcesses:
    """Return the comparison of the programs of several processes; facts must have fingerprints."""
    processes = processes_of(modules)
    by_name: dict[str, list[_Compiles]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for place, module in enumerate(modules):
        if module.number is None:
            continue
        key = module.process, module.name
        alone = _Compiles(seen[key], module, {module.process: place})
        seen[key] += 1
        by_name.setdefault(module.name, []).append(alone)
    programs = [
        _program(name, count, joined.places, modules, processes)
        for name, alone in by_name.items()
        for count, joined in enumerate(_joined(alone))
    ]
    programs.sort(key=lambda p: (_ORDER.index(p.verdict), p.name, p.compile))
    return AcrossProcesses(
        programs=tuple(programs), processes=processes, are_processes=has_processes(modules)
    )


@dataclass(slots=True)
class _Compiles:
    """Compiles of several processes that are the same program.

    Attributes:
        order: Index of the first compile among those of its name in its process.
        module: One of them.
        places: Index of the module by process.
    """

    order: int
    module: ListingFacts
    places: dict[str, int]


_LIKENESS: tuple[Callable[[ListingFacts], Hashable], ...] = (
    lambda module: module.fingerprint,
    lambda module: module.signature,
    lambda module: "",
)
"""Keys by which compiles of one name are the same program, strongest first; None matches none."""


def _joined(alone: list[_Compiles]) -> list[_Compiles]:
    for likeness in _LIKENESS:
        found: dict[Hashable, _Compiles] = {}
        used: Counter[Hashable] = Counter()
        for one in sorted(alone, key=lambda one: one.order):
            what = likeness(one.module)
            what = id(one) if what is None else what
            number = max(used[what, process] for process in one.places)
            for process in one.places:
                used[what, process] = number + 1
            first = found.setdefault((what, number), one)
            if first is not one:
                first.places.update(one.places)
        alone = list(found.values())
    return sorted(alone, key=lambda one: (one.order, min(one.places.values())))


def _program(
    name: str,
    count: int,
    places: Mapping[str, int],
    modules: Sequence[ListingFacts],
    processes: Sequence[str],
) -> SharedProgram:
    having = sorted(places)
    prints = [modules[places[process]].fingerprint for process in having]
    verdict, odd, pair = SAME, None, None
    if None in prints:
        verdict, odd = UNKNOWN, having[prints.index(None)]
    elif len({*prints}) > 1:
        verdict = DIFFERENT
        odd = next(p for p, key in zip(having, prints, strict=True) if key != prints[0])
        pair = places[having[0]], places[odd]
    elif len(having) < len(processes):
        verdict, odd = MISSING, next(process for process in processes if process not in places)
    return SharedProgram(
        name=name,
        compile=count,
        verdict=verdict,
        processes=len(having),
        odd=odd,
        having=tuple(having),
        modules=pair,
    )
