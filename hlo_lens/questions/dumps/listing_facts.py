"""Facts of a module for one line of a listing: size, memory, arithmetic, interface.

Small enough to be sent between processes. A module whose text cannot be read, or whose texts do not
match, has facts too: the problem, and None for the unknown ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.module import HloInstruction
from hlo_lens.hlo.query import evident_partitions
from hlo_lens.load.fact import fact
from hlo_lens.load.module import ModuleDump
from hlo_lens.program.flops import flops
from hlo_lens.program.summary import backend_of_dump, coverage_of, instruction_table
from hlo_lens.questions.memory.results import is_estimate_left_out, memory_results
from hlo_lens.text.dump_kinds import BEFORE, title_of
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.text_comparison import Fingerprint
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
    from hlo_lens.questions.dumps.text_comparison import fingerprint

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
