"""The memory statement of a module: bytes allocated in each memory space, by their use.

Figures are sums of allocation sizes, as XLA's CompiledMemoryStats counts them
(xla/pjrt/compiled_memory_stats.cc, PopulateBufferStatsFromAllocations):

- arguments: entry parameters, those whose memory is reused for results included;
- of which aliased: entry parameters that are also (part of) the result;
- outputs: all that may live out, the aliased parameters and the root tuple's table included;
- temp: preallocated temporaries;
- constants and thread-local scalars are in none of these.

What must fit is the total of the default memory space: all its allocations but thread-local ones,
and the generated code where its size is known. Other spaces (VMEM, SMEM, semaphores, host: colour
5) have totals and peaks of their own and are never added in. Of a TPU's temporaries only those in
HBM count, rounded up to 16 KiB; they are 0 when all of them are index tables and integer scalars,
which never exist in HBM. That rule was fitted on 499 compiles of libtpu 0.0.51 and holds for 498;
older ones count fragmentation once more: temp is at least that sum and at most its double.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.memory.layout import DEFAULT_SPACE, MemoryLayout
from hlo_lens.render.result import NOT_SAVED, Records, Unit, sum_of
from hlo_lens.shapes.shape import HOST_SPACE
from hlo_lens.text.units import Amount, Kind, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.memory.peak import PeakMemory

_TPU_ROUNDING = 16 << 10
_INTEGER_SCALAR = re.compile(r"(?:pred|[su]\d+)\[\](?:\{.*\})?$")

SPACE_NAMES: Mapping[str, Mapping[int, str]] = {
    "tpu": {
        **{0: "HBM", 1: "VMEM", 2: "semaphores", 4: "sync flags", 5: "host", 6: "SMEM"},
        **{color: f"SparseCore {color}" for color in range(8, 13)},
    },
    "gpu": {0: "device", 1: "collective", 2: "temp", 5: "host", 7: "symmetric"},
    "cpu": {0: "memory", 5: "host"},
}
"""Backend to colour to name. XLA's memory-usage report prints a fixed table that fits no backend
(buffer_assignment.cc, GetMemorySpaceName). Source: gpu_memory_space_assignment.h, layout.h
(kCollectiveMemorySpace, 7 since jaxlib 0.12); TPU dumps."""


SAME_DEVICE: Mapping[str, tuple[int, ...]] = {"gpu": (1, 7)}
"""Backend to memory spaces in the memory of the default one: the collective (symmetric) memory of a
GPU (ragged-all-to-all; others with ``xla_gpu_enable_nccl_user_buffers``)."""

FEW_BYTES = 4096
"""Bytes below which a memory space is shown last and folded: semaphores, sync flags, scalars."""


ASSIGNED_SPACES = (1, 3)
"""VMEM and CMEM of a TPU: memory space assignment places values there, which is not modelled."""


def space_name(color: int, backend: str | None) -> str:
    """Return the users' name of a memory space; ``color N`` where it has none."""
    names = SPACE_NAMES.get(backend or "", {0: "default", 5: "host"})
    return names.get(color, f"color {color}")


@dataclass(frozen=True, slots=True)
class HostBytes:
    """Bytes in host memory."""

    argument: int = 0
    output: int = 0
    alias: int = 0
    temp: int = 0

    def __iter__(self) -> Iterator[int]:
        return iter((self.argument, self.output, self.alias, self.temp))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceFacts:
    """Memory statement of one memory space, in bytes; None where not known.

    The peak counts whole arguments, outputs, constants and other allocations, and the largest union
    of temporaries over the schedule. An estimate does not know the temporaries of VMEM and CMEM.
    """

    name: Annotated[str, "memory space"]
    color: Annotated[int, "its number in XLA's texts"]
    argument_bytes: Annotated[int, Unit.BYTES, "entry parameters"] = 0
    alias_bytes: Annotated[int, Unit.BYTES, "of these, reused for results"] = 0
    output_bytes: Annotated[int, Unit.BYTES, "results, aliased arguments included"] = 0
    temp_bytes: Annotated[int | None, Unit.BYTES, "preallocated temporaries"] = 0
    constant_bytes: Annotated[int, Unit.BYTES, "constants of the program"] = 0
    thread_local_bytes: Annotated[
        int, Unit.BYTES, "local to called computations, not in totals"
    ] = 0
    other_bytes: Annotated[int, Unit.BYTES, "allocations that are none of these"] = 0
    total_bytes: Annotated[int | None, Unit.BYTES, "all allocations but thread-local"] = 0
    peak_bytes: Annotated[int | None, Unit.BYTES, "most bytes held at one instant"] = None
    fragmentation_bytes: Annotated[int | None, Unit.BYTES, "total minus peak"] = None
    padding_bytes: Annotated[int | None, Unit.BYTES, "bytes beyond the elements, at the peak"] = (
        None
    )


@dataclass(frozen=True, slots=True)
class PeakFacts:
    """Instant of peak use of the default memory space, as `SpaceFacts.peak_bytes` counts."""

    bytes: int
    color: int = 0
    shared_bytes: int = 0
    temp_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FigureMismatch:
    """A figure of the framework's ``memory_analysis()`` that differs from ours."""

    name: str
    ours: int
    theirs: int


@dataclass(frozen=True, kw_only=True)
class MemoryStatement(Records[SpaceFacts]):
    """Allocated bytes per memory space, and the figures of one device.

    Arguments, outputs, aliased and temp are those of device memory, as CompiledMemoryStats counts
    them; other figures are those of the default memory space.

    Attributes:
        source: ``buffer-assignment`` or ``estimate``.
        argument_bytes: Arguments in device memory, as CompiledMemoryStats counts them.
        output_bytes: Results, aliased arguments included.
        alias_bytes: Arguments whose memory results reuse.
        total_bytes: What must fit: allocations of the default memory space but thread-local ones,
            and the generated code where its size is known.
        generated_code_bytes: Size of the program's code; None if unknown.
        fits: Whether `total_bytes` fit into `limit_bytes`; None without a limit, and for an
            estimate within 15 % of it.
        limit_bytes: Memory of the device; None if not known.
        excess_bytes: Bytes over the limit, 0 if there are none; None where `fits` is.
        is_exact: Whether arguments, outputs, aliased, temporaries and peak are exact; False for
            every estimate, and for a buffer assignment whose temporaries are a lower bound.
        host_bytes: The same figures in host memory.
        peak: None without live ranges.
        is_complete: Whether the buffer texts are complete.
        unknown_values: Values of instructions that the HLO text does not have.
        missing: Kinds of text that the dump lacks.
        memory_analysis: Figures of the framework's ``memory_analysis()``; `mismatches` are those
            that differ from ours.
        notes: Limits of the numbers, as sentences.
    """

    KIND: ClassVar[str] = "memory"
    source: str
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    constant_bytes: int
    thread_local_bytes: int
    total_bytes: int
    generated_code_bytes: int | None = None
    fits: bool | None = None
    limit_bytes: int | None = None
    limit_source: str | None = None
    excess_bytes: int | None = None
    is_exact: bool = True
    host_bytes: HostBytes
    spaces: tuple[SpaceFacts, ...]
    peak: PeakFacts | None = None
    is_complete: bool = True
    unknown_values: int = 0
    missing: tuple[str, ...] = field(default=(), compare=False)
    memory_analysis: Mapping[str, int] | None = None
    mismatches: tuple[FigureMismatch, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False, metadata=NOT_SAVED)

    @property
    def records(self) -> tuple[SpaceFacts, ...]:
        return self.spaces

    @property
    def lacks_code(self) -> bool:
        """Whether the limit, that of a TPU, counts generated code too, whose size is not known."""
        is_tpu = any(space.name == SPACE_NAMES["tpu"][0] for space in self.spaces)
        is_own = self.limit_bytes is not None and self.limit_source != "--limit"
        return is_tpu and is_own and self.generated_code_bytes is None

    def on_same_device(self, backend: str | None) -> tuple[SpaceFacts, ...]:
        colors = SAME_DEVICE.get(backend or "", ())
        return tuple(s for s in self.spaces if s.color in colors and s.total_bytes)


def most_temp_bytes(memory: MemoryStatement) -> int:
    """Return the most that the temporaries of a buffer assignment may be."""
    if memory.is_exact or memory.source == "estimate":
        return memory.temp_bytes
    default = next((space for space in memory.spaces if space.color == DEFAULT_SPACE), None)
    return 2 * _rounded(default.temp_bytes or 0) if default else memory.temp_bytes


_READ_FROM_TEXT = ("argument", "alias", "constant", "thread_local")
"""Figures that an estimate does not compute: sums of sizes that the text has."""


def memory_amount(memory: MemoryStatement, figure: str, size_bytes: int) -> Amount:
    """Return a figure (``temp``, ``total``, ...), marked where it is an estimate or a lower bound.

    None of the figures of the framework's ``memory_analysis()`` is an estimate.
    """
    if (memory.memory_analysis or {}).get(f"{figure}_size_in_bytes") == size_bytes:
        return Amount(size_bytes)
    if memory.source == "estimate":
        return Amount(size_bytes, Kind.EXACT if figure in _READ_FROM_TEXT else Kind.ESTIMATE)
    is_bound = figure == "temp" and size_bytes < most_temp_bytes(memory)
    return Amount(size_bytes, Kind.AT_LEAST if is_bound else Kind.EXACT)


def memory_statement(
    layout: MemoryLayout,
    peaks: Mapping[int, PeakMemory | None],
    *,
    backend: str | None,
    opcodes: Mapping[str, str] | None = None,
    is_exact_tpu: bool = False,
) -> MemoryStatement:
    """Return the memory statement of a layout and the peaks of its memory spaces.

    Opcodes of instructions by name show a TPU's scalars; `is_exact_tpu` is whether the rule for
    temporaries of the libtpu that wrote the text is known.
    """
    spaces = tuple(_space(layout, color, peak, backend) for color, peak in peaks.items())
    by_color = {space.color: space for space in spaces}
    default = by_color[DEFAULT_SPACE]
    host = by_color.pop(HOST_SPACE, SpaceFacts(color=HOST_SPACE, name="host"))
    peak = peaks[DEFAULT_SPACE]

    def total(figure: str) -> int:
        return sum(getattr(space, figure) or 0 for space in by_color.values())

    temp = total("temp_bytes")
    is_exact = layout.source != "estimate"
    if backend == "tpu":
        temp, is_exact = _tpu_temp(layout, opcodes, is_exact=is_exact and is_exact_tpu)
    statement = MemoryStatement(
        source=layout.source,
        spaces=spaces,
        argument_bytes=total("argument_bytes"),
        output_bytes=total("output_bytes"),
        alias_bytes=total("alias_bytes"),
        temp_bytes=temp,
        is_exact=is_exact,
        constant_bytes=default.constant_bytes,
        thread_local_bytes=default.thread_local_bytes,
        host_bytes=HostBytes(
            host.argument_bytes, host.output_bytes, host.alias_bytes, host.temp_bytes or 0
        ),
        total_bytes=default.total_bytes or 0,
        peak=None
        if peak is None
        else PeakFacts(peak.total_bytes, peak.color, peak.shared_bytes, peak.temp_bytes),
        is_complete=layout.is_complete and layout.are_ranges_complete,
        notes=layout.notes,
    )
    most = most_temp_bytes(statement)
    if most == temp:
        return statement
    note = f"temp is at most {format_bytes(most)}: this libtpu may count fragmentation again"
    return replace(statement, notes=(*statement.notes, note))


def _space(
    layout: MemoryLayout, color: int, peak: PeakMemory | None, backend: str | None
) -> SpaceFacts:
    sums: Counter[str] = Counter()
    for allocation in layout.allocations:
        if allocation.color != color:
            continue
        sums[allocation.category] += allocation.size
        if allocation.category != "thread-local":
            sums["total"] += allocation.size
        if allocation.is_output:
            sums["live-out"] += allocation.size
        if allocation.is_aliased:
            sums["aliased"] += allocation.size
    is_known = layout.source != "estimate" or backend != "tpu" or color not in ASSIGNED_SPACES
    peak = peak if is_known else None
    return SpaceFacts(
        color=color,
        name=space_name(color, backend),
        argument_bytes=sums["argument"],
        alias_bytes=sums["aliased"],
        output_bytes=sums["live-out"],
        temp_bytes=sums["temp"] if is_known else None,
        constant_bytes=sums["constant"],
        thread_local_bytes=sums["thread-local"],
        other_bytes=sums["other"],
        total_bytes=sums["total"] if is_known else None,
        peak_bytes=None if peak is None else peak.total_bytes,
        fragmentation_bytes=None
        if peak is None or not (layout.is_complete and layout.are_ranges_complete)
        else sums["total"] - peak.total_bytes,
        padding_bytes=None  # tables of tuples have none
        if peak is None
        else sum_of(v.padding_bytes for v in peak.live if not v.shape.startswith("(")),
    )


def _tpu_temp(
    layout: MemoryLayout, opcodes: Mapping[str, str] | None, *, is_exact: bool
) -> tuple[int, bool]:
    """Return the least bytes of a TPU's temporaries in HBM, and whether these are exact.

    They are 0 where none of their values is in HBM: makers of scalars are not known without text.
    """
    temps = {
        a.index: a.size
        for a in layout.allocations
        if a.category == "temp" and a.color == DEFAULT_SPACE
    }
    total = _rounded(sum(temps.values()))
    if not total:
        return 0, layout.source != "estimate"
    arrays = [
        v for v in layout.values if v.allocation in temps and not v.shape_text.startswith("(")
    ]
    scalars = [v for v in arrays if is_integer_scalar(v.shape_text)]
    makers = [(opcodes or {}).get(v.instruction_name) for v in scalars]
    if len(scalars) < len(arrays) or any(m and opcode_traits(m).is_stored_scalar for m in makers):
        return total, is_exact
    return 0, is_exact and (opcodes is not None or not scalars)


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // _TPU_ROUNDING) * _TPU_ROUNDING


def is_integer_scalar(shape_text: str) -> bool:
    """Return whether a shape is an integer scalar, which a TPU may keep outside of HBM."""
    return _INTEGER_SCALAR.match(shape_text) is not None
