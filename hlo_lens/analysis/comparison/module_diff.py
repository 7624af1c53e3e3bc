"""Changes between two compiles of one module."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.collective_diff import CollectiveDiff, collective_diff
from hlo_lens.analysis.comparison.comparable import differences, toolchain_change
from hlo_lens.analysis.comparison.donation_diff import DonationDiff, donation_diff
from hlo_lens.analysis.comparison.memory_diff import MemoryDiff, memory_diff
from hlo_lens.analysis.comparison.sharding_diff import ShardingDiff, sharding_diff

if TYPE_CHECKING:
    from hlo_lens.analysis.program_diff.difference import ProgramDiff
    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot

SUBJECTS = ("memory", "collectives", "sharding", "program")
"""Subjects of a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleDiff:
    """Changes of one module.

    Attributes:
        base: Before.
        head: After.
        note: Note on the pair; empty for none.
        differences: Reasons why the figures cannot be compared; empty if they can.
        toolchain: Change of the compiler; empty for none, or if one is not known.
        memory: None if it was not asked for, or is known on neither side.
        donations: Aliases lost and gained; None if a side has no HLO text.
        collectives: None if they were not asked for, or a side has no HLO text.
        shardings: None if they were not asked for, or a side has no HLO text.
        program: None if it was not asked for, or a side has no HLO text.
        subjects: Subjects asked for.
        is_heedful: Whether noise is reported as changes; snapshots do not know it.
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
    subjects: tuple[str, ...] = SUBJECTS
    is_heedful: bool = False

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
        """Whether no subject asked for differs."""
        if "program" in self.subjects and self.is_program_equal is False:
            return False
        if self.memory is not None and self.memory.is_changed:
            return False
        results = (self.donations, self.collectives, self.shardings)
        return not self.differences and not any(r is not None and r.row_count for r in results)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Subjects that were asked for and could not be compared, and ``gaps`` for gaps in a text.

        Memory that is known on neither side of one program is not included.
        """
        memory = self.memory
        is_memory_unknown = memory is None and self.is_program_equal is not True
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


def module_diff(
    base: ModuleSnapshot,
    head: ModuleSnapshot,
    *,
    note: str = "",
    program: ProgramDiff | None = None,
    subjects: tuple[str, ...] = SUBJECTS,
    is_forced: bool = False,
    is_heedful: bool = False,
) -> ModuleDiff:
    """Return the changes of one module.

    Args:
        base: Before.
        head: After.
        note: Note on the pair.
        program: Comparison of their HLO texts, if both have one.
        subjects: Subjects to compare, of `SUBJECTS`.
        is_forced: Whether to compare an estimate of memory with what XLA assigned.
        is_heedful: Whether noise is reported as changes.
    """
    shardings = sharding_diff(base, head)
    donations = None if shardings is None else donation_diff(shardings.pairs)
    has_memory = "memory" in subjects
    found = ModuleDiff(
        base=base,
        head=head,
        note=note,
        differences=differences(base, head),
        toolchain=toolchain_change(base, head),
        memory=memory_diff(base, head, is_forced=is_forced) if has_memory else None,
        donations=donations if has_memory else None,
        collectives=collective_diff(base, head) if "collectives" in subjects else None,
        shardings=shardings if "sharding" in subjects else None,
        program=program,
        subjects=subjects,
        is_heedful=is_heedful,
    )
    memory = found.memory
    if memory is not None and found.is_program_equal and not memory.has_other_numbers:
        # in one program with equal figures, only metadata moves values between groups
        found = replace(found, memory=replace(memory, peaks=memory.unchanged_peaks))
    return found
