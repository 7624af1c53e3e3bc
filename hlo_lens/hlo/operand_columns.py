"""Operands of all instructions of a module as columns, parsed many lines at a time."""

from __future__ import annotations

import functools
import re
from array import array
from bisect import bisect_right
from itertools import accumulate, islice, repeat
from operator import add, sub
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NOTHING, OPERANDS, OPERANDS_END, STRIDE
from hlo_lens.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.computation import HloComputation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import ShapeIndex

_CHUNK = 4096
"""Rows parsed together; the texts of their operands are kept meanwhile."""

_FEW = 64
"""Rows of a computation up to which its lists are split together at little cost."""

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
        places: Positions of all its computations, or of one.
        extent: Rows from their first to their last.
        printed: Opcodes whose parentheses hold a value, no operands.

    Attributes:
        first: The first row.
        offsets: Offset of the first operand of each row from there on, and one offset more.
        rows: Rows of the operands.
        elements: Row to the element that each operand is of a tuple, where any is one.
    """

    def __init__(
        self, module: HloModule, places: Sequence[int], extent: range, printed: Collection[str]
    ) -> None:
        self._module = module
        self.first = extent.start
        self.rows = array("i")
        self.offsets = array("I", [0])
        self.elements: dict[int, tuple[ShapeIndex, ...]] = {}
        columns = module.computation_columns
        listed = [columns.rows(places[0])] if len(places) == 1 else columns.all_rows()
        apart: Sequence[int] = extent
        is_one = len(extent) <= _FEW and listed == [extent]
        if is_one and self._resolve_few(extent, printed):
            apart = self._left_over((), extent)
        elif _are_in_order(listed, extent):
            names = _OperandNames(module, extent, printed)
            self._resolve(listed, names)
            apart = self._left_over(names.odd, extent)
        else:
            self.offsets.extend(repeat(0, len(extent)))
        if apart:
            self._put_in(self._read_one_by_one(apart, zip(places, listed, strict=True)))

    def of(self, row: int) -> array[int]:
        """Return the rows of a row's operands, in order; `NOTHING` for an undefined one."""
        place = row - self.first
        return self.rows[self.offsets[place] : self.offsets[place + 1]]

    def users_of(self, row: int) -> list[tuple[int, int]]:
        """Return row and operand number of each use of a row, in text order."""
        offsets, (first_edges, next_edges) = self.offsets, self._uses
        found = []
        edge = first_edges[row - self.first]
        while edge != NOTHING:
            place = bisect_right(offsets, edge) - 1
            found.append((self.first + place, edge - offsets[place]))
            edge = next_edges[edge]
        return found

    @functools.cached_property
    def _uses(self) -> tuple[Sequence[int], Sequence[int]]:
        """For each row the first operand that it is, and for each operand the next of its row."""
        first_edges = array("i", [NOTHING]) * (len(self.offsets) - 1)
        next_edges = array("i", [NOTHING]) * len(self.rows)
        edge = len(self.rows)
        for row in reversed(self.rows):
            edge -= 1
            if row != NOTHING:
                place = row - self.first
                next_edges[edge] = first_edges[place]
                first_edges[place] = edge
        return first_edges, next_edges

    def _resolve(self, listed: Sequence[Sequence[int]], names: _OperandNames) -> None:
        """Add the operands of computations whose rows follow one another."""
        columns, offsets, operands = self._module.columns, self.offsets, self.rows
        parts = iter(names)
        part: Iterator[str] = iter(())
        done = 0
        for rows in listed:
            if not rows:
                continue
            places = dict(zip(columns.names(rows), rows, strict=True))
            stop = rows[-1] + 1 - self.first
            while True:
                end = min(stop, len(offsets) - 1)
                found = islice(part, offsets[end] - done)
                operands.extend(map(places.get, found, repeat(NOTHING)))
                done = offsets[end]
                if end == stop:
                    break
                part = iter(next(parts))
                offsets.extend(islice(accumulate(names.counts, initial=done), 1, None))

    def _resolve_few(self, rows: range, printed: Collection[str]) -> bool:
        """Add the operands of one small computation, if all its lists are plain."""
        columns, opcodes = self._module.columns, self._module.opcodes
        text, spans = columns.source.text, columns.spans[rows.start * STRIDE : rows.stop * STRIDE]
        lists = [
            "" if opcode in printed else text[start:end]
            for opcode, start, end in zip(
                opcodes[rows.start : rows.stop],
                spans[OPERANDS::STRIDE],
                spans[OPERANDS_END::STRIDE],
                strict=True,
            )
        ]
        joined = ", ".join(filter(None, lists))
        if "(" in joined or "[" in joined or "/" in joined:
            return False
        places = dict(zip(columns.names(rows), rows, strict=True))
        names = joined.replace("%", "").split(", ") if joined else ()
        self.rows.extend(map(places.get, names, repeat(NOTHING)))
        counts = [listed.count(", ") + 1 if listed else 0 for listed in lists]
        self.offsets.extend(islice(accumulate(counts, initial=0), 1, None))
        return True

    def _left_over(self, odd: Sequence[int], extent: range) -> list[int]:
        """Return the rows that are read one by one, ascending."""
        if not odd and not self._module.columns.overlays and NOTHING not in self.rows:
            return []
        found = set(odd)
        found.update(row for row in self._module.columns.overlays if row in extent)
        if NOTHING in self.rows:
            unknown = (edge for edge, row in enumerate(self.rows) if row == NOTHING)
            found.update(self.first + bisect_right(self.offsets, edge) - 1 for edge in unknown)
        return sorted(found)

    def _read_one_by_one(
        self, wanted: Iterable[int], computations: Iterable[tuple[int, Sequence[int]]]
    ) -> dict[int, array[int]]:
        """Return the operands of some rows, in the computations with these positions and rows."""
        found: dict[int, array[int]] = {}
        left = set(wanted)
        for place, rows in computations:
            inside = left.intersection(rows)
            computation = self._module.computations[place] if inside else None
            if computation is None:
                continue
            places = rows_by_name(computation)
            for row in sorted(inside):
                operands = HloInstruction(computation, row).operands
                found[row] = array("i", [places.get(o.name, NOTHING) for o in operands])
                if any(operand.index for operand in operands):
                    self.elements[row] = tuple(operand.index for operand in operands)
        return found

    def _put_in(self, reread: Mapping[int, array[int]]) -> None:
        """Replace the operands of rows that were read one by one."""
        offsets = self.offsets
        counts = list(map(sub, islice(offsets, 1, None), offsets))
        found, done = array("i"), 0
        for row in sorted(reread):
            place = row - self.first
            found.extend(self.rows[done : offsets[place]])
            found.extend(reread[row])
            counts[place], done = len(reread[row]), offsets[place + 1]
        found.extend(self.rows[done:])
        self.rows = found
        self.offsets = array("I", accumulate(counts, initial=0))


def _are_in_order(listed: Sequence[Sequence[int]], extent: range) -> bool:
    """Return whether the rows of each computation follow those of the one before."""
    row = extent.start
    for rows in listed:
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
        counts: How many operands each of the rows has whose names were yielded last; 0 for a row
            in `odd`.
        odd: Rows whose operands need to be read one by one.
    """

    def __init__(self, module: HloModule, rows: range, printed: Collection[str]) -> None:
        self.counts: list[int] = []
        self.odd: list[int] = []
        self._module = module
        self._rows = rows
        self._printed = printed

    def __iter__(self) -> Iterator[list[str]]:
        """Yield names, many rows at a time; `counts` and `odd` are set before each yield."""
        columns, opcodes = self._module.columns, self._module.opcodes
        text, spans = columns.source.text, columns.spans
        for start in range(self._rows.start, self._rows.stop, _CHUNK):
            stop = min(start + _CHUNK, self._rows.stop)
            part = spans[start * STRIDE : stop * STRIDE]
            slices = map(slice, part[OPERANDS::STRIDE], part[OPERANDS_END::STRIDE])
            lists = list(map(text.__getitem__, slices))
            for row in opcodes.places_of(self._printed, range(start, stop)):
                lists[row - start] = ""
            self.counts = []
            yield self._names(start, lists)

    def _names(self, first: int, lists: Sequence[str]) -> list[str]:
        """Return the names in some lists, which are split in parts until each part has one form."""
        joined = "\n".join(lists)
        plain = lists
        if "/*" in joined or joined.count("\n") >= len(lists):
            joined = _COMMENT.sub("", joined)
            plain = joined.split("\n")
        counts: list[int] = []
        names: list[str] = []
        if "(" not in joined and "[" not in joined:
            counts = list(map(add, map(str.count, plain, repeat(", ")), map(bool, plain)))
            names = joined.replace("%", "").replace("\n", ", ").split(", ")
            if 0 in counts:
                names = list(filter(None, names))
        elif _TYPED_LISTS.fullmatch(f"{joined}\n"):
            counts = list(map(str.count, plain, repeat("%")))
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
