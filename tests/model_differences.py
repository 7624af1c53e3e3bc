"""The first difference between two models of one text, by single facts in the order of the text.

Two readers of one text give equal models exactly if their facts are equal, one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

from hlo_lens.buffers.assignment import BufferAssignment, BufferValues
from hlo_lens.buffers.live_range import HloLiveRange
from hlo_lens.hlo.module import HloModule
from hlo_lens.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hlo_lens.hlo.module import HloInstruction

_LONGEST = 200
"""Characters of a value that are kept for the report."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One field of one part of a model.

    Attributes:
        place: The part: ``main/add.3``, ``allocation 5``, ``header``.
        field: Name of the field.
        value: Its value.
        line: Returns the 1-based line of the part; None where it has no line of its own.
    """

    place: str
    field: str
    value: object
    line: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDifference:
    """The first fact in which two models of one text differ: place and field as in `Fact`.

    Attributes:
        line: 1-based line; None where the part has none.
        first: Value in the first model, as text.
        second: Value in the second model.
    """

    place: str
    field: str
    line: int | None
    first: str
    second: str


def first_fact_difference(first: object, second: object) -> FactDifference | None:
    """Return the first fact in which two models differ; None where they are equal."""
    end = Fact("end of the text", "end", None)
    for one, two in zip_longest(facts_of(first), facts_of(second), fillvalue=end):
        if (one.place, one.field) == (two.place, two.field) and one.value == two.value:
            continue
        shown = two if one is end else one
        line = next((fact.line() for fact in (one, two) if fact.line is not None), None)
        is_same_field = (one.place, one.field) == (two.place, two.field)
        return FactDifference(
            place=shown.place,
            field=shown.field,
            line=line,
            first=_text(one.value if is_same_field else one.place),
            second=_text(two.value if is_same_field else two.place),
        )
    return None


def facts_of(model: object) -> Iterator[Fact]:
    """Yield the facts of a model."""
    if isinstance(model, HloModule):
        yield from _module_facts(model)
    elif isinstance(model, BufferAssignment):
        yield from _assignment_facts(model)
    elif isinstance(model, BufferValues):
        yield from _value_facts(model)
    elif isinstance(model, HloLiveRange):
        yield from _range_facts(model)
    else:
        yield from _record_facts(model, "")


def _module_facts(module: HloModule) -> Iterator[Fact]:
    yield Fact("header", "name", module.name)
    for name, value in module.header.items():
        yield Fact("header", name, value)
    yield Fact("stack frame tables", "rows", module.stack_frames)
    for computation in module.computations:
        place = computation.name or "(no name)"
        yield Fact(place, "is_entry", computation.is_entry)
        yield Fact(place, "attributes", computation.attributes_text)
        for instruction in computation.instructions:
            yield from _instruction_facts(place, instruction)


def _instruction_facts(computation: str, instruction: HloInstruction) -> Iterator[Fact]:
    place = f"{computation}/{instruction.name}"
    has_operands = not opcode_traits(instruction.opcode).is_printed_value
    attributes = instruction.attribute_list
    cells: tuple[tuple[str, object], ...] = (
        ("is_root", instruction.is_root),
        ("opcode", instruction.opcode),
        ("shape", instruction.shape),
        ("operands", instruction.operands if has_operands else instruction.operand_text),
        ("attributes", attributes),
        ("called_computations", instruction.called_computations),
    )

    for name, value in cells:
        yield Fact(place, name, value, lambda: instruction.line)
    names = {name for name, _ in attributes}
    if "sharding" in names:
        yield Fact(place, "sharding", instruction.sharding, lambda: instruction.line)
    if "replica_groups" in names:
        yield Fact(place, "replica_groups", instruction.device_list, lambda: instruction.line)


_ALLOCATION = (
    *("size", "color", "page_id", "parameter_number", "param_shape_index", "parameter_shape_text"),
    *("output_shape_text", "is_constant", "is_thread_local", "maybe_live_out"),
    *("is_preallocated_temp", "other"),
)
_VALUE = ("instruction_name", "index", "is_phi", "color")
_ASSIGNED = (*_VALUE, "size", "offset", "shape_text")
_USED = (*_VALUE, "positions", "uses", "instruction_text")


def _assignment_facts(assignment: BufferAssignment) -> Iterator[Fact]:
    for allocation in assignment.allocations:
        place = f"allocation {allocation.index}"
        yield from _view_facts(place, allocation, _ALLOCATION)
        for value in allocation.values:
            yield from _view_facts(f"{place}, value {value.id}", value, _ASSIGNED)
        for reused in allocation.reused:
            names = (*_VALUE, "allocation_color")
            yield from _view_facts(f"{place}, value {reused.id}", reused, names)
    if assignment.values is not None:
        yield from _value_facts(assignment.values)


def _value_facts(values: BufferValues) -> Iterator[Fact]:
    yield Fact("used values", "total_bytes", values.total_bytes)
    yield Fact("used values", "total_text", values.total_text)
    for value in values:
        yield from _view_facts(f"used value {value.id}", value, _USED)


class _View(Protocol):
    """A view of an allocation or a value."""

    @property
    def line(self) -> int:
        """1-based line in the file."""


def _view_facts(place: str, view: _View, names: Iterable[str]) -> Iterator[Fact]:
    for name in names:
        yield Fact(place, name, getattr(view, name), lambda: view.line)


def _range_facts(ranges: HloLiveRange) -> Iterator[Fact]:
    for name in ("schedule_end_time", "is_available", "peak_moment", "is_peak_undetermined"):
        yield Fact("live range", name, getattr(ranges, name))
    for time, name in zip(
        ranges.columns.scheduled_times, ranges.flattened_instruction_sequence, strict=True
    ):
        yield Fact(f"position {time}", "instruction", name)
    for row, found in enumerate(ranges.buffer_live_ranges):
        yield Fact(f"range {row}", "name", found.name)
        yield Fact(f"range {row}", "bounds", found.bounds)
    for row, value in enumerate(ranges.peak_values):
        yield Fact(f"value {row} at the peak", "value", value)
    yield Fact("stack trace", "stack_trace_bytes", ranges.stack_trace_bytes)
    for row, node in enumerate(ranges.stack_trace):
        yield Fact(f"stack trace {row}", "node", node)


def _record_facts(record: object, place: str) -> Iterator[Fact]:
    """Yield the compared fields of a dataclass, inner records one by one."""
    if not is_dataclass(record):
        yield Fact(place, "value", record)
        return
    for field in fields(record):
        value = getattr(record, field.name)
        inner = f"{place}/{field.name}".lstrip("/")
        if not field.compare:
            continue
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            for number, item in enumerate(value):
                yield from _record_facts(item, f"{inner} {number}")
        else:
            yield Fact(place or "text", field.name, value)


def _text(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
