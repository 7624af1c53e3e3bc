"""Changes between two compiles of one module, and between two dumps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.causes import Changes
from hlo_lens.questions.diff.collectives import CollectiveDiff, collective_diff
from hlo_lens.questions.diff.explained import LineDiff, line_diff
from hlo_lens.questions.diff.memory import MemoryDiff, memory_diff
from hlo_lens.questions.diff.pairs import with_folders_of
from hlo_lens.questions.diff.shardings import (
    DonationDiff,
    ShardingDiff,
    donation_diff,
    sharding_diff,
)
from hlo_lens.questions.findings.findings import FindingChanges, module_finding_changes
from hlo_lens.questions.matching.edits import Change, Noise
from hlo_lens.text.dump_kinds import BEFORE
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from hlo_lens.questions.diff.sides import LoadedSide
    from hlo_lens.questions.matching.program_diff import ProgramDiff
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot

SUBJECTS = ("memory", "collectives", "sharding", "program")

NO_CHANGES = Changes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleDiff:
    """Changes of one module; of subjects that were not asked for, or are not known, None.

    Attributes:
        note: Note on the pair; empty for none.
        differences: Reasons why the figures cannot be compared; empty if they can.
        toolchain: Change of the compiler; empty for none, or if one is not known.
        donations: Aliases lost and gained.
        lines: Changes by line of the user's program, and their causes; None without a change.
        findings: Findings that are new or gone; None if they are not known of a side.
        subjects: Subjects asked for.
        is_heedful: Whether noise is reported as changes; snapshots do not know it.
        limit_bytes: Memory of a device of the head; None if it is not known.
        program_problem: Which snapshot has no program, and why; empty if none lacks it.
    """

    base: ModuleSnapshot
    head: ModuleSnapshot
    note: str
    differences: tuple[str, ...]
    toolchain: str
    memory: MemoryDiff | None
    donations: DonationDiff | None
    collectives: CollectiveDiff | None
    shardings: ShardingDiff | None
    program: ProgramDiff | None
    lines: LineDiff | None = None
    findings: FindingChanges | None = None
    subjects: tuple[str, ...] = SUBJECTS
    is_heedful: bool = False
    limit_bytes: int | None = None
    program_problem: str = ""

    @property
    def is_program_equal(self) -> bool | None:
        """Whether the programs are the same but for names; None if it is not known."""
        if self.program is not None:
            return self.program.identical
        if self.base.fingerprint is None or self.head.fingerprint is None:
            return None
        return self.base.fingerprint == self.head.fingerprint

    @property
    def identical(self) -> bool:
        if "program" in self.subjects and self.is_program_equal is False:
            return False
        if self.memory is not None and self.memory.is_changed:
            return False
        results = (self.donations, self.collectives, self.shardings)
        return not self.differences and not any(r is not None and r.row_count for r in results)

    @property
    def is_undecided(self) -> bool:
        """Whether the HLO text of one side ends too early, so that what it lacks seems removed."""
        return not self.identical and self.base.is_truncated != self.head.is_truncated

    @property
    def unknown(self) -> tuple[str, ...]:
        """Subjects that were asked for and could not be compared, and ``gaps`` for gaps in a text.

        Memory that is known on neither side of one program is not included.
        """
        memory = self.memory
        is_memory_unknown = self.is_program_equal is not True and memory is None
        found = {
            "memory": is_memory_unknown or (memory is not None and not memory.is_comparable),
            "collectives": self.collectives is None,
            "sharding": self.shardings is None,
            "program": self.program is None and (self.is_program_equal is None or self.is_heedful),
        }
        subjects = tuple(subject for subject in self.subjects if found[subject])
        sides = (self.base, self.head)
        has_gaps = any(side.gap_count or side.undefined_count for side in sides)
        return (*subjects, "gaps") if has_gaps else subjects


@dataclass(frozen=True, kw_only=True)
class DumpDiff:
    """Changes between two dumps.

    Modules of one side alone are `added` or `removed`; `places` has the index of each pair in base
    and head, `copies` those of modules left out as copies of others.
    """

    base: LoadedSide
    head: LoadedSide
    modules: tuple[ModuleDiff, ...]
    places: tuple[tuple[int, int], ...]
    added: tuple[ModuleSnapshot, ...]
    removed: tuple[ModuleSnapshot, ...]
    copies: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def identical(self) -> bool:
        return not self.added and not self.removed and all(m.identical for m in self.modules)

    @property
    def is_undecided(self) -> bool:
        """Whether all that changed is in modules whose text ends too early on one side."""
        changed = [module for module in self.modules if not module.identical]
        is_one_sided = self.added or self.removed
        return not is_one_sided and bool(changed) and all(m.is_undecided for m in changed)

    @property
    def unknown(self) -> Mapping[str, tuple[str, ...]]:
        """Name of each module that could not be compared whole, to the subjects that could not."""
        return {m.head.name: m.unknown for m in self.modules if m.unknown}


def module_diff(
    base: ModuleSnapshot,
    head: ModuleSnapshot,
    *,
    note: str = "",
    program: ProgramDiff | None = None,
    changes: Changes = NO_CHANGES,
    subjects: tuple[str, ...] = SUBJECTS,
    is_forced: bool = False,
    heed: Collection[Noise] = (),
) -> ModuleDiff:
    """Return the changes of one module."""
    base = with_folders_of(base, head)
    shardings = sharding_diff(base, head)
    if program is not None and shardings is not None and shardings.renamed:
        kind, count = Noise.AXIS_NAMES, shardings.renamed
        if kind not in heed:
            known = program.ignored.get(kind, 0)
            program = replace(program, ignored={**program.ignored, kind: max(known, count)})
        elif all(change.what != kind.value for change in program.module_changes):
            change = Change(kind.value, None, plural(count, "time"))
            program = replace(program, module_changes=(*program.module_changes, change))
    has_memory = "memory" in subjects
    toolchain = f"{base.toolchain} -> {head.toolchain}"
    if not base.toolchain or not head.toolchain or base.toolchain == head.toolchain:
        toolchain = ""
    found = ModuleDiff(
        base=base,
        head=head,
        note=note,
        differences=tuple(_differences(base, head)),
        toolchain=toolchain,
        memory=memory_diff(base, head, is_forced=is_forced) if has_memory else None,
        donations=donation_diff(shardings.pairs) if has_memory and shardings is not None else None,
        collectives=collective_diff(base, head) if "collectives" in subjects else None,
        shardings=shardings if "sharding" in subjects else None,
        program=program,
        findings=module_finding_changes(base.facts, head.facts),
        subjects=subjects,
        is_heedful=bool(heed),
    )
    memory = found.memory
    if memory is not None and found.is_program_equal and not memory.has_other_numbers:
        # in one program with equal figures, only metadata moves values between groups
        unchanged = tuple(peak for peak in memory.peaks if not peak.changed)
        found = replace(found, memory=replace(memory, peaks=unchanged))
    if "program" not in subjects:
        return found
    known_changes = replace(
        changes, shardings=shardings, donations=found.donations, toolchain=toolchain
    )
    diff = line_diff(known_changes, found.memory, found.collectives)
    return found if found.identical and not diff.causes else replace(found, lines=diff)


def _differences(base: ModuleSnapshot, head: ModuleSnapshot) -> Iterator[str]:
    """Yield why the figures of two modules cannot be compared, in words; nothing if they can.

    A fact that only one side has is no difference.
    """
    mine, yours = base.facts, head.facts
    if mine.backend and yours.backend and mine.backend != yours.backend:
        yield f"backend {mine.backend} -> {yours.backend}"
    elif base.target and head.target and base.target != head.target:
        yield f"target {base.target} -> {head.target}"
    partitions = [_partitions(module) for module in (base, head)]
    has_text = base.collectives is not None and head.collectives is not None
    if has_text and (partitions[0] or 1) != (partitions[1] or 1):  # one partition is not printed
        texts = ["1 (none printed)" if n is None else str(n) for n in partitions]
        yield f"partitions {' -> '.join(texts)}"
    replicas = [facts.replica_count for facts in (mine, yours)]
    if None not in replicas and replicas[0] != replicas[1]:
        yield f"replicas {replicas[0]} -> {replicas[1]}"
    stages = [facts.stage for facts in (mine, yours)]
    if None not in stages and (stages[0] == BEFORE) != (stages[1] == BEFORE):
        yield "one text is from before optimizations, the other from after"


def _partitions(module: ModuleSnapshot) -> int | None:
    """Return the number of partitions; None if nothing in the text gives it.

    Texts of before the end of 2023 have no number: shardings or groups of collectives give it.
    """
    printed = module.facts.evident_partitions
    if printed is not None or not module.collectives:
        return printed
    sizes = [(fact.group_size or 1) * (fact.num_groups or 1) for fact in module.collectives]
    most = max(sizes) // (module.facts.replica_count or 1)
    return most if most > 1 else None
