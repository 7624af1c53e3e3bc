"""Shardings of the operation that needed a collective, and the constraints that drop axes.

From the text before optimizations. Where a constraint (``with_sharding_constraint``) lacks an axis
that divides a dimension of its operand, the parts are gathered; where it has one at another
dimension, they are exchanged.

How an operand is divided is found by following each dimension back to an instruction with a
sharding: an argument of the program, a sharding constraint, or any other that prints one. The way
goes through conversions, transposes, slices, elementwise operations, products (a dimension of the
result is one of either operand), reductions, calls, and into loops: a simplified propagation of
shardings, which gives the most likely origin of a division.

Source: shardy's op_sharding_rule_registry.cc (which dimension is which), as of August 2026.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import TUPLES, Route, Value, ValueFlow, value_flow
from hlo_lens.questions.collectives.operations import CUSTOM_CALL
from hlo_lens.questions.collectives.origin import (
    computing_one,
    inlined_paths,
    member_paths,
    operations_of,
)
from hlo_lens.shapes.named_sharding import axes_of_entry
from hlo_lens.shapes.sharding import MESHES, SHARDING, shardy_meshes, shardy_shardings
from hlo_lens.text.errors import DumpSyntaxError, UsageError
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import ShapeIndex
    from hlo_lens.shapes.sharding import HloSharding

_NUMBER = re.compile(r"\d+")
_LABELS = re.compile(r"(\w+)_(\w+)->")
_WINDOW_SIZE = re.compile(r"\bsize=([\dx]+)")
_SIDES = ("lhs", "rhs")

COMBINING = {
    "dot": "sums over",
    "convolution": "sums over, or reads neighbours along,",
    "reduce": "reduces",
    "reduce-window": "reads neighbours along",
    "gather": "takes elements by index along",
    "scatter": "writes elements by index along",
    "sort": "sorts along",
    "concatenate": "joins along",
    "reverse": "reverses",
    "slice": "takes a part of",
    "dynamic-slice": "takes a part of",
    "dynamic-update-slice": "writes a part of",
    "pad": "pads",
    "reshape": "merges",
}
"""Opcodes that combine elements along dimensions of an operand, and the verb for it."""

_LISTED = {
    ("reduce", 0): "dimensions",
    ("gather", 0): "start_index_map",
    ("scatter", 0): "scatter_dims_to_operand_dims",
    ("dot", 0): "lhs_contracting_dims",
    ("dot", 1): "rhs_contracting_dims",
}
"""Attributes that list such dimensions of an operand."""


def listed_numbers(instruction: HloInstruction, attribute: str) -> tuple[int, ...]:
    """Return the numbers in the value of an attribute."""
    return tuple(bounded_int(n) for n in _NUMBER.findall(instruction.attribute(attribute) or ""))


def _sizes(user: HloInstruction, position: int | None) -> tuple[int | None, ...] | None:
    """Return the dimensions of an operand or of the result; None for a tuple or if not known."""
    shape = user.shape if position is None else user.operand_shape(position)
    return None if shape is None or shape.is_tuple else shape.dimensions


def _is_as_large(user: HloInstruction, position: int) -> bool:
    given = _sizes(user, position)
    return given is not None and given == _sizes(user, None)


def _needed_dimensions(instruction: HloInstruction, position: int) -> tuple[int, ...]:
    """Return the dimensions of an operand along which an instruction combines elements."""
    opcode = instruction.opcode
    if (opcode, position) in _LISTED:
        return listed_numbers(instruction, _LISTED[opcode, position])
    match opcode, position:
        case "sort" | "concatenate" | "reverse", _:
            return listed_numbers(instruction, "dimensions")
        case "slice" | "dynamic-slice" | "pad" | "dynamic-update-slice", 0:
            made = _sizes(instruction, 1 if opcode == "dynamic-update-slice" else None)
            pairs = zip(_sizes(instruction, 0) or (), made or (), strict=False)
            return tuple(place for place, (one, two) in enumerate(pairs) if one != two)
        case "reshape", _:
            return tuple(place for given, _ in _reshape_groups(instruction) for place in given[1:])
        case "reduce-window", 0:
            return tuple(_wide_dimensions(instruction))
        case "convolution", 0 | 1:
            labels = _LABELS.match(instruction.attribute("dim_labels") or "")
            letters = ["i"] if position else ["f", *map(str, _wide_dimensions(instruction))]
            places = (labels[1 + position].find(one) if labels else -1 for one in letters)
            return tuple(place for place in places if place >= 0)
    return ()


def _wide_dimensions(instruction: HloInstruction) -> list[int]:
    match = _WINDOW_SIZE.search(instruction.attribute("window") or "")
    sizes = [] if match is None else [bounded_int(n) for n in match[1].split("x") if n]
    return [place for place, size in enumerate(sizes) if size > 1]


def _dimension_sources(instruction: HloInstruction, dimension: int) -> list[tuple[int, int]]:
    """Return the sources of a dimension of a result, as operand number and dimension."""
    listed = listed_numbers(instruction, "dimensions")
    of_operand: dict[int, int] = {}
    match instruction.opcode:
        case "transpose":
            of_operand = dict(enumerate(listed))
        case "broadcast":
            of_operand = {made: given for given, made in enumerate(listed)}
        case "reduce":
            places = range(len(_sizes(instruction, 0) or ()))
            of_operand = dict(enumerate(k for k in places if k not in listed))
        case "reshape":  # of dimensions split or merged, the major ones
            of_operand = {made[0]: given[0] for given, made in _reshape_groups(instruction)}
        case "dot":  # batch dimensions, free ones of the left, of the right
            batch = [listed_numbers(instruction, f"{side}_batch_dims") for side in _SIDES]
            made = [(0, place) for place in batch[0]]
            for position in (0, 1):
                gone = (*batch[position], *_needed_dimensions(instruction, position))
                places = range(len(_sizes(instruction, position) or ()))
                made += [(position, k) for k in places if k not in gone]
            return made[dimension : dimension + 1] + [(1, k) for k in batch[1][dimension:][:1]]
        case "dynamic-update-slice":
            whole, part = ((_sizes(instruction, k) or ())[dimension:][:1] for k in (0, 1))
            return [(0, dimension), *([(1, dimension)] if whole == part else [])]
        case opcode if opcode_traits(opcode).is_aligned:
            return [(0, dimension)] if instruction.operands else []
        case _:  # as of elementwise operations: operands with the shape of the result
            positions = range(len(instruction.operands))
            return [(k, dimension) for k in positions if _is_as_large(instruction, k)]
    return [(0, of_operand[dimension])] if dimension in of_operand else []


def _reshape_groups(reshape: HloInstruction) -> list[tuple[list[int], list[int]]]:
    """Return the dimensions of operand and result that have the same elements, without size 1."""
    left, right = (
        [(place, size or 0) for place, size in enumerate(_sizes(reshape, k) or ()) if size != 1]
        for k in (0, None)
    )
    groups: list[tuple[list[int], list[int]]] = []
    while left and right:
        given, made = [left.pop(0)], [right.pop(0)]
        while (one := math.prod(s for _, s in given)) != (two := math.prod(s for _, s in made)):
            side, rest = (given, left) if one < two else (made, right)
            if not rest:
                return groups
            side.append(rest.pop(0))
        groups.append(([place for place, _ in given], [place for place, _ in made]))
    return groups


_VISITS = 1000
"""Most instructions that are visited for one dimension."""

_ELEMENTS = Route(TUPLES | {"opt-barrier"})


class DividedDimension(NamedTuple):
    """One dimension of an operand, and the axes that divide it, most major first; () for none.

    `origin` is the name of the argument or instruction with the sharding; `is_needed` whether the
    operation combines elements along it: sums, sorts, shifts, ...
    """

    position: int
    dimension: int
    axes: tuple[str, ...]
    origin: str
    is_needed: bool


class _Visit(NamedTuple):
    """A dimension of a value that is to be visited if at most so many divisions were found.

    `calls` are the rows of the calls that were entered.
    """

    value: Value
    dimension: int
    calls: tuple[int, ...] = ()
    most_found: float = math.inf


class _Divisions:
    """How operands and results of a text from before optimizations are divided.

    `mesh` names the axes; None for that of each sharding.
    """

    def __init__(self, before: HloModule, mesh: Mesh | None) -> None:
        self._mesh = mesh
        self._meshes = shardy_meshes(before.frontend_attributes.get(MESHES, ""))

    def of(self, user: HloInstruction, position: int | None) -> tuple[DividedDimension, ...]:
        """Return the known dimensions of an operand, or of the result by its own sharding."""
        needed = () if position is None else _needed_dimensions(user, position)
        found: list[tuple[int, DividedDimension]] = []
        for dimension in range(len(_sizes(user, position) or ())):
            if position is None:
                axes, origin, distance = self._own(user, dimension), user, 0
            else:
                axes, origin, distance = self._traced(user, position, dimension)
            if axes is not None:
                path = origin.op_name if origin.opcode == "parameter" else None
                name, is_needed = path or origin.name, dimension in needed
                divided = DividedDimension(position or 0, dimension, axes, name, is_needed)
                found.append((distance, divided))
        # an axis divides one dimension of a value; propagation keeps the first that reaches it
        taken: set[str] = set()
        kept: list[DividedDimension] = []
        for _, divided in sorted(found, key=lambda pair: pair[0]):
            if taken.isdisjoint(divided.axes):
                kept.append(divided)
                taken.update(divided.axes)
        return tuple(sorted(kept, key=lambda divided: divided.dimension))

    def _own(self, instruction: HloInstruction, dimension: int) -> tuple[str, ...] | None:
        """Return the axes of a dimension by the instruction's own sharding.

        None if propagation may add axes to the dimension.
        """
        sharding = self._sharding(instruction, ())
        if sharding is None:
            return None
        dims = () if sharding.named is None else sharding.named.dim_shardings
        is_open = dimension < len(dims) and dims[dimension].is_open
        return None if is_open else self._axes(sharding, dimension)

    def _traced(
        self, user: HloInstruction, position: int, dimension: int
    ) -> tuple[tuple[str, ...] | None, HloInstruction, int]:
        """Return axes of a dimension of an operand, the instruction with them, and its distance.

        The first that are found in front of all others; no axes only if none has some.
        """
        flow = value_flow(user.computation.module)
        start = flow.operand(user.row, position)
        waiting = [] if start is None else [_Visit(start, dimension)]
        found: list[tuple[tuple[str, ...], HloInstruction]] = []
        seen: set[tuple[Value, int]] = set()
        distance = 0
        while waiting and distance < _VISITS:
            visit = waiting.pop()
            if len(found) > visit.most_found:
                continue
            distance += 1
            if visit[:2] in seen:
                continue
            seen.add(visit[:2])
            instruction = flow.module.instruction(visit.value.row)
            sharding = self._sharding(instruction, visit.value.element)
            if sharding is None:
                waiting += reversed(list(_sources(flow, instruction, visit, len(found))))
                continue
            axes = self._axes(sharding, visit.dimension)
            if axes is not None:
                found.append((axes, instruction))
            if axes:
                break
        best = max(found, key=lambda division: len(division[0]) > 0, default=(None, user))
        return *best, distance

    def _sharding(self, instruction: HloInstruction, index: ShapeIndex) -> HloSharding | None:
        """Return the sharding that an instruction prints for one array, or None."""
        if len(index) > 1:
            return None
        text = instruction.frontend_attributes.get(SHARDING)
        place = index[0] if index else 0
        try:
            found = shardy_shardings(text, self._meshes) if text else ()
            printed = instruction.sharding
        except DumpSyntaxError:
            return None
        if index and printed is not None:
            printed = next(iter(printed.elements[place : place + 1]), None)
        if not index and len(found) != 1:
            found = ()
        sharding = next(iter(found[place : place + 1]), None) or printed
        if sharding is None or sharding.elements or sharding.kind.value in ("manual", "unknown"):
            return None
        return sharding

    def _axes(self, sharding: HloSharding, dimension: int) -> tuple[str, ...] | None:
        mesh = self._mesh or (None if sharding.named is None else sharding.named.mesh)
        try:
            spec = None if mesh is None else sharding.to_partition_spec(mesh)
        except UsageError:
            spec = None
        if spec is None:
            return None
        return axes_of_entry(spec[dimension] if dimension < len(spec) else None)


def _sources(
    flow: ValueFlow, instruction: HloInstruction, visit: _Visit, found: int
) -> Iterator[_Visit]:
    value, dimension, calls, _ = visit
    row, opcode = value.row, instruction.opcode
    before: Value | None = None
    if opcode == "while":
        before = flow.operand(row, 0, value.element)
    elif opcode == "call":
        before, calls = flow.result(value), (*calls, row)
    elif opcode == "parameter":
        is_entry = instruction.computation.is_entry
        place = instruction.computation.place
        callers = [] if is_entry else flow.module.links.calls.of_computation(place)
        entered = [call for call in callers if calls and call.row == calls[-1]]
        calls = calls[:-1] if entered else calls
        before = flow.argument(value, (entered or callers)[0]) if callers else None
    elif opcode in _ELEMENTS.through:
        before = flow.before(value, _ELEMENTS)
    else:
        for position, source in _dimension_sources(instruction, dimension):
            operand = flow.operand(row, position, value.element)
            if operand is not None:
                yield _Visit(operand, source, calls)
    if before is not None:
        yield _Visit(before, dimension, calls)
    after_trip = flow.result(value, "body") if opcode == "while" and value.element else None
    if after_trip is not None:  # only if the way before the loop finds no axes
        yield _Visit(after_trip, dimension, (), found)


def _keeps_dimensions(user: HloInstruction, position: int) -> bool:
    traits = opcode_traits(user.opcode)
    return (traits.is_elementwise or traits.is_same) and _is_as_large(user, position)


_MOST_OPERATIONS = 48
"""Most operations of one path and line that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The operation that needed a collective, in the text from before optimizations.

    Attributes:
        verb: How it combines elements along dimensions: ``sums over``.
        dimensions: The dimensions of its operands with known shardings.
    """

    name: str
    verb: str
    is_product: bool
    dimensions: tuple[DividedDimension, ...]

    def uses_of(self, axis: str) -> tuple[list[DividedDimension], list[DividedDimension]]:
        """Return the dimensions that an axis divides: those it combines, and those it keeps."""
        uses = [one for one in self.dimensions if axis in one.axes]
        return [one for one in uses if one.is_needed], [one for one in uses if not one.is_needed]

    def has_half_combined(self, axis: str) -> bool:
        """Return whether an axis divides what it combines, in one operand of those that have it.

        A product whose both operands are divided so adds up partial results instead.
        """
        needed, kept = self.uses_of(axis)
        return not kept and (len(needed) == 1 or (len(needed) > 1 and not self.is_product))

    def has_conflict(self, axis: str) -> bool:
        """Return whether an axis divides dimensions of which not all can stay divided."""
        needed, kept = self.uses_of(axis)
        if needed and kept:
            return True
        return len({one.position for one in kept}) > 1 and len({one.dimension for one in kept}) > 1

    def is_explained(self, axes: Collection[str], *, is_partial: bool) -> bool:
        """Return whether its shardings need communication along some axes.

        `is_partial`: whether each device has a part of what the operation combines.
        """
        if is_partial:
            return any(needed and not kept for needed, kept in map(self.uses_of, axes))
        return any(self.has_half_combined(axis) or self.has_conflict(axis) for axis in axes)


def needing_operation(
    before: HloModule,
    collective: Collective,
    mesh: Mesh | None,
    paths: Mapping[str, SourceLocation | None],
) -> Operation | None:
    """Return the operation that needed a collective; None if the text has none of its paths.

    Of several operations of these paths, the first whose operands need communication along the
    collective's axes; else the first. Those at the places in the user's program, which `paths` has
    for each, come before all others. `mesh` names the axes.
    """
    divisions = _Divisions(before, mesh)
    wanted = set(collective.axes or ())
    members = {member: place for path, place in paths.items() for member in member_paths(path)}
    users = [*itertools.islice(operations_of(before, members), _MOST_OPERATIONS)]
    every = [_operation(user, divisions) for _, user in users]
    nearest = [one for one, (frame, _) in zip(every, users, strict=True) if frame == users[0][0]]
    is_partial = opcode_traits(collective.kind).is_reduction
    for operations in (nearest, every):
        for operation in operations:
            if operation.is_explained(wanted, is_partial=is_partial):
                return operation
    summing = (one for one in every if is_partial and any(one.uses_of(a)[0] for a in wanted))
    return next(itertools.chain(summing, every), None)


def _operation(user: HloInstruction, divisions: _Divisions) -> Operation:
    computing = computing_one(user)
    operands = range(len(computing.operands))
    return Operation(
        name=computing.name,
        verb=COMBINING.get(computing.opcode, "reads all of"),
        is_product=opcode_traits(computing.opcode).is_product,
        dimensions=tuple(one for k in operands for one in divisions.of(computing, k)),
    )


_MOST_CONSTRAINTS = 200
"""Limit on the constraints examined, in text order."""

_NEAR_STEPS = 50
"""Limit on the instructions that are followed back from a constraint."""


class MovedAxis(NamedTuple):
    """An axis that divides one dimension of an operand, and another one of its constraint."""

    axis: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAxes:
    """A constraint that leaves out axes of its operand, or has them at other dimensions.

    `axes` are those that it has nowhere, from an argument or instruction `origin`. `argument` is
    the number of the parameter that it constrains, or a part of it; None for others. `kept` has the
    axes of each dimension if it kept those that it leaves out, `elements` those that a device has
    of the value, `paths` the operation paths of it and of what computes its operand; `place` is the
    line to blame.
    """

    name: str
    operand: str
    argument: int | None
    axes: tuple[str, ...]
    moved: tuple[MovedAxis, ...]
    origin: str
    kept: tuple[tuple[str, ...], ...]
    elements: int | None
    paths: frozenset[str]
    place: SourceLocation | None


def changed_axes(before: HloModule, mesh: Mesh | None) -> tuple[ChangedAxes, ...]:
    """Return the constraints of a text that leave out or move axes of their operands.

    Operands are gathered over axes that are left out; over moved ones, parts are exchanged.
    """
    rows = before.columns.rows_with_attribute_text('custom_call_target="Sharding"')
    calls = (before.instruction(row) for row in rows)
    constraints = [one for one in calls if one.opcode == CUSTOM_CALL][:_MOST_CONSTRAINTS]
    # lines of constraints that are called from several lines, which are to blame
    called = {tuple(map(str, one.user_stack[:2])) for one in constraints}
    callers = Counter(lines[0] for lines in called if len(lines) > 1)
    divisions = _Divisions(before, mesh)
    changed: list[ChangedAxes] = []
    for constraint in constraints:
        own = {one.dimension: one.axes for one in divisions.of(constraint, None)}
        wanted = {axis: place for place, axes in own.items() for axis in axes}
        divided = divisions.of(constraint, 0)
        given = [(axis, one) for one in divided if one.dimension in own for axis in one.axes]
        axes = {axis: one.origin for axis, one in given if axis not in wanted}
        moves = {
            MovedAxis(axis, one.dimension, wanted[axis]): one.origin
            for axis, one in given
            if wanted.get(axis, one.dimension) != one.dimension
        }
        if (axes or moves) and constraint.shape is not None:
            frames = constraint.user_stack
            is_wrapped = len(frames) > 1 and callers[str(frames[0])] > 1
            argument, passed = _passed(constraint)
            computed = passed if argument is not None else _computed(constraint, is_cut=not axes)
            lost = {one.dimension: tuple(a for a in one.axes if a in axes) for one in divided}
            rank, count = constraint.shape.rank, constraint.shape.element_count
            parts = math.prod(mesh.sizes.get(axis, 1) for axis in wanted) if mesh else 1
            changed.append(
                ChangedAxes(
                    name=constraint.name,
                    operand=next(iter(constraint.operand_names), "?"),
                    argument=argument,
                    axes=tuple(axes),
                    moved=tuple(moves),
                    origin=next(iter((axes | moves).values())),
                    kept=tuple((*own.get(k, ()), *lost.get(k, ())) for k in range(rank)),
                    elements=None if mesh is None or count is None else count // parts,
                    paths=frozenset(path for one in computed for path in inlined_paths(one)),
                    place=next(iter(frames[is_wrapped:]), None),
                )
            )
    return tuple(changed)


_WAY = Route(TUPLES | {"while", "call"}, frozenset({"while", "call"}))


def _passed(constraint: HloInstruction) -> tuple[int | None, list[HloInstruction]]:
    """Return the parameter of the entry that a constraint is of, and what is on the way.

    No number where the constrained value is computed.
    """
    module = constraint.computation.module
    flow, passed = value_flow(module), [constraint]
    value = flow.operand(constraint.row, 0)
    for _ in range(_NEAR_STEPS):
        if value is None:
            break
        instruction = module.instruction(value.row)
        if instruction.opcode == "parameter" and instruction.computation.is_entry:
            return instruction.parameter_number, passed
        traits = opcode_traits(instruction.opcode)
        if traits.is_formatting or instruction.opcode == CUSTOM_CALL:
            passed.append(instruction)
            value = flow.operand(value.row, 0, value.element)
        else:
            value = flow.before(value, _WAY)
    return None, passed


def _computed(constraint: HloInstruction, *, is_cut: bool) -> Iterator[HloInstruction]:
    """Yield a constraint and the instructions that compute its operand, element by element.

    Unless `is_cut` ends the way at products and transposes, the operands of a product are yielded
    too: the partitioner may gather these instead.
    """
    waiting, seen = deque([constraint]), {constraint.row}
    while waiting and len(seen) < _NEAR_STEPS:
        instruction = waiting.popleft()
        yield instruction
        is_product = opcode_traits(instruction.opcode).is_contraction and not is_cut
        for position in range(len(instruction.operands)):
            made = instruction.producer(position)
            is_same = instruction is constraint or _keeps_dimensions(instruction, position)
            is_same |= is_product or (instruction.opcode == "transpose" and not is_cut)
            if made is not None and made[0].row not in seen and is_same:
                seen.add(made[0].row)
                if is_product:
                    yield made[0]
                else:
                    waiting.append(made[0])
