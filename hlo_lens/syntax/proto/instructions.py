"""Instructions of protos, as XLA prints them: attributes of the opcode, then general ones.

Mirrors xla/hlo/ir/hlo_instruction.cc (PrintExtraAttributes, PrintWithCanonicalNameMap), as of
August 2026. Async instructions are printed as in dumps since 2024, with the computation that they
call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.syntax.proto.attribute_texts import accuracy_text, frontend_text, statistics_text
from hlo_lens.syntax.proto.opcode_attributes import DIMENSIONS_FIRST, OPCODE_PRINTERS
from hlo_lens.syntax.proto.parts import PartPrinter
from hlo_lens.syntax.proto.values import literal_text, numbers, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    Attribute = tuple[str, str]


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
        return head + "".join(f", {name}={value}" for name, value in self.attributes(instruction))

    def _operands(self, instruction: Any) -> str:
        if instruction.opcode == b"parameter":
            return str(instruction.parameter_number)
        if instruction.opcode == b"constant":
            return literal_text(instruction.literal) if instruction.HasField("literal") else "{...}"
        name = self.parts.names.instruction
        return ", ".join(f"%{name(number)}" for number in instruction.operand_ids)

    def attributes(self, instruction: Any) -> Iterator[Attribute]:
        """Yield names and values of the attributes, in XLA's order."""
        yield from self._own(instruction)
        yield from self._called(instruction)
        yield from self._of_all(instruction)

    def _of_all(self, instruction: Any) -> Iterator[Attribute]:
        if instruction.HasField("sharding"):
            yield "sharding", self.parts.sharding(instruction.sharding)
        yield from self._frontend(instruction)
        if instruction.control_predecessor_ids:
            listed = (self.parts.names.instruction(n) for n in instruction.control_predecessor_ids)
            yield "control-predecessors", f"{{{', '.join(f'%{name}' for name in listed)}}}"
        if instruction.statistics_viz.statistics:
            yield "statistics", statistics_text(instruction.statistics_viz)
        if instruction.HasField("result_accuracy"):
            text = accuracy_text(instruction.result_accuracy)
            if text:
                yield "result_accuracy", text
        if instruction.HasField("metadata"):
            text = self.parts.metadata(instruction.metadata)
            if text:
                yield "metadata", f"{{{text}}}"
        config = instruction.backend_config
        if not config and instruction.HasField("backend_config_payload"):
            config = self.parts.names.payload(instruction.backend_config_payload)
        if config:
            yield "backend_config", self.parts.config(config)

    def _frontend(self, instruction: Any) -> Iterator[Attribute]:
        pairs = instruction.frontend_attributes.map
        if pairs:
            yield "frontend_attributes", frontend_text(pairs)

    # ---- attributes of single opcodes ----------------------------------------------------------

    def _own(self, instruction: Any) -> Iterator[Attribute]:
        """Yield the attributes of the instruction's class."""
        opcode = words(instruction.opcode)
        if opcode in DIMENSIONS_FIRST:
            yield "dimensions", numbers(instruction.dimensions)
        printers = OPCODE_PRINTERS.get(opcode.removesuffix("-start"), ())
        for printer in printers:
            yield from printer(self.parts, instruction)

    def _called(self, instruction: Any) -> Iterator[Attribute]:
        """Yield the computations that an instruction calls."""
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
        is_pred = len(called) == 2 and number in self._predicates()
        if is_pred:
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
