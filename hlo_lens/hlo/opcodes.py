"""Table of opcodes and their traits, one row per opcode, used by every pass.

Opcodes are an open set. An opcode without a row has no trait at all: nothing is claimed of it.
Async sugar (``dot-start``, ``dot-update``, ``dot-done``) has base, ending, and may name the
computation that it wraps.

Sources: hlo_opcode.h for the names, and the XLA functions that the traits name, as of August 2026.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.text.errors import DumpMismatchError

if TYPE_CHECKING:
    from hlo_lens.shapes.replica_groups import CollectiveOpGroupMode

_PHASES = ("start", "update", "done")


class Produced(Enum):
    """Part of an instruction's result that is a new array; the rest is arrays of others."""

    ALL = 0
    FIRST = 1
    SECOND = 2
    NONE = 3


class OpcodeTraits(NamedTuple):
    """Traits of one opcode.

    Attributes:
        opcode: As written.
        base: The opcode without its async ending: ``reduce-scatter`` of ``reduce-scatter-start``.
        phase: The async ending: ``start``, ``update``, ``done``, or empty. ``send`` and ``recv``,
            whose start is the plain opcode, have only ``done``.
        is_known: Whether XLA of August 2026 has it, or has its base.
        is_collective: Moves data between devices, or between a device and its host.
        is_paired: Its channel connects it to one counterpart: send, recv and their ends.
        is_combinable: Several operands are several operations that XLA combined.
        is_local: Its groups have ids of replicas or of partitions: it has no
            ``use_global_device_ids``.
        is_transfer: A collective of pairs of sender and receiver instead of groups.
        is_caller: May name computations in its attributes. Source: hlo_instructions.h.
        is_runner: Runs the computations that it calls as a whole, not element by element.
        is_control_flow: Its called computations have buffers of their own; those of all others are
            embedded: their values are in registers or scratch memory. Source: call_graph.cc,
            GetInstructionCallContext.
        is_applier: Applies a computation to elements: a reducer, a comparator.
        is_positional: Its operands are the parameters of what it calls, in order.
        is_view: Produces no array: its result is an operand's or a called computation's.
        is_idle: Does no work when it runs.
        is_trivial: So frequent that a match of two equal ones is no evidence.
        is_contraction: A matrix product or convolution.
        is_mixing: Elements of its result are computed from, or chosen among, many of an operand.
        is_heavy: Listed as a producer or consumer of a collective's values.
        is_elementwise: Source: HloInstruction::IsOpElementwise and IsElementwiseImpl.
        is_formatting: Copies, converts, reorders or cuts operand 0, without arithmetic.
        is_forwarding: Its result is operand 0; a scalar keeps its value.
        is_naming: Computes nothing: its result is a constant, or arrays by another name.
        is_carrying: May be between an asynchronous start and its end, and hands the result on; a
            fusion too, since TPU's compiler fuses work into a transfer.
        is_handing: Its operands are used where their new owner is: by the users of a tuple or
            domain, in the body of a while, in a called computation. Source: hlo_value.cc,
            MayUseOperandValue.
        is_valueless: Its result has no value of its own, not even a table: all are of others, rare
            tables of control flow apart. A tuple, which is a view too, has its table.
        is_aligned: Each dimension of its result is that dimension of operand 0.
        is_copying: May copy between memories.
        is_cut: Reads no more of operand 0 than its result.
        is_update: Its result is operand 0 with a part overwritten.
        is_in_place: May write its result into an operand. Source:
            HloDataflowAnalysis::GetInPlaceInputOutputPairs.
        is_sharing: Its result may share an operand's buffer, beside elementwise opcodes. Source:
            HloDataflowAnalysis::CanShareOperandBufferWithUser.
        is_sourceless: Computed from no other value: without operands.
        is_device_number: The number of the device, as partition or as replica.
        is_impure: Two equal ones may have different results.
        is_stored_scalar: Its integer scalar is in the HBM of a TPU; those of others are elsewhere.
        is_printed_value: Prints a literal or a number in the place of operands.
        is_first_produced: Its result is a tuple of which the first element is a new array.
        is_all_produced: An async start whose whole result is new, without operands in it.
    """

    opcode: str
    base: str
    phase: str = ""
    is_known: bool = False
    is_collective: bool = False
    is_paired: bool = False
    is_combinable: bool = False
    is_local: bool = False
    is_transfer: bool = False
    is_caller: bool = False
    is_runner: bool = False
    is_control_flow: bool = False
    is_applier: bool = False
    is_positional: bool = False
    is_view: bool = False
    is_idle: bool = False
    is_trivial: bool = False
    is_contraction: bool = False
    is_mixing: bool = False
    is_heavy: bool = False
    is_elementwise: bool = False
    is_formatting: bool = False
    is_forwarding: bool = False
    is_naming: bool = False
    is_carrying: bool = False
    is_handing: bool = False
    is_valueless: bool = False
    is_aligned: bool = False
    is_copying: bool = False
    is_cut: bool = False
    is_update: bool = False
    is_in_place: bool = False
    is_sharing: bool = False
    is_sourceless: bool = False
    is_device_number: bool = False
    is_impure: bool = False
    is_stored_scalar: bool = False
    is_printed_value: bool = False
    is_first_produced: bool = False
    is_all_produced: bool = False

    @property
    def is_start(self) -> bool:
        """Whether it starts an asynchronous operation, which another instruction ends."""
        return self.phase == "start" or (self.is_paired and not self.phase)

    @property
    def is_end(self) -> bool:
        """Whether it continues or ends what another instruction started: update or done."""
        return self.phase in ("update", "done")

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product or convolution, or a custom call, which may be one."""
        return self.is_contraction or self.opcode == "custom-call"

    @property
    def is_reduction(self) -> bool:
        """Whether it is a collective that adds up values of the devices."""
        return self.is_collective and self.is_applier

    @property
    def is_moving(self) -> bool:
        """Whether it copies, converts, reorders or cuts operand 0, and repeats none of it."""
        return self.is_formatting and self.opcode != "broadcast"

    @property
    def is_same(self) -> bool:
        """Whether its result has the elements of operand 0, in the same order."""
        return self.is_forwarding and self.opcode != "broadcast"

    @property
    def is_sugar(self) -> bool:
        """Whether it is async sugar: an opcode with an ending that has no row of its own."""
        return bool(self.phase) and self.opcode not in OPCODES

    @property
    def collective_kind(self) -> str | None:
        """Kind of the collective that it performs or starts; None for others and for ends."""
        is_kind = self.base in COLLECTIVE_KINDS and not self.is_end
        return self.base if is_kind else None

    @property
    def produced(self) -> Produced:
        """Part of the result that is new and not made by a called computation."""
        return Produced.NONE if self.is_view or self.is_end else self.result_part

    @property
    def result_part(self) -> Produced:
        """Part of the result that is new, made here or by a computation that it starts.

        ``X-start`` results are ``((operands), result, contexts)``, copy-start is ``(destination,
        source, context)``, recv is ``(data, context, token)``, all-reduce-start has no operand in
        it.
        """
        if self.is_first_produced:
            return Produced.FIRST
        is_second = self.phase == "start" and not self.is_all_produced
        return Produced.SECOND if is_second else Produced.ALL


_TABLE = """
    all-reduce                collective caller applier combinable
    all-gather                collective combinable
    reduce-scatter            collective caller applier combinable
    all-to-all                collective local
    ragged-all-to-all         collective local in_place
    collective-permute        collective local transfer in_place
    collective-broadcast      collective local combinable
    send                      collective paired transfer view
    recv                      collective paired transfer impure first_produced
    add-dependency            view idle formatting forwarding
    after-all                 view idle trivial
    all-reduce-start          caller applier in_place all_produced
    async-done                caller forwarding
    async-start               caller runner control_flow positional view
    async-update              caller
    bitcast                   view idle trivial formatting forwarding valueless carrying
    bitcast-convert           elementwise formatting
    broadcast                 trivial formatting forwarding
    call                      caller runner control_flow positional view handing valueless
    collective-permute-start  in_place
    compare                   trivial elementwise
    conditional               caller runner control_flow view sharing valueless
    constant                  idle trivial elementwise printed_value naming sourceless
    convert                   trivial elementwise formatting
    convolution               contraction heavy mixing
    copy                      trivial elementwise formatting forwarding copying carrying
    copy-start                first_produced
    custom-call               caller runner applier heavy aligned mixing
    domain                    view idle formatting forwarding handing
    dot                       contraction heavy mixing
    dynamic-slice             formatting aligned copying cut
    dynamic-update-slice      aligned copying update in_place sharing
    fusion                    caller runner positional in_place sharing stored_scalar carrying
    gather                    heavy mixing cut
    get-tuple-element         view idle trivial valueless carrying naming
    infeed                    impure
    iota                      trivial naming sourceless
    map                       caller applier
    opt-barrier               view idle trivial formatting forwarding carrying
    pad                       formatting aligned
    parameter                 view idle trivial printed_value naming sourceless
    partition-id              idle trivial sourceless device_number
    ragged-dot                contraction heavy mixing
    recv-done                 paired
    reduce                    caller applier heavy stored_scalar mixing
    reduce-precision          elementwise formatting
    reduce-window             caller applier mixing
    replica-id                idle trivial sourceless device_number
    reshape                   trivial formatting forwarding
    reverse                   formatting
    rng                       elementwise impure
    rng-get-and-update-state  impure
    scaled-dot                contraction heavy mixing
    scan                      caller applier
    scatter                   caller applier heavy update in_place sharing mixing
    select                    trivial elementwise
    select-and-scatter        caller applier mixing
    send-done                 paired
    set-dimension-size        update in_place sharing
    slice                     trivial formatting aligned copying cut
    sort                      caller applier heavy sharing mixing
    topk                      caller applier
    transpose                 trivial formatting
    triangular-solve          sharing
    tuple                     view idle trivial handing carrying naming
    while                     caller runner control_flow view sharing handing valueless
"""
"""Opcode and traits, those of `OpcodeTraits` without ``is_``. Collectives come first, in the order
in which reports list them."""

_ELEMENTWISE = """
    abs acos acosh add and asin asinh atan2 atanh cbrt ceil clamp complex cosh cosine
    count-leading-zeros divide erf exponential exponential-minus-one floor imag is-finite
    log log-plus-one logistic maximum minimum mulhi multiply negate not or popcnt power real
    remainder round-nearest-afz round-nearest-even rsqrt shift-left shift-right-arithmetic
    shift-right-logical sign sine sinh sqrt stochastic-convert subtract tan tanh xor
"""
"""Opcodes that are elementwise and nothing else."""

_PLAIN = """
    all-gather-done all-gather-start all-reduce-done batch-norm-grad batch-norm-inference
    batch-norm-training cholesky collective-permute-done concatenate copy-done
    dynamic-reshape fft get-dimension-size outfeed rng-bit-generator trace tuple-select
"""
"""Opcodes without traits; trace and tuple-select are of older XLA."""


def _split_phase(opcode: str) -> tuple[str, str]:
    for phase in _PHASES:
        if opcode.endswith(f"-{phase}"):
            return opcode.removesuffix(f"-{phase}"), phase
    return opcode, ""


def _rows() -> Iterator[OpcodeTraits]:
    listed = [line.split() for line in _TABLE.strip().splitlines()]
    listed += [[opcode, "elementwise"] for opcode in _ELEMENTWISE.split()]
    listed += [[opcode] for opcode in _PLAIN.split()]
    for opcode, *words in listed:
        base, phase = _split_phase(opcode)
        traits = {f"is_{word}": True for word in words}
        yield OpcodeTraits(opcode=opcode, base=base, phase=phase, is_known=True, **traits)


OPCODES: Mapping[str, OpcodeTraits] = {row.opcode: row for row in _rows()}
"""The rows of the table by opcode; sugar is not among them."""

COLLECTIVE_KINDS = tuple(row.opcode for row in OPCODES.values() if row.is_collective)
"""Opcodes that move data between devices, or between a device and its host (send, recv)."""

_COLLECTIVE_WORDS = re.compile(
    "all-|collective|reduce-scatter|permute|broadcast-start|send|recv|exchange"
)


@functools.cache
def opcode_traits(opcode: str) -> OpcodeTraits:
    """Return the traits of an opcode as written.

    >>> opcode_traits("reduce-scatter-start").base
    'reduce-scatter'
    >>> opcode_traits("made-up").is_known
    False
    """
    if opcode in OPCODES:
        return OPCODES[opcode]
    base, phase = _split_phase(opcode)
    if not phase or base not in OPCODES:
        return OpcodeTraits(opcode=opcode, base=base, phase=phase)
    return OpcodeTraits(opcode=opcode, base=base, phase=phase, is_known=True, is_caller=True)


def opcodes_where(predicate: Callable[[OpcodeTraits], bool]) -> frozenset[str]:
    """Return the opcodes of the table that satisfy a predicate; sugar is not among them."""
    return frozenset(row.opcode for row in OPCODES.values() if predicate(row))


def is_collective_like(opcode: str) -> bool:
    """Return whether an opcode that XLA did not have in August 2026 sounds like a collective."""
    return not opcode_traits(opcode).is_known and _COLLECTIVE_WORDS.search(opcode) is not None


def collective_op_group_mode(
    opcode: str, channel_id: int | None, use_global_device_ids: bool | None
) -> CollectiveOpGroupMode:
    """Return how a collective forms its groups; None stands for absent attributes.

    ``use_global_device_ids`` is ignored for collectives that cannot have it, as ``all-to-all``.

    Raises:
        DumpMismatchError: If global device ids are used without a channel.
    """
    from hlo_lens.shapes.replica_groups import CollectiveOpGroupMode

    if opcode_traits(opcode_traits(opcode).base).is_local:
        if channel_id is None:
            return CollectiveOpGroupMode.CROSS_REPLICA
        return CollectiveOpGroupMode.CROSS_PARTITION
    if channel_id is None:
        if use_global_device_ids:
            raise DumpMismatchError(f"{opcode} has use_global_device_ids=true but no channel_id")
        return CollectiveOpGroupMode.CROSS_REPLICA
    if use_global_device_ids:
        return CollectiveOpGroupMode.FLATTENED_ID
    return CollectiveOpGroupMode.CROSS_REPLICA_AND_PARTITION
