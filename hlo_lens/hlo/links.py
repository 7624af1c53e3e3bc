"""Edges of a module: operands, users, calls and callers, made once per module when asked for.

Edges are columns of numbers, one list of targets for all rows and the offset at which each row's
begin, because a module has up to a million. They are columns of the standard library, not of
numpy, which takes longer to import than the edges of most modules take to read; `memoryview` and
`numpy.asarray` read them without a copy.

Hand-written text may give several instructions of a computation one name: a name means the last.
A name that the text does not define has no target.
"""

from __future__ import annotations

import functools
import re
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate, islice, repeat
from operator import add, sub
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hlo_lens.hlo.columns import END, NOTHING, OPERANDS, OPERANDS_END, STRIDE
from hlo_lens.hlo.opcodes import OpcodeTraits, opcode_traits
from hlo_lens.hlo.text import CALLING_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.columns import ComputationColumns, InstructionColumns
    from hlo_lens.shapes.shape import ShapeIndex
    from hlo_lens.text.rows import FewTexts

_Mark = TypeVar("_Mark")


class Links:
    """The edges of a module.

    Attributes:
        walks: What walkers of values keep, by name; not pickled.
    """

    def __init__(
        self, columns: InstructionColumns, computations: ComputationColumns, opcodes: FewTexts
    ) -> None:
        self._columns = columns
        self._computations = computations
        self._opcodes = opcodes
        self.walks: dict[str, object] = {}
        self._of_computations: dict[int, OperandColumns] = {}
        self._parameters: dict[int, Mapping[int, int]] = {}
        self._whole: OperandColumns | None = None
        self._of_elements: dict[int, Mapping[int | None, Sequence[tuple[int, int]]]] = {}

    def __getstate__(self) -> dict[str, object]:
        empty = ("walks", "_of_computations", "_parameters", "_of_elements")
        return {**vars(self), **{name: {} for name in empty}}

    # ---- operands and users --------------------------------------------------------------------

    def operand_columns(self, row: int) -> OperandColumns:
        """Return the operands of the computation of a row, or of all if these are known."""
        if self._whole is not None:
            return self._whole
        place = self.owners[row]
        found = self._of_computations.get(place)
        if found is None:
            rows = self._computations.rows(place)
            extent = range(rows[0], rows[-1] + 1)
            found = OperandColumns(self._columns, [rows], extent, self._opcodes)
            self._of_computations[place] = found
        return found

    def all_operands(self) -> OperandColumns:
        """Return the operands of all instructions, found faster than one computation at a time."""
        if self._whole is None:
            rows = range(len(self._columns))
            listed = self._computations.all_rows()
            self._whole = OperandColumns(self._columns, listed, rows, self._opcodes)
            self._of_computations.clear()
        return self._whole

    @property
    def operand_offsets(self) -> Sequence[int]:
        """Offset of the first operand of each row in `operand_rows`, and the end of the last."""
        return self.all_operands().offsets

    @property
    def operand_rows(self) -> array[int]:
        """Row of each operand of each row; `NOTHING` for a name that its computation lacks."""
        return self.all_operands().rows

    @property
    def operand_elements(self) -> Mapping[int, tuple[ShapeIndex, ...]]:
        """Row to the tuple index of each operand (``%w#1``), for rows with any index."""
        return self.all_operands().elements

    def operands_of(self, row: int) -> Sequence[int]:
        return self.operand_columns(row).of(row)

    def elements_of(self, row: int) -> tuple[ShapeIndex, ...] | None:
        """Return the tuple index of each operand of a row; None if no operand has one."""
        return self.operand_columns(row).elements.get(row)

    def operand(self, row: int, position: int) -> tuple[int, ShapeIndex]:
        """Return the row of one operand and the tuple index into its result.

        `NOTHING` if there is no such operand, or the text does not define it.
        """
        columns = self.operand_columns(row)
        place = row - columns.first
        edge = columns.offsets[place] + position
        if edge >= columns.offsets[place + 1]:
            return NOTHING, ()
        elements = columns.elements.get(row) if columns.elements else None
        return columns.rows[edge], () if elements is None else elements[position]

    def undefined_operands(self) -> Iterator[int]:
        if NOTHING in self.operand_rows:
            edges = (edge for edge, row in enumerate(self.operand_rows) if row == NOTHING)
            yield from dict.fromkeys(bisect_right(self.operand_offsets, edge) - 1 for edge in edges)

    def users_of(self, row: int) -> list[tuple[int, int]]:
        return self.operand_columns(row).users_of(row)

    def users_of_element(self, row: int, number: int) -> list[tuple[int, int]]:
        """Return row and operand number of each use of an element of a row's result.

        Uses of the whole tuple come first; both are in text order.
        """
        if row not in self._of_elements:
            found: dict[int | None, list[tuple[int, int]]] = {}
            for user, position in self.users_of(row):
                _, read = self.operand(user, position)
                first = read[0] if read else self._columns.tuple_index(user)
                found.setdefault(first, []).append((user, position))
            self._of_elements[row] = found
        uses = self._of_elements[row]
        return [*uses.get(None, ()), *uses.get(number, ())]

    @functools.cached_property
    def control_predecessors(self) -> Mapping[int, tuple[int, ...]]:
        """Row to the rows that must run before it, as far as the text defines them."""
        found: dict[int, tuple[int, ...]] = {}
        place, rows = NOTHING, dict[str, int]()
        for row in self._columns.rows_with_attribute_text("control-predecessors="):
            if self.owners[row] != place:
                place = self.owners[row]
                rows = self._columns.rows_by_name(self._computations.rows(place))
            names = self._columns.control_predecessors(row)
            before = tuple(rows[name] for name in names if name in rows)
            if before:
                found[row] = before
        return found

    def post_order(self, rows: Sequence[int]) -> list[int]:
        """Return the rows of a computation in XLA's order: operands first, the first one's first.

        Control predecessors come before operands, the last one first. Rows of a cycle of operands
        without users outside come last, in text order. Source:
        HloComputation::MakeInstructionPostOrder.
        """
        controls = self.control_predecessors
        offsets, targets = self.operand_offsets, self.operand_rows
        if isinstance(rows, range) and rows:
            used = set(targets[offsets[rows[0]] : offsets[rows[-1] + 1]])
        else:
            used = {target for row in rows for target in self.operands_of(row)}
        for row in rows if controls else ():
            used.update(controls.get(row, ()))
        order: dict[int, None] = {NOTHING: None}  # which is no row, and never waits
        visiting: set[int] = set()
        for root in rows:
            if root in used:
                continue
            stack = [root]
            while stack:
                row = stack[-1]
                if row in order:
                    stack.pop()
                elif row in visiting:
                    stack.pop()
                    order[row] = None
                else:
                    visiting.add(row)
                    stack.extend(reversed(targets[offsets[row] : offsets[row + 1]]))
                    if row in controls:
                        stack.extend(controls[row])
        order.update(dict.fromkeys(rows))
        return list(islice(order, 1, None))

    # ---- computations --------------------------------------------------------------------------

    @functools.cached_property
    def owners(self) -> array[int]:
        """For each row the position of its computation among the module's."""
        owners = array("I", bytes(4 * len(self._columns)))
        for position, rows in enumerate(self._computations.all_rows()):
            if isinstance(rows, range):
                owners[rows.start : rows.stop] = array("I", [position]) * len(rows)
            else:
                for row in rows:
                    owners[row] = position
        return owners

    @functools.cached_property
    def calls(self) -> Calls:
        return Calls(self._columns, self._computations, self._opcodes)

    @functools.cached_property
    def roots(self) -> Sequence[int]:
        """For each computation the row of its result; `NOTHING` if it has none."""
        columns = self._computations
        roots = array("i", [NOTHING]) * len(columns)
        for place, rows in enumerate(columns.all_rows()):
            if rows and columns.is_complete(place):
                roots[place] = rows[-1]
        for row in self._columns.roots:
            roots[self.owners[row]] = row
        return roots

    def root_of(self, row: int, *roles: str) -> int | None:
        """Return the root of the first computation that a row calls, or calls in some roles.

        None if the text has no such computation, or it has no root.
        """
        for call in self.calls.of_row(row):
            if call.place != NOTHING and (not roles or call.role in roles):
                root = self.roots[call.place]
                return None if root == NOTHING else root
        return None

    def parameters_of(self, place: int) -> Mapping[int, int]:
        if place not in self._parameters:
            rows = self.parameter_rows(place)
            numbers = [(self._columns.parameter_number(row), row) for row in rows]
            numbers.sort(key=lambda item: (item[0] is None, item[0] or 0))
            self._parameters[place] = {number or 0: row for number, row in numbers}
        return self._parameters[place]

    def parameter_rows(self, place: int) -> list[int]:
        rows, opcodes = self._computations.rows(place), self._opcodes
        if isinstance(rows, range):
            return opcodes.places_of({"parameter"}, rows)
        return [row for row in rows if opcodes[row] == "parameter"]

    def is_root(self, row: int) -> bool:
        return self.roots[self.owners[row]] == row

    def root(self, call: Call) -> int:
        """Return the row of the result of a called computation; `NOTHING` if there is none."""
        return NOTHING if call.place == NOTHING else self.roots[call.place]

    def reached(self, start: int, through: Callable[[OpcodeTraits], bool]) -> list[int]:
        """Return the positions of a computation and of those it reaches, ascending.

        Args:
            start: Position of the computation.
            through: Returns whether calls by an opcode are followed.
        """
        traits = map(opcode_traits, self._opcodes.different)
        followed = {number for number, one in enumerate(traits) if through(one)}
        found, waiting = {start}, [start]
        while waiting:
            rows = self._computations.rows(waiting.pop())
            for row, place in self.calls.targets(rows):
                is_new = place != NOTHING and place not in found
                if is_new and self._opcodes.numbers[row] in followed:
                    found.add(place)
                    waiting.append(place)
        return sorted(found)

    def below(self, roots: Mapping[int, _Mark]) -> dict[int, _Mark]:
        """Return the positions of some computations and of all below them, with marks.

        Args:
            roots: Position of a computation to its mark, which those below it get; a computation
                below several has that of the last.
        """
        found = dict(roots)
        waiting = list(roots)
        while waiting:
            place = waiting.pop()
            for _, called in self.calls.targets(self._computations.rows(place)):
                if called != NOTHING and called not in found:
                    found[called] = found[place]
                    waiting.append(called)
        return found


# ---- operands ----------------------------------------------------------------------------------

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

    `listed` are the rows of all computations of the module, or of one; `extent` those from their
    first to their last.

    Attributes:
        first: The first row.
        offsets: Offset of the first operand of each row from there on, and one offset more.
        rows: Rows of the operands.
        elements: Row to the element that each operand is of a tuple, where any is one.
    """

    def __init__(
        self,
        columns: InstructionColumns,
        listed: Sequence[Sequence[int]],
        extent: range,
        opcodes: FewTexts,
    ) -> None:
        self._columns = columns
        self._opcodes = opcodes
        self.first = extent.start
        self.rows = array("i")
        self.offsets = array("I", [0])
        self.elements: dict[int, tuple[ShapeIndex, ...]] = {}
        apart: Sequence[int] = extent
        if len(extent) <= _FEW and listed == [extent] and self._resolve_few(extent):
            apart = self._left_over((), extent)
        elif _are_in_order(listed, extent):
            apart = self._left_over(self._resolve(listed, extent), extent)
        else:
            self.offsets.extend(repeat(0, len(extent)))
        if apart:
            self._put_in(self._read_one_by_one(apart, listed))

    def of(self, row: int) -> array[int]:
        place = row - self.first
        return self.rows[self.offsets[place] : self.offsets[place + 1]]

    def users_of(self, row: int) -> list[tuple[int, int]]:
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

    def _resolve(self, listed: Sequence[Sequence[int]], extent: range) -> list[int]:
        """Add the operands of computations whose rows follow one another.

        Returns:
            The rows that are to be read one by one.
        """
        columns, offsets, operands = self._columns, self.offsets, self.rows
        odd: list[int] = []
        chunks = self._name_chunks(extent, odd)
        names: Iterator[str] = iter(())
        done = 0
        for rows in listed:
            if not rows:
                continue
            places = columns.rows_by_name(rows)
            stop = rows[-1] + 1 - self.first
            while True:
                end = min(stop, len(offsets) - 1)
                found = islice(names, offsets[end] - done)
                operands.extend(map(places.get, found, repeat(NOTHING)))
                done = offsets[end]
                if end == stop:
                    break
                chunk, counts = next(chunks)
                names = iter(chunk)
                offsets.extend(islice(accumulate(counts, initial=done), 1, None))
        return odd

    def _resolve_few(self, rows: range) -> bool:
        """Add the operands of one small computation, if all its lists are plain."""
        lists = self._lists(rows)
        joined = ", ".join(filter(None, lists))
        if "(" in joined or "[" in joined or "/" in joined:
            return False
        places = self._columns.rows_by_name(rows)
        names = joined.replace("%", "").split(", ") if joined else ()
        self.rows.extend(map(places.get, names, repeat(NOTHING)))
        counts = [listed.count(", ") + 1 if listed else 0 for listed in lists]
        self.offsets.extend(islice(accumulate(counts, initial=0), 1, None))
        return True

    def _lists(self, rows: range) -> list[str]:
        spans = self._columns.spans[rows.start * STRIDE : rows.stop * STRIDE]
        places = map(slice, spans[OPERANDS::STRIDE], spans[OPERANDS_END::STRIDE])
        lists = list(map(self._columns.source.text.__getitem__, places))
        numbers = self._opcodes.numbers[rows.start : rows.stop]
        printed = self._printed
        return ["" if n in printed else text for n, text in zip(numbers, lists, strict=True)]

    @functools.cached_property
    def _printed(self) -> frozenset[int]:
        """Numbers of the opcodes whose parentheses hold a value, no operands."""
        traits = map(opcode_traits, self._opcodes.different)
        return frozenset(number for number, one in enumerate(traits) if one.is_printed_value)

    def _name_chunks(
        self, extent: range, odd: list[int]
    ) -> Iterator[tuple[Iterable[str], Sequence[int]]]:
        """Yield the operands of many rows at a time, and how many each of the rows has.

        `odd` gets the rows whose operands need to be read one by one; they have none here.
        """
        for start in range(extent.start, extent.stop, _CHUNK):
            counts: list[int] = []
            lists = self._lists(range(start, min(start + _CHUNK, extent.stop)))
            yield _names(start, lists, counts, odd), counts

    def _left_over(self, odd: Sequence[int], extent: range) -> list[int]:
        """Return the rows that are read one by one, ascending."""
        overlays = self._columns.overlays
        if not odd and not overlays and NOTHING not in self.rows:
            return []
        found = {*odd, *(row for row in overlays if row in extent)}
        if NOTHING in self.rows:
            unknown = (edge for edge, row in enumerate(self.rows) if row == NOTHING)
            found.update(self.first + bisect_right(self.offsets, edge) - 1 for edge in unknown)
        return sorted(found)

    def _read_one_by_one(
        self, wanted: Iterable[int], listed: Iterable[Sequence[int]]
    ) -> dict[int, array[int]]:
        found: dict[int, array[int]] = {}
        waiting = set(wanted)
        for rows in listed:
            inside = waiting.intersection(rows)
            places = self._columns.rows_by_name(rows) if inside else {}
            for row in sorted(inside):
                operands = self._columns.operands(row)
                found[row] = array("i", [places.get(o.name, NOTHING) for o in operands])
                if any(operand.index for operand in operands):
                    self.elements[row] = tuple(operand.index for operand in operands)
        return found

    def _put_in(self, reread: Mapping[int, array[int]]) -> None:
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


def _names(first: int, lists: Sequence[str], counts: list[int], odd: list[int]) -> list[str]:
    """Return the names in the lists of rows, which are split until each part has one form."""
    joined = "\n".join(lists)
    plain = lists
    if "/*" in joined or joined.count("\n") >= len(lists):
        joined = _COMMENT.sub("", joined)
        plain = joined.split("\n")
    here: list[int] = []
    names: list[str] = []
    if "(" not in joined and "[" not in joined:
        here = list(map(add, map(str.count, plain, repeat(", ")), map(bool, plain)))
        names = joined.replace("%", "").replace("\n", ", ").split(", ")
        if 0 in here:
            names = list(filter(None, names))
    elif _TYPED_LISTS.fullmatch(f"{joined}\n"):
        here = list(map(str.count, plain, repeat("%")))
        names = _NAME.findall(joined)
    if len(here) == len(lists) and sum(here) == len(names):
        counts += here
        return names
    if len(lists) == 1:
        counts.append(0)
        odd.append(first)
        return []
    size = -(-len(lists) // _PARTS)
    found: list[str] = []
    for start in range(0, len(lists), size):
        found += _names(first + start, lists[start : start + size], counts, odd)
    return found


# ---- calls -------------------------------------------------------------------------------------

_CALLED = re.compile(rf",\s*({'|'.join(CALLING_ATTRIBUTES)})=\s*(\{{[^{{}}]*\}}|%?[\w.-]+)")
_CALLED_NAME = re.compile(r"[\w.-]+")
_ROLES = {role: number for number, role in enumerate(CALLING_ATTRIBUTES)}


class Call(NamedTuple):
    """A computation that an instruction calls.

    Attributes:
        row: Row of the instruction.
        place: Position of the computation among the module's; `NOTHING` if it is not in the
            text.
        role: Attribute that names it: ``body``, ``condition``, ``to_apply``, ``calls``, ...
        number: Its position among those that the instruction calls.
    """

    row: int
    place: int
    role: str
    number: int


def operand_number(call: Call, opcode: str, parameter: int) -> int:
    """Return the number of the caller's operand that is a parameter of a called computation."""
    if opcode == "while":
        return 0
    return 1 + call.number if opcode == "conditional" else parameter


class Calls:
    """The calls of a module, in text order.

    Attributes:
        rows: Row of the caller of each call.
        places: Position of each called computation; `NOTHING` if it is not in the text.
        undefined: Position of a call to the name of its computation, if that is not in the text.
    """

    def __init__(
        self, columns: InstructionColumns, computations: ComputationColumns, opcodes: FewTexts
    ) -> None:
        self.rows = array("I")
        self.places = array("i")
        self.undefined: dict[int, str] = {}
        self._roles = array("B")
        self._computations = len(computations)
        names = computations.all_names(columns.source.text)
        places = {name: place for place, name in enumerate(names)}
        for row, role, name in _calls(columns, opcodes):
            place = places.get(name, NOTHING)
            if place == NOTHING:
                self.undefined[len(self.rows)] = name
            self.rows.append(row)
            self.places.append(place)
            self._roles.append(_ROLES[role])

    @functools.cached_property
    def _by_place(self) -> Sequence[Sequence[int]]:
        found: list[array[int]] = [array("I") for _ in range(self._computations)]
        for number, place in enumerate(self.places):
            if place != NOTHING:
                found[place].append(number)
        return found

    def of_row(self, row: int) -> list[Call]:
        return list(map(self._call, self._numbers(row, row + 1)))

    def _numbers(self, start: int, stop: int) -> range:
        return range(bisect_left(self.rows, start), bisect_left(self.rows, stop))

    def targets(self, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
        if isinstance(rows, range):
            part = self._numbers(rows.start, rows.stop)
            first, last = part.start, part.stop
            return zip(self.rows[first:last], self.places[first:last], strict=True)
        return ((call.row, call.place) for call in self.of_rows(rows))

    def of_rows(self, rows: Sequence[int]) -> Iterator[Call]:
        if isinstance(rows, range):
            yield from map(self._call, self._numbers(rows.start, rows.stop))
        else:
            for row in rows:
                yield from self.of_row(row)

    @property
    def roles(self) -> Iterator[str]:
        """Attribute that names the computation of each call."""
        return map(CALLING_ATTRIBUTES.__getitem__, self._roles)

    def of_computation(self, place: int) -> list[Call]:
        return list(map(self._call, self._by_place[place]))

    def _call(self, number: int) -> Call:
        row = self.rows[number]
        role = CALLING_ATTRIBUTES[self._roles[number]]
        return Call(row, self.places[number], role, number - bisect_left(self.rows, row))


def _calls(columns: InstructionColumns, opcodes: FewTexts) -> Iterator[tuple[int, str, str]]:
    """Yield row, role and name of each called computation, in text order."""
    text, spans = columns.source.text, columns.spans
    traits = map(opcode_traits, opcodes.different)
    wanted = {one.opcode for one in traits if one.is_caller or not one.is_known}
    calling = {row for row, overlay in columns.overlays.items() if overlay.called}
    for row in sorted(calling.union(opcodes.places_of(wanted))):
        start, end = spans[row * STRIDE + OPERANDS_END], spans[row * STRIDE + END]
        matches = () if row in columns.overlays else tuple(_CALLED.finditer(text, start, end))
        if matches and _is_plain(text, start, matches[-1].end(), end):
            for match in matches:
                role, value = match.groups()
                for name in _CALLED_NAME.findall(value):
                    yield row, role, name
        else:
            yield from ((row, role, name) for role, name in columns.calls(row))


def _is_plain(text: str, start: int, last: int, end: int) -> bool:
    """Return whether attributes have no comment, and no string before the end of the last call.

    A comment has a star, or ends with its line; one character is found faster than two.
    """
    if text.find("*", start, end) >= 0 or text.find("\n", start, end) >= 0:
        return False
    return text.find('"', start, last) < 0
