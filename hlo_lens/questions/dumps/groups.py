"""Modules grouped by function and process, and the likely training step among them.

Modules of one name in one process are compiles of one function: each beyond the first is a retrace.
A text without a number in its name, such as one of ``compiled.as_text()``, is no compile, and no
step if others have numbers.
The likely training step is the module with the most arithmetic and the largest memory; a larger one
without any arithmetic, such as one that draws weights on one device, is no step. If these are two
modules, each is marked with its own maximum. Modules with texts of single passes alone are parts of
others, and never the step. A text from before the program is divided over devices has the work of
all of them, and is compared by a device's share.

The process of a module is its folder, without the part with the module's own name, which
``--xla_dump_hlo_to_subfolder`` adds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hlo_lens.questions.dumps.listing import known_listings, process_of, processes_of
from hlo_lens.render.result import Cell, Column, Result, Row, Unit
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.dumps.listing import ListingFacts

STEP = "step"
MOST_FLOPS = "most flops"
MOST_MEMORY = "largest memory"

_ROLES = {
    STEP: "the training step, 1 of {}",
    MOST_FLOPS: "the most arithmetic of {}",
    MOST_MEMORY: "the most memory of {}",
}

SORTS = ("peak", "size", "name", "flops")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleGroup:
    """Compiles of one function in one process.

    Attributes:
        name: Name of the module.
        process: Folder of the process; empty if there is only one.
        modules: Modules in the order of their numbers.
        largest: Module shown for the group: largest peak (total if the peak is not known), then
            most instructions.
        mark: ``step``, ``most flops``, ``largest memory`` or None.
    """

    name: str
    process: str
    modules: tuple[ListingFacts, ...]
    largest: ListingFacts
    mark: str | None = None

    @property
    def signatures(self) -> list[tuple[tuple[str, ...], int]]:
        """Distinct parameter shapes, each with its number of compiles, in order of appearance.

        Shapes of all devices together are not compared with those of one.
        """
        devices = self.largest.undivided_devices
        alike = (m for m in self.modules if m.undivided_devices == devices)
        return list(Counter(m.signature for m in alike if m.signature is not None).items())


@dataclass(frozen=True, kw_only=True)
class ModuleGroups(Result):
    """Modules of a dump in groups.

    Attributes:
        groups: Groups in the requested order.
        processes: Folders of the processes, in order; one empty name for a single one.
    """

    KIND: ClassVar[str] = "modules"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", Unit.NONE, "name of the module"),
        Column("process", Unit.NONE, "folder of the process that compiled it"),
        Column("number", Unit.NONE, "number in the file names, of the largest compile"),
        Column("compiles", Unit.COUNT, "number of compiles"),
        Column("signatures", Unit.COUNT, "number of different parameter shapes"),
        Column("stage", Unit.NONE, "stage of these numbers"),
        Column("stages", Unit.COUNT, "stages with texts"),
        Column("passes", Unit.COUNT, "single passes with texts"),
        Column("backend", Unit.NONE, "cpu, gpu or tpu"),
        Column("partitions", Unit.COUNT, "devices over which it is divided"),
        Column("instructions", Unit.COUNT, "as written, of the largest compile"),
        Column("peak_bytes", Unit.BYTES, "most memory held at one instant, on one device"),
        Column("total_bytes", Unit.BYTES, "memory that must fit on one device"),
        Column("is_estimated", Unit.NONE, "whether memory is an estimate"),
        Column("flops", Unit.FLOPS, "matrix products and convolutions of one run, on one device"),
        Column("flops_at_least", Unit.FLOPS, "known part of it"),
        Column("flops_is_at_most", Unit.NONE, "whether flops is an upper bound"),
        Column("opaque", Unit.COUNT, "custom calls with unknown arithmetic"),
        Column("files", Unit.COUNT, "files of all its compiles"),
        Column("mark", Unit.NONE, "step, most flops, or largest memory"),
        Column("problem", Unit.NONE, "reason why facts are missing"),
    )
    groups: tuple[ModuleGroup, ...]
    processes: tuple[str, ...]

    @property
    def lead(self) -> ModuleGroup | None:
        """The likely training step; else the group with the most arithmetic or memory."""
        ranks = {mark: -rank for rank, mark in enumerate((STEP, MOST_FLOPS, MOST_MEMORY))}

        def size(group: ModuleGroup) -> tuple[int, int, int]:
            top = group.largest
            return ranks.get(group.mark or "", -len(ranks)), _flops(top), _memory(top)

        return max(self.groups, key=size, default=None)

    def rows(self) -> Iterator[Row]:
        """Yield one row per group."""
        for group in self.groups:
            own: dict[str, Cell] = {
                "name": group.name,
                "process": group.process,
                "compiles": len(group.modules),
                "signatures": len(group.signatures) or None,
                "files": sum(module.files for module in group.modules),
                "mark": group.mark,
                "problem": next((one.problem for one in group.modules if one.problem), None),
            }
            yield tuple(
                own[column.name] if column.name in own else getattr(group.largest, column.name)
                for column in self.COLUMNS
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The module that a page leads with, and the others of the dump.

    Attributes:
        group: Its compiles, with their mark in the listing; None for a single module.
        others: The other modules; None for a single module.
    """

    group: ModuleGroup | None = None
    others: ModuleGroups | None = None

    @property
    def role(self) -> str:
        """Its place among the modules; empty for a single module."""
        if self.group is None or self.others is None:
            return ""
        count = sum(len(group.modules) for group in (self.group, *self.others.groups))
        role = _ROLES.get(self.group.mark or "", "1 of {}").format(plural(count, "module"))
        compiles = len(self.group.modules)
        parts = [role, *([f"the largest of {compiles} compiles"] if compiles > 1 else [])]
        return ", ".join([*parts, *([f"in {self.group.process}"] if self.group.process else [])])


def module_groups(
    modules: Sequence[ListingFacts], *, sort: str = "peak", is_grouped: bool = True
) -> ModuleGroups:
    """Return modules grouped by process and name.

    Args:
        modules: Modules in the order of folder and number.
        sort: One of `SORTS`: largest peak, most instructions, name, or most flops first.
        is_grouped: Whether the compiles of one function form one group.
    """
    found: dict[tuple[str, str, str], list[ListingFacts]] = {}
    for place, module in enumerate(modules):
        own = "" if is_grouped and module.number is not None else str(place)
        key = (process_of(module), module.name, own)
        found.setdefault(key, []).append(module)
    groups = [
        ModuleGroup(name=key[1], process=key[0], modules=tuple(some), largest=max(some, key=_size))
        for key, some in found.items()
    ]
    processes = processes_of(modules)
    folders = sorted({group.process for group in groups})
    marked = [group for folder in folders for group in _marked(groups, folder)]
    marked.sort(key=lambda group: _place(group, sort))
    return ModuleGroups(groups=tuple(marked), processes=processes)


def _size(module: ListingFacts) -> tuple[int, int, int]:
    return _memory(module), module.instructions or 0, module.flops_at_least or 0


def _place(group: ModuleGroup, sort: str) -> tuple[int | str, ...]:
    """Return the sort key of a group."""
    top = group.largest
    size = -(top.instructions or 0)
    last = (group.name, group.process, top.number or 0)
    if sort == "name":
        return last
    if sort == "size":
        return (size, *last)
    return (-_flops(top) if sort == "flops" else -_size(top)[0], size, *last)


def _flops(module: ListingFacts) -> int:
    """Return the arithmetic of one device, as far as it is known."""
    known = module.flops if module.flops is not None else module.flops_at_least or 0
    return known // module.undivided_devices


def _memory(module: ListingFacts) -> int:
    return module.peak_bytes if module.peak_bytes is not None else module.total_bytes or 0


def _marked(groups: Sequence[ModuleGroup], process: str) -> Iterator[ModuleGroup]:
    """Yield the groups of a process, with a mark at the likely step."""
    own = [group for group in groups if group.process == process]
    whole = [group for group in own if group.largest.stages or not group.largest.passes]
    if any(group.largest.number is not None for group in groups):  # others are copies of texts
        whole = [group for group in whole if group.largest.number is not None]
    busiest = max(whole, key=lambda g: _flops(g.largest), default=None)
    biggest = max(whole, key=lambda g: _memory(g.largest), default=None)
    if busiest is not None and not _flops(busiest.largest):
        busiest = None
    if biggest is not None and not _memory(biggest.largest):
        biggest = None
    working = [group for group in whole if group.largest.flops_at_least or group.largest.opaque]
    rival = max(working, key=lambda g: _memory(g.largest), default=None)
    for group in own:
        mark = None
        if group is busiest:
            is_step = biggest is None or (rival is group and _memory(group.largest) > 0)
            mark = STEP if is_step else MOST_FLOPS
        elif group is biggest:
            mark = MOST_MEMORY if busiest is not None else STEP
        yield replace(group, mark=mark)


def training_step_first(known: Sequence[ModuleDump]) -> list[int]:
    """Return the positions of modules, that of the likely training step first, logs last."""
    logs = [k for k, one in enumerate(known) if one.log is not None]
    rest = [k for k, one in enumerate(known) if one.log is None]
    place, _ = lead_of([known[k] for k in rest], None)
    return [*rest[place : place + 1], *rest[:place], *rest[place + 1 :], *logs]


class ModuleOrder(NamedTuple):
    """Order of the modules of a dump for people.

    Attributes:
        places: Positions of all modules: the one to lead with, then as in the listing, which has
            the largest first.
        lead: The first module's place among the others.
        others: Position of the largest module of each of the other groups, in their order.
    """

    places: list[int]
    lead: Lead
    others: list[int]


def lead_of(known: Sequence[ModuleDump], progress: Progress | None) -> tuple[int, Lead]:
    """Return the position of the module to lead with, and its place among the others."""
    order = module_order(known, progress)
    return next(iter(order.places), 0), order.lead


def module_order(known: Sequence[ModuleDump], progress: Progress | None = None) -> ModuleOrder:
    """Return the order of some modules for people."""
    all_places = list(range(len(known)))
    if len(known) < 2:
        return ModuleOrder(all_places, Lead(), [])
    facts = known_listings(known, progress=progress, on_all_cores=True)
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
