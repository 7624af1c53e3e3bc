"""The origin of a collective in the user's program: operation path, source line, call stack.

Taken from the metadata of the collective; without an operation path there, from its start or its
fusion; else from the nearest operand with a path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hlo_lens.analysis.collectives.operations import CollectiveOp
    from hlo_lens.analysis.program.call_counts import CallCounts
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.metadata import OpMetadata
    from hlo_lens.model.hlo.module import HloModule

_STEPS = 8
"""Operands followed in search of an operation path."""


class Origin(NamedTuple):
    """Origin of a collective; fields as in `Collective`."""

    op_name: str | None = None
    source_file: str | None = None
    source_line: int | None = None
    stack: tuple[str, ...] = ()
    near_op_name: str | None = None
    near_source: str | None = None


class Origins:
    """Finds the origins of a module's collectives; the text of each call stack is made once.

    Args:
        module: The module.
        calls: Callers of its computations.
    """

    def __init__(self, module: HloModule, calls: CallCounts) -> None:
        self._module = module
        self._calls = calls
        self._stacks: dict[int, tuple[str, ...]] = {}
        self._known: dict[str, Origin] = {}

    def of(self, op: CollectiveOp) -> Origin:
        """Return the origin of a collective; found once for equal metadata with a path."""
        text = op.instruction.attribute("metadata") or ""
        if text not in self._known:
            metadata = self._module.reader.metadata(text) if text else None
            if metadata is None or not metadata.op_name:
                return self._around(op, metadata)
            self._known[text] = self._origin(metadata)
        return self._known[text]

    def _around(self, op: CollectiveOp, metadata: OpMetadata | None) -> Origin:
        """Return the origin of a collective whose own metadata has no operation path."""
        sites = self._calls.sites(op.instruction.computation.name)
        around = [op.start, *(site.caller for site in sites)]
        named = [i for i in around if i.opcode in ("fusion", "async-start")]
        metadata = next((i.metadata for i in named if i.metadata is not None), metadata)
        if metadata is None or not (metadata.op_name or metadata.stack_frame_id):
            return _near(op.start)
        return self._origin(metadata)

    def _origin(self, metadata: OpMetadata) -> Origin:
        location = self._module.source_location(metadata)
        return Origin(
            op_name=metadata.op_name,
            source_file=None if location is None else location.file,
            source_line=None if location is None else location.line,
            stack=self._stack(metadata.stack_frame_id or 0),
        )

    def _stack(self, frame: int) -> tuple[str, ...]:
        """Return a call stack as text, innermost first: ``file:line (function)``."""
        if frame not in self._stacks:
            places = self._module.stack_frames.stack(frame)
            self._stacks[frame] = tuple(
                f"{place} ({place.function})" if place.function else str(place) for place in places
            )
        return self._stacks[frame]


def _near(start: HloInstruction) -> Origin:
    """Return the origin of the first operand, or of its first operand, until one has a path."""
    instruction: HloInstruction | None = start
    for _ in range(_STEPS):
        names = () if instruction is None else instruction.operand_names
        instruction = start.computation.instruction(names[0]) if names else None
        metadata = None if instruction is None else instruction.metadata
        if instruction is not None and metadata is not None and metadata.op_name:
            place = instruction.source_location
            source = None if place is None else str(place)
            return Origin(near_op_name=metadata.op_name, near_source=source)
    return Origin()
