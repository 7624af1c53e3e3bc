"""Rows of a snapshot: groups of values at a peak, collectives, entry values, annotations."""

from __future__ import annotations

from dataclasses import dataclass, field

from hlo_lens.render.result import since


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
