"""Limit of the estimates of memory that are computed together with other results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.dataflow import dataflow
from hlo_lens.buffers.estimate.heap_layout import TooLargeError, heap_layout
from hlo_lens.buffers.estimate.rules import TPU_PAGE, BackendRules, backend_rules, round_up
from hlo_lens.buffers.estimate.values import NODES, BufferSharing
from hlo_lens.buffers.live_range import LiveRanges
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.summary import backend_of_text, undefined_names
from hlo_lens.questions.memory.layout import DEFAULT_SPACE, LaidAllocation, LaidValue, MemoryLayout
from hlo_lens.shapes.shape import HOST_SPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.buffers.estimate.heap_layout import Allocation, HeapLayout
    from hlo_lens.buffers.estimate.values import Dataflow
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.shape import Shape


_CATEGORIES = {
    "parameter": "argument",
    "constant": "constant",
    "thread-local": "thread-local",
    "output": "output",
    "tuple": "output",
    "heap": "temp",
}


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Estimated memory of a module.

    Attributes:
        backend: Backend whose rules were applied: ``cpu``, ``gpu`` or ``tpu``.
        temp_bytes: Preallocated temporaries, as ``Compiled.memory_analysis()`` counts them.
        layout: All allocations and values; its notes describe what is not modelled.
    """

    backend: str
    temp_bytes: int
    layout: MemoryLayout = field(repr=False)


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


TOO_LARGE = "its values are larger than the memory that XLA simulates"
"""Reason that an estimate of a text that allows one fails."""


def memory_estimate(
    table: InstructionTable,
    *,
    backend: str | None = None,
    target: str | None = None,
    in_text_order: bool = False,
) -> MemoryEstimate | None:
    """Return the memory of a module, or None for a reason that `why_no_estimate` returns.

    None as well where values are larger than any memory, as in damaged texts.

    Args:
        table: The module.
        backend: ``cpu``, ``gpu`` or ``tpu``; None to take it from the text, and else ``cpu``.
        target: libtpu's description of the target, next to a dump; None if there is none.
        in_text_order: Whether a text without a schedule is assumed to run in its own order, in
            which every instruction follows its operands; the result is no bound.
    """
    module = table.module
    if why_no_estimate(table, in_text_order=in_text_order) is not None:
        return None
    rules = backend_rules(module, backend or backend_of_text(module, table.producers), target)
    flow = dataflow(table, rules.measure, rules.color, rules.whole)
    try:
        heaps = heap_layout(flow, BufferSharing(flow, rules.backend), rules.layout)
    except TooLargeError:
        return None
    return MemoryEstimate(
        backend=rules.backend,
        temp_bytes=_temp_bytes(flow, rules, heaps),
        layout=_laid(flow, heaps.allocations, rules.notes),
    )


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


def _temp_bytes(flow: Dataflow, rules: BackendRules, layout: HeapLayout) -> int:
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
    return opcode_traits(opcode).is_stored_scalar


def _laid(
    flow: Dataflow, allocations: Sequence[Allocation], notes: tuple[str, ...]
) -> MemoryLayout:
    numbered = list(enumerate(allocations))
    columns, values = flow.table.module.columns, flow.values
    unknown = sum(not part.is_known for part in values.parts)
    sized = (f"{unknown} values of unknown size count as 0 bytes",) if unknown else ()
    return MemoryLayout(
        source="estimate",
        allocations=tuple(_laid_allocation(index, one) for index, one in numbered),
        values=tuple(value for index, one in numbered for value in _laid_values(flow, index, one)),
        schedule=[columns.name(row) for row in flow.schedule],
        is_complete=not flow.skipped and not unknown,
        notes=(*notes, *sized, *(f"not modelled: {what}" for what in flow.skipped)),
    )


def _laid_values(flow: Dataflow, index: int, allocation: Allocation) -> Iterator[LaidValue]:
    columns, values = flow.table.module.columns, flow.values
    if allocation.row >= 0:
        name = columns.name(allocation.row)
        part = flow.tree(allocation.row).parts[0]
        shape_text = str(part.shape) if part.is_tuple else part.text
        yield LaidValue(f"{name}{{}}", name, index, 0, allocation.size, 0, flow.end, shape_text)
    for value, offset in allocation.values:
        row, node = divmod(values.places[value], NODES)
        name = columns.name(row)
        shape_index = flow.tree(row).index(node) if node else ()
        part = values.parts[value]
        yield LaidValue(
            f"{name}{{{','.join(map(str, shape_index))}}}" if node else f"{name}{{}}",
            name,
            index,
            offset,
            part.size_bytes,
            values.starts[value],
            values.ends[value],
            part.text,
        )


def _laid_allocation(index: int, allocation: Allocation) -> LaidAllocation:
    return LaidAllocation(
        index=index,
        size=allocation.size,
        color=allocation.color,
        category="temp" if allocation.is_temp else _CATEGORIES[allocation.kind],
        is_output=allocation.is_output,
        parameter_number=None if allocation.parameter is None else allocation.parameter[0],
    )


def live_ranges(table: InstructionTable, *, backend: str | None = None) -> LiveRanges | None:
    """Return the live ranges of values; None if the text has no schedule.

    Args:
        table: The module.
        backend: ``cpu``, ``gpu`` or ``tpu`` if the caller knows it.
    """
    if why_no_estimate(table) is not None:
        return None
    flow = dataflow(table, *sizes_of(table, backend))
    name_of = flow.table.module.columns.name
    ranges: dict[str, tuple[int, int]] = {}
    values = flow.values
    for place, start, end in zip(values.places, values.starts, values.ends, strict=True):
        row, node = divmod(place, NODES)
        index = flow.tree(row).index(node) if node else ()
        ranges[f"{name_of(row)}{{{','.join(map(str, index))}}}"] = (start, end)
    return LiveRanges(
        schedule=[name_of(row) for row in flow.schedule],
        ranges=ranges,
        is_complete=not flow.skipped,
    )
