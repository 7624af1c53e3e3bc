"""Instructions of protos, as XLA prints them: the attributes of each opcode, then those of all.

Mirrors xla/hlo/ir/hlo_instruction.cc (PrintExtraAttributes, PrintWithCanonicalNameMap), as of
August 2026. Async instructions are printed as dumps have them since 2024, with the computation that
they call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlo_lens.syntax.proto.attribute_texts import (
    accuracy_text,
    frontend_text,
    quoted,
    statistics_text,
)
from hlo_lens.syntax.proto.opcode_attributes import DIMENSIONS_FIRST, OPCODE_PRINTERS
from hlo_lens.syntax.proto.values import (
    ShapePrinter,
    literal_text,
    numbers,
    sharding_text,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Attribute = tuple[str, str]


class Names:
    """Names of a module's instructions and computations by id, and its table of payloads."""

    def __init__(self, module: Any) -> None:
        self.computations = {c.id: c for c in module.computations}
        self.instructions: dict[int, str] = {}
        for computation in module.computations:
            for instruction in computation.instructions:
                self.instructions[instruction.id] = words(instruction.name)
        self.payloads: Sequence[bytes] = module.payloads

    def computation(self, number: int) -> str:
        """Return the name of a computation; raises ValueError where there is none."""
        found = self.computations.get(number)
        if found is None:
            message = f"computation {number} is called, but it is not there"
            raise ValueError(message)
        return words(found.name)

    def instruction(self, number: int) -> str:
        """Return the name of an instruction; raises ValueError where there is none."""
        found = self.instructions.get(number)
        if found is None:
            message = f"instruction {number} is an operand, but it is not there"
            raise ValueError(message)
        return found

    def payload(self, message: Any) -> bytes:
        """Return the bytes of a payload, its own or those of the module's table."""
        if message.value:
            return bytes(message.value)
        return self.payloads[message.id - 1] if 0 < message.id <= len(self.payloads) else b""


class InstructionPrinter:
    """Prints the instructions of one module.

    Args:
        module: A HloModuleProto.
    """

    def __init__(self, module: Any) -> None:
        self.names = Names(module)
        self.shapes = ShapePrinter()
        self._metadata: dict[bytes, str] = {}
        self._shardings: dict[bytes, str] = {}
        self._configs: dict[bytes, str] = {}

    def line(self, instruction: Any, *, is_root: bool) -> str:
        """Return one line of a computation, without indentation."""
        head = (
            f"{'ROOT ' if is_root else ''}%{words(instruction.name)} = "
            f"{self.shapes.text(instruction.shape)} {words(instruction.opcode)}"
            f"({self._operands(instruction)})"
        )
        return head + "".join(f", {name}={value}" for name, value in self.attributes(instruction))

    def _operands(self, instruction: Any) -> str:
        if instruction.opcode == b"parameter":
            return str(instruction.parameter_number)
        if instruction.opcode == b"constant":
            return literal_text(instruction.literal) if instruction.HasField("literal") else "{...}"
        name = self.names.instruction
        return ", ".join(f"%{name(number)}" for number in instruction.operand_ids)

    def attributes(self, instruction: Any) -> Iterator[Attribute]:
        """Yield names and values of the attributes, in XLA's order."""
        yield from self._own(instruction)
        yield from self._called(instruction)
        yield from self._of_all(instruction)

    def _of_all(self, instruction: Any) -> Iterator[Attribute]:
        if instruction.HasField("sharding"):
            yield "sharding", self.sharding(instruction.sharding)
        yield from self._frontend(instruction)
        if instruction.control_predecessor_ids:
            listed = (self.names.instruction(n) for n in instruction.control_predecessor_ids)
            yield "control-predecessors", f"{{{', '.join(f'%{name}' for name in listed)}}}"
        if instruction.statistics_viz.statistics:
            yield "statistics", statistics_text(instruction.statistics_viz)
        if instruction.HasField("result_accuracy"):
            text = accuracy_text(instruction.result_accuracy)
            if text:
                yield "result_accuracy", text
        if instruction.HasField("metadata"):
            text = self.metadata(instruction.metadata)
            if text:
                yield "metadata", f"{{{text}}}"
        config = instruction.backend_config
        if not config and instruction.HasField("backend_config_payload"):
            config = self.names.payload(instruction.backend_config_payload)
        if config:
            yield "backend_config", self._config(config)

    def _config(self, data: bytes) -> str:
        """Return a backend config: as it is where it is an object, else in quotes."""
        if data not in self._configs:
            is_object = data[:1] == b"{" and data.rstrip()[-1:] == b"}"
            self._configs[data] = words(data) if is_object else quoted(data)
        return self._configs[data]

    def _frontend(self, instruction: Any) -> Iterator[Attribute]:
        pairs = instruction.frontend_attributes.map
        if pairs:
            yield "frontend_attributes", frontend_text(pairs)

    def sharding(self, sharding: Any) -> str:
        """Return an OpSharding, braces included."""
        key = sharding.SerializeToString(deterministic=True)
        if key not in self._shardings:
            self._shardings[key] = sharding_text(sharding, self.metadata)
        return self._shardings[key]

    def metadata(self, metadata: Any) -> str:
        """Return an OpMetadata, without braces; empty where it says nothing that is printed."""
        key = metadata.SerializeToString(deterministic=True)
        if key not in self._metadata:
            self._metadata[key] = self._metadata_text(metadata)
        return self._metadata[key]

    def _metadata_text(self, metadata: Any) -> str:
        payload = self.names.payload(metadata.metadata_payload)
        parts = [
            f"{name}={quoted(getattr(metadata, name))}"
            for name in ("op_type", "op_name", "source_file")
            if getattr(metadata, name)
        ]
        places = ("source_line", "source_end_line", "source_column", "source_end_column")
        parts += [f"{name}={n}" for name in places if (n := getattr(metadata, name))]
        if metadata.deduplicated_name and parts:
            parts.append(f"deduplicated_name={quoted(metadata.deduplicated_name)}")
        if metadata.scheduling_name:
            parts.append(f'scheduling_name="{words(metadata.scheduling_name)}"')
        if metadata.stack_frame_id:
            parts.append(f"stack_frame_id={metadata.stack_frame_id}")
        if payload:
            parts.append(f"metadata_payload={quoted(payload)}")
        return " ".join(parts)

    # ---- attributes of single opcodes ----------------------------------------------------------

    def _own(self, instruction: Any) -> Iterator[Attribute]:
        """Yield the attributes of an instruction's own class."""
        opcode = words(instruction.opcode)
        if opcode in DIMENSIONS_FIRST:
            yield "dimensions", numbers(instruction.dimensions)
        printers = OPCODE_PRINTERS.get(opcode.removesuffix("-start"), ())
        for printer in printers:
            yield from printer(self, instruction)

    def _called(self, instruction: Any) -> Iterator[Attribute]:
        """Yield the computations that an instruction calls."""
        called = [f"%{self.names.computation(n)}" for n in instruction.called_computation_ids]
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
        """Return the instructions whose result is one pred."""
        return {
            instruction.id
            for computation in self.names.computations.values()
            for instruction in computation.instructions
            if instruction.shape.element_type == 1
        }
