"""Communication of one collective: payload, bytes on the wire per device, steps.

Let S be the payload: the bytes of the full tensor of one group, which is the result of all-reduce
and all-gather and the operand of all others, summed over the arrays of a combined collective; and n
the devices of a group.

    kind                 wire bytes per device   steps
    all-reduce           2 (n-1)/n S             2 (n-1)
    all-gather           (n-1)/n S               n-1
    reduce-scatter       (n-1)/n S               n-1
    all-to-all, ragged   (n-1)/n S               n-1
    collective-permute   S x share of sources    1
    collective-broadcast S                       n-1
    send                 S x share of sources    1
    recv                 0 (its send has them)   1

These are bytes that leave a device in the ring algorithm (a chain for broadcast), which no other
algorithm undercuts; for a ragged all-to-all, whose sizes are not in the text, an upper bound.
Fractions are rounded up. If groups differ in size, the largest counts. A transfer between a device
and its host moves nothing between devices; one that the multi-slice runtime forwards to another
slice does.

Sources: NCCL's tests, PERFORMANCE.md (bus bandwidth factors); nsys-jax. An all-reduce that TPU
compilers fuse with the slice that each device keeps of it (``all-reduce-scatter``) moves what a
reduce-scatter moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import Produced, opcode_traits, opcodes_where

if TYPE_CHECKING:
    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.shapes.replica_groups import Groups
    from hlo_lens.shapes.shape import Shape

TRANSFERS = opcodes_where(lambda traits: traits.is_transfer)
"""Kinds with sources and targets instead of groups."""

RAGGED = "ragged-all-to-all"
"""Kind whose sizes are data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Communication of one run of a collective.

    Attributes:
        wire_bytes: Bytes that leave each device; None if unknown.
        steps: Rounds of the ring or chain; None if unknown.
    """

    wire_bytes: int | None
    steps: int | None

    def and_then(self, other: Moved) -> Moved:
        """Return the bytes and steps of two operations that run one after the other."""
        steps = (self.steps, other.steps)
        return replace(
            self.beside(other), steps=None if None in steps else sum(filter(None, steps))
        )

    def beside(self, other: Moved) -> Moved:
        """Return the bytes of two operations that run in the steps of the first."""
        sizes = (self.wire_bytes, other.wire_bytes)
        return replace(self, wire_bytes=None if None in sizes else sum(filter(None, sizes)))


UNKNOWN = Moved(wire_bytes=None, steps=None)
NOTHING = Moved(wire_bytes=0, steps=0)


def moved_by_groups(kind: str, payload_bytes: int | None, groups: Groups | None) -> Moved:
    """Return the communication of a collective over groups.

    Args:
        kind: One of `COLLECTIVE_KINDS` that has groups.
        payload_bytes: Bytes of the full tensor of one group.
        groups: Ids of the devices of each group.
    """
    if groups is None:
        return UNKNOWN
    n = max((len(group) for group in groups), default=0)
    if n <= 1:
        return NOTHING
    steps = 2 * (n - 1) if kind == "all-reduce" else n - 1
    if payload_bytes is None:
        return Moved(wire_bytes=None, steps=steps)
    if kind == "collective-broadcast":
        return Moved(wire_bytes=payload_bytes, steps=steps)
    return Moved(wire_bytes=-(-payload_bytes * steps // n), steps=steps)


def moved_by_pairs(
    kind: str, payload_bytes: int | None, pairs: Groups | None, devices: int | None
) -> Moved:
    """Return the communication of transfers between devices.

    Args:
        kind: ``collective-permute``, ``send`` or ``recv``.
        payload_bytes: Bytes that each source sends.
        pairs: Source and target of each transfer; None if unknown.
        devices: Number of devices that run the program; None if unknown.
    """
    if pairs is None:
        return UNKNOWN
    sources = {pair[0] for pair in pairs if pair[0] != pair[-1]}
    if not sources:
        return NOTHING
    if kind == "recv":
        return Moved(wire_bytes=0, steps=1)
    if payload_bytes is None or not devices:
        return Moved(wire_bytes=None, steps=1)
    return Moved(wire_bytes=-(-payload_bytes * len(sources) // max(devices, len(sources))), steps=1)


def is_scattered_at_once(instruction: HloInstruction) -> bool:
    """Return whether an all-reduce is fused with the slice that each device keeps (TPU)."""
    return instruction.opcode == "all-reduce" and instruction.computation.name.startswith(
        "all-reduce-scatter"
    )


def is_payload_at_most(instruction: HloInstruction, kind: str) -> bool:
    """Return whether the payload is an upper bound.

    That of a ragged-all-to-all, whose sizes are data, and of dynamic shapes (``f32[<=8]``).
    """
    return kind == RAGGED or "<=" in instruction.shape_text


def payload(
    instruction: HloInstruction, kind: str, group_size: int | None
) -> tuple[int | None, str | None]:
    """Return bytes and element types of the payload; None if unknown."""
    shape = _payload_shape(instruction, kind)
    if shape is None:
        return None, None
    size = shape.size_bytes
    arrays = [leaf for _, leaf in shape.leaves() if not leaf.is_token]
    types = ",".join(dict.fromkeys(leaf.element_type for leaf in arrays)) or None
    if kind == "reduce-scatter" and not _prints_operand(instruction):
        size = None if size is None or group_size is None else size * group_size
    return size, types


def _prints_operand(instruction: HloInstruction) -> bool:
    """Return whether the result of a ``-start`` repeats the operands.

    Since 2026 that of an all-reduce-start may: ``((operands), result)``.
    """
    traits = opcode_traits(instruction.opcode)
    if traits.phase == "start" and traits.produced is Produced.ALL:
        shape = instruction.shape
        return bool(shape and shape.tuple_shapes and shape.tuple_shapes[0].is_tuple)
    return traits.produced is Produced.SECOND


def _payload_shape(instruction: HloInstruction, kind: str) -> Shape | None:
    """Return the shape of the payload, or for a plain reduce-scatter that of its result.

    All other kinds have results as large as their operands, or count the result.
    """
    if kind == RAGGED:
        return instruction.operand_shape(0)
    shape = instruction.shape
    if shape is None:
        return None
    if opcode_traits(kind).is_paired and instruction.opcode == kind:
        return shape.tuple_shapes[0] if shape.tuple_shapes else shape
    if not _prints_operand(instruction) or not shape.is_tuple:
        return shape
    wanted = 0 if kind == "reduce-scatter" else 1
    return shape.tuple_shapes[wanted] if wanted < len(shape.tuple_shapes) else None
