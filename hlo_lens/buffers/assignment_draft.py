"""Allocations and used values of a text, filled line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.buffers import patterns
from hlo_lens.buffers.assignment import BufferAssignment
from hlo_lens.buffers.columns import (
    ALLOCATION_STRIDE,
    ASSIGNED_STRIDE,
    FIRST_VALUE,
    NUMBER,
    REUSED_STRIDE,
    USED_STRIDE,
    BufferColumns,
    parse_index,
)
from hlo_lens.buffers.lines import LineScan, Node, optional_token
from hlo_lens.buffers.values import BufferValues, HloPosition, HloUse

if TYPE_CHECKING:
    from hlo_lens.buffers.assignment_grammar import ReadUsedValue
    from hlo_lens.text.source import Source


class ListReader:
    """Reads the lists of used values; implements `hlo_lens.buffers.values.BufferReader`."""

    def positions(self, text: str) -> tuple[HloPosition, ...]:
        """Return the positions that lines of a value print."""
        return tuple(
            HloPosition(instruction_name=m[1], index=parse_index(m[2] or ""))
            for m in patterns.POSITION.finditer(text)
        )

    def uses(self, text: str) -> tuple[HloUse, ...]:
        """Return the uses that lines of a value print."""
        return tuple(
            HloUse(
                instruction_name=m[1],
                operand_number=int(m[2]),
                operand_index=parse_index(m[3] or ""),
            )
            for m in patterns.USE.finditer(text)
        )


class BufferDraft(LineScan):
    """The assignments and lists of used values of a source, one of them being filled.

    Attributes:
        assignments: Assignments found so far.
        values: Lists of used values found so far, those of the assignments included.
        part: The assignment or list being filled.
        owner: The assignment to which the next list of used values belongs.
        has_header: Whether the header of the part was found.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.assignments: list[BufferAssignment] = []
        self.values: list[BufferValues] = []
        self.part: BufferAssignment | BufferValues | None = None
        self.owner: BufferAssignment | None = None
        self.has_header = False
        self._reader = ListReader()

    def begin_assignment(self, start: int, *, has_header: bool = False) -> BufferAssignment:
        """End the previous part and begin an assignment."""
        self.end()
        self.has_header = has_header
        self.part = self.owner = BufferAssignment(
            columns=BufferColumns(self.source, ALLOCATION_STRIDE),
            assigned=BufferColumns(self.source, ASSIGNED_STRIDE),
            reused_columns=BufferColumns(self.source, REUSED_STRIDE),
            start=start,
        )
        self.assignments.append(self.part)
        return self.part

    def begin_values(self, start: int) -> BufferValues:
        """End the previous part and begin used values; they belong to the previous assignment."""
        self.end()
        self.has_header = False
        self.part = BufferValues(
            columns=BufferColumns(self.source, USED_STRIDE), reader=self._reader, start=start
        )
        if self.owner is not None and self.owner.values is None:
            self.owner.values = self.part
        else:
            self.owner = None
        self.values.append(self.part)
        return self.part

    def end(self) -> None:
        """End the part: set its gaps, and whether it is complete."""
        part, self.part = self.part, None
        if part is None:
            return
        part.gaps = gaps = self.take_gaps()
        part.is_complete = self.has_header and not self.is_damaged
        self.is_damaged = False
        if isinstance(part, BufferAssignment):
            rows = len(part.columns)
            if rows and not part.value_rows(rows - 1) and part.allocations[-1].size:
                part.ends_without_values = part.is_complete  # most without values have size 0
                part.is_complete = False
        elif self.owner is not None:
            owner = self.owner
            owner.gaps = (*owner.gaps, *gaps)
            total = part.total_bytes
            if total is not None and total != owner.allocated_bytes:
                owner.is_complete = False
            if len(part) != len(owner.assigned):  # XLA lists each value of each allocation
                part.is_complete = False
            owner.is_complete = owner.is_complete_with(part) and part.is_complete

    def add_allocation(self, cells: list[int], other: tuple[str, ...] = ()) -> None:
        """Add an allocation; the cell of its first value is filled here."""
        part = self.part
        if not isinstance(part, BufferAssignment):
            part = self.begin_assignment(cells[NUMBER])
        if other:
            part.other[len(part.columns)] = other
        cells[FIRST_VALUE] = len(part.assigned)
        part.columns.cells.extend(cells)

    @property
    def has_allocation(self) -> bool:
        """Whether the part is an assignment with at least one allocation."""
        return isinstance(self.part, BufferAssignment) and len(self.part.columns) > 0

    def add_assigned(self, cells: tuple[int, ...], position: int, end: int) -> None:
        """Add a value to the last allocation; a gap where there is none."""
        part = self._filled_assignment(position, end)
        if part is not None:
            part.assigned.cells.extend(cells)

    def add_reused(self, cells: tuple[int, ...], position: int, end: int) -> None:
        """Add a value of another memory space to the last allocation; a gap where there is none."""
        part = self._filled_assignment(position, end)
        if part is not None:
            rows = part.reused_rows.setdefault(len(part.columns) - 1, [])
            rows.append(len(part.reused_columns))
            part.reused_columns.cells.extend(cells)

    def _filled_assignment(self, position: int, end: int) -> BufferAssignment | None:
        """Return the part if it has an allocation; None, with a gap, if not."""
        if isinstance(self.part, BufferAssignment) and self.has_allocation:
            return self.part
        self.refuse(position, end, "a value outside any allocation")
        return None

    def add_total(self, total: int, text: str, start: int) -> None:
        """Begin a list of used values with its total."""
        part = self.begin_values(start)
        part.total_bytes, part.total_text = total, text

    def add_total_tree(self, tree: Node, start: int) -> None:
        """Begin a list of used values with the total, as the grammar read it."""
        number, text = optional_token(tree, "NATURAL"), optional_token(tree, "HUMAN_SIZE")
        if number is not None and text is not None:
            self.add_total(int(number), str(text), start)

    def add_used(self, read: ReadUsedValue) -> None:
        """Add a used value of the grammar."""
        part = self.part
        if not isinstance(part, BufferValues):
            part = self.begin_values(read.cells[0] - 1)
        part.lists[len(part)] = (read.positions, read.uses)
        part.columns.cells.extend(read.cells)
