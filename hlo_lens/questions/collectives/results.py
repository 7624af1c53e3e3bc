"""Results on collectives: one, those that XLA performs as one, and all of a module."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.program.trip_counts import TripCounts
from hlo_lens.questions.collectives.data_movement import DataMovement
from hlo_lens.questions.collectives.operations import CUSTOM_CALL
from hlo_lens.questions.collectives.sums import COUNT, UNCOVERED, WIRE, known_sum, run_sum
from hlo_lens.render.result import Column, Result, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.program.runs import Branches, SumBounds
    from hlo_lens.questions.sharding.mesh_axes import ModuleMesh
    from hlo_lens.shapes.replica_groups import Groups


class Member(NamedTuple):
    """One of the operations that a combined collective performs; fields as in `Collective`."""

    source_file: str | None
    source_line: int | None
    op_name: str | None
    origin_basis: str | None
    payload_bytes: int | None


def parts_of(collective: Collective) -> tuple[Collective, ...]:
    """Return a collective for each operation of a combined one, with its part of the bytes.

    The first of the largest parts counts as the collective, the others count as none.
    """
    members = collective.members
    if not members:
        return (collective,)
    sizes = [member.payload_bytes or 0 for member in members]
    wire = collective.wire_bytes_per_device
    wires = [None] * len(sizes) if wire is None else shares(wire, sizes)
    largest = sizes.index(max(sizes))
    return tuple(
        collective._replace(
            source_file=member.source_file,
            source_line=member.source_line,
            op_name=member.op_name,
            origin_basis=member.origin_basis,
            payload_bytes=member.payload_bytes,
            wire_bytes_per_device=wires[position],
            stack=collective.member_stacks[position] if collective.member_stacks else (),
            static_count=int(position == largest),
            members=(),
            member_stacks=(),
        )
        for position, member in enumerate(members)
    )


def shares(whole: int, sizes: Sequence[int]) -> list[int]:
    """Return an amount in proportion to some sizes; the first of the largest has the rest.

    >>> shares(10, [1, 1, 1])
    [4, 3, 3]
    """
    total = sum(sizes)
    found = [whole * size // total if total else 0 for size in sizes]
    found[sizes.index(max(sizes))] += whole - sum(found)
    return found


UNKNOWN_TIMES = "x?"


class Collective(NamedTuple):
    """One collective operation; its fields are columns of `Collectives`.

    None means unknown, or that a kind has no such thing. `mode` is a `CollectiveOpGroupMode` value,
    `kind` one of `COLLECTIVE_KINDS` or ``custom-call``. `axes` are most major first, and () for
    groups of one device; parts of axes in `axis_parts` are written ``model:(2)2``. `dynamic_count`
    is the number of runs if all `branches` around it are taken (as in `branch_sums`), and None if
    the trip count of a loop around it is unknown. `is_at_most` marks a count or bytes that are an
    upper bound: in a branch, of a ragged-all-to-all, of dynamic shapes (`is_payload_at_most`).
    `overlap_instructions` and `covered_ratio` are None if the module is not scheduled or the end is
    not found; `covered_ratio` also if bytes or work are not known. `performed_as` is the kind where
    the printed opcode is another: an all-reduce fused with a slice (TPU), a send and recv between
    slices. `ended_by` is in the computation of the instruction that starts it. `row`,
    `start_row` and `end_row` are no columns: the rows, in the columns of the module, of the
    instruction, of the one that has its operands where it runs, and of its end.
    """

    name: str
    kind: str
    computation: str
    channel_id: int | None
    mode: str | None
    groups: Groups | None
    group_size: int | None
    num_groups: int | None
    payload_bytes: int | None
    element_type: str | None
    is_async: bool
    op_name: str | None
    source_file: str | None
    source_line: int | None
    axes: tuple[str, ...] | None = None
    wire_bytes_per_device: int | None = None
    static_count: int = 1
    dynamic_count: int | None = None
    loop_path: tuple[str, ...] = ()
    overlap_instructions: int | None = None
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
    origin_basis: str | None = None
    argument: str | None = None
    members: tuple[Member, ...] = ()
    has_own_path: bool = False
    member_stacks: tuple[tuple[str, ...], ...] = ()
    branches: Branches = ()
    is_payload_at_most: bool = False
    covered_ratio: float | None = None
    row: int | None = None
    start_row: int | None = None
    end_row: int | None = None

    @property
    def is_exposed(self) -> bool | None:
        """Whether it moves bytes for longer than the work that overlaps it; None if unknown."""
        if self.moves_nothing or self.overlap_instructions is None:
            return False if self.moves_nothing else None
        if not self.overlap_instructions:
            return True
        return None if self.covered_ratio is None else self.covered_ratio < 1

    @property
    def uncovered_bytes_per_run(self) -> int | None:
        """Least bytes that leave each device in one run while no work runs; None if unknown."""
        size, ratio = self.wire_bytes_per_run, self.covered_ratio
        if size == 0 or self.is_exposed is None or size is None:
            return 0 if size == 0 else None
        return size - math.ceil(size * (ratio or 0.0))

    @property
    def axis(self) -> str:
        """The axes as text: ``data,model``; ``?`` if unknown, ``-`` for none.

        ``data?`` for groups that differ along the axis, but are no regular part of it.
        """
        if self.axes is None:
            return "?"
        if self.axis_parts is None:
            return f"{','.join(self.axes)}?"
        return ",".join(self.axis_parts) or "-"

    @property
    def source(self) -> str | None:
        """Source line that it comes from, ``file:line``."""
        if self.source_file is None:
            return None
        return f"{self.source_file}:{self.source_line}" if self.source_line else self.source_file

    @property
    def own_op_name(self) -> str | None:
        """Operation path, if it is not inferred."""
        return self.op_name if self.has_own_path else None

    @property
    def payload_bytes_per_run(self) -> int | None:
        """Bytes of the full tensor of one group in one run of the program; None if unknown."""
        return _scaled(self.payload_bytes, self.dynamic_count)

    @property
    def wire_bytes_per_run(self) -> int | None:
        """Bytes that leave each device in one run of the program; None if unknown."""
        return _scaled(self.wire_bytes_per_device, self.dynamic_count)


def _scaled(size: int | None, times: int | None) -> int | None:
    if size == 0 or times == 0:
        return 0
    return None if size is None or times is None else size * times


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
        is_complete: Whether the text has the whole entry; else figures of one run are not known.
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
        Column("overlap_instructions", Unit.COUNT, "instructions whose work overlaps it"),
        Column("op_name", Unit.NONE, "scope path of the framework"),
        Column("source_file", Unit.NONE, "file of the user's program"),
        Column("source_line", Unit.NONE, "1-based line in it"),
        Column("source_target_pairs", Unit.NONE, "source and target of each transfer"),
        Column("axis_parts", Unit.NONE, "axes, or parts of them, that the groups are exactly"),
        Column("transfer", Unit.NONE, "pattern of source and target pairs"),
        Column("steps", Unit.COUNT, "rounds of the ring or chain"),
        Column("moves_nothing", Unit.NONE, "whether each group is one device"),
        Column("is_at_most", Unit.NONE, "whether count or bytes are an upper bound"),
        Column("overlap_flops", Unit.COUNT, "arithmetic of the overlapping instructions"),
        Column("overlap_bytes", Unit.BYTES, "bytes that they read and write"),
        Column("is_host_transfer", Unit.NONE, "whether it is between a device and its host"),
        Column("crosses_slices", Unit.NONE, "whether it goes to other slices"),
        Column("performed_as", Unit.NONE, "kind, where the printed opcode is another"),
        Column("started_by", Unit.NONE, "instruction that starts it, if another"),
        Column("ended_by", Unit.NONE, "instruction that ends it, if another"),
        Column("stack", Unit.NONE, "Python call stack, innermost first"),
        Column("origin_basis", Unit.NONE, "way that op_name and source line were found"),
        Column("argument", Unit.NONE, "argument that it moves, if that is all"),
        Column(
            "members", Unit.NONE, "parts of a combined one: file, line, op_name, basis, payload"
        ),
        Column("axis", Unit.NONE, "axes or parts of them as one text"),
        Column("source", Unit.NONE, "source_file:source_line"),
        Column("wire_bytes_per_run", Unit.BYTES, "bytes that leave each device in one run"),
        Column("branches", Unit.NONE, "branches of conditionals around it"),
        Column("is_payload_at_most", Unit.NONE, "whether its bytes are an upper bound each time"),
        Column("covered_ratio", Unit.RATIO, "largest share of the transfer that work covers"),
        Column("is_exposed", Unit.NONE, "whether the transfer lasts longer than that work"),
        Column("uncovered_bytes_per_run", Unit.BYTES, "bytes of one run that it cannot cover"),
    )
    RECORDS: ClassVar[str] = "collectives"
    collectives: tuple[Collective, ...]
    clones: int
    unknown_opcodes: tuple[tuple[str, int], ...]
    meshes: tuple[ModuleMesh, ...] = ()
    trips: TripCounts = field(default_factory=lambda: TripCounts(loops=()))
    movement: DataMovement = field(default_factory=lambda: DataMovement(copies=()))
    is_scheduled: bool = False
    is_complete: bool = True

    def static_counts(self) -> dict[str, int]:
        """Return the number of collectives of every kind, in the order of `COLLECTIVE_KINDS`."""
        counts = Counter(collective.kind for collective in self.collectives)
        return {kind: counts[kind] for kind in (*COLLECTIVE_KINDS, *self._custom())}

    def dynamic_bounds(self) -> dict[str, SumBounds | None]:
        """Return the bounds of the runs of every kind per program run; None if any is unknown."""
        return {
            kind: run_sum((c for c in self.collectives if c.kind == kind), COUNT)
            if self.is_complete
            else None
            for kind in (*COLLECTIVE_KINDS, *self._custom())
        }

    def dynamic_counts(self) -> dict[str, int | None]:
        """Return the most runs of every kind per program run; None if any is unknown."""
        bounds = self.dynamic_bounds()
        return {kind: None if one is None else one.most for kind, one in bounds.items()}

    def _custom(self) -> tuple[str, ...]:
        return (CUSTOM_CALL,) if any(c.kind == CUSTOM_CALL for c in self.collectives) else ()

    @property
    def wire_bounds(self) -> SumBounds | None:
        """Bounds of the bytes that leave each device in one run; None if any is unknown."""
        return run_sum(self.collectives, WIRE) if self.is_complete else None

    @property
    def known_runs(self) -> SumBounds:
        """Bounds of the runs of those collectives whose number is known."""
        return known_sum(self.collectives, COUNT)

    @property
    def known_uncovered_bytes(self) -> int:
        """Least bytes that leave each device in one run while no work runs, as far as known."""
        return known_sum(self.collectives, UNCOVERED).least

    @property
    def known_wire_bytes(self) -> SumBounds:
        """Bounds of the bytes that leave each device in one run, as far as known."""
        return known_sum(self.collectives, WIRE)

    @property
    def wire_bytes_per_device(self) -> int | None:
        """Most bytes that leave each device in one run of the program; None if any is unknown."""
        bounds = self.wire_bounds
        return None if bounds is None else bounds.most


def times_of(collective: Collective) -> str:
    """Return the runs of a collective per program run, as text."""
    return times_text(collective.dynamic_count, is_at_most=bool(collective.branches))


def times_text(times: int | None, *, is_at_most: bool) -> str:
    """Return a number of runs per program run, as text."""
    return UNKNOWN_TIMES if times is None else f"{'<=' if is_at_most else ''}{times:,}"
