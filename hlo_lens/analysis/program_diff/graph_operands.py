"""Who takes what from whom: the nodes of each computation and their operands, from the names."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from hashlib import blake2b
from itertools import accumulate, chain, islice, repeat
from operator import add
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.analysis.program_diff.graph import View
from hlo_lens.analysis.program_diff.operand_names import CHUNK, OperandNames
from hlo_lens.model.hlo.columns import END, NAME, NAME_END, OPERANDS_END, STRIDE
from hlo_lens.model.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.program_diff.graph import ProgramGraph
    from hlo_lens.analysis.program_diff.numbered_texts import TextColumns
    from hlo_lens.model.hlo.computation import HloComputation
    from hlo_lens.model.shapes.shape import ShapeIndex

Link: TypeAlias = "tuple[object, ...]"
"""How many operands the nodes of a computation have, which ones, and the result, by their places.

Equal for two computations whose nodes take the same from each other, one by one.
"""

_INDEX = ", index="
_GTE = "get-tuple-element"
_VIEW = 1 << 30
"""Names stand for the place of a node in its computation, or for that of a view plus this."""

_LARGE = 1 << 12
"""Texts of more bytes are kept as a digest."""


class Linking:
    """Fills the nodes of a graph, computation by computation.

    Args:
        graph: The graph, still empty.
        columns: Opcodes of its module.
        without: Positions of computations that are not part of it.

    Attributes:
        links: Of each computation.
        views: Places in `ProgramGraph.views` of those of each computation.
        view_rows: Rows of all views.
    """

    def __init__(self, graph: ProgramGraph, columns: TextColumns, without: Iterable[int]) -> None:
        self.links: list[Link] = []
        self.views: list[range] = []
        self._graph = graph
        self._module = graph.module
        gte = columns.opcodes.get(_GTE, -1)
        self.view_rows = (
            [row for row, opcode in enumerate(columns.opcode) if opcode == gte] if gte >= 0 else []
        )
        self._taken = _Taken(graph, columns)
        self._own_indices: dict[str, ShapeIndex] = {}
        wrapped = frozenset(without)
        for position, computation in enumerate(self._module.computations):
            self._add(position, computation, is_wrapped=position in wrapped)

    def _add(self, position: int, computation: HloComputation, *, is_wrapped: bool) -> None:
        graph, rows = self._graph, computation.rows
        first = len(graph.rows)
        views = self._views_in(rows)
        self.views.append(range(len(graph.views), len(graph.views)))
        codes: Sequence[int] = range(len(rows))
        if views:
            codes = _codes(rows, views)
        places, flat, counts, odd = self._taken.of(rows, codes)
        size = len(rows) - len(views)
        if is_wrapped:
            graph.wrapped.extend(rows)
            graph.nodes.append(range(first, first))
            graph.roots.append((-1, ()))
            self.links.append(())
            return
        if views or odd or -1 in flat:
            closely = _Closely(graph, computation, codes, places, self._own_indices)
            self.links.append(closely.add(flat, counts, odd))
            self.views[position] = range(self.views[position].start, len(graph.views))
        else:
            graph.rows.extend(rows)
            taken = map(add, flat, repeat(first)) if first else iter(flat)
            graph.operands.extend([tuple(islice(taken, count)) for count in counts])
            root = rows.index(computation.root_row) if rows else -1
            graph.roots.append((first + root if rows else -1, ()))
            self.links.append((as_key(array("i", counts)), as_key(flat), root))
        graph.nodes.append(range(first, first + size))
        graph.owner.extend(repeat(position, size))

    def _views_in(self, rows: Sequence[int]) -> Sequence[int]:
        """Return the rows that are views."""
        views = self.view_rows
        if not views or not rows:
            return ()
        if isinstance(rows, range):
            return views[bisect_left(views, rows[0]) : bisect_right(views, rows[-1])]
        known = set(views[bisect_left(views, rows[0]) : bisect_right(views, rows[-1])])
        return [row for row in rows if row in known]


def _codes(rows: Sequence[int], views: Sequence[int]) -> list[int]:
    """Return for each row its place among the nodes, or that among all rows plus `_VIEW`."""
    are_views = set(views)
    codes = []
    node = 0
    for place, row in enumerate(rows):
        if row in are_views:
            codes.append(_VIEW + place)
        else:
            codes.append(node)
            node += 1
    return codes


def as_key(numbers: array[int]) -> bytes:
    """Return numbers as bytes, equal for equal ones; a digest where they are many."""
    data = numbers.tobytes()
    return data if len(data) < _LARGE else blake2b(data, digest_size=16).digest()


# ---- names -------------------------------------------------------------------------------------


class _Taken:
    """Reads names and operands of computations, in the order of the text."""

    def __init__(self, graph: ProgramGraph, columns: TextColumns) -> None:
        self._columns = columns.module.columns
        text, spans = self._columns.source.text, self._columns.spans
        self._names: Iterator[str] = map(
            text.__getitem__, map(slice, spans[NAME::STRIDE], spans[NAME_END::STRIDE])
        )
        self._all = OperandNames(columns)
        self._parts = iter(self._all)
        self._part: Iterator[str] = iter(())
        self._read = 0
        self._is_plain = not self._columns.overlays and _are_in_order(graph)
        self._offsets: list[int] = []
        if not self._is_plain:
            self._flat = list(chain.from_iterable(self._parts))
            self._offsets = [0, *accumulate(self._all.counts)]

    def of(
        self, rows: Sequence[int], codes: Sequence[int]
    ) -> tuple[dict[str, int], array[int], Sequence[int], Sequence[int]]:
        """Return what names stand for, all operands, how many of each row, and places of odd rows.

        Args:
            rows: Rows of the computation.
            codes: What the names of its rows stand for.
        """
        flat: array[int] = array("i")
        if not self._is_plain:
            return self._one_by_one(rows, codes)
        places = dict(zip(islice(self._names, len(rows)), codes, strict=True))
        if not rows:
            return places, flat, (), ()
        start, stop = rows[0], rows[-1] + 1
        counts = self._all.counts
        while start < stop:
            if start == self._read:
                self._part = iter(next(self._parts))
                self._read += CHUNK
            end = min(stop, self._read)
            total = sum(counts[start:end])
            flat.extend(map(places.get, islice(self._part, total), repeat(-1)))
            start = end
        odd = self._all.odd
        if odd:
            odd = odd[bisect_left(odd, rows[0]) : bisect_left(odd, stop)]
        return places, flat, counts[rows[0] : stop], [row - rows[0] for row in odd]

    def _one_by_one(
        self, rows: Sequence[int], codes: Sequence[int]
    ) -> tuple[dict[str, int], array[int], Sequence[int], Sequence[int]]:
        places = dict(zip(map(self._columns.name, rows), codes, strict=True))
        flat: array[int] = array("i")
        counts, odd = [], []
        overlays, offsets = self._columns.overlays, self._offsets
        known = set(self._all.odd)
        for place, row in enumerate(rows):
            is_odd = row in overlays or row in known
            if is_odd:
                odd.append(place)
            names = () if is_odd else self._flat[offsets[row] : offsets[row + 1]]
            flat.extend(map(places.get, names, repeat(-1)))
            counts.append(len(names))
        return places, flat, counts, odd


def _are_in_order(graph: ProgramGraph) -> bool:
    """Return whether each computation has the rows behind those of the one before."""
    row = 0
    for computation in graph.module.computations:
        rows = computation.rows
        if not rows:
            continue
        if not isinstance(rows, range) or rows.start != row:
            return False
        row = rows.stop
    return row == len(graph.module.columns)


# ---- a closer look -----------------------------------------------------------------------------


class _Closely:
    """Adds a computation that has views, or operands that are not plain names of its own.

    Args:
        graph: The graph.
        computation: The computation.
        codes: What each of its rows stands for.
        places: What each name stands for.
        own_indices: Which element views take, by the digits that say so.
    """

    def __init__(
        self,
        graph: ProgramGraph,
        computation: HloComputation,
        codes: Sequence[int],
        places: Mapping[str, int],
        own_indices: dict[str, ShapeIndex],
    ) -> None:
        self._graph = graph
        self._computation = computation
        self._rows = computation.rows
        self._codes = codes
        self._places = places
        self._own_indices = own_indices
        self._views: dict[int, tuple[int, ShapeIndex]] = {}

    def add(self, flat: array[int], counts: Sequence[int], odd: Iterable[int]) -> Link:
        """Add its nodes and views, and return what they take from each other."""
        graph, rows, codes = self._graph, self._rows, self._codes
        first = len(graph.rows)
        offsets = [0, *accumulate(counts)]
        unknown = [at for at, code in enumerate(flat) if code == -1]
        again = {*odd, *(bisect_right(offsets, at) - 1 for at in unknown)}
        view_places = [place for place, code in enumerate(codes) if code >= _VIEW]
        self._resolve(view_places, flat, offsets, again)
        through = {bisect_right(offsets, at) - 1 for at, code in enumerate(flat) if code >= _VIEW}
        taken = map(add, flat, repeat(first))
        operands = [tuple(islice(taken, count)) for count in counts]
        indices: list[tuple[int, tuple[ShapeIndex, ...]]] = []
        for place in sorted(again | through):
            found = list(
                self._read(place)
                if place in again
                else map(self._node, flat[offsets[place] : offsets[place + 1]], repeat(()))
            )
            operands[place] = tuple([first + node if node >= 0 else -1 for node, _ in found])
            if codes[place] < _VIEW and any(index for _, index in found):
                indices.append((codes[place], tuple(index for _, index in found)))
        if view_places:
            graph.rows.extend(row for row, code in zip(rows, codes, strict=True) if code < _VIEW)
            operands = [o for o, code in zip(operands, codes, strict=True) if code < _VIEW]
        else:
            graph.rows.extend(rows)
        graph.operands.extend(operands)
        graph.indices.update((first + node, index) for node, index in indices)
        for place in view_places:
            node, index = self._views[place]
            graph.views.append(View(rows[place], first + node if node >= 0 else -1, index))
        node, index = self._node(codes[rows.index(self._computation.root_row)], ())
        graph.roots.append((first + node if node >= 0 else -1, index))
        relative = array("i", [o - first if o >= 0 else -1 for taken in operands for o in taken])
        own_counts = array("i", map(len, operands))
        return as_key(own_counts), as_key(relative), tuple(indices), node, index

    def _node(self, code: int, index: ShapeIndex) -> tuple[int, ShapeIndex]:
        """Return the node that a code stands for, and which element of it."""
        if code < _VIEW:
            return code, index
        node, outer = self._views[code - _VIEW]
        return node, (*outer, *index)

    def _read(self, place: int) -> Iterator[tuple[int, ShapeIndex]]:
        """Yield the operands of a row that has to be read by itself."""
        for operand in HloInstruction(self._computation, self._rows[place]).operands:
            yield self._node(self._places.get(operand.name, -1), operand.index)

    # ---- views ---------------------------------------------------------------------------------

    def _resolve(
        self,
        view_places: Sequence[int],
        flat: Sequence[int],
        offsets: Sequence[int],
        again: Collection[int],
    ) -> None:
        """Find the node and index behind each view; those that take each other have none."""
        for start in view_places:
            path: dict[int, ShapeIndex] = {}
            place = start
            while place not in self._views:
                if place in path:
                    self._views.update(dict.fromkeys(path, (-1, ())))
                    break
                if place in again or offsets[place + 1] - offsets[place] != 1:
                    code, index = self._first_operand(place)
                else:
                    code, index = flat[offsets[place]], ()
                path[place] = (*index, *self._own_index(self._rows[place]))
                if code < _VIEW:
                    self._views[place] = (code, path.pop(place))
                    break
                place = code - _VIEW
            node, outer = self._views[place]
            for inner, index in reversed(path.items()):
                outer = (*outer, *index)
                self._views.setdefault(inner, (node, outer))

    def _first_operand(self, place: int) -> tuple[int, ShapeIndex]:
        for operand in HloInstruction(self._computation, self._rows[place]).operands:
            return self._places.get(operand.name, -1), operand.index
        return -1, ()

    def _own_index(self, row: int) -> ShapeIndex:
        """Return which element a view takes of its operand."""
        columns = self._graph.module.columns
        text, base = columns.source.text, row * STRIDE
        start, end = columns.spans[base + OPERANDS_END] + 1, columns.spans[base + END]
        if text.startswith(_INDEX, start):
            comma = text.find(",", start + len(_INDEX), end)
            digits = text[start + len(_INDEX) : comma if comma >= 0 else end]
            known = self._own_indices.get(digits)
            if known is not None:
                return known
            if digits.isdecimal():
                return self._own_indices.setdefault(digits, (int(digits),))
        number = HloInstruction(self._computation, row).attribute("index")
        return (int(number),) if number is not None and number.isdecimal() else ()
