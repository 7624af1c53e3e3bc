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
    from collections.abc import Sequence

    from hlo_lens.buffers.estimate.heap_layout import Allocation
    from hlo_lens.buffers.estimate.values import Dataflow
    from hlo_lens.hlo.query import InstructionTable


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """Estimated memory of a module by the rules of a backend; notes say what is not modelled.

    `temp_bytes` are preallocated temporaries, as ``Compiled.memory_analysis()`` counts them.
    """

    backend: str
    temp_bytes: int
    layout: MemoryLayout = field(repr=False)


def why_no_estimate(table: InstructionTable, *, in_text_order: bool = False) -> str | None:
    """Return the reason that a module's text allows no estimate, or None."""
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

    A backend that is not told is taken from the text, and else ``cpu``; `target` is libtpu's
    description of the target, next to a dump. With `in_text_order`, a text without a schedule is
    assumed to run in its own order, in which every instruction follows its operands; the result is
    no bound.
    """
    module = table.module
    if why_no_estimate(table, in_text_order=in_text_order) is not None:
        return None
    rules = backend_rules(module, backend or backend_of_text(module, table.producers), target)
    flow = dataflow(table, rules.measure, rules.color, rules.whole)
    try:
        allocations = heap_layout(flow, BufferSharing(flow, rules.backend), rules.layout)
    except TooLargeError:
        return None
    return MemoryEstimate(
        backend=rules.backend,
        temp_bytes=_temp_bytes(flow, rules, allocations),
        layout=_laid(flow, allocations, rules.notes),
    )


def _temp_bytes(flow: Dataflow, rules: BackendRules, allocations: Sequence[Allocation]) -> int:
    temps = [a for a in allocations if a.is_temp and a.color != HOST_SPACE]
    if rules.backend != "tpu":
        return sum(a.size for a in temps)
    temps = [a for a in temps if a.color == DEFAULT_SPACE]
    is_in_memory = any(_is_in_memory(flow, value) for a in temps for value, _ in a.values)
    return round_up(sum(a.size for a in temps), TPU_PAGE) if is_in_memory else 0


def _is_in_memory(flow: Dataflow, value: int) -> bool:
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
    columns, values = flow.table.module.columns, flow.values
    held: list[LaidAllocation] = []
    laid: list[LaidValue] = []
    for index, one in enumerate(allocations):
        category = "temp" if one.is_temp else one.kind
        number = None if one.parameter is None else one.parameter[0]
        held.append(LaidAllocation(index, one.size, one.color, category, one.is_output, number))
        if one.row >= 0:  # a thread-local result
            name, part = columns.name(one.row), flow.tree(one.row).parts[0]
            text = str(part.shape) if part.is_tuple else part.text
            laid.append(LaidValue(f"{name}{{}}", name, index, 0, one.size, 0, flow.end, text))
        for value, offset in one.values:
            part = values.parts[value]
            name, maker = _value_name(flow, value)
            span = values.starts[value], values.ends[value]
            laid.append(LaidValue(name, maker, index, offset, part.size_bytes, *span, part.text))
    unknown = sum(not part.is_known for part in values.parts)
    sized = (f"{unknown} values of unknown size count as 0 bytes",) if unknown else ()
    return MemoryLayout(
        source="estimate",
        allocations=tuple(held),
        values=tuple(laid),
        schedule=[columns.name(row) for row in flow.schedule],
        is_complete=not flow.skips and not unknown,
        notes=(*notes, *sized, *(f"not modelled: {k} ({n} times)" for k, n in flow.skips.items())),
    )


def _value_name(flow: Dataflow, value: int) -> tuple[str, str]:
    row, node = divmod(flow.values.places[value], NODES)
    name = flow.table.module.columns.name(row)
    index = ",".join(map(str, flow.tree(row).index(node))) if node else ""
    return f"{name}{{{index}}}", name


def live_ranges(table: InstructionTable, *, backend: str | None = None) -> LiveRanges | None:
    """Return the live ranges of values; None if the text has no schedule."""
    if why_no_estimate(table) is not None:
        return None
    rules = backend_rules(table.module, backend or backend_of_text(table.module, table.producers))
    flow = dataflow(table, rules.measure, rules.color)
    spans = zip(flow.values.starts, flow.values.ends, strict=True)
    return LiveRanges(
        schedule=[table.module.columns.name(row) for row in flow.schedule],
        ranges={_value_name(flow, value)[0]: span for value, span in enumerate(spans)},
        is_complete=not flow.skips,
    )
