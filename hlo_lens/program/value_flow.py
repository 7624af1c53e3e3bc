"""The ways in which a value goes on as another one: the one table that all walkers of values use.

A value is the row of an instruction and a shape index into its result. `ValueFlow.before` takes one
step back and `ValueFlow.after` one step on, through

* tuples and their elements, which texts print as instructions (``get-tuple-element``) or, since
  July 2026, in the operand alone (``%w#1``);
* views (bitcast, opt-barrier, add-dependency, domain) and copies, also asynchronous ones;
* starts, updates and ends of asynchronous operations;
* fusions, calls, conditionals and loops: into a computation by its parameters, and out of it by its
  root.

A `Route` is the choice that a walker makes among these. A computation with several callers is left
by the first of them; a fused one that several fusions share is not left.

Source of the results of asynchronous operations: `Produced`. Nothing here is recursive: texts nest
computations deep, and damaged ones in circles.
"""

from __future__ import annotations

import functools
from itertools import islice, repeat
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from hlo_lens.hlo.columns import END, LONG_NUMBER, NOTHING, OPERANDS_END, STRIDE
from hlo_lens.hlo.opcodes import OPCODES, Produced, opcode_traits, opcodes_where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hlo_lens.hlo.links import Call
    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.shapes.shape import Shape, ShapeIndex


T = TypeVar("T")

_STEPS = 64
"""Instructions by which a value is followed, at most."""

SOURCELESS = opcodes_where(lambda traits: traits.is_sourceless)
"""Opcodes that compute from no other value."""

TUPLES = frozenset({"tuple", "get-tuple-element"})
VIEWS = opcodes_where(lambda traits: traits.is_view and traits.is_forwarding)
"""Opcodes whose result is operand 0 by another name."""

COPIES = opcodes_where(lambda traits: traits.is_same and not traits.is_end) | {"copy-start"}
"""Opcodes whose result has the elements of operand 0 in the same order; views too."""

ENDS = opcodes_where(lambda traits: traits.is_end) | {
    f"{opcode}-{phase}" for opcode in OPCODES for phase in ("update", "done")
}
CALLERS = opcodes_where(lambda traits: traits.is_runner)
"""Opcodes that run computations on their operands."""

STORING = opcodes_where(lambda traits: traits.is_formatting) | {
    *("dynamic-update-slice", "fusion", "async-done")
}
"""Opcodes that may store a slice in a larger value (`ValueFlow.update`)."""

_RUNNERS = frozenset({"fusion", "call", "async-start"})
"""Opcodes whose result is that of the computation they run."""

_ASYNC_START = '"AsyncCollectiveStart"'
"""Custom call in texts whose fusions may carry an asynchronous TPU collective."""

_INDEX = ", index="


class Value(NamedTuple):
    """The result of an instruction, or an element of it."""

    row: int
    element: ShapeIndex = ()


class Use(NamedTuple):
    """An operand, by its user and number, that is a value, or has it as an element."""

    row: int
    position: int
    element: ShapeIndex = ()  # of the value in the operand; () also where that is a part of it


class Route(NamedTuple):
    """The ways that a walker takes."""

    through: frozenset[str]  # opcodes whose results are other values: elements, views, calls
    out_of: frozenset[str] = frozenset()  # callers whose parameters are other values


_DEFINITION = Route(TUPLES | VIEWS | {"while", "call"}, CALLERS)
_LOCAL = Route(TUPLES | VIEWS | {"while"})
_MAKER = Route(TUPLES | COPIES | ENDS | {"fusion"}, frozenset({"fusion"}))


def value_flow(module: HloModule) -> ValueFlow:
    """Return the steps between the values of a module, each found once."""
    return cast("ValueFlow", module.links.walks.setdefault("value_flow", ValueFlow(module)))


class ValueFlow:
    """Steps between the values of a module; `value_flow` has the one of each module."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self._links = module.links
        self._callers: dict[int, Call | None] = {}
        self._sizes: dict[str, int] = {}
        self._carriers: dict[int, dict[int, list[int]]] = {}
        self._inner: dict[Value, Value | None] = {}
        self._sources: dict[Value, list[Value]] = {}
        self._unpacked: dict[int, Value] = {}

    @functools.cached_property
    def opcodes(self) -> Sequence[str]:
        return self.module.opcodes[:]

    @functools.cached_property
    def _has_carriers(self) -> bool:
        return _ASYNC_START in self.module.columns.source.text

    @functools.cached_property
    def passing(self) -> frozenset[str]:
        """Opcodes whose results may be values of other instructions (`definition`)."""
        carriers = frozenset({"fusion"} if self._has_carriers else ())
        return _DEFINITION.through | {"parameter", "conditional"} | carriers

    # ---- one instruction -----------------------------------------------------------------------

    def operand(self, row: int, position: int, index: ShapeIndex = ()) -> Value | None:
        """Return an operand, or an element of it; None if the text does not define it."""
        operand, element = self._links.operand(row, position)
        if operand == NOTHING:
            return None
        return Value(operand, (*element, *index) if element else index)

    def operands(self, row: int, most: int | None = None) -> list[Value]:
        """Return the first operands that the text defines, by default all."""
        columns = self._links.operand_columns(row)
        rows, elements = columns.of(row)[:most], columns.elements.get(row)
        indices = elements[:most] if elements else repeat((), len(rows))
        pairs = zip(rows, indices, strict=True)
        return [Value(operand, index) for operand, index in pairs if operand != NOTHING]

    def number(self, element: int) -> int | None:
        """Return the element that a get-tuple-element takes; None if it is not printed."""
        columns = self.module.columns
        text, base = columns.source.text, element * STRIDE
        start, end = columns.spans[base + OPERANDS_END] + 1, columns.spans[base + END]
        if text.startswith(_INDEX, start):
            comma = text.find(",", start + len(_INDEX), end)
            digits = text[start + len(_INDEX) : comma if comma >= 0 else end]
            if digits.isdecimal() and len(digits) < LONG_NUMBER:
                return int(digits)
        return self.module.instruction(element).tuple_index

    def unpacked(self, row: int) -> Value:
        """Return the value behind get-tuple-elements of each other; `NOTHING` for a circle."""
        path: dict[int, ShapeIndex] = {}
        value = Value(row)
        while value.row not in self._unpacked:
            if value.row == NOTHING or self.opcodes[value.row] != "get-tuple-element":
                break
            if value.row in path:
                self._unpacked.update(dict.fromkeys(path, Value(NOTHING)))
                path.clear()
                break
            operand, taken = self._links.operand(value.row, 0)
            number = self.number(value.row)
            path[value.row] = taken if number is None else (*taken, number)
            value = Value(operand)
        value = self._unpacked.get(value.row, value)
        for element, index in reversed(path.items()):
            value = Value(value.row, (*value.element, *index))
            self._unpacked[element] = value
        return value

    def root(self, row: int, *roles: str) -> int | None:
        """Return the root of the first computation that an instruction calls, of some roles."""
        return self._links.root_of(row, *roles)

    def caller(self, row: int) -> Call | None:
        """Return the first call of an instruction's computation; None in the entry."""
        place = self._links.owners[row]
        if place not in self._callers:
            is_entry = self.module.computations[place].is_entry
            calls = [] if is_entry else self._links.calls.of_computation(place)
            self._callers[place] = calls[0] if calls else None
        return self._callers[place]

    def _is_shared(self, call: Call) -> bool:
        """Return whether several fusions have one computation, as XLA's never have."""
        if self.opcodes[call.row] != "fusion":
            return False
        return len(self._links.calls.of_computation(call.place)) > 1

    def shape(self, value: Value) -> Shape | None:
        """Return the shape of a value; None if it is not known."""
        return self.module.instruction(value.row).shape_of(value.element)

    def size(self, value: Value) -> int:
        """Return the bytes of a value; 0 if not known."""
        text = self.module.shape_texts[value.row]
        # a tuple of send and recv has more than is printed
        key = None if value.element or text.startswith("(") else text
        if key is None or key not in self._sizes:
            shape = self.shape(value)
            size = 0 if shape is None else shape.size_bytes or 0
            if key is None:
                return size
            self._sizes[key] = size
        return self._sizes[key]

    # ---- backwards -----------------------------------------------------------------------------

    def before(self, value: Value, route: Route) -> Value | None:
        """Return the value that a value is, one step back; None where an instruction computes it.

        The element of a loop's result is the one before the loop if the body keeps it.
        """
        row, index = value
        opcode = self.opcodes[row]
        if opcode == "parameter":
            call = self.caller(row) if route.out_of else None
            if call is None or self.opcodes[call.row] not in route.out_of or self._is_shared(call):
                return None
            is_loop = self.opcodes[call.row] == "while"
            return Value(call.row, index) if is_loop else self.argument(value, call)
        if opcode not in route.through:
            return None
        if opcode == "tuple":
            return self.operand(row, index[0], index[1:]) if index else None
        if opcode == "get-tuple-element":
            number = self.number(row)
            return None if number is None else self.operand(row, 0, (number, *index))
        if opcode == "while":
            is_kept = bool(index) and self.written(value) is None
            return self.operand(row, 0, index) if is_kept else None
        if opcode in _RUNNERS:
            return self.result(value)
        if opcode == "copy-start":  # (destination, source, context)
            return None if index == (2,) else self.operand(row, 0, index[1:])
        return self.operand(row, 0, (*_returned_part(opcode), *index))

    def argument(self, value: Value, call: Call) -> Value | None:
        """Return the operand of a call that a parameter is; of a loop, the one of the first trip.

        None for parameters that are elements of operands, as of reducers.
        """
        opcode = self.opcodes[call.row]
        if opcode == "while":
            return self.operand(call.row, 0, value.element)
        if opcode == "conditional":
            return self.operand(call.row, 1 + call.number, value.element)
        number = self.module.instruction(value.row).parameter_number or 0
        operands, user = self._links.operands_of(call.row), call.row
        if opcode == "async-start" and not operands:  # its update has them
            users = self._links.users_of(call.row)
            updates = (one for one, position in users if position == 0)
            user = next((one for one in updates if self.opcodes[one] == "async-update"), user)
        operand = self.operand(user, number + (user != call.row))
        is_whole = opcode_traits(opcode).is_positional
        if opcode == "custom-call":  # SparseCores run a computation on whole operands
            parameters = self._links.parameters_of(self._links.owners[value.row])
            is_whole = operand is not None and self.size(operand) == self.size(Value(value.row))
            is_whole = is_whole and len(parameters) == len(operands)
        if operand is None or not is_whole:
            return None
        return Value(operand.row, (*operand.element, *value.element))

    def result(self, value: Value, *roles: str) -> Value | None:
        """Return the value in a called computation that the result of its call is."""
        root, index = self.root(value.row, *roles), value.element
        if index and self.opcodes[value.row] == "async-start":  # ((operands), result, contexts)
            root, index = root if index[0] == 1 else None, index[1:]
        return None if root is None else Value(root, index)

    def definition(self, value: Value, *, is_local: bool = False) -> Value:
        """Return the value before tuples, views, calls and loops passed it on.

        An element that the body of a loop overwrites is defined by the loop. Locally, parameters
        and calls of computations are definitions too.
        """
        route = _LOCAL if is_local else _DEFINITION
        for _ in range(_STEPS):
            before = self._passed(value, route) if self.opcodes[value.row] in self.passing else None
            if before is None:
                break
            value = before
        return value

    def _passed(self, value: Value, route: Route) -> Value | None:
        carries = self._has_carriers and self.opcodes[value.row] == "fusion"
        return self._carried(value) if carries else self.before(value, route)

    def written(self, value: Value) -> Value | None:
        """Return the value that the body of a loop gives an element; None if it keeps it."""
        inner = self._computed_inside(value) if value.element else None
        if inner is None or self.opcodes[inner.row] != "parameter":
            return inner
        is_kept = inner.element == value.element
        return None if is_kept else self.operand(value.row, 0, inner.element)

    def _carried(self, value: Value) -> Value | None:
        """Return the operand that a fusion returns as an element as it is.

        TPU compilers so carry an asynchronous collective through the fusions that run beside it.
        """
        outer = Value(value.row, value.element[:1])
        inner = self._computed_inside(outer) if value.element else None
        if inner is None or self.opcodes[inner.row] != "parameter" or inner.element:
            return None
        number = self.module.instruction(inner.row).parameter_number or 0
        return self.operand(value.row, number, value.element[1:])

    def _computed_inside(self, value: Value) -> Value | None:
        """Return the local definition of an element of a loop or fusion in what it runs.

        Loops and fusions on the way are decided first; in a circle of them the first is the end.
        """
        opened: set[Value] = set()
        waiting = [] if value in self._inner else [value]
        while waiting:
            outer = waiting[-1]
            opened.add(outer)
            is_loop = self.opcodes[outer.row] == "while"
            inner = self.result(outer, "body") if is_loop else self.result(outer)
            undecided: Value | None = None
            for _ in range(_STEPS):
                if inner is None or (undecided := self._undecided(inner)) is not None:
                    break
                before = self._passed(inner, _LOCAL)
                if before is None:
                    break
                inner = before
            if undecided is not None and undecided not in opened:
                waiting.append(undecided)
            else:
                self._inner[outer] = inner
                waiting.pop()
        return self._inner[value]

    def _undecided(self, value: Value) -> Value | None:
        """Return the element of a loop or carrying fusion whose way on is not known yet."""
        opcode = self.opcodes[value.row]
        outer = value if opcode == "while" else Value(value.row, value.element[:1])
        is_way = opcode == "while" or (opcode == "fusion" and self._has_carriers)
        return outer if value.element and is_way and outer not in self._inner else None

    def update(self, value: Value) -> Value | None:
        """Return what a dynamic-update-slice writes, also one in a fusion or run asynchronously."""
        for _ in range(_STEPS):
            row = value.row
            opcode = self.opcodes[row]
            if opcode not in STORING:
                return None
            if opcode == "dynamic-update-slice":
                operand = self.operand(row, 1)
                return None if operand is None else self.definition(operand)
            if opcode in ("fusion", "async-done"):
                runner = row if opcode == "fusion" else self._links.operand(row, 0)[0]
                root = None if runner == NOTHING else self.root(runner)
                before = None if root is None else Value(root, value.element)
                before = before and self.definition(before, is_local=True)
            else:
                before = self.operand(row, 0)
                before = before if before is not None and not before.element else None
            if before is None:
                return None
            value = before
        return None

    def sources(self, value: Value) -> list[Value]:
        """Return the definitions of the operands of a value's instruction, the largest first.

        Of an element that a loop carries, that of the element before the loop. None for constants
        and other instructions that are computed from no value.
        """
        if value not in self._sources:
            row, index = value
            if self.opcodes[row] == "while" and index:
                operand = self.operand(row, 0, index)
                operands = [] if operand is None else [operand]
            else:
                operands = [] if self.opcodes[row] in SOURCELESS else self.operands(row, _STEPS)
            defined = list(dict.fromkeys(map(self.definition, operands)))
            if len(defined) > 1:
                defined.sort(key=self.size, reverse=True)
            self._sources[value] = defined
        return self._sources[value]

    def maker(self, value: Value) -> Value | None:
        """Return the value whose instruction computes an array's elements; None if not in the text.

        Views, copies of the same elements, ends of asynchronous operations and the boundaries of
        fusions are skipped; loops and calls are not.
        """
        for _ in range(_STEPS):
            before = self.before(value, _MAKER) if value.row != NOTHING else None
            if before is None:
                return None if value.row == NOTHING else value
            value = before
        return None

    # ---- forwards ------------------------------------------------------------------------------

    def uses(self, value: Value) -> list[Use]:
        """Return the operands that are a value, have it as an element, or are a part of it."""
        row, index = value
        links = self._links
        listed = sorted(links.users_of_element(row, index[0])) if index else links.users_of(row)
        elements = links.operand_columns(row).elements
        if not elements:
            return [Use(user, position, index) for user, position in listed]
        uses = []
        for user, position in listed:
            taken = elements[user][position] if user in elements else ()
            if index[: len(taken)] == taken[: len(index)]:
                uses.append(Use(user, position, index[len(taken) :]))
        return uses

    def after(self, use: Use) -> Iterator[Value]:
        """Yield the values that an operand goes on as: none if its user takes another element.

        Of a fusion, call, loop or conditional the parameters of what it runs; of an instruction
        that computes, its result, as if it were a copy.
        """
        row, position, index = use
        opcode = self.opcodes[row]
        if opcode == "tuple":
            yield Value(row, (position, *index))
        elif opcode == "get-tuple-element":
            if not index or index[0] == self.number(row):
                yield Value(row, index[1:])
        elif opcode == "while":
            yield from self._parameters(row, 0, index)
        elif opcode == "conditional":
            yield from self._parameters(row, 0, index, branch=position - 1)
        elif opcode in _RUNNERS:
            yield from self._parameters(row, position, index)
        elif opcode == "copy-start":
            yield Value(row, (0, *index))
        elif opcode == "async-update" and position:  # operands of a start without any
            yield from self._parameters(self._links.operand(row, 0)[0], position - 1, index)
        else:
            part = _returned_part(opcode)
            if index[: len(part)] == part[: len(index)]:
                yield Value(row, index[len(part) :])

    def _parameters(
        self, row: int, number: int, index: ShapeIndex = (), branch: int | None = None
    ) -> Iterator[Value]:
        """Yield a parameter of what an instruction runs; of loops that of the body."""
        for call in self._links.calls.of_row(row):
            is_wanted = call.role != "condition" if branch is None else call.number == branch
            if call.place != NOTHING and is_wanted:
                parameter = self._links.parameters_of(call.place).get(number)
                if parameter is not None:
                    yield Value(parameter, index)

    def returned(self, value: Value) -> Value | None:
        """Return the result of the first caller that the root of a computation is."""
        call = self.caller(value.row) if self._links.is_root(value.row) else None
        if call is None or self.opcodes[call.row] not in CALLERS or self._is_shared(call):
            return None
        is_start = self.opcodes[call.row] == "async-start"
        return Value(call.row, (1, *value.element) if is_start else value.element)

    def users(self, value: Value) -> Iterator[Value]:
        """Yield the values that a value is part of, is passed on as, or is used for.

        A user that computes is the value of its whole result. A fusion that only carries a value
        is skipped.
        """
        seen, ways = {value}, [self._each_user(value)]
        while ways:
            user, is_carried = next(ways[-1], (None, False))
            if user is None:
                ways.pop()
            elif not is_carried:
                yield user
            elif user not in seen:
                seen.add(user)
                ways.append(self._each_user(user))

    def _each_user(self, value: Value) -> Iterator[tuple[Value, bool]]:
        """Yield the users of a value, and elements of fusions that only carry it as such."""
        for use in self.uses(value):
            opcode = self.opcodes[use.row]
            if opcode == "fusion" and self._has_carriers:
                carried = self._carried_elements(use.row, use.position)
                yield from ((Value(use.row, (k, *use.element)), True) for k in carried)
                if not carried:
                    yield Value(use.row), False
            elif opcode in self.passing:
                yield from ((one, False) for one in self.after(use))
            else:
                yield Value(use.row), False
        returned = self.returned(value)
        if returned is not None:
            yield returned, False
            call = self.caller(value.row)
            if call is not None and call.role == "body":  # the next iteration
                yield from ((one, False) for one in self._parameters(call.row, 0, value.element))

    def _carried_elements(self, row: int, position: int) -> list[int]:
        """Return the elements that a fusion returns an operand as; none if it computes with it."""
        if row not in self._carriers:
            carried = self._carriers[row] = dict[int, list[int]]()
            root = self.root(row)
            if root is None or self.opcodes[root] != "tuple":
                return []
            for k in range(len(self._links.operands_of(root))):
                inner = self._computed_inside(Value(row, (k,)))
                if inner is not None and not inner.element:
                    carried.setdefault(inner.row, []).append(k)
        return [
            element
            for parameter in self._parameters(row, position)
            if all(
                self.opcodes[user] == "tuple" or opcode_traits(self.opcodes[user]).collective_kind
                for user, _ in self._links.users_of(parameter.row)
            )
            for element in self._carriers[row].get(parameter.row, ())
        ]

    def array_uses(self, value: Value) -> Iterator[Use | None]:
        """Yield the uses of an array as they are found; None where it is in a tuple or leaves.

        Skips what `maker` does.
        """
        waiting, seen = [value], {value}
        while waiting:
            one = waiting.pop()
            ahead: list[Value] = []
            for use in self.uses(one):
                opcode = self.opcodes[use.row]
                if opcode in _MAKER.through and opcode != "tuple":
                    entered = list(self.after(use))
                    ahead += entered
                    if opcode == "fusion" and not entered:
                        yield None
                else:
                    yield None if use.element or opcode == "tuple" else use
            if self._links.is_root(one.row):
                returned = self.returned(one)
                if returned is None or self.opcodes[returned.row] not in _MAKER.out_of:
                    yield None
                else:
                    ahead.append(returned)
            for step in ahead:
                if step not in seen and len(seen) > _STEPS:
                    yield None
                    return
                if step not in seen:
                    seen.add(step)
                    waiting.append(step)


def post_order(starts: Iterable[T], below: Callable[[T], Iterable[T]]) -> list[T]:
    """Return the nodes reached from some starts, each after all that it reaches."""
    order: dict[T, None] = {}
    opened: set[T] = set()
    for start in starts:
        waiting = [start]
        while waiting:
            node = waiting[-1]
            if node in opened:
                order.setdefault(waiting.pop())
            else:
                opened.add(node)
                waiting += (other for other in below(node) if other not in opened)
    return list(order)


@functools.cache
def _returned_part(opcode: str) -> ShapeIndex:
    """Return the element of a start's result that an end returns; () for the whole.

    >>> _returned_part("all-gather-done"), _returned_part("copy-done"), _returned_part("bitcast")
    ((1,), (0,), ())
    """
    traits = opcode_traits(opcode)
    if traits.phase != "done" or traits.is_paired:
        return ()
    part = opcode_traits(f"{traits.base}-start").result_part
    return {Produced.FIRST: (0,), Produced.SECOND: (1,)}.get(part, ())


_MOST = 16
"""Most neighbours that are returned."""

_BACK = Route(
    TUPLES | COPIES | ENDS | opcodes_where(lambda traits: traits.is_formatting) | {"while", "call"},
    CALLERS - {"custom-call"},
)


def producers(instruction: HloInstruction) -> list[HloInstruction]:
    """Return what makes the operands of an instruction, the largest first."""
    module = instruction.computation.module
    flow, makers = value_flow(module), dict[int, None]()
    for source in flow.sources(Value(instruction.row))[:_MOST]:
        maker = source
        for _ in range(_STEPS):
            maker = flow.before(maker, _BACK) or maker
        makers[maker.row] = None
    return list(map(module.instruction, makers))


def consumers(instruction: HloInstruction) -> list[HloInstruction]:
    """Return the users of the result of an instruction within its computation."""
    module = instruction.computation.module
    uses = islice(value_flow(module).array_uses(Value(instruction.row)), _MOST)
    return [module.instruction(use.row) for use in uses if use is not None]
