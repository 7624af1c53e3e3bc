"""Instructions that perform one collective together, beside those of one asynchronous operation.

A send to other slices and the recv of its answer have one rendezvous; a ragged all-to-all has more
sends with it, of its sizes and offsets. A reduce-scatter of TPUs whose parts are padded is an
all-reduce fused with a slice, and a collective-permute of the rows that a device got and its
neighbour keeps; the compiler makes it of a slice of the fusion's result, without metadata (observed
in dumps of libtpu 0.0.52).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS, opcode_traits
from hlo_lens.questions.collectives.wire_bytes import RAGGED, TRANSFERS, payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.questions.collectives.operations import CollectiveOp
    from hlo_lens.questions.collectives.printed_attributes import (
        CollectiveDevices,
        PrintedAttributes,
    )

_STEPS = 4
"""Most instructions between a reduce-scatter and the shift of its padding."""


class CollectiveParts(NamedTuple):
    """The instructions that perform one collective, and their printed attributes.

    Attributes:
        op: The operation.
        channel_id: Its channel; None if there is none.
        printed: Its other attributes.
        is_scattered: Whether it is an all-reduce fused with the slice that each device keeps.
        answer: The recv of a send.
        further: Sends of the sizes and offsets of a ragged all-to-all.
        shift: The collective-permute behind a reduce-scatter of padded parts.
    """

    op: CollectiveOp
    channel_id: int | None
    printed: PrintedAttributes
    is_scattered: bool
    answer: CollectiveOp | None = None
    further: tuple[CollectiveParts, ...] = ()
    shift: CollectiveParts | None = None

    @property
    def devices(self) -> CollectiveDevices:
        """Its devices."""
        return self.printed.devices

    @property
    def kind(self) -> str:
        """Kind of the whole operation."""
        if self.is_scattered:
            return "reduce-scatter"
        if self.answer is not None and self.devices.slice_transfer in COLLECTIVE_KINDS:
            return self.devices.slice_transfer or ""
        return self.op.kind

    @property
    def link(self) -> object:
        """Equal for collectives that share links: of the same devices in the same directions."""
        devices = self.devices
        across = "slices" if devices.crosses_slices else "host"
        is_transfer = self.op.kind in TRANSFERS
        return (
            across if devices.is_host_transfer else (is_transfer, devices.pairs or devices.groups)
        )


def whole_operations(read: Sequence[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with their parts joined, in the order of the text."""
    return _with_shifts_joined(_with_answers_joined(read))


def _with_answers_joined(read: Sequence[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with the recv of each send between slices joined to it."""
    waiting: dict[tuple[int, str | None], list[CollectiveParts]] = {}
    for one in read:
        name = one.printed.rendezvous
        if one.devices.crosses_slices and one.op.kind == "recv" and name is not None:
            place = one.op.instruction.computation.place
            waiting.setdefault((place, name), []).append(one)
    if not waiting:
        return list(read)
    sends: dict[tuple[int, str | None], list[CollectiveParts]] = {}
    for one in read:
        key = (one.op.instruction.computation.place, one.printed.rendezvous)
        if one.devices.crosses_slices and one.op.kind == "send" and key in waiting:
            sends.setdefault(key, []).append(one)
    whole: dict[int, CollectiveParts] = {}
    joined: set[int] = set()
    for key, found in sends.items():
        firsts, further = _without_further(found, waiting[key])
        for send, recv in zip(firsts, waiting[key], strict=False):
            op = send.op._replace(done=recv.op.done)
            whole[id(send)] = send._replace(op=op, answer=recv.op, further=further)
            joined.add(id(recv))
        joined.update(id(one) for one in further)
    return [whole.get(id(one), one) for one in read if id(one) not in joined]


def _without_further(
    sends: list[CollectiveParts], recvs: list[CollectiveParts]
) -> tuple[list[CollectiveParts], tuple[CollectiveParts, ...]]:
    """Return the sends of the data of one rendezvous, and those of its sizes and offsets."""
    if len(recvs) != 1 or sends[0].devices.slice_transfer != RAGGED:
        return sends, ()
    data = max(sends, key=lambda one: payload(one.op.instruction, one.op.kind, None)[0] or 0)
    return [data], tuple(one for one in sends if one is not data)


def _with_shifts_joined(read: list[CollectiveParts]) -> list[CollectiveParts]:
    """Return collectives with the shift of padded parts joined to their reduce-scatter."""
    fusions: dict[int, int] = {}
    for place, one in enumerate(read):
        if one.is_scattered:
            computation = one.op.instruction.computation
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
        one._replace(shift=shifts.get(place))
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
