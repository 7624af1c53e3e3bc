"""The bytes alive at one instant, grouped: by opcode, operation path, source line, and so on.

Each byte counts once: where values share bytes at that instant, they belong to the value that was
defined last. Groups sum to the occupied bytes; what cannot be told apart stands in a bracketed row.
A loop's carried value belongs to the instruction that made its first version.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Unit
from hlo_lens.model.hlo.instruction import HloInstruction
from hlo_lens.model.hlo.query import row_owners, rows_named, rows_of_opcode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hlo_lens.analysis.memory.peak import LiveValue, PeakMemory
    from hlo_lens.analysis.result import Row
    from hlo_lens.model.hlo.module import HloModule

UNATTRIBUTED = "[unattributed]"
PARAMETERS = "[parameters]"

_PATH = re.compile(r"/(?![^\[]*\])")
"""A slash that is not inside ``['a/b']``: pytree keys stay whole."""

_STEPS = 64
"""How far a carried value is followed back to its maker."""


@dataclass(frozen=True, kw_only=True)
class MemoryBy(Result):
    """Bytes of groups, largest first.

    Attributes:
        by: What the groups are.
        groups: Label, bytes and number of values.
        total_bytes: Occupied bytes, the sum over all groups.
    """

    KIND: ClassVar[str] = "memory-by"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("group", Unit.NONE, "what the values have in common"),
        Column("size_bytes", Unit.BYTES, "bytes that belong to them"),
        Column("share", Unit.RATIO, "part of all occupied bytes, 0 to 1"),
        Column("values", Unit.COUNT, "how many values"),
    )
    by: str
    groups: tuple[tuple[str, int, int], ...]
    total_bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield the groups, bracketed ones apart."""
        for label, size, count in self.groups:
            if not label.startswith("["):
                yield label, size, self._share(size), count

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the bracketed groups."""
        return tuple(
            (label, size, self._share(size), count)
            for label, size, count in self.groups
            if label.startswith("[")
        )

    def totals(self) -> Mapping[str, int]:
        """Return the occupied bytes and the number of values."""
        return {"size_bytes": self.total_bytes, "values": sum(g[2] for g in self.groups)}

    def _share(self, size: int) -> float | None:
        return size / self.total_bytes if self.total_bytes else None


def memory_by(peak: PeakMemory, by: str, makers: Mapping[str, HloInstruction]) -> MemoryBy:
    """Return the bytes of an instant in groups.

    Args:
        peak: What is alive.
        by: ``opcode``, ``op``, ``source``, ``stack``, ``param``, ``category`` or ``buffer``.
        makers: Value to the instruction that made it, from `makers_of`; empty without HLO text.
    """
    label = LABELS[by]
    sizes: dict[str, int] = defaultdict(int)
    counts: dict[str, int] = defaultdict(int)
    for value in peak.live:
        name = label(value, makers.get(value.value))
        sizes[name] += value.owned_bytes
        counts[name] += 1
    groups = sorted(sizes, key=lambda name: (-sizes[name], name))
    return MemoryBy(
        by=by,
        groups=tuple((name, sizes[name], counts[name]) for name in groups),
        total_bytes=peak.total_bytes,
    )


def _by_opcode(value: LiveValue, maker: HloInstruction | None) -> str:
    if value.category == "argument":
        return "parameter"
    return UNATTRIBUTED if maker is None else maker.opcode


def op_name_of(maker: HloInstruction | None) -> str | None:
    """Return the operation path of an instruction, or None."""
    metadata = None if maker is None else maker.metadata
    return metadata.op_name if metadata is not None and metadata.op_name else None


def _by_op(value: LiveValue, maker: HloInstruction | None) -> str:
    if value.category == "argument":
        return PARAMETERS
    return op_name_of(maker) or UNATTRIBUTED


def _by_source(value: LiveValue, maker: HloInstruction | None) -> str:
    if value.category == "argument":
        return PARAMETERS
    place = None if maker is None else maker.source_location
    return UNATTRIBUTED if place is None else str(place)


def _by_stack(value: LiveValue, maker: HloInstruction | None) -> str:
    if value.category == "argument":
        return PARAMETERS
    metadata = None if maker is None else maker.metadata
    if maker is None or metadata is None:
        return UNATTRIBUTED
    frames = maker.computation.module.stack_frames.stack(metadata.stack_frame_id or 0)
    if not frames:
        return _by_source(value, maker)
    return " < ".join(f"{frame.function or '?'} ({frame})" for frame in frames)


def _by_param(value: LiveValue, maker: HloInstruction | None) -> str:
    if value.parameter_number is None:
        return "[not an argument]"
    name = op_name_of(maker) if maker is not None and maker.opcode == "parameter" else None
    return f"{value.parameter_number}: {name}" if name else str(value.parameter_number)


def _by_category(value: LiveValue, maker: HloInstruction | None) -> str:
    del maker
    return value.category


def _by_buffer(value: LiveValue, maker: HloInstruction | None) -> str:
    del maker
    return value.value


LABELS: Mapping[str, Callable[[LiveValue, HloInstruction | None], str]] = {
    "buffer": _by_buffer,
    "opcode": _by_opcode,
    "op": _by_op,
    "source": _by_source,
    "stack": _by_stack,
    "param": _by_param,
    "category": _by_category,
}
"""What bytes can be grouped by."""


def split_op_name(op_name: str) -> tuple[str, ...]:
    """Return the scopes of an operation path, outermost first; ``params['a/b']`` stays whole."""
    return tuple(part for part in _PATH.split(op_name) if part)


def makers_of(module: HloModule | None, values: tuple[LiveValue, ...]) -> dict[str, HloInstruction]:
    """Return for each value the instruction that made it, as far as the module has it."""
    if module is None:
        return {}
    found = instructions_by_name(module, {value.instruction_name for value in values})
    loops = loop_of_body(module)
    makers: dict[str, HloInstruction] = {}
    for value in values:
        instruction = found.get(value.instruction_name)
        if instruction is not None:
            index = value.value[len(value.instruction_name) :]
            makers[value.value] = _maker(instruction, index, loops)
    return makers


def instructions_by_name(module: HloModule, names: set[str]) -> dict[str, HloInstruction]:
    """Return the instructions of some names, of several the one in the first computation."""
    owners = row_owners(module)
    found: dict[str, tuple[int, int]] = {}
    for row, name in rows_named(module, names):
        place = (owners[row], row)
        found[name] = min(found.get(name, place), place)
    computations = module.computations
    return {name: HloInstruction(computations[k], row) for name, (k, row) in found.items()}


_DIGITS = re.compile(r"\d+")


def loop_of_body(module: HloModule) -> dict[str, HloInstruction]:
    """Return for each body and condition of a while loop the loop (one of them, if shared)."""
    found: dict[str, HloInstruction] = {}
    rows = rows_of_opcode(module, "while")
    owners = row_owners(module) if rows else ()
    for row in rows:
        loop = HloInstruction(module.computations[owners[row]], row)
        for name in loop.called_computations:
            found[name] = loop
    return found


def loop_path(instruction: HloInstruction, loops: Mapping[str, HloInstruction]) -> tuple[str, ...]:
    """Return the names of the loops that an instruction is in, outermost first."""
    path: list[str] = []
    name = instruction.computation.name
    while name in loops and len(path) < _STEPS:
        loop = loops[name]
        path.append(loop.name)
        name = loop.computation.name
    return tuple(reversed(path))


def _maker(
    instruction: HloInstruction, index_text: str, loops: Mapping[str, HloInstruction]
) -> HloInstruction:
    """Follow a carried or passed-on value back to the instruction that made it."""
    index = [int(digits) for digits in _DIGITS.findall(index_text)]
    for _ in range(_STEPS):
        if instruction.opcode == "tuple" and index:
            position, *index = index
            step = position
        elif instruction.opcode == "get-tuple-element":
            index = [int(instruction.attributes.get("index", 0)), *index]
            step = 0
        elif instruction.opcode in ("while", "bitcast", "optimization-barrier", "opt-barrier"):
            step = 0
        elif instruction.opcode == "parameter" and instruction.computation.name in loops:
            instruction = loops[instruction.computation.name]
            continue
        else:
            return instruction
        operands = instruction.operands
        if step >= len(operands):
            return instruction
        before = instruction.computation.instruction(operands[step].name)
        if before is None:
            return instruction
        index = [*operands[step].index, *index]
        instruction = before
    return instruction
