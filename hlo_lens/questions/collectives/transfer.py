"""Communication of one collective: payload, and bytes on the wire per device.

Let S be the payload: the bytes of the full tensor of one group, which is the result of all-reduce
and all-gather and the operand of all others, summed over the arrays of a combined collective; and n
the devices of a group.

    kind                 wire bytes per device
    all-reduce           2 (n-1)/n S
    all-gather           (n-1)/n S
    reduce-scatter       (n-1)/n S
    all-to-all, ragged   (n-1)/n S
    collective-permute   S x share of sources
    collective-broadcast S
    send                 S x share of sources
    recv                 0 (its send has them)

These are bytes that leave a device in the ring algorithm (a chain for broadcast), which no other
algorithm undercuts; for a ragged all-to-all, whose sizes are not in the text, an upper bound.
Fractions are rounded up. If groups differ in size, the largest counts. A transfer between a device
and its host moves nothing between devices; one that the multi-slice runtime forwards to another
slice does.

Sources: NCCL's tests, PERFORMANCE.md (bus bandwidth factors); nsys-jax. An all-reduce that TPU
compilers fuse with the slice that each device keeps of it (``all-reduce-scatter``) moves what a
reduce-scatter moves.

Copies between device and host memory (host offload) are reported separately. A copy has one side in
host memory by its layout, ``S(5)``: copy, copy-start, dynamic-slice and dynamic-update-slice,
alone, in fusions of their own, or run by an async-start; also infeed, outfeed, and the custom calls
that request moves, before optimizations. Source: xla/layout.h (kHostMemorySpace),
xla/service/memory_annotations.h, as of August 2026.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, TypeVar

from hlo_lens.hlo.opcodes import Produced, opcode_traits, opcodes_where
from hlo_lens.program.flops import NO_WORK, WorkFinder
from hlo_lens.render.result import Records, Unit
from hlo_lens.shapes.shape import HOST_SPACE
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.program.origins import Origins
    from hlo_lens.program.runs import CallCounts
    from hlo_lens.shapes.replica_groups import Groups
    from hlo_lens.shapes.shape import Shape

TRANSFERS = opcodes_where(lambda traits: traits.is_transfer)
"""Kinds with sources and targets instead of groups."""

RAGGED = "ragged-all-to-all"
"""Kind whose sizes are data."""


def wire_bytes_of_groups(kind: str, payload_bytes: int | None, groups: Groups | None) -> int | None:
    """Return the bytes that leave each device in a collective over groups; None if unknown."""
    if groups is None:
        return None
    n = max((len(group) for group in groups), default=0)
    if n <= 1:
        return 0
    if payload_bytes is None or kind == "collective-broadcast":
        return payload_bytes
    steps = 2 * (n - 1) if kind == "all-reduce" else n - 1
    return -(-payload_bytes * steps // n)


def wire_bytes_of_pairs(
    kind: str, payload_bytes: int | None, pairs: Groups | None, devices: int | None
) -> int | None:
    """Return the bytes that leave each device, on average, in transfers; None if unknown.

    Each source sends `payload_bytes`; `devices` run the program.
    """
    if pairs is None:
        return None
    sources = {pair[0] for pair in pairs if pair[0] != pair[-1]}
    if not sources or kind == "recv":
        return 0
    if payload_bytes is None or not devices:
        return None
    return -(-payload_bytes * len(sources) // max(devices, len(sources)))


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


_BYTES_EACH = 2
_FLOPS_EACH = 50
"""Work in the time in which the links of a device send one byte, on the slowest device known.

On every accelerator since NVIDIA's V100 and TPU v2 device memory moves at least 2 bytes, and the
arithmetic units do at least 50 FLOP of any type, in the time in which all links together send one
byte. So the share of a transfer that work covers is an upper bound, and a transfer that is not
covered by this measure is exposed.

Sources: data sheets: V100 (900 GB/s of memory, 7.8 TFLOP/s in float64, 150 GB/s of NVLink each
way: 6 and 52), A100 (1555, 9.7, 300), H100 (3350, 34, 450), B200 (8000, 40, 900), TPU v2 to tpu7x
(cloud.google.com/tpu/docs: 2.4 and above; no float64)."""


K = TypeVar("K", bound="Hashable")


class Transfer(NamedTuple):
    """One asynchronous transfer between instructions of one computation.

    `size_bytes` are sent each time, None if unknown; transfers of equal `link` share links.
    """

    start: HloInstruction
    done: HloInstruction
    size_bytes: int | None
    link: Hashable


class Overlap(NamedTuple):
    """Work between start and end: multiplications and additions, bytes read and written.

    `covered_ratio` is the largest share of the transfer that they cover, 0 to 1. None: not known.
    """

    instructions: int | None
    flops: int | None
    size_bytes: int | None
    covered_ratio: float | None


NOT_KNOWN = Overlap(instructions=None, flops=None, size_bytes=None, covered_ratio=None)
EXPOSED = Overlap(instructions=0, flops=0, size_bytes=0, covered_ratio=0.0)
_EMPTY = EXPOSED._replace(covered_ratio=None)
"""Overlap of a transfer of no or unknown bytes."""


def overlaps(
    table: InstructionTable, calls: CallCounts, transfers: Mapping[K, Transfer]
) -> dict[K, Overlap]:
    """Return the overlap of each transfer of a scheduled module, by its key.

    Counted are the instructions between start and end in a scheduled computation that do work
    (`instruction_work`): no views, no starts and ends of other asynchronous operations, no
    collectives. A transfer is covered as far as this work lasts as long as it. Work that several
    transfers of the same groups of devices overlap covers each part of them once: they share links,
    and the one that started first is sent first. Communication does not cover communication.
    """
    homes: dict[int, dict[K, Transfer]] = {}
    for key, transfer in transfers.items():
        homes.setdefault(transfer.start.computation.place, {})[key] = transfer
    finder = WorkFinder(table, calls)
    found: dict[K, Overlap] = {}
    for place, inside in homes.items():
        found |= _overlaps_in(table.module.computations[place].rows, inside, finder)
    return found


def _overlaps_in(
    rows: Sequence[int], transfers: Mapping[K, Transfer], finder: WorkFinder
) -> dict[K, Overlap]:
    found: dict[K, Overlap] = {}
    begun: dict[int, list[K]] = {}
    ended: dict[int, list[K]] = {}
    for key, transfer in transfers.items():
        found[key] = EXPOSED if transfer.size_bytes else _EMPTY
        start, end = transfer.start.row, transfer.done.row
        if isinstance(rows, range):  # else bodies are printed in between
            start, end = start - rows.start, end - rows.start
        else:
            start, end = bisect_left(rows, start), bisect_left(rows, end)
        if start < end:  # in damaged text the end may come first
            begun.setdefault(start, []).append(key)
            ended.setdefault(end, []).append(key)
    before: dict[K, tuple[int, ...]] = {}
    count = all_moved = all_flops = 0  # instructions, bytes and FLOP so far
    no_bytes = no_flops = 0  # instructions of unknown bytes and FLOP
    unsent: dict[K, float] = {}
    queues: dict[Hashable, deque[K]] = {}
    is_open: set[K] = set()
    is_unknown: set[K] = set()
    for place in range(min(begun, default=0), max(ended, default=-1) + 1):
        for key in ended.get(place, ()):
            is_open.discard(key)
            size, rest = transfers[key].size_bytes, unsent[key]
            is_known = bool(size) and not (rest and key in is_unknown)
            earlier = before[key]
            found[key] = Overlap(
                count - earlier[0],
                all_flops - earlier[2] if no_flops == earlier[4] else None,
                all_moved - earlier[1] if no_bytes == earlier[3] else None,
                (size - rest) / size if size and is_known else None,
            )
        done = finder.of(rows[place]) if is_open else NO_WORK
        if done != NO_WORK:
            moved, flops = done.size_bytes or 0, done.flops or 0
            count, all_moved, all_flops = count + 1, all_moved + moved, all_flops + flops
            if None in done:
                no_bytes += done.size_bytes is None
                no_flops += done.flops is None
                is_unknown |= is_open
            time = max(moved / _BYTES_EACH, flops / _FLOPS_EACH)
            for queue in queues.values():
                _spend(time, queue, unsent, is_open)
        for key in begun.get(place, ()):
            before[key] = (count, all_moved, all_flops, no_bytes, no_flops)
            unsent[key] = float(transfers[key].size_bytes or 0)
            queues.setdefault(transfers[key].link, deque()).append(key)
            is_open.add(key)
    return found


def _spend(time: float, queue: deque[K], unsent: dict[K, float], is_open: set[K]) -> None:
    while time and queue:
        key = queue[0]
        if key in is_open:
            spent = min(time, unsent[key])
            unsent[key] -= spent
            time -= spent
            if unsent[key]:
                return
        queue.popleft()


TO_HOST = "to host"
TO_DEVICE = "to device"

_TARGETS = ("annotate_device_placement", "MoveToHost", "MoveToDevice")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopy:
    """One copy between device and host memory; its fields are the columns of `DataMovement`."""

    name: Annotated[str, "instruction that copies"]
    direction: Annotated[str, "to host or to device"]
    size_bytes: Annotated[int | None, Unit.BYTES, "bytes of each copy"]
    dynamic_count: Annotated[int | None, Unit.COUNT, "copies per program run"]
    loop_path: Annotated[tuple[str, ...], "enclosing loops"]
    op_name: Annotated[str | None, "scope path of the framework"]
    source: Annotated[str | None, "source line that it comes from"]
    origin_basis: Annotated[str | None, "way that op_name and source were found"]
    is_at_most: Annotated[bool, "whether dynamic_count is an upper bound"] = False


@dataclass(frozen=True, kw_only=True)
class DataMovement(Records[HostCopy]):
    """All copies between device and host memory, in text order."""

    KIND: ClassVar[str] = "data-movement"
    copies: tuple[HostCopy, ...]


_ON_HOST = f"S({HOST_SPACE})"
"""Layouts of arrays in host memory have it."""


def data_movement(table: InstructionTable, calls: CallCounts, origins: Origins) -> DataMovement:
    """Return the copies between device and host memory."""
    found: list[tuple[HloInstruction, bool, int | None]] = []
    if any(_ON_HOST in shape for shape in table.shape_texts):
        rows = table.rows_where(
            lambda traits: opcode_traits(traits.base).is_copying and traits.phase != "done"
        )
        for instruction in map(table.instruction, rows):
            sides = _sides(instruction)
            on_host = [not s.is_tuple and s.is_in_host_memory for s in sides]
            if len(sides) == len({*on_host}) > 1:
                size = min(side.size_bytes or 0 for side in sides) or None
                found.append((instruction, on_host[1], size))
    for instruction in map(table.instruction, table.rows_of({"custom-call", "infeed", "outfeed"})):
        shape, is_to_host = instruction.shape, instruction.opcode == "outfeed"
        if is_to_host:
            shape = instruction.operand_shape(0)
        elif instruction.opcode == "custom-call":
            target_name = (instruction.attribute("custom_call_target") or "").strip('"')
            if target_name not in _TARGETS:
                continue
            placement = instruction.frontend_attributes.get("_xla_buffer_placement", "")
            is_to_host = target_name == "MoveToHost" or placement.endswith("host")
        found.append((instruction, is_to_host, None if shape is None else shape.size_bytes))
    copies = []
    for instruction, is_to_host, size in found:
        runs = calls.at(instruction.computation.place)
        origin = origins.of_row(instruction.row)
        copies.append(
            HostCopy(
                name=instruction.name,
                direction=TO_HOST if is_to_host else TO_DEVICE,
                size_bytes=size,
                dynamic_count=runs.times,
                loop_path=runs.loop_path,
                op_name=origin.op_name,
                source=origin.source,
                origin_basis=origin.basis,
                is_at_most=runs.is_at_most,
            )
        )
    return DataMovement(copies=tuple(copies))


def _sides(instruction: HloInstruction) -> list[Shape]:
    """Return the shapes of source and target of a copy, as far as they can be read."""
    traits = opcode_traits(instruction.opcode)
    try:
        source = instruction.operand_shape(1 if traits.base == "dynamic-update-slice" else 0)
        target = instruction.shape
    except DumpSyntaxError:
        return []
    if traits.phase == "start" and target is not None:
        wanted = 0 if traits.produced is Produced.FIRST else 1
        target = next(iter(target.tuple_shapes[wanted : wanted + 1]), None)
    return [side for side in (source, target) if side is not None]
