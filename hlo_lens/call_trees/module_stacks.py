"""The Python call stacks of an HLO module as a call tree, with bytes or instructions at each node.

Stacks come from the module's stack frame tables (December 2025 and later); an instruction with a
source line only is a stack of that line. Equal stacks are one path; the largest callees come first.
Amounts without a source line are bracketed residuals, so that the tree sums to the figures of other
passes: bytes alive at the peak, bytes on the wire, number of instructions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.call_trees.call_tree import NO_PARENT, CallFrame, CallTree, with_below
from hlo_lens.hlo.metadata import SourceLocation
from hlo_lens.questions.collectives.combined import parts_of
from hlo_lens.questions.memory.grouping import PARAMETERS, UNATTRIBUTED, nameless_group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.program.origins import Origins
    from hlo_lens.program.source_places import Stack
    from hlo_lens.questions.collectives.collectives import Collective, Collectives
    from hlo_lens.questions.memory.peak import PeakMemory


class _Draft:
    """A call tree built from stacks."""

    def __init__(self) -> None:
        self._numbers: dict[CallFrame, int] = {}
        self._known: dict[tuple[int, int], int] = {}
        self._frames: list[int] = []
        self._parents: list[int] = []
        self._own: list[int] = []
        self._unknown: list[int] = []
        self._residuals: dict[str, int] = {}
        self._unplaced_unknown = 0

    def add(self, stack: Sequence[SourceLocation], amount: int | None, label: str) -> None:
        """Add an amount to a stack, innermost first.

        Args:
            stack: The stack.
            amount: None if unknown.
            label: Residual that gets the amount if the stack is empty.
        """
        if not stack:
            self._residuals[label] = self._residuals.get(label, 0) + (amount or 0)
            self._unplaced_unknown += amount is None
            return
        at = NO_PARENT
        for place in reversed(stack):
            frame = CallFrame(function=place.function or "", file=place.file, line=place.line)
            number = self._numbers.setdefault(frame, len(self._numbers))
            above = at
            at = self._known.setdefault((above, number), len(self._parents))
            if at == len(self._parents):
                self._parents.append(above)
                self._frames.append(number)
                self._own.append(0)
                self._unknown.append(0)
        self._own[at] += amount or 0
        self._unknown[at] += amount is None

    def done(self, measure: str) -> CallTree:
        """Return the tree in preorder, largest callees first."""
        frames = list(self._numbers)
        totals = with_below(self._own, self._parents)
        children: dict[int, list[int]] = defaultdict(list)
        for node in range(len(totals) - 1, -1, -1):
            children[self._parents[node]].append(node)
        for below in children.values():
            below.sort(key=lambda node: str(frames[self._frames[node]]), reverse=True)
            below.sort(key=totals.__getitem__)

        new_of: dict[int, int] = {NO_PARENT: NO_PARENT}
        preorder: list[int] = []
        stack = children[NO_PARENT]
        while stack:
            node = stack.pop()
            new_of[node] = len(preorder)
            preorder.append(node)
            stack.extend(children[node])
        return CallTree(
            frames=tuple(frames),
            frame_ids=[self._frames[node] for node in preorder],
            parents=[new_of[self._parents[node]] for node in preorder],
            own=[self._own[node] for node in preorder],
            measure=measure,
            unknown=[self._unknown[node] for node in preorder] if any(self._unknown) else (),
            residuals=tuple(sorted(self._residuals.items())),
            residual_unknown=self._unplaced_unknown,
        )


def memory_call_tree(peak: PeakMemory) -> CallTree:
    """Return the bytes alive at an instant, by the stack that made them.

    Each byte counts once, for the value defined last; the sum is the bytes held.
    """
    draft = _Draft()
    for value in peak.live:
        if value.category == "argument":
            draft.add((), value.owned_bytes, PARAMETERS)
        else:
            draft.add(peak.stack_of(value), value.owned_bytes, nameless_group(value.category))
    return draft.done("memory")


def wire_call_tree(module: HloModule, found: Collectives) -> CallTree:
    """Return the bytes that leave each device in one run, by the stack of each collective.

    Combined collectives are divided over the stacks of what was combined.

    Bytes of each collective times its number of runs; if either is unknown it adds to the
    unknowns of its node. They sum to `Collectives.wire_bytes_per_device` where that is known and
    no branches exclude each other: nodes count all branches, the upper bound the largest ones.
    """
    draft = _Draft()
    frames = _frames_by_text(module)
    for collective in found.collectives:
        for part in parts_of(collective):
            draft.add(_stack_of(part, frames), part.wire_bytes_per_run, UNATTRIBUTED)
    tree, bounds = draft.done("wire-bytes"), found.known_wire_bytes
    return replace(tree, upper_bound=bounds.most) if bounds.is_at_most else tree


def count_call_tree(table: InstructionTable, origins: Origins) -> CallTree:
    """Return the instructions of the text, each once, by the stacks of their origins."""
    draft = _Draft()
    for row, opcode in enumerate(table.opcodes):
        if opcode == "parameter":
            draft.add(origins.places.stack(row), 1, PARAMETERS)
        else:
            draft.add(origins.stack(origins.of_row(row)), 1, UNATTRIBUTED)
    return draft.done("count")


def _frames_by_text(module: HloModule) -> Mapping[str, SourceLocation]:
    """Return the frames of a module by their text in `Collective.stack`."""
    tables = module.stack_frames
    found: dict[str, SourceLocation] = {}
    for number in range(1, len(tables.frames) + 1):
        place = tables.location(number)
        if place is not None:
            found[f"{place} ({place.function})" if place.function else str(place)] = place
    return found


def _stack_of(collective: Collective, frames: Mapping[str, SourceLocation]) -> Stack:
    """Return the stack of a collective, innermost first; its source line if it has no stack."""
    if collective.stack:
        return tuple(frames[text] for text in collective.stack)
    if collective.source_file is None:
        return ()
    return (SourceLocation(file=collective.source_file, line=collective.source_line),)
