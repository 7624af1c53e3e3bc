"""Copies between device and host memory (host offload), reported separately from collectives.

A copy has one side in host memory by its layout, ``S(5)``: copy,
copy-start, dynamic-slice and dynamic-update-slice, alone, in fusions of their own, or run by an
async-start; also infeed and outfeed; before optimizations the custom calls that request moves
(``annotate_device_placement``, ``MoveToHost``, ``MoveToDevice``). CPU compilers drop these moves.

Source: xla/layout.h (kHostMemorySpace), xla/service/memory_annotations.h, as of August 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.hlo.opcodes import OpcodeTraits, Produced, opcode_traits
from hlo_lens.render.result import Records, Unit
from hlo_lens.shapes.shape import HOST_SPACE
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.program.origins import Origins
    from hlo_lens.program.runs import CallCounts
    from hlo_lens.shapes.shape import Shape

TO_HOST = "to host"
TO_DEVICE = "to device"

_NESTED = 4
"""Deepest nesting of a copy in the computation of its start."""

_TARGETS = ("annotate_device_placement", "MoveToHost", "MoveToDevice")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopy:
    """One copy between device and host memory; its fields are the columns of `DataMovement`."""

    name: Annotated[str, "instruction that copies"]
    direction: Annotated[str, "to host or to device"]
    size_bytes: Annotated[int | None, Unit.BYTES, "bytes of each copy"]
    dynamic_count: Annotated[int | None, Unit.COUNT, "copies per program run"]
    loop_path: Annotated[tuple[str, ...], "enclosing loops"]
    is_async: Annotated[bool, "whether other instructions may run at the same time"]
    op_name: Annotated[str | None, "scope path of the framework"]
    source: Annotated[str | None, "source line that it comes from"]
    origin_basis: Annotated[str | None, "way that op_name and source were found"]
    is_at_most: Annotated[bool, "whether dynamic_count is an upper bound"] = False


@dataclass(frozen=True, kw_only=True)
class DataMovement(Records[HostCopy]):
    """All copies between device and host memory, in text order."""

    KIND: ClassVar[str] = "data-movement"
    copies: tuple[HostCopy, ...]


_ON_HOST = f"S({HOST_SPACE})"
"""Layouts of arrays in host memory have it."""


def data_movement(table: InstructionTable, calls: CallCounts, origins: Origins) -> DataMovement:
    """Return the copies between device and host memory.

    Args:
        table: Table of the module.
        calls: Run counts of its computations.
        origins: Origins of its values.
    """
    copies: list[HostCopy] = []
    if any(_ON_HOST in shape for shape in table.shape_texts):
        for row in table.rows_where(_may_copy):
            instruction = table.instruction(row)
            source, target = _sides(instruction)
            if source is None or target is None or _is_host(source) == _is_host(target):
                continue
            smaller = min(source.size_bytes or 0, target.size_bytes or 0) or None
            direction = TO_HOST if _is_host(target) else TO_DEVICE
            copies.append(_copy(instruction, direction, smaller, calls, origins))
    for row in table.rows_of({"custom-call", "infeed", "outfeed"}):
        instruction = table.instruction(row)
        shape, is_to_host = instruction.shape, instruction.opcode == "outfeed"
        if is_to_host:
            shape = instruction.operand_shape(0)
        elif instruction.opcode == "custom-call":
            target_name = (instruction.attribute("custom_call_target") or "").strip('"')
            if target_name not in _TARGETS:
                continue
            placement = instruction.frontend_attributes.get("_xla_buffer_placement", "")
            is_to_host = target_name == "MoveToHost" or placement.endswith("host")
        size = None if shape is None else shape.size_bytes
        direction = TO_HOST if is_to_host else TO_DEVICE
        copies.append(_copy(instruction, direction, size, calls, origins))
    return DataMovement(copies=tuple(copies))


def _may_copy(traits: OpcodeTraits) -> bool:
    return opcode_traits(traits.base).is_copying and traits.phase != "done"


def _sides(instruction: HloInstruction) -> tuple[Shape | None, Shape | None]:
    """Return the shapes of source and target of a copy; None where they cannot be read."""
    traits = opcode_traits(instruction.opcode)
    try:
        source = instruction.operand_shape(1 if traits.base == "dynamic-update-slice" else 0)
        target = instruction.shape
    except DumpSyntaxError:
        return None, None
    if traits.phase == "start" and target is not None:
        wanted = 0 if traits.produced is Produced.FIRST else 1
        target = next(iter(target.tuple_shapes[wanted : wanted + 1]), None)
    return source, target


def _is_host(shape: Shape) -> bool:
    return not shape.is_tuple and shape.is_in_host_memory


def _copy(
    instruction: HloInstruction,
    direction: str,
    size_bytes: int | None,
    calls: CallCounts,
    origins: Origins,
) -> HostCopy:
    runs = calls.at(instruction.computation.place)
    origin = origins.of_row(instruction.row)
    return HostCopy(
        name=instruction.name,
        direction=direction,
        size_bytes=size_bytes,
        dynamic_count=runs.times,
        loop_path=runs.loop_path,
        is_async=_is_async(instruction, calls),
        op_name=origin.op_name,
        source=origin.source,
        origin_basis=origin.basis,
        is_at_most=runs.is_at_most,
    )


def _is_async(instruction: HloInstruction, calls: CallCounts) -> bool:
    """Return whether an instruction is a start, or is run by one, also inside a fusion."""
    for _ in range(_NESTED):
        if opcode_traits(instruction.opcode).phase == "start":
            return True
        sites = calls.sites_at(instruction.computation.place)
        if not sites:
            return False
        instruction = sites[0].caller
        if instruction.opcode not in ("async-start", "fusion"):
            return False
    return False
