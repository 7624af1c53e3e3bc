"""Figures of a module that snapshots hold, reports print, and rules are written on.

The fields of `ModuleFacts` are the path language of rules: ``memory.total_bytes`` is the field
`total_bytes` of the field `memory`. A new field is reachable by rules and kept in snapshots without
further code; with a default, snapshots written before it are still read. None means not known; 0
means zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.program.summary import Coverage
    from hlo_lens.questions.collectives.collective import CollectiveTotals
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.findings.findings import FindingsBasis
    from hlo_lens.questions.memory.statement import MemoryStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class AliveGroup:
    """Values alive at one instant that have one origin and shape (without layout).

    Attributes:
        category: What their allocations are for.
        op_name: Operation path that they come from; of arguments the argument's name.
        values: Number of values.
        size_bytes: Their own bytes; those of all groups sum to the peak.
        origin_basis: Way that op_name and source of the largest were found; None if not known.
    """

    category: str
    op_name: str | None
    source: str | None
    opcode: str | None
    shape: str
    values: int
    size_bytes: int
    origin_basis: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacePeak:
    """Memory held at the peak of one memory space, or allocated in it without a schedule.

    Without a peak, groups are all that is allocated, each byte counted for the largest value at its
    address; they sum to `bytes`, largest first. `op_name`, `source` and `opcode` are those of the
    instruction that runs at the peak.
    """

    color: int
    name: str
    is_peak: bool
    bytes: int
    op_name: str | None
    source: str | None
    opcode: str | None
    groups: tuple[AliveGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFact:
    """One parameter or output, or a leaf of one; fields as in the report's sharding rows."""

    kind: str
    number: int | None
    index: str
    name: str | None
    global_shape: str | None
    device_shape: str | None
    device_bytes: int | None
    padded_device_bytes: int | None
    spec: str | None
    sharding: str | None
    replication_factor: int | None
    donation: str | None
    aliased_with: str | None

    # names that rules use

    @property
    def is_donated(self) -> bool:
        return self.donation is not None

    @property
    def shape(self) -> str | None:
        return self.device_shape

    @property
    def size_bytes(self) -> int | None:
        return self.device_bytes

    @property
    def padded_size_bytes(self) -> int | None:
        return self.padded_device_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingFacts:
    """Shardings of parameters, then of outputs."""

    rows: tuple[EntryFact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFacts:
    """Figures of one module; without HLO text only stage, backend and memory are known.

    Attributes:
        num_partitions: Devices over which one replica is divided, as printed.
        evident_partitions: The same, from the entry's shardings where it is not printed.
        unknown_opcodes: Opcodes that XLA does not have.
        unknown_attributes: Attributes that are kept as text only.
        parameters: Parameters of the entry computation.
        flops: Arithmetic of matrix products, convolutions and kernels in one run on one device.
        flops_at_least: Known part of it.
        flops_is_at_most: Whether `flops` is an upper bound: branches differ.
        flops_is_estimate: Whether it contains estimates of kernels' authors.
        findings: Findings of ``lint``.
        findings_basis: What these leave open.
    """

    stage: str | None = None
    backend: str | None = None
    is_scheduled: bool | None = None
    num_partitions: int | None = None
    evident_partitions: int | None = None
    replica_count: int | None = None
    computations: int | None = None
    instructions: int | None = None
    opcodes: Mapping[str, int] | None = None
    unknown_opcodes: tuple[str, ...] | None = None
    unknown_attributes: tuple[str, ...] | None = None
    parameters: int | None = None
    flops: int | None = None
    flops_at_least: int | None = None
    flops_is_at_most: bool | None = None
    flops_is_estimate: bool | None = None
    coverage: Coverage | None = None
    collectives: CollectiveTotals | None = None
    memory: MemoryStatement | None = None
    sharding: ShardingFacts | None = None
    findings: tuple[Finding, ...] | None = None
    findings_basis: FindingsBasis | None = None

    @property
    def undecided(self) -> Mapping[str, str]:
        basis = self.findings_basis
        return {} if basis is None else {one.code: one.reason for one in basis.undecided}

    @property
    def parameter_rows(self) -> tuple[EntryFact, ...] | None:
        """Parameters of the entry; None if not known."""
        return self._rows_of("parameter")

    @property
    def output_rows(self) -> tuple[EntryFact, ...] | None:
        """Results of the entry; None if not known."""
        return self._rows_of("output")

    def _rows_of(self, kind: str) -> tuple[EntryFact, ...] | None:
        if self.sharding is None:
            return None
        return tuple(row for row in self.sharding.rows if row.kind == kind)
