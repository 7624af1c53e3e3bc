"""Devices that hold the same value: which of them compute the same product.

All devices of a partitioned program run one text. They differ in what they were given (parts of
arguments), in their numbers (``partition-id``), and in what collectives bring them; everything else
they compute alike. `DeviceValues` carries for each value which devices have equal ones through the
program: an instruction keeps two devices apart if one of its operands does, an all-reduce or
all-gather makes the devices of a group equal, a while loop is repeated until nothing changes.

Integers that follow from the number of the device (tables of offsets, ``partition-id / 4``) are
computed, so that a slice at such an offset is equal on the devices with equal offsets. What the
text does not show (``infeed``, ``recv``, random numbers of a device, groups of unknown ids) counts
as different on each device: equal is never claimed without a reason.

In the text from before optimizations values are those of the whole program, equal everywhere,
except in ``shard_map``, where a device has its part of the axes that the specs name.
"""

from __future__ import annotations

import functools
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import value_flow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.replica_groups import Groups
    from hlo_lens.shapes.shape import ShapeIndex

MOST_DEVICES = 4096
"""Devices beyond which nothing is computed."""

_ROUNDS = 64
"""Rounds after which a loop whose values still change is given up."""

_DEPTH = 100
"""Calls inside each other; deeper ones are given up."""

_MOST_CONSTANT = 1 << 16
"""Characters of a constant that is read as a table of offsets."""

_INTEGER = re.compile(r"-?\d+")
_LARGEST = 1 << 31

_ALIKE = frozenset({"all-reduce", "all-gather", "collective-broadcast"})
"""Collectives that give all devices of a group the same."""

_INTEGERS = frozenset({"s8", "s32", "s64", "u8", "u32", "u64", "pred"})
"""Element types of which values are computed."""

_NUMBERS: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.floordiv,
    "remainder": operator.mod,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shift-left": operator.lshift,
    "shift-right-logical": operator.rshift,
    "shift-right-arithmetic": operator.rshift,
    "minimum": min,
    "maximum": max,
}
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    **{"EQ": operator.eq, "NE": operator.ne, "LT": operator.lt},
    **{"LE": operator.le, "GT": operator.gt, "GE": operator.ge},
}


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A value of all devices: those with equal numbers in `classes` hold the same."""

    classes: tuple[int, ...]
    numbers: tuple[int, ...] | None = None
    """The integer that each device holds, in all elements, where known."""
    table: tuple[int, ...] | None = None
    """The elements of a constant, equal on all devices, where they are integers."""
    marks: int = 0
    """Bits of what it is computed from, as `Marks` gives them."""

    @property
    def count(self) -> int:
        return max(self.classes) + 1


Tree: TypeAlias = "Held | tuple[Tree, ...]"
"""Values of an instruction: one, or those of the elements of its result."""


class Marks:
    """Bits that values carry to all that is computed from them; none by default."""

    def of_parameter(self, number: int, held: Held) -> int:
        """Return the bits of a leaf of an entry parameter."""
        return 0

    def of_collective(self, row: int, operand: Held, result: Held) -> int:
        """Return the bits that the result of a collective has beside those of its operand."""
        return 0


class DeviceValues:
    """The values of a program, by what devices hold the same.

    ``parameter`` returns the classes of an entry parameter's leaf by number and index, or None;
    ``groups`` the groups of a collective, and source and target of each transfer; ``local`` for
    each operand of a custom call into a ``shard_map`` the classes of the parts, none for one out of
    it, and None for other custom calls.
    """

    def __init__(
        self,
        module: HloModule,
        devices: int,
        parameter: Callable[[int, ShapeIndex], Sequence[object] | None],
        groups: Callable[[int], tuple[Groups | None, Groups | None]],
        local: Callable[[int], Sequence[Sequence[object] | None] | None] = lambda _: None,
        marks: Marks | None = None,
    ) -> None:
        self._module, self._devices = module, devices
        self._parameter, self._groups, self._local = parameter, groups, local
        self._marks = marks or Marks()
        self._flow, self._links = value_flow(module), module.links
        self._held: dict[object, Held] = {}
        self._meets: dict[tuple[Held, Held], Held] = {}
        self._runs: dict[tuple[int, tuple[Tree, ...]], Tree] = {}
        self._running: set[int] = set()
        self.same = self._of([0] * devices)
        self.different = self._of(range(devices))
        self.read: dict[int, Held] = {}
        """What each instruction reads, its operands together, by row."""
        self._simple = self._simple_computations()
        arguments = self._links.parameters_of(module.entry.place)
        trees = [self._argument(n, arguments[n]) for n in range(len(arguments)) if n in arguments]
        self._run(module.entry.place, tuple(trees))

    # ---- values --------------------------------------------------------------------------------

    def _of(self, values: Iterable[object], marks: int = 0, *, is_number: bool = False) -> Held:
        listed = tuple(values)
        seen: dict[object, int] = {}
        classes = tuple(seen.setdefault(value, len(seen)) for value in listed)
        numbers = None
        if is_number and all(isinstance(n, int) and 0 <= n < _LARGEST for n in listed):
            numbers = tuple(n for n in listed if isinstance(n, int))
        key = (classes, numbers, marks)
        return self._held.setdefault(key, Held(classes, numbers, marks=marks))

    def _both(self, one: Held, other: Held) -> Held:
        if one is not other and (one, other) not in self._meets:
            pairs = zip(one.classes, other.classes, strict=True)
            self._meets[one, other] = self._of(pairs, one.marks | other.marks)
        return one if one is other else self._meets[one, other]

    def _all(self, trees: Iterable[Tree]) -> Held:
        """Return what is equal where all of some values are, without numbers."""
        found, waiting = self.same, list(trees)
        while waiting:
            tree = waiting.pop()
            if not isinstance(tree, Held):
                waiting += tree
            elif tree is not found:
                found = self._both(found, tree)
        return found

    def _joined(self, one: Tree, other: Tree) -> Tree:
        """Return the values of two ways to the same place, of which all devices take one."""
        if one is other:
            return one
        if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            joined = tuple(self._joined(a, b) for a, b in zip(one, other, strict=True))
            return one if all(a is b for a, b in zip(joined, one, strict=True)) else joined
        return self._all([one, other])

    def _element(self, tree: Tree, index: ShapeIndex) -> Tree:
        for number in index:
            if isinstance(tree, Held):
                return tree
            if not 0 <= number < len(tree):
                return self.different
            tree = tree[number]
        return tree

    def _argument(self, number: int, row: int) -> Tree:
        shape = self._module.instruction(row).shape
        trees: dict[ShapeIndex, Tree] = {}
        is_tuple = shape is not None and shape.is_tuple
        for index in [index for index, _ in shape.leaves()] if shape and is_tuple else [()]:
            classes = self._parameter(number, index)
            held = self.different if classes is None else self._of(classes)
            marks = self._marks.of_parameter(number, held)
            trees[index] = self._of(held.classes, marks) if marks else held
        return _tree(trees)

    # ---- computations --------------------------------------------------------------------------

    def _simple_computations(self) -> set[int]:
        """Return the computations of one result, all of whose instructions compute elements."""
        opcodes = self._flow.opcodes
        return {
            computation.place
            for computation, root in zip(self._module.computations, self._links.roots, strict=True)
            if root != NOTHING and opcodes[root] != "tuple"
            if all(map(_is_simple, {opcodes[row] for row in computation.rows}))
        }

    def _run(self, place: int, arguments: tuple[Tree, ...]) -> Tree:
        key = (place, arguments)
        if key in self._runs:
            return self._runs[key]
        if place in self._simple and _is_plain(arguments):
            return self._all(arguments)
        if place == NOTHING or place in self._running or len(self._running) > _DEPTH:
            return self.different
        self._running.add(place)
        rows = self._module.computations[place].rows
        opcodes, columns = self._flow.opcodes, self._links.all_operands()
        values: dict[int, Tree] = {}
        for row in rows:
            opcode, elements = opcodes[row], columns.elements.get(row)
            operands = [values.get(operand, self.different) for operand in columns.of(row)]
            if elements is not None:
                operands = list(map(self._element, operands, elements))
            if _is_direct(opcode) and _is_plain(operands):
                values[row] = self._all(operands)
            elif opcode == "parameter":
                number = self._module.instruction(row).parameter_number
                given = () if number is None else arguments[number : number + 1]
                values[row] = given[0] if given else self.different
            else:
                if opcode_traits(opcode).is_product:
                    self.read[row] = self._both(self.read.get(row, self.same), self._all(operands))
                values[row] = self._value(row, opcode, operands)
        self._running.discard(place)
        root = self._links.roots[place]
        result = self._runs[key] = values.get(root, self.different)
        return result

    def _value(self, row: int, opcode: str, operands: list[Tree]) -> Tree:
        traits = opcode_traits(opcode)
        first = operands[0] if operands else self.different
        if opcode == "tuple":
            return tuple(operands)
        if opcode == "get-tuple-element":
            number = self._flow.number(row)
            return self.different if number is None else self._element(first, (number,))
        if opcode == "constant":
            return self._constant(row)
        if traits.is_device_number:
            partitions = max(1, self._devices // self._module.replica_count)
            numbers = (divmod(d, partitions) for d in range(self._devices))
            return self._of((n[opcode == "partition-id"] for n in numbers), is_number=True)
        if traits.is_forwarding or traits.is_end or opcode == "copy-start":
            return first
        if traits.collective_kind is not None:
            return self._collective(row, traits.collective_kind, operands)
        called = self._called(row, opcode, operands)
        if called is not None:
            return called
        if traits.is_impure or not traits.is_known:
            return self.different
        if opcode == "custom-call":
            return self._custom_call(row, operands)
        return self._computed(row, opcode, operands)

    def _called(self, row: int, opcode: str, operands: list[Tree]) -> Tree | None:
        """Return the result of what an instruction runs; None if it runs nothing."""
        if opcode == "while":
            return self._loop(row, operands)
        if opcode == "conditional":
            return self._branches(row, operands)
        is_runner = opcode in ("fusion", "call") or opcode_traits(opcode).phase == "start"
        calls = self._links.calls.of_row(row) if is_runner else []
        if not calls or calls[0].place == NOTHING:
            return None
        return self._run(calls[0].place, tuple(operands))

    def _constant(self, row: int) -> Held:
        text, shape = (
            self._module.instruction(row).operand_text,
            self._module.instruction(row).shape,
        )
        if shape is None or shape.element_type not in _INTEGERS or len(shape.dimensions) > 1:
            return self.same
        if len(text) > _MOST_CONSTANT:
            return self.same
        plain = text.replace("true", "1").replace("false", "0")
        table = tuple(int(n) for n in _INTEGER.findall(plain) if len(n) < 19)
        if not table or len(table) != shape.element_count:  # elided, or of larger numbers
            return self.same
        if len(table) == 1:
            return self._of(table * self._devices, is_number=True)
        return self._held.setdefault(table, Held(self.same.classes, table=table))

    def _computed(self, row: int, opcode: str, operands: list[Tree]) -> Held:
        held = [one for one in operands if isinstance(one, Held)]
        shape = self._module.instruction(row).shape
        is_number = shape is not None and shape.element_type in _INTEGERS
        numbers = None
        if is_number and len(held) == len(operands):
            numbers = self._number(row, opcode, held)
        return self._all(operands) if numbers is None else self._of(numbers, is_number=True)

    def _number(self, row: int, opcode: str, held: list[Held]) -> list[int] | None:
        """Return the integer of each device; None where it is not known."""
        if opcode == "dynamic-slice" and len(held) == 2:
            table, places = held[0].table, held[1].numbers
            size = self._module.instruction(row).shape
            if table is None or places is None or size is None or size.dimensions != (1,):
                return None
            return [table[min(place, len(table) - 1)] for place in places]
        numbers = [one.numbers for one in held]
        known = [one for one in numbers if one is not None]
        if not known or len(known) < len(numbers):
            return None
        if opcode == "select" and len(known) == 3:
            return [a if p else b for p, a, b in zip(*known, strict=True)]
        if opcode == "clamp" and len(known) == 3:
            return [min(max(x, low), high) for low, x, high in zip(*known, strict=True)]
        if opcode in ("slice", "dynamic-slice", "concatenate", "transpose", "convert"):
            return list(known[0]) if len({*known}) == 1 else None
        compute = _NUMBERS.get(opcode)
        if opcode == "compare":
            direction = self._module.instruction(row).attribute("direction") or ""
            compute = _COMPARISONS.get(direction)
        if compute is None or len(known) != 2:
            return None
        left, right = known
        is_shift, is_quotient = opcode.startswith("shift"), opcode in ("divide", "remainder")
        if (is_shift and max(right) > 32) or (is_quotient and not all(right)):
            return None
        return [int(compute(a, b)) for a, b in zip(left, right, strict=True)]

    def _custom_call(self, row: int, operands: list[Tree]) -> Tree:
        entered = self._local(row)
        if entered is None:
            return operands[0] if len(operands) == 1 else self._all(operands)
        if not entered:  # out of a shard_map: the value of the whole program
            return self.same
        parts = [self.different if one is None else self._of(one) for one in entered]
        trees = [
            self._both(self._all([tree]), part) for tree, part in zip(operands, parts, strict=False)
        ]
        return trees[0] if len(trees) == 1 else tuple(trees)

    def _loop(self, row: int, operands: list[Tree]) -> Tree:
        calls = {call.role: call.place for call in self._links.calls.of_row(row)}
        state = operands[0] if operands else self.different
        for _ in range(_ROUNDS):
            test = self._all([self._run(calls.get("condition", NOTHING), (state,))])
            after = self._joined(state, self._run(calls.get("body", NOTHING), (state,)))
            if test.count > 1:
                after = self._both(self._all([after]), test)
            if after is state or after == state:
                return state
            state = after
        return self.different

    def _branches(self, row: int, operands: list[Tree]) -> Tree:
        if not operands:
            return self.different
        found: Tree | None = None
        for number, call in enumerate(self._links.calls.of_row(row), 1):
            argument = operands[number] if number < len(operands) else self.different
            result = self._run(call.place, (argument,))
            found = result if found is None else self._joined(found, result)
        test = self._all(operands[:1])
        if found is None or test.count > 1:
            return self._all([*operands, *([] if found is None else [found])])
        return found

    # ---- collectives ---------------------------------------------------------------------------

    def _collective(self, row: int, kind: str, operands: list[Tree]) -> Tree:
        if kind in ("send", "recv"):
            return self.different
        groups, pairs = self._groups(row)
        if kind == "collective-permute":
            sources = None if pairs is None else {target: source for source, target in pairs}
            found = [self._permuted(self._all([one]), sources) for one in operands[:1]]
        else:
            found = [self._grouped(row, self._all([one]), kind, groups) for one in operands]
        return found[0] if len(found) == 1 else tuple(found)

    def _permuted(self, held: Held, sources: Mapping[int, int] | None) -> Held:
        if sources is None or any(not 0 <= s < self._devices for s in sources.values()):
            return self.different
        of = held.classes
        moved = (of[sources[d]] if d in sources else None for d in range(self._devices))
        return self._of(moved, held.marks)

    def _grouped(self, row: int, held: Held, kind: str, groups: Groups | None) -> Held:
        if groups is None:
            return self.different
        found: list[object] = [("alone", device) for device in range(self._devices)]
        for group in groups:
            if any(not 0 <= device < self._devices for device in group):
                return self.different
            members = tuple(held.classes[device] for device in group)
            for position, device in enumerate(group):
                found[device] = members if kind in _ALIKE else (members, position)
        result = self._of(found, held.marks)
        marks = self._marks.of_collective(row, held, result)
        return self._of(result.classes, result.marks | marks) if marks else result


@functools.cache
def _is_simple(opcode: str) -> bool:
    """Return whether a result differs only where operands do, and is no product of interest."""
    traits = opcode_traits(opcode)
    return traits.is_known and not (
        traits.is_product
        or traits.is_collective
        or traits.is_runner
        or traits.is_device_number
        or traits.is_impure
        or traits.phase
    )


@functools.cache
def _is_direct(opcode: str) -> bool:
    """Return whether a result differs just where operands do, of which it has at least one."""
    traits = opcode_traits(opcode)
    return _is_simple(opcode) and not (
        traits.is_sourceless or opcode in ("tuple", "get-tuple-element")
    )


def _is_plain(arguments: Iterable[Tree]) -> bool:
    """Return whether no argument is an integer that differs between devices, or a table."""
    return all(
        isinstance(one, Held) and one.table is None and (one.numbers is None or one.count == 1)
        for one in arguments
    )


def _tree(leaves: Mapping[ShapeIndex, Tree]) -> Tree:
    if () in leaves:
        return leaves[()]
    parts: dict[int, dict[ShapeIndex, Tree]] = {}
    for index, leaf in leaves.items():
        parts.setdefault(index[0], {})[index[1:]] = leaf
    return tuple(_tree(parts.get(number, {})) for number in range(max(parts, default=-1) + 1))
