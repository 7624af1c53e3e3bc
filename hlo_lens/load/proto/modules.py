"""HloModuleProto to the text that XLA would print.

The text lacks what a proto lacks: ``num_partitions`` and ``replica_count``, unless it has a device
assignment, and propagation to parameters. XLA's text of 2026 has no get-tuple-element instructions;
this text has them.

Mirrors xla/hlo/ir/hlo_module.cc and hlo_computation.cc (Print), as of August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.load.proto.opcode_attributes import DIMENSIONS_FIRST, OPCODE_PRINTERS
from hlo_lens.load.proto.parts import (
    PartPrinter,
    accuracy_text,
    frontend_text,
    quoted,
    statistics_text,
)
from hlo_lens.load.proto.values import literal_text, numbers, with_counts, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Attribute = tuple[str, str]


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
            f"{numbers(entry.output_shape_index)}: ({entry.parameter_number}, "
            f"{numbers(entry.parameter_shape_index)}, {_KINDS.get(entry.kind, 'may-alias')})"
            for entry in module.input_output_alias.entries
        )
        yield "input_output_alias", f"{{ {', '.join(entries)} }}"
    if module.buffer_donor.entries:
        entries = (
            f"({entry.parameter_number}, {numbers(entry.parameter_shape_index)})"
            for entry in module.buffer_donor.entries
        )
        yield "buffer_donor", f"{{ {', '.join(entries)} }}"
    if module.HasField("host_program_shape"):
        shape = module.host_program_shape
        text = printer.parts.shapes.text
        inner = with_counts([text(parameter) for parameter in shape.parameters])
        yield "entry_computation_layout", f"{{({inner})->{text(shape.result)}}}"
    assigned = module.device_assignment
    if assigned.replica_count > 1:
        yield "replica_count", str(assigned.replica_count)
    if assigned.computation_count > 1:
        yield "num_partitions", str(assigned.computation_count)
    if module.frontend_attributes.map:
        yield "frontend_attributes", frontend_text(module.frontend_attributes.map)


def _tables(index: Any) -> list[str]:
    if not index.file_names:
        return []
    lines = ["FileNames", *(f"{k} {quoted(n)}" for k, n in enumerate(index.file_names, 1)), ""]
    functions = (f"{k} {quoted(n)}" for k, n in enumerate(index.function_names, 1))
    lines += ["FunctionNames", *functions, "", "FileLocations"]
    names = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
    for number, place in enumerate(index.file_locations, 1):
        cells = " ".join(f"{name}={getattr(place, name)}" for name in names)
        lines.append(f"{number} {{{cells}}}")
    lines += ["", "StackFrames"]  # XLA prints parents plus one
    for number, frame in enumerate(index.stack_frames, 1):
        parent = frame.parent_frame_id + 1
        location = frame.file_location_id
        lines.append(f"{number} {{file_location_id={location} parent_frame_id={parent}}}")
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


class InstructionPrinter:
    """Prints the instructions of one module.

    Args:
        module: A HloModuleProto.
    """

    def __init__(self, module: Any) -> None:
        self.parts = PartPrinter(module)

    def line(self, instruction: Any, *, is_root: bool) -> str:
        """Return one line of a computation, without indentation."""
        head = (
            f"{'ROOT ' if is_root else ''}%{words(instruction.name)} = "
            f"{self.parts.shapes.text(instruction.shape)} {words(instruction.opcode)}"
            f"({self._operands(instruction)})"
        )
        attributes = (*self._own(instruction), *self._called(instruction))
        listed = (*attributes, *self._of_all(instruction))
        return head + "".join(f", {name}={value}" for name, value in listed)

    def _operands(self, instruction: Any) -> str:
        if instruction.opcode == b"parameter":
            return str(instruction.parameter_number)
        if instruction.opcode == b"constant":
            return literal_text(instruction.literal) if instruction.HasField("literal") else "{...}"
        name = self.parts.names.instruction
        return ", ".join(f"%{name(number)}" for number in instruction.operand_ids)

    def _of_all(self, instruction: Any) -> Iterator[Attribute]:
        if instruction.HasField("sharding"):
            yield "sharding", self.parts.sharding(instruction.sharding)
        if instruction.frontend_attributes.map:
            yield "frontend_attributes", frontend_text(instruction.frontend_attributes.map)
        if instruction.control_predecessor_ids:
            listed = (self.parts.names.instruction(n) for n in instruction.control_predecessor_ids)
            yield "control-predecessors", f"{{{', '.join(f'%{name}' for name in listed)}}}"
        if instruction.statistics_viz.statistics:
            yield "statistics", statistics_text(instruction.statistics_viz)
        if text := accuracy_text(instruction.result_accuracy):
            yield "result_accuracy", text
        if text := self.parts.metadata(instruction.metadata):
            yield "metadata", f"{{{text}}}"
        config = instruction.backend_config
        if not config and instruction.HasField("backend_config_payload"):
            config = self.parts.names.payload(instruction.backend_config_payload)
        if config:
            yield "backend_config", self.parts.config(config)

    def _own(self, instruction: Any) -> Iterator[Attribute]:
        opcode = words(instruction.opcode)
        if opcode in DIMENSIONS_FIRST:
            yield "dimensions", numbers(instruction.dimensions)
        for printer in OPCODE_PRINTERS.get(opcode.removesuffix("-start"), ()):
            yield from printer(self.parts, instruction)

    def _called(self, instruction: Any) -> Iterator[Attribute]:
        called = [f"%{self.parts.names.computation(n)}" for n in instruction.called_computation_ids]
        opcode = words(instruction.opcode)
        if not called:
            return
        if opcode == "while" and len(called) == 2:
            yield "condition", called[1]
            yield "body", called[0]
        elif opcode == "select-and-scatter" and len(called) == 2:
            yield "select", called[0]
            yield "scatter", called[1]
        elif opcode == "conditional":
            yield from self._branches(instruction, called)
        elif opcode == "custom-call":
            yield "called_computations", f"{{{', '.join(called)}}}"
        elif opcode in ("fusion", "async-start"):
            yield "calls", ", ".join(called)
        elif opcode not in ("async-update", "async-done"):
            yield "to_apply", ", ".join(called)
            if instruction.is_composite:
                yield "is_composite", "true"

    def _branches(self, instruction: Any, called: list[str]) -> Iterator[Attribute]:
        number = next(iter(instruction.operand_ids), None)
        if len(called) == 2 and number in self._predicates():
            yield "true_computation", called[0]
            yield "false_computation", called[1]
        else:
            yield "branch_computations", f"{{{', '.join(called)}}}"

    def _predicates(self) -> set[int]:
        """Return the ids of the instructions whose result is a pred."""
        return {
            instruction.id
            for computation in self.parts.names.computations.values()
            for instruction in computation.instructions
            if instruction.shape.element_type == 1
        }
