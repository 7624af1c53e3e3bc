"""Results on collectives: one collective, and all collectives of a module."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.collectives.data_movement import DataMovement
from hlo_lens.analysis.collectives.operations import CUSTOM_CALL
from hlo_lens.analysis.program.trip_counts import TripCounts
from hlo_lens.analysis.result import Column, Result, Unit, sum_of
from hlo_lens.model.hlo.opcodes import COLLECTIVE_KINDS

if TYPE_CHECKING:
    from hlo_lens.analysis.sharding.mesh_axes import ModuleMesh
    from hlo_lens.model.shapes.replica_groups import Groups


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One collective operation; its fields are columns of `Collectives`.

    None means unknown, or that a kind has no such thing. `mode` is a `CollectiveOpGroupMode` value,
    `kind` one of `COLLECTIVE_KINDS` or ``custom-call``. `axes` are most major first, and () for
    groups of one device; parts of axes in `axis_parts` are written ``model:(2)2``.
    `dynamic_count` is an upper bound if `is_at_most`, and None if the trip count of a loop around
    it is unknown. `overlap_instructions` is 0 if it is exposed, and None if the module is not
    scheduled or the end is not found. `performed_as` is the kind that it is fused to (TPU:
    all-reduce and slice to reduce-scatter), or that of the collective between slices that it is
    part of. `ended_by` is in the computation of the instruction that starts it.
    """

    name: str
    kind: str
    computation: str
    channel_id: int | None
    mode: str | None
    groups: Groups | None
    group_size: int | None
    num_groups: int | None
    axes: tuple[str, ...] | None = None
    payload_bytes: int | None
    wire_bytes_per_device: int | None = None
    element_type: str | None
    static_count: int = 1
    dynamic_count: int | None = None
    loop_path: tuple[str, ...] = ()
    is_async: bool
    overlap_instructions: int | None = None
    op_name: str | None
    source_file: str | None
    source_line: int | None
    source_target_pairs: Groups | None = None
    axis_parts: tuple[str, ...] | None = None
    transfer: str | None = None
    steps: int | None = None
    moves_nothing: bool = False
    is_at_most: bool = False
    overlap_flops: int | None = None
    overlap_bytes: int | None = None
    is_host_transfer: bool = False
    crosses_slices: bool = False
    performed_as: str | None = None
    started_by: str | None = None
    ended_by: str | None = None
    stack: tuple[str, ...] = ()
    near_op_name: str | None = None
    near_source: str | None = None

    @property
    def is_exposed(self) -> bool | None:
        """Whether it moves bytes and nothing overlaps it; None if unknown."""
        if self.moves_nothing:
            return False
        return None if self.overlap_instructions is None else not self.overlap_instructions

    @property
    def axis(self) -> str:
        """The axes as text: ``data,model``; ``?`` if unknown, ``-`` for none."""
        if self.axes is None:
            return "?"
        return ",".join(self.axes if self.axis_parts is None else self.axis_parts) or "-"

    @property
    def source(self) -> str | None:
        """Innermost place in the user's program, ``file:line``; ``~`` marks `near_source`."""
        if self.source_file is None:
            return None if self.near_source is None else f"~{self.near_source}"
        return f"{self.source_file}:{self.source_line}" if self.source_line else self.source_file

    @property
    def wire_bytes_per_run(self) -> int | None:
        """Bytes that leave each device in one run of the program; None if unknown."""
        if self.wire_bytes_per_device == 0 or self.dynamic_count == 0:
            return 0
        if self.wire_bytes_per_device is None or self.dynamic_count is None:
            return None
        return self.wire_bytes_per_device * self.dynamic_count


@dataclass(frozen=True, kw_only=True)
class Collectives(Result):
    """All collectives of a module, in text order.

    Attributes:
        collectives: Each logical operation once.
        clones: Number of further instructions that are parts of counted operations.
        unknown_opcodes: Opcodes not known to XLA of August 2026 that sound like collectives, and
            the count of each in the text; they are no collectives here.
        meshes: The meshes that axes are named by.
        trips: Trip counts of the loops.
        movement: Copies between the memories of device and host.
        is_scheduled: Whether overlap is known.
    """

    KIND: ClassVar[str] = "collectives"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", Unit.NONE, "instruction that performs or starts it"),
        Column("kind", Unit.NONE, "all-reduce, all-gather, ..."),
        Column("computation", Unit.NONE, "computation of the instruction"),
        Column("channel_id", Unit.NONE, "channel; not unique"),
        Column("mode", Unit.NONE, "what the printed ids number"),
        Column("groups", Unit.NONE, "flattened ids of the devices of each group"),
        Column("group_size", Unit.COUNT, "devices in each group"),
        Column("num_groups", Unit.COUNT, "number of groups"),
        Column("axes", Unit.NONE, "mesh axes along which the devices of a group differ"),
        Column("payload_bytes", Unit.BYTES, "bytes of the full tensor of one group"),
        Column("wire_bytes_per_device", Unit.BYTES, "bytes that leave each device, each time"),
        Column("element_type", Unit.NONE, "element type of the payload"),
        Column("static_count", Unit.COUNT, "always 1"),
        Column("dynamic_count", Unit.COUNT, "runs per program run"),
        Column("loop_path", Unit.NONE, "enclosing loops"),
        Column("is_async", Unit.NONE, "whether other instructions may run at the same time"),
        Column("overlap_instructions", Unit.COUNT, "instructions that overlap it"),
        Column("op_name", Unit.NONE, "scope path of the framework"),
        Column("source_file", Unit.NONE, "file of the user's program"),
        Column("source_line", Unit.NONE, "1-based line in it"),
        Column("source_target_pairs", Unit.NONE, "source and target of each transfer"),
        Column("axis_parts", Unit.NONE, "axes, or parts of them, that the groups are exactly"),
        Column("transfer", Unit.NONE, "pattern of source and target pairs"),
        Column("steps", Unit.COUNT, "rounds of the ring or chain"),
        Column("moves_nothing", Unit.NONE, "whether each group is one device"),
        Column("is_at_most", Unit.NONE, "whether it is under a conditional"),
        Column("overlap_flops", Unit.COUNT, "arithmetic of the overlapping instructions"),
        Column("overlap_bytes", Unit.BYTES, "bytes of their results"),
        Column("is_host_transfer", Unit.NONE, "whether it is between a device and its host"),
        Column("crosses_slices", Unit.NONE, "whether it goes to other slices"),
        Column("performed_as", Unit.NONE, "kind that it is fused to"),
        Column("started_by", Unit.NONE, "instruction that starts it, if another"),
        Column("ended_by", Unit.NONE, "instruction that ends it, if another"),
        Column("stack", Unit.NONE, "Python call stack, innermost first"),
        Column("near_op_name", Unit.NONE, "scope path of its operand, if it has none itself"),
        Column("near_source", Unit.NONE, "source line of that operand"),
        Column("axis", Unit.NONE, "axes or parts of them as one text"),
        Column("source", Unit.NONE, "source_file:source_line; ~ marks near_source"),
        Column("wire_bytes_per_run", Unit.BYTES, "bytes that leave each device in one run"),
    )
    RECORDS: ClassVar[str] = "collectives"
    collectives: tuple[Collective, ...]
    clones: int
    unknown_opcodes: tuple[tuple[str, int], ...]
    meshes: tuple[ModuleMesh, ...] = ()
    trips: TripCounts = field(default_factory=lambda: TripCounts(loops=()))
    movement: DataMovement = field(default_factory=lambda: DataMovement(copies=()))
    is_scheduled: bool = False

    def static_counts(self) -> dict[str, int]:
        """Return the number of collectives of every kind, in the order of `COLLECTIVE_KINDS`."""
        counts = Counter(collective.kind for collective in self.collectives)
        return {kind: counts[kind] for kind in (*COLLECTIVE_KINDS, *self._custom())}

    def dynamic_counts(self) -> dict[str, int | None]:
        """Return the runs of every kind per program run; None if any is unknown."""
        found: dict[str, int | None] = dict.fromkeys((*COLLECTIVE_KINDS, *self._custom()), 0)
        for collective in self.collectives:
            so_far, more = found[collective.kind], collective.dynamic_count
            found[collective.kind] = None if so_far is None or more is None else so_far + more
        return found

    def _custom(self) -> tuple[str, ...]:
        return (CUSTOM_CALL,) if any(c.kind == CUSTOM_CALL for c in self.collectives) else ()

    @property
    def wire_bytes_per_device(self) -> int | None:
        """Bytes that leave each device in one run of the program; None if any is unknown."""
        return sum_of(collective.wire_bytes_per_run for collective in self.collectives)
