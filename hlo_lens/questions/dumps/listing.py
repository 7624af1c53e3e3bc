"""Facts of a module for one line of a listing, its process, and comparison with others as text.

Texts are compared whole, in their order, except metadata (source lines, stack frames), fingerprints
by XLA, and names of instructions and computations. Other channel ids and another order of
instructions are differences: processes that run one program together must run the same text.
``hlo-lens diff`` compares programs instead, and finds no change in modules that differ in these
alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from hlo_lens.hlo.columns import END, NAME_END
from hlo_lens.hlo.module import HloInstruction
from hlo_lens.hlo.query import evident_partitions
from hlo_lens.load.fact import fact, plant
from hlo_lens.load.programs import with_progress
from hlo_lens.program.flops import flops
from hlo_lens.program.summary import backend_of_dump, coverage_of, instruction_table
from hlo_lens.questions.memory.contents import compiler_copies
from hlo_lens.questions.memory.results import is_estimate_left_out, memory_results
from hlo_lens.render.result import Unit
from hlo_lens.text.dump_kinds import BEFORE, title_of, without_archive_end
from hlo_lens.text.errors import HloLensError
from hlo_lens.text.names import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.load.programs import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingFacts:
    """Facts of one module, small enough to be sent between processes; None if not known.

    A module whose text cannot be read, or whose texts do not match, has facts too: the problem.
    Fields with a meaning are columns of a listing.

    Attributes:
        key: Name in the file names, with its number.
        folder: Folder of its files, relative to the listed path.
        module_option: Option with which commands on the path read it alone; may be empty.
        devices: Devices of one replica: the header's number, or that of the entry's shardings.
        copied_bytes: Bytes at the peak of f32 copies of 16-bit values that CPU's compiler made.
        fingerprint: Equal for modules with equal texts up to names; None if not requested.
    """

    name: str
    key: str
    number: Annotated[int | None, "number in the file names, of the largest compile"]
    folder: str
    stage: Annotated[str | None, "stage of these numbers"]
    stages: Annotated[int, Unit.COUNT, "stages with texts"]
    passes: Annotated[int, Unit.COUNT, "single passes with texts"]
    files: int
    path: str = ""
    module_option: str = ""
    has_program: bool = False
    backend: Annotated[str | None, "cpu, gpu or tpu"] = None
    partitions: Annotated[int | None, Unit.COUNT, "devices over which it is divided"] = None
    devices: int | None = None
    instructions: Annotated[int | None, Unit.COUNT, "as written, of the largest compile"] = None
    peak_bytes: Annotated[int | None, Unit.BYTES, "most held at once, on one device"] = None
    total_bytes: Annotated[int | None, Unit.BYTES, "memory that must fit on one device"] = None
    is_estimated: Annotated[bool, "whether memory is an estimate"] = False
    is_estimate_left_out: bool = False
    copied_bytes: int = 0
    flops: Annotated[int | None, Unit.FLOPS, "products of one run, on one device"] = None
    flops_at_least: Annotated[int | None, Unit.FLOPS, "known part of it"] = None
    flops_is_at_most: Annotated[bool, "whether flops is an upper bound"] = False
    opaque: Annotated[int, Unit.COUNT, "custom calls with unknown arithmetic"] = 0
    signature: tuple[str, ...] | None = None
    coverage: float | None = None
    gaps: int = 0
    is_cut: bool = False
    fingerprint: str | None = None
    problem: str | None = None

    @property
    def undivided_devices(self) -> int:
        """Devices over which the program of these facts is still to be divided; 1 if it is."""
        return (self.devices or 1) if self.stage == BEFORE else 1

    @property
    def process(self) -> str:
        """Folder of the process that compiled it: its folder without the module's own name."""
        own = {self.name, self.key}
        return "/".join(part for part in self.folder.split("/") if part and part not in own)


@fact
def listing_facts(module: ModuleDump) -> ListingFacts:
    """Return the facts of one module, at its latest stage, without fingerprint."""
    facts = named_facts(module)
    try:
        return _figures(facts, module)
    except HloLensError as error:
        return replace(facts, problem=_first_line(error))


@fact
def hashed_facts(module: ModuleDump) -> ListingFacts:
    """Return the facts with a fingerprint, for comparisons with other modules."""
    facts = listing_facts(module)
    if module.hlo is None or facts.instructions is None:
        return facts
    return replace(facts, fingerprint=fingerprint(module.hlo))


def named_facts(module: ModuleDump, *, problem: str | None = None) -> ListingFacts:
    """Return the facts that the names of a module's files have, and why there are no others."""
    stages = module.stages
    return ListingFacts(
        name=title_of(module.name) or module.name,
        key=module.name,
        number=module.number,
        folder=module.folder,
        path=module.path,
        module_option=module.module_option,
        has_program=module.has_program,
        stage=module.stage,
        stages=sum(stage.pass_number is None for stage in stages),
        passes=sum(stage.pass_number is not None for stage in stages),
        files=len({file for stage in stages for file in stage.files} or set(module.files)),
        problem=problem,
    )


def _figures(facts: ListingFacts, module: ModuleDump) -> ListingFacts:
    hlo = module.hlo
    facts = replace(facts, backend=backend_of_dump(module), is_cut=module.is_in_cut_archive)
    if hlo is not None:
        facts = replace(facts, is_cut=facts.is_cut or hlo.is_truncated)
        if not hlo.computations:
            problem = _first_line(hlo.gaps[0]) if hlo.gaps else None
            return replace(facts, gaps=len(hlo.gaps), problem=problem)
        work, table = flops(module), instruction_table(module)
        facts = replace(
            facts,
            flops=work.total,
            flops_at_least=work.at_least,
            flops_is_at_most=work.is_at_most,
            opaque=work.opaque,
            name=hlo.name or facts.name,
            partitions=hlo.num_partitions,
            devices=evident_partitions(table) or hlo.num_partitions,
            instructions=hlo.instruction_count,
            signature=_signature(table),
            is_estimate_left_out=is_estimate_left_out(module),
        )
    try:
        memory = memory_results(module)
    except HloLensError as error:
        memory, facts = None, replace(facts, problem=_first_line(error))
    if memory is not None:
        facts = replace(
            facts,
            peak_bytes=None if memory.peak is None else memory.peak.total_bytes,
            total_bytes=memory.statement.total_bytes,
            is_estimated=memory.statement.source == "estimate",
            copied_bytes=compiler_copies(module) if facts.backend == "cpu" else 0,
        )
    gaps = module.gaps
    return replace(facts, gaps=len(gaps), coverage=coverage_of(hlo, gaps))


def _first_line(problem: object) -> str:
    return str(problem).splitlines()[0]


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


# ---- many modules -------------------------------------------------------------------------------

_DIED = "the process that read it died; it may have run out of memory"


def known_listings(
    modules: Sequence[ModuleDump], *, progress: Progress | None = None, on_all_cores: bool = False
) -> list[ListingFacts]:
    """Return the facts of modules, computed once; those of logs have names only."""
    programs = [module for module in modules if module.log is None]
    make = hashed_facts if needs_fingerprints(programs) else listing_facts
    if on_all_cores:
        from hlo_lens.load.programs import FEW  # imports what starts processes

        if len(programs) >= FEW:
            for module, facts in zip(programs, facts_of(programs, progress=progress), strict=True):
                plant(module, make, facts)
            progress = None
    return [
        named_facts(module) if module.log is not None else make(module)
        for module in with_progress(modules, progress)
    ]


def needs_fingerprints(modules: Sequence[ModuleDump]) -> bool:
    """Return whether findings compare the programs of modules: those of several processes."""
    return len({module.folder for module in modules}) > 1 and has_processes(
        [*map(named_facts, modules)]
    )


def facts_of(
    modules: Sequence[ModuleDump],
    *,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[ListingFacts]:
    """Return the facts of modules, in their order; of one that cannot be read, the problem."""
    from hlo_lens.load.programs import map_modules

    with_fingerprint = len({module.folder for module in modules}) > 1
    function = partial(_limited, with_fingerprint=with_fingerprint)
    made = map_modules(function, modules, progress=progress, processes=processes)
    return [
        named_facts(module, problem=_DIED) if facts is None else facts
        for module, facts in zip(modules, made, strict=True)
    ]


def _limited(module: ModuleDump, *, with_fingerprint: bool) -> ListingFacts:
    facts = hashed_facts if with_fingerprint else listing_facts
    return facts(module.stating(limits_estimate=True))


# ---- processes ----------------------------------------------------------------------------------


def processes_of(modules: Sequence[ListingFacts]) -> tuple[str, ...]:
    """Return the folders of the processes, in order; texts without a number have no process."""
    return tuple(sorted({m.process for m in modules if m.number is not None})) or ("",)


_PROCESS = re.compile(
    r"(?:.*[^a-z])?(?:host|rank|proc(?:ess)?|worker|node|task|pod|w|p|pid|machine|slice)"
    r"(?:id|name)?[-_. ]?\d+(?:[-_.]\d+)*|\d+|\d+(?:[.-]\d+){3}",
    re.IGNORECASE,
)


def has_processes(modules: Sequence[ListingFacts]) -> bool:
    """Return whether the folders of modules are those of several processes of one job.

    They have names of processes, or those that XLA gives: the module's, then a host and a number.
    """
    processes = processes_of(modules)
    if len(processes) < 2:
        return False
    paths = [process.split("/") for process in processes]
    while all(len(path) > 1 for path in paths) and len({path[-1] for path in paths}) == 1:
        paths = [path[:-1] for path in paths]
    if all(_PROCESS.fullmatch(without_archive_end(path[-1])) for path in paths):
        return True
    return all({m.name, m.key} & set(m.folder.split("/")) for m in modules if m.number is not None)


# ---- texts --------------------------------------------------------------------------------------

_STRING = r'"(?:[^"\\]|\\.)*+"'
_METADATA = lazy_pattern(
    rf', metadata=\{{(?:[^{{}}"]|{_STRING}|\{{(?:[^{{}}"]|{_STRING})*+\}})*+\}}'
)
_FINGERPRINT = lazy_pattern(rf"[\w.]*fingerprint\w*={_STRING},?")
_TOKEN = lazy_pattern(rf"{_STRING}|%?[A-Za-z_][\w.-]*")
_SPACE = re.compile(r"\s+")


def fingerprint(module: HloModule) -> str:
    """Return the hash of the text of a module, without metadata and names."""
    import hashlib  # which loads OpenSSL

    digest, columns = hashlib.blake2b(digest_size=16), module.columns
    computations = {c.name: f"@{k}" for k, c in enumerate(module.computations)}

    def add(text: str) -> None:
        digest.update(text.encode("utf-8", "replace") + b"\n")

    for name, value in module.header.items():
        add(f"{name}={_FINGERPRINT.sub('', value)}")
    for computation in module.computations:
        head = "entry computation" if computation.is_entry else "computation"
        add(f"{head} {computations[computation.name]}")
        own = {columns.name(row): f"%{k}" for k, row in enumerate(computation.rows)}
        names, root = {**computations, **own}, computation.root_row

        def numbered(match: re.Match[str], names: dict[str, str] = names) -> str:
            return names.get(match[0].removeprefix("%"), match[0])

        for row in computation.rows:
            rest = _SPACE.sub(" ", _METADATA.sub("", columns.text(row, NAME_END, END)))
            mark = "ROOT " if row == root else ""
            add(f"{mark}{names[columns.name(row)]}{_TOKEN.sub(numbered, rest)}")
    return digest.hexdigest()
