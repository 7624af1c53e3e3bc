"""HloModuleProto to the text that XLA would print.

The text lacks what a proto lacks: ``num_partitions`` and ``replica_count``, unless it has a device
assignment, and propagation to parameters. XLA's text of 2026 has no get-tuple-element instructions;
this text has them.

Mirrors xla/hlo/ir/hlo_module.cc and hlo_computation.cc (Print), as of August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.syntax.proto.attribute_texts import frontend_text, index_text, quoted
from hlo_lens.syntax.proto.instructions import InstructionPrinter
from hlo_lens.syntax.proto.values import with_counts, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KINDS = {1: "may-alias", 2: "must-alias"}


def module_text(module: Any) -> str:
    """Return the HLO text of a HloModuleProto.

    Raises:
        ValueError: If it refers to a missing computation or instruction.
    """
    printer = InstructionPrinter(module)
    parts = [f"HloModule {words(module.name)}"]
    parts += [f"{name}={value}" for name, value in _header(module, printer)]
    lines = [", ".join(parts), "", *_tables(module.stack_frame_index)]
    schedules = {entry.key: entry.value.instruction_ids for entry in module.schedule.sequences}
    for computation in _printed_computations(module):
        lines += _computation(module, computation, schedules.get(computation.id, ()), printer)
    return "\n".join(lines)


def _header(module: Any, printer: InstructionPrinter) -> Iterator[tuple[str, str]]:
    if module.HasField("schedule") and module.schedule.sequences:
        yield "is_scheduled", "true"
    if module.input_output_alias.entries:
        entries = (
            f"{index_text(entry.output_shape_index)}: ({entry.parameter_number}, "
            f"{index_text(entry.parameter_shape_index)}, {_KINDS.get(entry.kind, 'may-alias')})"
            for entry in module.input_output_alias.entries
        )
        yield "input_output_alias", f"{{ {', '.join(entries)} }}"
    if module.buffer_donor.entries:
        entries = (
            f"({entry.parameter_number}, {index_text(entry.parameter_shape_index)})"
            for entry in module.buffer_donor.entries
        )
        yield "buffer_donor", f"{{ {', '.join(entries)} }}"
    if module.HasField("host_program_shape"):
        shape = module.host_program_shape
        inner = with_counts(
            [printer.parts.shapes.text(parameter) for parameter in shape.parameters]
        )
        yield (
            "entry_computation_layout",
            f"{{({inner})->{printer.parts.shapes.text(shape.result)}}}",
        )
    assigned = module.device_assignment
    for name, count in (
        ("replica_count", assigned.replica_count),
        ("num_partitions", assigned.computation_count),
    ):
        if count > 1:
            yield name, str(count)
    if module.frontend_attributes.map:
        yield "frontend_attributes", frontend_text(module.frontend_attributes.map)


def _tables(index: Any) -> list[str]:
    """Return the stack frame tables; empty where there are none."""
    if not index.file_names:
        return []
    lines = ["FileNames", *(f"{k} {quoted(n)}" for k, n in enumerate(index.file_names, 1)), ""]
    lines += ["FunctionNames"]
    lines += [*(f"{k} {quoted(n)}" for k, n in enumerate(index.function_names, 1)), ""]
    lines += ["FileLocations"]
    names = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
    for number, place in enumerate(index.file_locations, 1):
        cells = " ".join(f"{name}={getattr(place, name)}" for name in names)
        lines.append(f"{number} {{{cells}}}")
    lines += ["", "StackFrames"]  # XLA prints parents plus one
    for number, frame in enumerate(index.stack_frames, 1):
        cells = (
            f"file_location_id={frame.file_location_id} parent_frame_id={frame.parent_frame_id + 1}"
        )
        lines.append(f"{number} {{{cells}}}")
    return [*lines, "", ""]


def _printed_computations(module: Any) -> Iterator[Any]:
    """Yield the computations in the order of the text: each after all that it calls.

    Source: HloModule::MakeComputationPostOrder, which visits instructions by their id.
    """
    by_id = {computation.id: computation for computation in module.computations}
    calls = {number: list(_calls(computation)) for number, computation in by_id.items()}
    called = {number for numbers in calls.values() for number in numbers}
    seen: set[int] = set()
    for root in (number for number in by_id if number not in called):
        seen.add(root)
        path = [(root, iter(calls[root]))]
        while path:
            number, rest = path[-1]
            following = next((n for n in rest if n in by_id and n not in seen), None)
            if following is None:
                yield by_id[number]
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(calls[following])))
    yield from (by_id[number] for number in by_id if number not in seen)


def _calls(computation: Any) -> Iterator[int]:
    for instruction in sorted(computation.instructions, key=lambda one: one.id):
        yield from instruction.called_computation_ids


def _computation(
    module: Any, computation: Any, schedule: Sequence[int], printer: InstructionPrinter
) -> Iterator[str]:
    """Yield the lines of a computation, in the order of the schedule if there is one."""
    instructions = list(computation.instructions)
    if schedule:
        by_id = {instruction.id: instruction for instruction in instructions}
        if len(schedule) != len(by_id) or any(number not in by_id for number in schedule):
            raise ValueError(
                f"the schedule of {words(computation.name)} does not match its instructions"
            )
        instructions = [by_id[number] for number in schedule]
    shape = computation.program_shape
    parameters = sorted(
        (i for i in instructions if i.opcode == b"parameter"), key=lambda i: i.parameter_number
    )
    listed = [
        f"{words(i.name)}: {printer.parts.shapes.text(i.shape, layout=False)}" for i in parameters
    ]
    entry = "ENTRY " if computation.id == module.entry_computation_id else ""
    result = printer.parts.shapes.text(shape.result, layout=False)
    yield f"{entry}%{words(computation.name)} ({', '.join(listed)}) -> {result} {{"
    for instruction in instructions:
        is_root = instruction.id == computation.root_id
        yield f"  {printer.line(instruction, is_root=is_root)}"
    thread = computation.execution_thread
    yield "}" + (f", execution_thread={quoted(thread)}" if thread not in (b"", b"main") else "")
    yield ""
