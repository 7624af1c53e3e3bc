"""Operands of all instructions of a module as columns, parsed many lines at a time."""

from __future__ import annotations

import functools
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from itertools import accumulate, chain, count, islice, repeat
from operator import sub
from typing import TYPE_CHECKING

from hlo_lens.model.hlo.columns import NOTHING, OPERANDS, OPERANDS_END, STRIDE
from hlo_lens.model.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.model.hlo.computation import HloComputation
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.shapes.shape import ShapeIndex

_CHUNK = 4096
"""Rows parsed together; the texts of their operands are kept meanwhile."""

_PARTS = 16
_COMMENT = re.compile(r"/\*[^*]*+\*/")
_NAME = re.compile(r"%([\w.-]+)")
_TYPED = r"(?:(?:[a-z][^\s%]*+|\((?:[^\s%]|(?<=,) )*\)) )?%[\w.-]++"
_TYPED_LISTS = re.compile(rf"(?:(?:{_TYPED}(?:, {_TYPED})*+)?+\n)*+")
"""Operand lists with a shape before each name, as XLA printed them until 2024."""


class OperandColumns:
    """The operands of the rows of some computations, as columns.

    Names are split out of many rows at once. Rows are read one by one if their list is not plain,
    if it names an element (``%w#1``) or an undefined name, and in modules that print bodies of
    computations inside others.

    Args:
        module: The module.
        computations: All its computations, or one.
        extent: Rows from their first to their last.
        printed: Numbers of the opcodes whose parentheses hold a value, no operands.

    Attributes:
        first: The first row.
        offsets: Offset of the first operand of each row from there on, and one offset more.
        rows: Rows of the operands.
        elements: Row to the element that each operand is of a tuple, where any is one.
    """

    def __init__(
        self,
        module: HloModule,
        computations: Sequence[HloComputation],
        extent: range,
        printed: Collection[int],
    ) -> None:
        self._module = module
        self.first = extent.start
        self._names = _OperandNames(module, extent, printed)
        self._parts = iter(self._names)
        self._part: Iterator[str] = iter(())
        self.rows = array("i")
        self.elements: dict[int, tuple[ShapeIndex, ...]] = {}
        self._reread: dict[int, array[int]] = {}
        if _are_in_order(computations, extent):
            for computation in computations:
                self._add(computation)
        else:
            deque(self._parts, 0)
            self._names.counts = [0] * len(extent)
            for computation in computations:
                self._read(computation, computation.rows, rows_by_name(computation))
        counts = self._names.counts
        if self._reread:
            counts = self._put_in(counts)
        self.offsets = array("I", accumulate(counts, initial=0))
        del self._names, self._parts, self._part, self._reread

    def of(self, row: int) -> array[int]:
        """Return the rows of a row's operands, in order; `NOTHING` for an undefined one."""
        place = row - self.first
        return self.rows[self.offsets[place] : self.offsets[place + 1]]

    def users_of(self, row: int) -> list[tuple[int, int]]:
        """Return row and operand number of each use of a row, in text order."""
        places, order, users = self._users
        edges = order[places[row - self.first] : places[row - self.first + 1]]
        return [(users[edge], edge - self.offsets[users[edge] - self.first]) for edge in edges]

    @functools.cached_property
    def _users(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """For each row the offset of its uses, the operands by what they use, and their users."""
        size = len(self.offsets) - 1
        counts = map(sub, islice(self.offsets, 1, None), self.offsets)
        users = array("I", chain.from_iterable(map(repeat, count(self.first), counts)))
        targets = self.rows
        if self.first:
            targets = array("i", (NOTHING if t == NOTHING else t - self.first for t in targets))
        return *inverted(targets, size), users

    def _add(self, computation: HloComputation) -> None:
        """Add the operands of a computation, whose rows follow those of the one before."""
        rows = computation.rows
        if not rows:
            return
        places = rows_by_name(computation)
        counts, first = self._names.counts, len(self.rows)
        start, stop = rows[0] - self.first, rows[-1] + 1 - self.first
        is_whole = True
        while start < stop:
            if start == len(counts):
                self._part = iter(next(self._parts))
            end = min(stop, len(counts))
            names = islice(self._part, sum(counts[start:end]))
            found = list(map(places.get, names, repeat(NOTHING)))
            is_whole = is_whole and NOTHING not in found
            self.rows.extend(found)
            start = end
        again = self._odd(rows[0], rows[-1] + 1)
        if not is_whole:
            start = rows[0] - self.first
            offsets = list(accumulate(counts[start:stop], initial=0))
            unknown = (at for at, row in enumerate(self.rows[first:]) if row == NOTHING)
            again.update(rows[0] + bisect_right(offsets, at) - 1 for at in unknown)
        if again:
            self._read(computation, sorted(again), places)

    def _odd(self, start: int, stop: int) -> set[int]:
        """Return the rows of a range that are read one by one."""
        odd = self._names.odd
        found = set(odd[bisect_left(odd, start) : bisect_left(odd, stop)]) if odd else set()
        overlays = self._module.columns.overlays
        found.update(row for row in overlays if start <= row < stop)
        return found

    def _read(
        self, computation: HloComputation, rows: Iterable[int], places: Mapping[str, int]
    ) -> None:
        """Read the operands of some rows one by one."""
        for row in rows:
            operands = HloInstruction(computation, row).operands
            self._reread[row] = array("i", [places.get(o.name, NOTHING) for o in operands])
            if any(operand.index for operand in operands):
                self.elements[row] = tuple(operand.index for operand in operands)

    def _put_in(self, counts: list[int]) -> list[int]:
        """Replace the operands of rows that were read one by one; return the new counts."""
        offsets = list(accumulate(counts, initial=0))
        new = list(counts)
        found, done = array("i"), 0
        for row in sorted(self._reread):
            operands, place = self._reread[row], row - self.first
            found.extend(self.rows[done : offsets[place]])
            found.extend(operands)
            new[place], done = len(operands), offsets[place + 1]
        found.extend(self.rows[done:])
        self.rows = found
        return new


def _are_in_order(computations: Sequence[HloComputation], extent: range) -> bool:
    """Return whether the rows of each computation follow those of the one before."""
    row = extent.start
    for computation in computations:
        rows = computation.rows
        if not rows:
            continue
        if not isinstance(rows, range) or rows.start != row:
            return False
        row = rows.stop
    return row == extent.stop


def inverted(targets: Sequence[int], size: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return offsets and edges by target: those of target t are ``edges[offsets[t]:offsets[t+1]]``.

    Edges are positions among the targets, ascending for each target. `NOTHING` is left out.
    """
    counts = array("I", bytes(4 * (size + 1)))  # the last is that of NOTHING, which is -1
    for target in targets:
        counts[target] += 1
    offsets = array("I", accumulate(counts, initial=0))
    free = offsets[:-1]
    edges = array("I", bytes(4 * len(targets)))
    for edge, target in enumerate(targets):
        edges[free[target]] = edge
        free[target] += 1
    return offsets[:-1], edges[: offsets[size]]


def rows_by_name(computation: HloComputation) -> dict[str, int]:
    """Return the row of each name in a computation."""
    rows = computation.rows
    return dict(zip(computation.module.columns.names(rows), rows, strict=True))


class _OperandNames:
    """The operands of a range of rows of a module, in order.

    Attributes:
        counts: How many operands each row has; 0 for a row in `odd`.
        odd: Rows whose operands need to be read one by one.
    """

    def __init__(self, module: HloModule, rows: range, printed: Collection[int]) -> None:
        self.counts: list[int] = []
        self.odd: list[int] = []
        self._module = module
        self._rows = rows
        self._printed = printed

    def __iter__(self) -> Iterator[list[str]]:
        """Yield names, many rows at a time; `counts` and `odd` are filled before each yield."""
        columns, opcodes = self._module.columns, self._module.opcodes
        text, spans, printed = columns.source.text, columns.spans, self._printed
        for start in range(self._rows.start, self._rows.stop, _CHUNK):
            stop = min(start + _CHUNK, self._rows.stop)
            part = spans[start * STRIDE : stop * STRIDE]
            slices = map(slice, part[OPERANDS::STRIDE], part[OPERANDS_END::STRIDE])
            lists = list(map(text.__getitem__, slices))
            for row, number in enumerate(opcodes.numbers[start:stop]):
                if number in printed:
                    lists[row] = ""
            yield self._names(start, lists)

    def _names(self, first: int, lists: Sequence[str]) -> list[str]:
        """Return the names in some lists, which are split in parts until each part has one form."""
        joined = "\n".join(lists)
        if "/*" in joined:
            joined = _COMMENT.sub("", joined)
        counts: list[int] = []
        names: list[str] = []
        if "(" not in joined and "[" not in joined:
            counts = [part.count(", ") + 1 if part else 0 for part in joined.split("\n")]
            names = joined.replace("%", "").replace("\n", ", ").split(", ")
            if 0 in counts:
                names = list(filter(None, names))
        elif _TYPED_LISTS.fullmatch(f"{joined}\n"):
            counts = [part.count("%") for part in joined.split("\n")]
            names = _NAME.findall(joined)
        if len(counts) == len(lists) and sum(counts) == len(names):
            self.counts += counts
            return names
        if len(lists) == 1:
            self.counts.append(0)
            self.odd.append(first)
            return []
        size = -(-len(lists) // _PARTS)
        found: list[str] = []
        for start in range(0, len(lists), size):
            found += self._names(first + start, lists[start : start + size])
        return found
