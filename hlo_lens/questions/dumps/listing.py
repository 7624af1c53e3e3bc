"""Facts of a module for one line of a listing, its process, and comparison with others as text.

Texts are compared whole, in their order, except metadata (source lines, stack frames) and
fingerprints by XLA. Two modules are identical, or the same up to names of instructions and
computations, or different. Other channel ids and another order of instructions are differences:
processes that run one program together must run the same text. ``hlo-lens diff`` compares programs
instead, and finds no change in modules that differ in these alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, NAME_END
from hlo_lens.hlo.module import HloInstruction
from hlo_lens.hlo.query import evident_partitions
from hlo_lens.load.fact import fact, plant
from hlo_lens.load.module import ModuleDump
from hlo_lens.load.programs import with_progress
from hlo_lens.program.flops import flops
from hlo_lens.program.summary import backend_of_dump, coverage_of, instruction_table
from hlo_lens.questions.memory.results import is_estimate_left_out, memory_results
from hlo_lens.text.dump_kinds import BEFORE, title_of, without_archive_end
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloComputation, HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress
    from hlo_lens.questions.memory.results import MemoryResults


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingFacts:
    """Facts of one module; None if not known. Other fields are columns of `ModuleGroups`.

    Attributes:
        name: Name in the HLO text, else in the file names.
        key: Name in the file names, with its number.
        folder: Folder of its files, relative to the listed path.
        path: File, folder or archive that was loaded; empty if unknown.
        has_program: Whether there is a text from before optimizations.
        module_option: Option with which commands on the path read it alone; may be empty.
        stage: Stage of these facts: the latest with an HLO text.
        devices: Devices of one replica: the header's number, or that of the entry's shardings.
        is_estimate_left_out: Whether memory was not estimated because the module is large.
        flops_is_at_most: Whether a conditional makes `flops` an upper bound.
        signature: Shapes of the entry's parameters, in order.
        coverage: Share of the text that was read, 0 to 1.
        gaps: Number of parts that could not be read.
        fingerprint: Hashes of the text; None if not requested.
    """

    name: str
    key: str
    number: int | None
    folder: str
    stage: str | None
    stages: int
    passes: int
    files: int
    path: str = ""
    module_option: str = ""
    has_program: bool = False
    backend: str | None = None
    partitions: int | None = None
    devices: int | None = None
    instructions: int | None = None
    peak_bytes: int | None = None
    total_bytes: int | None = None
    is_estimated: bool = False
    is_estimate_left_out: bool = False
    flops: int | None = None
    flops_at_least: int | None = None
    flops_is_at_most: bool = False
    opaque: int = 0
    signature: tuple[str, ...] | None = None
    coverage: float | None = None
    gaps: int = 0
    fingerprint: Fingerprint | None = None
    problem: str | None = None

    @property
    def undivided_devices(self) -> int:
        """Devices over which the program of these facts is still to be divided; 1 if it is."""
        return (self.devices or 1) if self.stage == BEFORE else 1


@fact
def listing_facts(module: ModuleDump) -> ListingFacts:
    """Return the facts of one module, at its latest stage, without fingerprint."""
    facts = named_facts(module)
    try:
        return _read(facts, module)
    except HloLensError as error:
        return replace(facts, problem=str(error).splitlines()[0])


@fact
def hashed_facts(module: ModuleDump) -> ListingFacts:
    """Return the facts with a fingerprint, for comparisons with other modules."""
    facts = listing_facts(module)
    if module.hlo is None or facts.instructions is None:
        return facts

    return replace(facts, fingerprint=fingerprint(module.hlo))


def named_facts(dump: ModuleDump, *, problem: str | None = None) -> ListingFacts:
    """Return the facts that the names of a module's files have, and why there are no others."""
    stages = dump.stages
    return ListingFacts(
        name=title_of(dump.name) or dump.name,
        key=dump.name,
        number=dump.number,
        folder=dump.folder,
        path=dump.path,
        module_option=dump.module_option,
        has_program=dump.has_program,
        stage=dump.stage,
        stages=sum(stage.pass_number is None for stage in stages),
        passes=sum(stage.pass_number is not None for stage in stages),
        files=len({file for stage in stages for file in stage.files} or set(dump.files)),
        problem=problem,
    )


def _read(facts: ListingFacts, dump: ModuleDump) -> ListingFacts:
    module = dump.hlo
    facts = replace(facts, backend=backend_of_dump(dump))
    if module is not None:
        if not module.computations:
            problem = str(module.gaps[0]).splitlines()[0] if module.gaps else None
            return replace(facts, gaps=len(module.gaps), problem=problem)
        work, table = flops(dump), instruction_table(dump)
        facts = replace(
            facts,
            flops=work.total,
            flops_at_least=work.at_least,
            flops_is_at_most=work.is_at_most,
            opaque=work.opaque,
            name=module.name or facts.name,
            partitions=module.num_partitions,
            devices=evident_partitions(table) or module.num_partitions,
            instructions=module.instruction_count,
            signature=_signature(table),
            is_estimate_left_out=is_estimate_left_out(dump),
        )
    try:
        facts = _with_memory(facts, memory_results(dump))
    except HloLensError as error:
        facts = replace(facts, problem=str(error).splitlines()[0])
    gaps = dump.gaps
    return replace(facts, gaps=len(gaps), coverage=coverage_of(module, gaps))


def _signature(table: InstructionTable) -> tuple[str, ...] | None:
    """Return the shapes of the entry's parameters without layouts, by parameter number.

    None for a text that is cut off before the end of the entry.
    """
    if not table.module.has_whole_entry:
        return None
    parameters = [HloInstruction(table.module.entry, row) for row in table.entry_parameters]
    parameters.sort(key=lambda one: (one.parameter_number or 0, one.parameter_number is None))
    shapes = [parameter.shape for parameter in parameters]
    return tuple("?" if shape is None else shape.to_text(layout=False) for shape in shapes)


def _with_memory(facts: ListingFacts, memory: MemoryResults | None) -> ListingFacts:
    if memory is None:
        return facts
    statement = memory.statement
    return replace(
        facts,
        peak_bytes=None if memory.peak is None else memory.peak.total_bytes,
        total_bytes=statement.total_bytes,
        is_estimated=statement.source == "estimate",
    )


_DIED = "the process that read it died; it may have run out of memory"


def known_listings(
    known: Sequence[ModuleDump], *, progress: Progress | None = None, on_all_cores: bool = False
) -> list[ListingFacts]:
    """Return the facts of modules, computed once; those of logs have names only.

    Args:
        known: The modules, whose results the facts are taken from.
        progress: Called with modules done and modules in all.
        on_all_cores: Whether to compute those of many modules on all cores, apart from `known`.
    """
    programs = [one for one in known if one.log is None]
    make = hashed_facts if needs_fingerprints(programs) else listing_facts
    if on_all_cores and _are_many(len(programs)):
        facts = facts_of(programs, progress=progress)
        for one, made in zip(programs, facts, strict=True):
            plant(one, make, made)
        progress = None
    return [
        named_facts(one) if one.log is not None else make(one)
        for one in with_progress(known, progress)
    ]


def _are_many(modules: int) -> bool:
    from hlo_lens.load.workers import FEW  # imports what starts processes

    return modules >= FEW


def needs_fingerprints(dumps: Sequence[ModuleDump]) -> bool:
    """Return whether findings compare the programs of modules: those of several processes."""
    if len({one.folder for one in dumps}) <= 1:
        return False

    return has_processes([*map(named_facts, dumps)])


def _limited(module: ModuleDump, *, with_fingerprint: bool) -> ListingFacts:
    """Return the facts of a module with limited estimates, and keep no others."""
    facts = hashed_facts if with_fingerprint else listing_facts
    return facts(module.stating(limits_estimate=True))


def facts_of(
    modules: Sequence[ModuleDump],
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[ListingFacts]:
    """Return the facts of modules, in their order; of one that cannot be read, the problem.

    Args:
        modules: Modules of one dump.
        progress: Called with modules done and modules in all.
        processes: Number of worker processes; None for as many as help.
    """
    from hlo_lens.load.workers import map_modules

    folders = {module.folder for module in modules}
    function = partial(_limited, with_fingerprint=len(folders) > 1)
    found = map_modules(function, modules, progress=progress, processes=processes)
    return [
        named_facts(module, problem=_DIED) if facts is None else facts
        for module, facts in zip(modules, found, strict=True)
    ]


def processes_of(modules: Sequence[ListingFacts]) -> tuple[str, ...]:
    """Return the folders of the processes, in order; texts without a number have no process."""
    return tuple(sorted({process_of(m) for m in modules if m.number is not None})) or ("",)


def process_of(module: ListingFacts) -> str:
    """Return the folder of the process that compiled a module."""
    names = {module.name, module.key}
    return "/".join(part for part in module.folder.split("/") if part and part not in names)


def has_processes(modules: Sequence[ListingFacts]) -> bool:
    """Return whether the folders of modules are those of several processes of one job."""
    processes = processes_of(modules)
    return len(processes) > 1 and are_processes(modules, processes)


_PROCESS = re.compile(
    r"(?:.*[^a-z])?(?:host|rank|proc(?:ess)?|worker|node|task|pod|w|p|pid|machine|slice)"
    r"(?:id|name)?[-_. ]?\d+(?:[-_.]\d+)*|\d+|\d+(?:[.-]\d+){3}",
    re.IGNORECASE,
)


def are_processes(modules: Sequence[ListingFacts], processes: Sequence[str]) -> bool:
    """Whether folders have names of processes, or names that XLA gives to them."""
    paths = [one.split("/") for one in processes]
    while all(len(path) > 1 for path in paths) and len({path[-1] for path in paths}) == 1:
        paths = [path[:-1] for path in paths]
    if all(_PROCESS.fullmatch(without_archive_end(path[-1])) for path in paths):
        return True
    numbered = [module for module in modules if module.number is not None]
    return all({m.name, m.key} & set(m.folder.split("/")) for m in numbered)


_STRING = r'"(?:[^"\\]|\\.)*+"'
_METADATA = lazy_pattern(
    rf', metadata=\{{(?:[^{{}}"]|{_STRING}|\{{(?:[^{{}}"]|{_STRING})*+\}})*+\}}'
)
_FINGERPRINT = lazy_pattern(rf"[\w.]*fingerprint\w*={_STRING},?")
_TOKEN = lazy_pattern(rf"{_STRING}|%?[A-Za-z_][\w.-]*")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Hashes of the text of a module.

    Attributes:
        exact: Equal for identical modules.
        nameless: Equal for modules that are the same up to names.
    """

    exact: str
    nameless: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a module in the compared form.

    Attributes:
        exact: Text without metadata.
        nameless: The same with numbers in place of names.
        place: ``computation/instruction``; ``header`` for a header.
    """

    exact: str
    nameless: str
    place: str


def fingerprint(module: HloModule) -> Fingerprint:
    """Return the hashes of the text of a module."""
    import hashlib  # which loads OpenSSL

    exact, nameless = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for line in canonical_lines(module):
        exact.update(line.exact.encode("utf-8", "replace") + b"\n")
        nameless.update(line.nameless.encode("utf-8", "replace") + b"\n")
    return Fingerprint(exact.hexdigest(), nameless.hexdigest())


def canonical_lines(module: HloModule) -> Iterator[Line]:
    """Yield the header and all instructions of a module in the compared form."""
    computations = {c.name: f"@{k}" for k, c in enumerate(module.computations)}
    for name, value in module.header.items():
        text = f"{name}={_FINGERPRINT.sub('', value)}"
        yield Line(text, text, "header")
    for computation in module.computations:
        number = computations[computation.name]
        head = "entry computation" if computation.is_entry else "computation"
        yield Line(f"{head} {computation.name}", f"{head} {number}", computation.name)
        yield from _instructions(module, computation, computations)


def _instructions(
    module: HloModule, computation: HloComputation, computations: dict[str, str]
) -> Iterator[Line]:
    columns = module.columns
    own = {columns.name(row): f"%{k}" for k, row in enumerate(computation.rows)}
    names = {**computations, **own}

    def number(match: re.Match[str]) -> str:
        token = match[0]
        return names.get(token.removeprefix("%"), token)

    root = computation.root_row
    for row in computation.rows:
        name = columns.name(row)
        rest = _SPACE.sub(" ", _METADATA.sub("", columns.text(row, NAME_END, END)))
        head = "ROOT " if row == root else ""
        yield Line(
            f"{head}{name}{rest}",
            f"{head}{names[name]}{_TOKEN.sub(number, rest)}",
            f"{computation.name}/{name}",
        )


def first_difference(base: HloModule, other: HloModule) -> tuple[Line | None, Line | None] | None:
    """Return the first different lines of two modules; None if there are none.

    A line is None if its module has ended.
    """
    for one, two in zip_longest(canonical_lines(base), canonical_lines(other)):
        if one is None or two is None or one.exact != two.exact:
            return one, two
    return None
