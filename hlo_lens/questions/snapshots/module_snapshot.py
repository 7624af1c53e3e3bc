"""Snapshots: figures of a compile, without its text, to compare other compiles with.

A snapshot holds the figures of each module, and the rows that a comparison attributes them to:
groups of values alive at the peaks, collectives, parameters and outputs, annotations. Names that
differ from compile to compile (of instructions, channels, computations) and paths of the machine
are left out; source files keep their last two names, files in site-packages their path in there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.questions.snapshots.writing import snapshot_object

if TYPE_CHECKING:
    from hlo_lens.questions.sharding.annotations import Annotation
    from hlo_lens.questions.snapshots.facts import ModuleFacts
    from hlo_lens.questions.snapshots.rows import CollectiveFact, EntryFact, SpacePeak


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSnapshot:
    """Snapshot of one module.

    Attributes:
        name: Name of the module.
        target: GPU architecture or TPU topology that it was compiled for, if the files name it.
        toolchain: Compiler, if the files name it.
        signature: Digest of the shapes of parameters and results.
        fingerprint: Digest of the program without names, ids and metadata; None without HLO text.
        facts: Its figures.
        peaks: One for each memory space that has allocations.
        annotations: Sharding annotations inside the program.
        outdated: Paths of figures that the file lacks, or has by an older definition; those of
            `peaks` begin with ``peaks.``.
        path: File, folder or archive that it was read from; empty if unknown, as in a saved
            snapshot.
    """

    name: str
    target: str | None
    toolchain: str | None
    signature: str | None
    fingerprint: str | None
    facts: ModuleFacts
    peaks: tuple[SpacePeak, ...]
    annotations: tuple[Annotation, ...] | None
    outdated: tuple[str, ...] = ()
    path: str = field(default="", compare=False)

    @property
    def collectives(self) -> tuple[CollectiveFact, ...] | None:
        """Collectives in the order of the text, sorted if read from a file; None without text."""
        return None if self.facts.collectives is None else self.facts.collectives.rows

    @property
    def entries(self) -> tuple[EntryFact, ...] | None:
        """Parameters, then outputs; None without HLO text."""
        return None if self.facts.sharding is None else self.facts.sharding.rows

    @property
    def has_old_peaks(self) -> bool:
        """Whether its file has peaks by an older definition."""
        return "peaks.bytes" in self.outdated

    @property
    def gap_count(self) -> int:
        """Number of places of its HLO text that could not be read."""
        return 0 if self.facts.coverage is None else self.facts.coverage.gaps

    @property
    def is_truncated(self) -> bool:
        """Whether its HLO text ends too early."""
        return self.facts.coverage is not None and self.facts.coverage.is_truncated

    @property
    def undefined_count(self) -> int:
        """Number of names that its HLO text uses and does not define."""
        return 0 if self.facts.coverage is None else self.facts.coverage.undefined


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Snapshots of the modules of a dump.

    Attributes:
        path: Where it comes from, for messages; not part of a file.
        modules: Snapshot of each module.
    """

    path: str
    modules: tuple[ModuleSnapshot, ...]

    def to_dict(self, *, tool_version: str) -> dict[str, object]:
        """Return the JSON object of a snapshot file."""
        return snapshot_object(self, tool_version=tool_version)
