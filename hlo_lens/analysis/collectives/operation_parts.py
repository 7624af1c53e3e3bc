"""Instructions that perform one collective together, beside those of one asynchronous operation.

A send to other slices and the recv of its answer have one rendezvous. A reduce-scatter of TPUs
whose parts are padded is an all-reduce fused with a slice, and a collective-permute of the rows
that a device got and its neighbour keeps; the compiler makes it of a slice of the fusion's result,
without metadata (observed in dumps of libtpu 0.0.52).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.analysis.collectives.wire_bytes import TRANSFERS, is_scattered_at_once
from hlo_lens.model.hlo.opcodes import COLLECTIVE_KINDS, opcode_traits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.collectives.operations import CollectiveOp
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.shapes.replica_groups import CollectiveOpGroupMode, Groups

_STEPS = 4
"""Most instructions between a reduce-scatter and the shift of its padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveParts:
    """Attributes of one collective, from the text of its instructions; fields as in `Collective`.

    `slice_transfer` is the kind of the collective between slices that it is part of, `rendezvous`
    the name that the send and the recv of one have in common, `answer` the recv of a send,
    `shift` the collective-permute behind a reduce-scatter of padded parts.
    """

    op: CollectiveOp
    channel_id: int | None
    mode: CollectiveOpGroupMode | None
    groups: Groups | None
    pairs: Groups | None
    is_host_transfer: bool
    crosses_slices: bool
    slice_transfer: str | None
    rendezvous: str | None
    answer: CollectiveOp | None = None
    shift: CollectiveParts | None = None

    @property
    def kind(self) -> str:
        """Kind of the whole operation."""
        if is_scattered_at_once(self.op.instruction):
            return "reduce-scatter"
        is_named = self.answer is not None and self.slice_transfer in COLLECTIVE_KINDS
        return self.slice_transfer or "" if is_named else self.op.kind

    @property
    def link(self) -> object:
        """Equal for collectives that share links: of the same devices in the same directions."""
        across = ("slices" if self.crosses_slices else "host") if self.is_host_transfer else ""
        return across or (self.op.kind in TRANSFERS, self.pairs or self.groups)


def whole_operations(read: Sequence[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with their parts joined, in the order of the text."""
    return _with_shifts_joined(_with_answers_joined(read))


def _with_answers_joined(read: Sequence[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with the recv of each send between slices joined to it."""
    waiting: dict[tuple[int, str | None], list[CollectiveParts]] = {}
    for one in read:
        if one.crosses_slices and one.op.kind == "recv" and one.rendezvous is not None:
            place = one.op.instruction.computation.place
            waiting.setdefault((place, one.rendezvous), []).append(one)
    if not waiting:
        return list(read)
    answers: dict[int, CollectiveOp] = {}
    joined: set[int] = set()
    for one in read:
        key = (one.op.instruction.computation.place, one.rendezvous)
        if one.crosses_slices and one.op.kind == "send" and waiting.get(key):
            recv = waiting[key].pop(0)
            answers[id(one)] = recv.op
            joined.add(id(recv))
    return [
        replace(one, op=replace(one.op, done=answers[id(one)].done), answer=answers[id(one)])
        if id(one) in answers
        else one
        for one in read
        if id(one) not in joined
    ]


def _with_shifts_joined(read: list[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with the shift of padded parts joined to their reduce-scatter."""
    fusions: dict[int, int] = {}
    for place, one in enumerate(read):
        computation = one.op.instruction.computation
        if is_scattered_at_once(one.op.instruction):
            for call in computation.module.links.calls.of_computation(computation.place):
                fusions[call.row] = place
    shifts: dict[int, CollectiveParts] = {}
    joined: set[int] = set()
    for place, one in enumerate(read) if fusions else ():
        is_permute = one.op.kind == "collective-permute"
        source = _source_of_shift(one.op.instruction) if is_permute else None
        behind = fusions.get(source.row) if source is not None else None
        if behind is not None and behind not in shifts:
            shifts[behind] = one
            joined.add(place)
    if not joined:
        return read
    return [
        replace(one, shift=shifts.get(place))
        for place, one in enumerate(read)
        if place not in joined
    ]


def _source_of_shift(instruction: HloInstruction) -> HloInstruction | None:
    """Return the instruction of which a collective without metadata moves a slice."""
    if instruction.op_name:
        return None
    source: HloInstruction | None = instruction
    for _ in range(_STEPS):
        names = source.operand_names if source is not None else ()
        source = instruction.computation.instruction(names[0]) if names else None
        if source is None or not opcode_traits(source.opcode).is_formatting:
            break
    return source
