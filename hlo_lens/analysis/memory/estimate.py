"""Memory of a program, estimated from its scheduled HLO text alone.

For users with only `compiled.as_text()` or one ``after_optimizations.txt``. From a text in
execution order, the values, their live ranges and offsets follow by XLA's own rules:
`hlo_lens.analysis.buffer_assignment`. It remains an estimate: flags that change the rules, and a
few facts about the chip, are not in the text.

Figures as in CompiledMemoryStats (xla/pjrt/compiled_memory_stats.cc), over allocations, host
memory (space 5) separate: arguments are the allocations of entry parameters, outputs those that may
be part of the result, aliased those that are both, temporaries those that are neither, nor
constants. On TPU only space 0 counts as temporary, rounded up to 16 KiB; it counts as 0 if it
contains only tables of tuples and integer scalars, which are never in memory (observed with
libtpu 0.0.51; older versions report up to twice as much).

Limits: offsets in VMEM and CMEM (spaces 1 and 3) come from memory space assignment, which is not
modelled; their totals are a layout by best fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.buffer_assignment.backend_rules import (
    TPU_PAGE,
    BackendRules,
    backend_rules,
    round_up,
)
from hlo_lens.analysis.buffer_assignment.buffer_sharing import BufferSharing
from hlo_lens.analysis.buffer_assignment.dataflow import dataflow
from hlo_lens.analysis.buffer_assignment.heap_layout import heap_layout
from hlo_lens.analysis.buffer_assignment.shape_tree import NODES
from hlo_lens.analysis.memory.layout import (
    DEFAULT_SPACE,
    HOST_SPACE,
    LaidAllocation,
    LaidValue,
    MemoryLayout,
)
from hlo_lens.analysis.program.backend import backend_of_text
from hlo_lens.analysis.program.undefined_names import undefined_names
from hlo_lens.analysis.result import Column, Result, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.analysis.buffer_assignment.allocations import Allocation, HeapLayout
    from hlo_lens.analysis.buffer_assignment.values import Dataflow
    from hlo_lens.model.hlo.query import InstructionTable
    from hlo_lens.model.shapes.shape import Shape, ShapeIndex


_CATEGORIES = {
    "parameter": "argument",
    "constant": "constant",
    "thread-local": "thread-local",
    "output": "output",
    "tuple": "output",
    "heap": "temp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveValue:
    """A value alive at the peak.

    Attributes:
        value: Instruction and shape index: ``add.2{}``.
        size_bytes: Its bytes that no value before it holds.
        offset: First byte in its allocation.
        allocation: Index of the allocation.
        category: ``argument``, ``output``, ``temp`` or ``constant``.
        start: First instant at which it lives.
        end: Last instant, inclusive.
    """

    value: str
    size_bytes: int
    offset: int
    allocation: int
    category: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate(Result):
    """Estimated memory of a module; rows are the values alive at the peak, largest first.

    The rows' sizes sum to `peak_bytes`: bytes shared by two values count once.

    Attributes:
        source: ``estimate``.
        backend: Backend whose rules were applied: ``cpu``, ``gpu`` or ``tpu``.
        argument_bytes: Entry parameters, device memory.
        output_bytes: Results, aliased parameters and the result's table of pointers included.
        alias_bytes: Parameters that share memory with a result.
        temp_bytes: Preallocated temporaries, as ``Compiled.memory_analysis()`` counts them.
        constant_bytes: Constants of the program, device memory.
        thread_local_bytes: Scalars of reducers and the like.
        total_bytes: All allocations in all memory spaces.
        host_argument_bytes: As `argument_bytes`, host memory.
        host_output_bytes: As `output_bytes`, host memory.
        host_alias_bytes: As `alias_bytes`, host memory.
        host_temp_bytes: As `temp_bytes`, host memory.
        spaces: Memory space and the bytes of all allocations in it, ascending.
        peak_bytes: Most bytes in use in the default memory space at one instant.
        peak_position: That instant; the first of several.
        peak_instruction: The instruction that runs then; None after the last one.
        live: Values alive then.
        layout: All allocations and values.
        notes: Descriptions of what is not modelled.
    """

    KIND: ClassVar[str] = "memory-estimate"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("value", Unit.NONE, "instruction and shape index"),
        Column("size_bytes", Unit.BYTES, "its bytes that no value above it holds"),
        Column("offset", Unit.BYTES, "first byte in its allocation"),
        Column("allocation", Unit.NONE, "index of the allocation"),
        Column("category", Unit.NONE, "argument, output, temp or constant"),
        Column("start", Unit.NONE, "first instant at which it lives"),
        Column("end", Unit.NONE, "last instant at which it lives"),
    )
    RECORDS: ClassVar[str] = "live"
    source: str = "estimate"
    backend: str
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    constant_bytes: int
    thread_local_bytes: int
    total_bytes: int
    host_argument_bytes: int
    host_output_bytes: int
    host_alias_bytes: int
    host_temp_bytes: int
    spaces: tuple[tuple[int, int], ...]
    peak_bytes: int
    peak_position: int
    peak_instruction: str | None
    live: tuple[LiveValue, ...] = field(repr=False)
    layout: MemoryLayout = field(repr=False)
    notes: tuple[str, ...] = ()


def why_no_estimate(table: InstructionTable, *, in_text_order: bool = False) -> str | None:
    """Return the reason that a module's text allows no estimate, or None.

    Args:
        table: The module.
        in_text_order: Whether a text without a schedule is assumed to run in its own order.
    """
    module = table.module
    if not module.computations or not module.entry.rows:
        return "the text has no entry computation"
    if module.is_truncated:
        return "the text is cut off: its missing part uses memory too"
    if not module.is_scheduled and not in_text_order:
        return "the instructions are not in execution order (no is_scheduled=true)"
    lost = undefined_names(table.module, with_operands=False)
    if lost:
        return f"the text lacks computations that it calls, such as {lost[0]}"
    return None


def memory_estimate(
    table: InstructionTable, *, backend: str | None = None, in_text_order: bool = False
) -> MemoryEstimate | None:
    """Return the memory of a module, or None for a reason that `why_no_estimate` returns.

    Args:
        table: The module.
        backend: ``cpu``, ``gpu`` or ``tpu``; None to take it from the text, and else ``cpu``.
        in_text_order: Whether a text without a schedule is assumed to run in its own order, in
            which every instruction follows its operands; the result is no bound.
    """
    module = table.module
    if why_no_estimate(table, in_text_order=in_text_order) is not None:
        return None
    rules = backend_rules(module, backend or backend_of_text(module, table.producers))
    flow = dataflow(table, rules.measure, rules.color)
    layout = heap_layout(flow, BufferSharing(flow, rules.backend), rules.layout)
    laid = _laid(flow, layout.allocations, rules.notes)
    return _figures(flow, rules, layout, laid)


def sizes_of(
    table: InstructionTable, backend: str | None = None
) -> tuple[Callable[[Shape], int | None], Callable[[Shape], int]]:
    """Return functions for the bytes of a shape and its memory space on a module's backend.

    Args:
        table: The module.
        backend: As for `memory_estimate`.
    """
    rules = backend_rules(table.module, backend or backend_of_text(table.module, table.producers))
    return rules.measure, rules.color


def _figures(
    flow: Dataflow, rules: BackendRules, layout: HeapLayout, laid: MemoryLayout
) -> MemoryEstimate:
    """Return the sums over allocations, and the peak."""
    allocations = layout.allocations

    def total(color: int, wanted: Callable[[Allocation], bool]) -> int:
        """Return the bytes of some allocations, in host memory or all other memory spaces."""
        is_host = color == HOST_SPACE
        return sum(a.size for a in allocations if (a.color == HOST_SPACE) == is_host and wanted(a))

    device, host = DEFAULT_SPACE, HOST_SPACE
    spaces: dict[int, int] = {DEFAULT_SPACE: 0}
    for allocation in allocations:
        spaces[allocation.color] = spaces.get(allocation.color, 0) + allocation.size
    series = laid.series() or [0]
    peak = max(series)
    position = series.index(peak)
    is_row = position < len(flow.schedule)
    columns = flow.table.module.columns
    return MemoryEstimate(
        backend=rules.backend,
        argument_bytes=total(device, _is_parameter),
        output_bytes=total(device, lambda a: a.is_output),
        alias_bytes=total(device, lambda a: a.is_output and _is_parameter(a)),
        temp_bytes=_temp_bytes(flow, rules, layout),
        constant_bytes=sum(a.size for a in allocations if a.kind == "constant"),
        thread_local_bytes=sum(a.size for a in allocations if a.kind == "thread-local"),
        total_bytes=sum(a.size for a in allocations),
        host_argument_bytes=total(host, _is_parameter),
        host_output_bytes=total(host, lambda a: a.is_output),
        host_alias_bytes=total(host, lambda a: a.is_output and _is_parameter(a)),
        host_temp_bytes=total(host, lambda a: a.is_temp),
        spaces=tuple(sorted(spaces.items())),
        peak_bytes=peak,
        peak_position=position,
        peak_instruction=columns.name(flow.schedule[position]) if is_row else None,
        live=_live(laid, position),
        layout=laid,
        notes=laid.notes,
    )


def _is_parameter(allocation: Allocation) -> bool:
    return allocation.kind == "parameter"


def _temp_bytes(flow: Dataflow, rules: BackendRules, layout: HeapLayout) -> int:
    """Return the temporary bytes that XLA would report."""
    if rules.backend != "tpu":
        return sum(a.size for a in layout.allocations if a.is_temp and a.color != HOST_SPACE)
    number = layout.temporaries.get(DEFAULT_SPACE)
    if number is None:
        return 0
    allocation = layout.allocations[number]
    if not any(_is_in_memory(flow, value) for value, _ in allocation.values):
        return 0
    return round_up(allocation.size, TPU_PAGE)


def _is_in_memory(flow: Dataflow, value: int) -> bool:
    """Whether a value is in memory: a TPU keeps tables and integer scalars elsewhere."""
    part = flow.values.parts[value]
    if part.is_tuple:
        return False
    shape = part.shape
    if shape.rank or shape.element_type[0] not in "sup":
        return not shape.is_token
    opcode = flow.table.opcodes[flow.values.places[value] // NODES]
    return opcode in ("fusion", "reduce")


def _laid(
    flow: Dataflow, allocations: Sequence[Allocation], notes: tuple[str, ...]
) -> MemoryLayout:
    """Return allocations and values as the layout that all memory passes take."""
    laid_allocations: list[LaidAllocation] = []
    laid_values: list[LaidValue] = []
    for index, allocation in enumerate(allocations):
        laid_allocations.append(_laid_allocation(flow, index, allocation))
        laid_values += _laid_values(flow, index, allocation)
    columns, values = flow.table.module.columns, flow.values
    unknown = sum(not part.is_known for part in values.parts)
    sized = (f"{unknown} values of unknown size count as 0 bytes",) if unknown else ()
    return MemoryLayout(
        source="estimate",
        allocations=tuple(laid_allocations),
        values=tuple(laid_values),
        schedule=[columns.name(row) for row in flow.schedule],
        is_complete=not flow.skipped and not unknown,
        notes=(*notes, *sized, *(f"not modelled: {what}" for what in flow.skipped)),
    )


def _laid_values(flow: Dataflow, index: int, allocation: Allocation) -> Iterator[LaidValue]:
    """Yield the values in an allocation."""
    columns, values = flow.table.module.columns, flow.values
    if allocation.row >= 0:
        name = columns.name(allocation.row)
        shape_text = str(flow.tree(allocation.row).parts[0].shape)
        yield LaidValue(f"{name}{{}}", name, (), index, 0, allocation.size, 0, flow.end, shape_text)
    for value, offset in allocation.values:
        row, node = divmod(values.places[value], NODES)
        name = columns.name(row)
        shape_index = flow.tree(row).index(node) if node else ()
        part = values.parts[value]
        yield LaidValue(
            f"{name}{{{','.join(map(str, shape_index))}}}" if node else f"{name}{{}}",
            name,
            shape_index,
            index,
            offset,
            part.size_bytes,
            values.starts[value],
            values.ends[value],
            part.text,
        )


def _laid_allocation(flow: Dataflow, index: int, allocation: Allocation) -> LaidAllocation:
    number: int | None = None
    shape_index: ShapeIndex = ()
    if allocation.parameter is not None:
        number, node = allocation.parameter
        row = flow.values.places[flow.parameter_values[number][0]] // NODES
        shape_index = flow.tree(row).index(node)
    category = "temp" if allocation.is_temp else _CATEGORIES[allocation.kind]
    return LaidAllocation(
        index=index,
        size=allocation.size,
        color=allocation.color,
        category=category,
        is_output=allocation.is_output,
        is_constant=allocation.kind == "constant",
        parameter_number=number,
        parameter_index=shape_index,
    )


def _live(laid: MemoryLayout, position: int) -> tuple[LiveValue, ...]:
    """Return the values of the default memory space alive at an instant, largest first.

    Of values that share bytes then, only the one that begins last is returned.
    """
    by_index = laid.by_index
    alive = [
        value
        for value in laid.values
        if value.size
        and value.start is not None
        and value.end is not None
        and value.start <= position <= value.end
        and by_index[value.allocation].color == DEFAULT_SPACE
        and by_index[value.allocation].category != "thread-local"
    ]
    alive.sort(key=lambda v: (v.allocation, v.offset, -(v.start or 0), -v.size, v.name))
    found = []
    reached = (-1, 0)
    for value in alive:
        low = max(value.offset, reached[1]) if reached[0] == value.allocation else value.offset
        high = value.offset + value.size
        if high > low:
            category = by_index[value.allocation].category
            found.append(
                LiveValue(
                    value=value.name,
                    size_bytes=high - low,
                    offset=low,
                    allocation=value.allocation,
                    category=category,
                    start=value.start or 0,
                    end=value.end or 0,
                )
            )
            reached = (value.allocation, high)
    return tuple(sorted(found, key=lambda v: (-v.size_bytes, v.value)))
