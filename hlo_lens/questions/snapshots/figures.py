"""Rows of a snapshot: groups of values at a peak, collectives, entry values, annotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.render.result import since

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.program.summary import Coverage
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.memory.statement import MemoryStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class AliveGroup:
    """Values alive at one instant that have one origin and shape.

    Attributes:
        category: What their allocations are for.
        op_name: Operation path that they come from; of arguments the argument's name.
        source: Place in the user's program that they come from, ``file:line``.
        opcode: Opcode of the instruction that made them.
        shape: Shape without layout.
        values: Number of values.
        size_bytes: Their own bytes; those of all groups sum to the peak.
        origin_basis: Way that op_name and source of the largest were found, as in the report; None
            if they are not known, and in snapshots written before it was kept.
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

    Attributes:
        color: Number of the memory space.
        name: Name that users know.
        is_peak: Whether groups are held at the peak; else they are all that is allocated, each
            byte counted for the largest value at its address.
        bytes: Sum over all groups.
        op_name: Operation path of the instruction that runs at the peak.
        source: Its place in the user's program.
        opcode: Its opcode.
        groups: Largest first.
    """

    color: int
    name: str
    is_peak: bool
    bytes: int = field(metadata=since(3))
    op_name: str | None
    source: str | None
    opcode: str | None
    groups: tuple[AliveGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveFact:
    """One collective, without names of instructions.

    Attributes:
        kind: As in the report; likewise the fields below that the report has.
        axis: Mesh axes as printed; ``?`` if unknown.
        are_axes_named: Whether a text or the user names them; inferred ones are called ``axis_0``.
        groups: Digest of the devices of all groups, or of sources and targets.
        loops: Enclosing loops, outermost first: operation path and trip count.
        is_exposed: Whether it lasts longer than the work that overlaps it; None if not known.
        branches: Branches of conditionals around it, outermost first, as in `branch_sums`, with
            numbers instead of names; None if the snapshot was saved without.
        performed_as: Kind that is performed, that of `kind` included.
    """

    kind: str
    axis: str
    axes: tuple[str, ...] | None
    are_axes_named: bool
    groups: str | None
    group_size: int | None
    num_groups: int | None
    payload_bytes: int | None
    wire_bytes_per_device: int | None
    element_type: str | None
    dynamic_count: int | None
    is_at_most: bool
    loops: tuple[str, ...]
    is_async: bool
    is_exposed: bool | None
    op_name: str | None
    source_file: str | None
    source_line: int | None
    branches: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    is_payload_at_most: bool = False
    performed_as: str | None = field(default=None, compare=False)
    crosses_slices: bool | None = field(default=None, compare=False)
    overlap_instructions: int | None = field(default=None, compare=False)
    overlap_flops: int | None = field(default=None, compare=False)
    overlap_bytes: int | None = field(default=None, compare=False)
    origin_basis: str | None = field(default=None, compare=False)

    @property
    def static_count(self) -> int:
        """1: each collective has its row."""
        return 1

    @property
    def source(self) -> str | None:
        """Place in the user's program, or None."""
        if self.source_file is None or self.source_line is None:
            return self.source_file
        return f"{self.source_file}:{self.source_line}"

    @property
    def wire_bytes_per_run(self) -> int | None:
        """Bytes that leave each device in one run; None if not known."""
        return self.in_one_run(self.wire_bytes_per_device)

    @property
    def payload_bytes_per_run(self) -> int | None:
        """Bytes of the full tensor of one group in one run; None if not known."""
        return self.in_one_run(self.payload_bytes)

    def in_one_run(self, size: int | None) -> int | None:
        """Return bytes of one execution times the executions in one run; None if not known."""
        if size == 0 or self.dynamic_count == 0:
            return 0
        if size is None or self.dynamic_count is None:
            return None
        return size * self.dynamic_count


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

    @property
    def is_donated(self) -> bool:
        """Whether it is aliased, or donated in vain."""
        return self.donation is not None

    @property
    def shape(self) -> str | None:
        """Shape of one device's part."""
        return self.device_shape

    @property
    def size_bytes(self) -> int | None:
        """Bytes of one device's part."""
        return self.device_bytes

    @property
    def padded_size_bytes(self) -> int | None:
        """The same with the padding of tiles."""
        return self.padded_device_bytes


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
