"""Modules by program: what was compiled once and again, by which processes, and which is the step.

Modules of one name in one process are compiles of one function: each beyond the first is a retrace.
A text without a number in its name, such as one of ``compiled.as_text()``, is none, and is no step
where others have numbers.
The likely training step is the module with the most arithmetic and the largest memory; where these
are two modules, both are marked with what they have most of. Modules that XLA cut out of others
(texts of single passes alone) are never it.

A process is a folder of dumps, without the part that is the module's own name, which
``--xla_dump_hlo_to_subfolder`` puts above it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.dumps.listing_facts import ListingFacts
    from hlo_lens.analysis.result import Row

STEP = "step"
MOST_FLOPS = "most flops"
MOST_MEMORY = "largest memory"

SORTS = ("peak", "size", "name", "flops")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleGroup:
    """The compiles of one function in one process.

    Attributes:
        name: Name of the module.
        process: Folder of the process; empty where there is one alone.
        modules: By number.
        largest: The one that is shown for all: the largest peak (where that is not known, total),
            then most instructions.
        mark: ``step``, ``most flops``, ``largest memory`` or None.
    """

    name: str
    process: str
    modules: tuple[ListingFacts, ...]
    largest: ListingFacts
    mark: str | None = None

    @property
    def signatures(self) -> list[tuple[tuple[str, ...], int]]:
        """Distinct parameter shapes with how many compiles have them, in order of appearance."""
        found = Counter(m.signature for m in self.modules if m.signature is not None)
        return list(found.items())


@dataclass(frozen=True, kw_only=True)
class ModuleGroups(Result):
    """The modules of a dump, grouped.

    Attributes:
        groups: In the order asked for.
        processes: Folders of the processes, in order; one empty name for a single one.
    """

    KIND: ClassVar[str] = "modules"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("module", Unit.NONE, "name of the module"),
        Column("process", Unit.NONE, "folder of the process that compiled it"),
        Column("number", Unit.NONE, "number in the file names, of the largest compile"),
        Column("compiles", Unit.COUNT, "how often it was compiled"),
        Column("signatures", Unit.COUNT, "for how many different parameter shapes"),
        Column("stage", Unit.NONE, "the stage that these numbers are of"),
        Column("stages", Unit.COUNT, "stages that have texts"),
        Column("passes", Unit.COUNT, "single passes that have texts"),
        Column("backend", Unit.NONE, "cpu, gpu or tpu"),
        Column("partitions", Unit.COUNT, "devices over which it is divided"),
        Column("instructions", Unit.COUNT, "as written, of the largest compile"),
        Column("peak_bytes", Unit.BYTES, "most memory in use at one instant, on one device"),
        Column("total_bytes", Unit.BYTES, "arguments, outputs and temporaries, on one device"),
        Column("is_estimated", Unit.NONE, "whether memory is an estimate"),
        Column("flops", Unit.FLOPS, "matrix products and convolutions of one run, on one device"),
        Column("flops_at_least", Unit.FLOPS, "as much of it as is known"),
        Column("opaque", Unit.COUNT, "custom calls whose arithmetic nobody knows"),
        Column("files", Unit.COUNT, "files of all its compiles"),
        Column("mark", Unit.NONE, "step, most flops, or largest memory"),
        Column("problem", Unit.NONE, "why facts are missing"),
    )
    groups: tuple[ModuleGroup, ...]
    processes: tuple[str, ...]

    def rows(self) -> Iterator[Row]:
        """Yield one row per group."""
        for group in self.groups:
            yield group_row(group)


def group_row(group: ModuleGroup) -> Row:
    """Return the row of a group."""
    top = group.largest
    problems = [module.problem for module in group.modules if module.problem]
    return (
        group.name,
        group.process,
        top.number,
        len(group.modules),
        len(group.signatures) or None,
        top.stage,
        top.stages,
        top.passes,
        top.backend,
        top.partitions,
        top.instructions,
        top.peak_bytes,
        top.total_bytes,
        top.is_estimated,
        top.flops,
        top.flops_at_least,
        top.opaque,
        sum(module.files for module in group.modules),
        group.mark,
        problems[0] if problems else None,
    )


def module_groups(
    modules: Sequence[ListingFacts], *, sort: str = "peak", is_grouped: bool = True
) -> ModuleGroups:
    """Return modules grouped by process and name.

    Args:
        modules: In the order of folder and number.
        sort: One of `SORTS`: largest peak, most instructions, name, or most flops first.
        is_grouped: Whether compiles of one function are one row.
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


def processes_of(modules: Sequence[ListingFacts]) -> tuple[str, ...]:
    """Return the folders of the processes, in order; texts without a number tell of none."""
    return tuple(sorted({process_of(m) for m in modules if m.number is not None})) or ("",)


def process_of(module: ListingFacts) -> str:
    """Return the folder of the process that compiled a module."""
    names = {module.name, module.key}
    return "/".join(part for part in module.folder.split("/") if part and part not in names)


def _size(module: ListingFacts) -> tuple[int, int, int]:
    return _memory(module), module.instructions or 0, module.flops_at_least or 0


def _place(group: ModuleGroup, sort: str) -> tuple[int | str, ...]:
    """Return the place of a group in the order asked for, as a key for sorting."""
    top = group.largest
    size = -(top.instructions or 0)
    last = (group.name, group.process, top.number or 0)
    if sort == "name":
        return last
    if sort == "size":
        return (size, *last)
    return (-_flops(top) if sort == "flops" else -_size(top)[0], size, *last)


def _flops(module: ListingFacts) -> int:
    return module.flops if module.flops is not None else module.flops_at_least or 0


def _memory(module: ListingFacts) -> int:
    return module.peak_bytes if module.peak_bytes is not None else module.total_bytes or 0


def _is_whole(module: ListingFacts) -> bool:
    """Whether a module was compiled, rather than cut out of another for one pass."""
    return not (module.passes and not module.stages)


def _is_numbered(group: ModuleGroup) -> bool:
    return group.largest.number is not None


def _marked(groups: Sequence[ModuleGroup], process: str) -> Iterator[ModuleGroup]:
    """Yield the groups of a process, the likely step marked."""
    own = [group for group in groups if group.process == process]
    whole = [group for group in own if _is_whole(group.largest)]
    if any(map(_is_numbered, groups)):  # other texts are copies, as of compiled.as_text()
        whole = [group for group in whole if _is_numbered(group)]
    busiest = max(whole, key=lambda g: _flops(g.largest), default=None)
    biggest = max(whole, key=lambda g: _memory(g.largest), default=None)
    if busiest is not None and not _flops(busiest.largest):
        busiest = None
    if biggest is not None and not _memory(biggest.largest):
        biggest = None
    for group in own:
        mark = None
        if group is busiest:
            mark = STEP if biggest in (group, None) else MOST_FLOPS
        elif group is biggest:
            mark = MOST_MEMORY if busiest is not None else STEP
        yield ModuleGroup(
            name=group.name,
            process=group.process,
            modules=group.modules,
            largest=group.largest,
            mark=mark,
        )
