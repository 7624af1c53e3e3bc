"""Typed facts of one module: the figures that reports print and rules are written on.

The fields of `ModuleFacts` are the path language of rules: ``memory.total_bytes`` is the field
`total_bytes` of the field `memory`. A new field is reachable by rules and kept in snapshots without
further code; with a default, snapshots written before it are still read. A field whose definition
changed is declared with `since` and the schema version of its present definition: in older
snapshots it is outdated, like a field that they lack. None means not known; 0 means zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.render.result import since

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.program.summary import Coverage
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.memory.statement import MemoryStatement
    from hlo_lens.questions.snapshots.rows import CollectiveFact, EntryFact


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshFacts:
    """A device mesh.

    Attributes:
        axes: Size of each axis by name, most major first.
        source: Where the axis names come from, such as ``text``; ``inferred`` for made-up names.
    """

    axes: Mapping[str, int]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFact:
    """A loop, without names of instructions.

    Attributes:
        op_name: Operation path.
        trip_count: Runs of its body per run of the loop; None if not known.
        trip_source: ``printed`` or ``derived``.
    """

    op_name: str | None
    trip_count: int | None
    trip_source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivesFacts:
    """Collectives of a module.

    Attributes:
        static: Kind to instructions in the text.
        dynamic: Kind to executions in one run; None if a trip count is not known.
        wire_bytes_per_device: Bytes that leave each device in one run.
        rows: Each collective once.
        unknown_opcodes: Opcodes named like collectives that are not known, and not counted.
        mesh: Mesh that axes are named by, the first one.
        meshes: All of them; a program may have several.
        loops: The loops of the program, in the order of the text.
        dynamic_is_at_most: Kind to whether `dynamic` is an upper bound.
        wire_bytes_is_at_most: Whether `wire_bytes_per_device` is an upper bound.
    """

    static: Mapping[str, int]
    dynamic: Mapping[str, int | None]
    wire_bytes_per_device: int | None
    rows: tuple[CollectiveFact, ...] = ()
    unknown_opcodes: Mapping[str, int] = field(default_factory=dict)
    mesh: MeshFacts | None = None
    meshes: tuple[MeshFacts, ...] = ()
    loops: tuple[LoopFact, ...] = ()
    dynamic_is_at_most: Mapping[str, bool] = field(default_factory=dict)
    wire_bytes_is_at_most: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingFacts:
    """Shardings of parameters, then of outputs."""

    rows: tuple[EntryFact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecidedFact:
    """A rule of ``lint`` that is not decided, with the reason."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutFact:
    """A number of findings that settings leave out, with the reason."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsBasis:
    """Basis of the findings of a module.

    Attributes:
        undecided: Rules that are not decided.
        left_out: Findings that settings leave out.
    """

    undecided: tuple[UndecidedFact, ...] = ()
    left_out: tuple[LeftOutFact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFacts:
    """Figures of one module.

    Attributes:
        stage: Stage of the HLO text, such as ``after_optimizations``.
        backend: ``cpu``, ``gpu`` or ``tpu``.
        is_scheduled: Whether instructions are in the order of execution.
        num_partitions: Devices over which one replica is divided, as printed.
        evident_partitions: The same, from the entry's shardings where it is not printed.
        replica_count: Replicas.
        computations: Computations in the text.
        instructions: Instructions in the text.
        opcodes: Opcode to instructions.
        unknown_opcodes: Opcodes that XLA does not have.
        unknown_attributes: Attributes that are kept as text only.
        parameters: Parameters of the entry computation.
        flops: Arithmetic of matrix products, convolutions and kernels in one run on one device.
        flops_at_least: Known part of it.
        flops_is_at_most: Whether `flops` is an upper bound: branches differ.
        flops_is_estimate: Whether it contains estimates of kernels' authors.
        coverage: How much of the text was read.
        collectives: None without HLO text; so the fields above but the first two.
        memory: None where nothing is known.
        sharding: None without HLO text.
        findings: Findings of ``lint``; None without HLO text.
        findings_basis: What these leave open; None without HLO text, or in snapshots without it.
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
    flops: int | None = field(default=None, metadata=since(3))
    flops_at_least: int | None = None
    flops_is_at_most: bool | None = None
    flops_is_estimate: bool | None = None
    coverage: Coverage | None = None
    collectives: CollectivesFacts | None = None
    memory: MemoryStatement | None = None
    sharding: ShardingFacts | None = None
    findings: tuple[Finding, ...] | None = None
    findings_basis: FindingsBasis | None = None

    @property
    def undecided(self) -> Mapping[str, str]:
        """Codes of rules that are not decided, each with the reason."""
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
