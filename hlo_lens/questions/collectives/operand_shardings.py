"""Dimensions of operands that a dimension of a result comes from, and those that are summed.

Source: shardy's op_sharding_rule_registry.cc (which dimension is which), as of August 2026.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.module import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import TUPLES, Route, Value, ValueFlow, value_flow
from hlo_lens.questions.collectives.operations import CUSTOM_CALL
from hlo_lens.questions.collectives.origin import (
    computing_one,
    inlined_paths,
    member_paths,
    operations_of,
)
from hlo_lens.shapes import shardy
from hlo_lens.text.errors import DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape, ShapeIndex
    from hlo_lens.shapes.sharding import HloSharding


_NUMBER = re.compile(r"\d+")
_LABELS = re.compile(r"(\w+)_(\w+)->")


def summed_dimensions(instruction: HloInstruction, position: int) -> tuple[int, ...] | None:
    """Return the dimensions of an operand that a product sums over; None for other instructions."""
    if instruction.opcode == "dot":
        side = "lhs" if position == 0 else "rhs"
        return listed_numbers(instruction, f"{side}_contracting_dims")
    if instruction.opcode == "convolution":
        labels = _LABELS.match(instruction.attribute("dim_labels") or "")
        if labels is None or position > 1:
            return None
        text, wanted = (labels[1], "f") if position == 0 else (labels[2], "i")
        return (text.index(wanted),) if wanted in text else None
    return None


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
}
"""Attributes that list such dimensions of an operand."""

_WINDOW_SIZE = re.compile(r"\bsize=([\dx]+)")


def needed_dimensions(instruction: HloInstruction, position: int) -> tuple[int, ...]:
    """Return the dimensions of an operand along which an instruction combines elements."""
    opcode = instruction.opcode
    if (opcode, position) in _LISTED:
        return listed_numbers(instruction, _LISTED[opcode, position])
    if opcode == "scatter" and position:
        return _scattered(instruction, position)
    if opcode in ("sort", "concatenate", "reverse"):
        return listed_numbers(instruction, "dimensions")
    if opcode in ("slice", "dynamic-slice", "pad", "dynamic-update-slice") and position == 0:
        return _resized(instruction, 1 if opcode == "dynamic-update-slice" else None)
    if opcode == "reshape":
        return tuple(place for given, _ in reshape_groups(instruction) for place in given[1:])
    windows = _window_sizes(instruction) if opcode in ("reduce-window", "convolution") else ()
    if opcode == "reduce-window" and position == 0:
        return tuple(place for place, size in enumerate(windows) if size > 1)
    summed = summed_dimensions(instruction, position) or ()
    labels = _LABELS.match(instruction.attribute("dim_labels") or "") if windows else None
    if labels is None or position:
        return summed
    spatial = (labels[1].find(str(place)) for place, size in enumerate(windows) if size > 1)
    return (*summed, *(place for place in spatial if place >= 0))


def _scattered(scatter: HloInstruction, position: int) -> tuple[int, ...]:
    """Return the dimensions of indices or updates along which a scatter writes one element each."""
    updates = (len(scatter.operands) - 1) // 2 + 1
    attribute = "update_window_dims" if position >= updates else "index_vector_dim"
    gone = listed_numbers(scatter, attribute)
    shape = operand_array_shape(scatter, position)
    return tuple(k for k in range(len(shape.dimensions) if shape else 0) if k not in gone)


def _window_sizes(instruction: HloInstruction) -> tuple[int, ...]:
    match = _WINDOW_SIZE.search(instruction.attribute("window") or "")
    return () if match is None else tuple(int(n) for n in match[1].split("x") if n)


def _resized(instruction: HloInstruction, other: int | None) -> tuple[int, ...]:
    """Return the dimensions in which operand 0 differs from the result, or from an operand."""
    given = operand_array_shape(instruction, 0)
    made = instruction.shape if other is None else operand_array_shape(instruction, other)
    if given is None or made is None or made.is_tuple:
        return ()
    pairs = zip(given.dimensions, made.dimensions, strict=False)
    return tuple(place for place, (one, two) in enumerate(pairs) if one != two)


def listed_numbers(instruction: HloInstruction, attribute: str) -> tuple[int, ...]:
    """Return the numbers in the value of an attribute."""
    return tuple(int(n) for n in _NUMBER.findall(instruction.attribute(attribute) or ""))


def operand_array_shape(user: HloInstruction, position: int) -> Shape | None:
    """Return the shape of an operand; None for a tuple, and where the text has none."""
    shape = user.operand_shape(position)
    return None if shape is None or shape.is_tuple else shape


def dimension_sources(instruction: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield the sources of a dimension of a result, as operand number and dimension."""
    follow = _FOLLOW.get(instruction.opcode)
    if follow is not None:
        yield from follow(instruction, dimension)
    elif opcode_traits(instruction.opcode).is_aligned:
        if instruction.operands:
            yield 0, dimension
    else:
        yield from _of_elements(instruction, dimension)


def _of_transpose(transpose: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    order = listed_numbers(transpose, "dimensions")
    if dimension < len(order):
        yield 0, order[dimension]


def _of_broadcast(broadcast: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    order = listed_numbers(broadcast, "dimensions")
    if dimension in order:
        yield 0, order.index(dimension)


def _of_reduce(reduce: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    summed = listed_numbers(reduce, "dimensions")
    shape = operand_array_shape(reduce, 0)
    kept = [k for k in range(len(shape.dimensions) if shape else 0) if k not in summed]
    if dimension < len(kept):
        yield 0, kept[dimension]


def _of_dot(dot: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield sources of a product's dimension: batch, then free ones of the left, of the right."""
    free: list[list[int]] = []
    batch: list[tuple[int, ...]] = []
    for position, side in enumerate(("lhs", "rhs")):
        shape = operand_array_shape(dot, position)
        batch.append(listed_numbers(dot, f"{side}_batch_dims"))
        gone = (*batch[-1], *listed_numbers(dot, f"{side}_contracting_dims"))
        free.append([k for k in range(len(shape.dimensions) if shape else 0) if k not in gone])
    if dimension < len(batch[0]):
        yield 0, batch[0][dimension]
        yield 1, batch[1][dimension]
        return
    place = dimension - len(batch[0])
    if place < len(free[0]):
        yield 0, free[0][place]
    elif place - len(free[0]) < len(free[1]):
        yield 1, free[1][place - len(free[0])]


def _of_reshape(reshape: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield the source of a dimension: of dimensions split or merged, the major ones."""
    for given, made in reshape_groups(reshape):
        if given and made and made[0] == dimension:
            yield 0, given[0]


def reshape_groups(reshape: HloInstruction) -> list[tuple[list[int], list[int]]]:
    """Return the dimensions of operand and result that have the same elements, without size 1."""
    before, after = operand_array_shape(reshape, 0), reshape.shape
    if before is None or after is None or after.is_tuple:
        return []
    left = [(place, size) for place, size in enumerate(before.dimensions) if size != 1]
    right = [(place, size) for place, size in enumerate(after.dimensions) if size != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while left and right:
        given, made = [left.pop(0)], [right.pop(0)]
        while (one := _size_of(given)) != (two := _size_of(made)):
            side, rest = (given, left) if one < two else (made, right)
            if not rest:
                return groups
            side.append(rest.pop(0))
        groups.append(([place for place, _ in given], [place for place, _ in made]))
    return groups


def _size_of(dimensions: list[tuple[int, int | None]]) -> int:
    return math.prod(size or 0 for _, size in dimensions)


def _of_update(update: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield operand and update of a dynamic-update-slice, the update where it is as large."""
    yield 0, dimension
    whole, part = operand_array_shape(update, 0), operand_array_shape(update, 1)
    sizes = [() if shape is None else shape.dimensions[dimension:] for shape in (whole, part)]
    if sizes[0][:1] == sizes[1][:1]:
        yield 1, dimension


def _of_elements(instruction: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield the operands with the shape of the result, as of elementwise operations."""
    result = instruction.shape
    for position in range(len(instruction.operands)):
        shape = operand_array_shape(instruction, position)
        if result is not None and shape is not None and shape.dimensions == result.dimensions:
            yield position, dimension


_FOLLOW: Mapping[str, Callable[[HloInstruction, int], Iterator[tuple[int, int]]]] = {
    "dot": _of_dot,
    "transpose": _of_transpose,
    "broadcast": _of_broadcast,
    "reshape": _of_reshape,
    "dynamic-update-slice": _of_update,
    "reduce": _of_reduce,
}


_VISITS = 1000
"""Most instructions that are visited for one dimension."""

_ELEMENTS = Route(TUPLES | {"opt-barrier"})

Division = tuple[tuple[str, ...], "HloInstruction"]
"""The axes that divide a dimension, () for none, and the instruction with the sharding."""


class _Visit(NamedTuple):
    """A dimension of a value that is to be visited.

    Attributes:
        value: The value.
        dimension: The dimension.
        calls: Rows of the calls that were entered.
        most_found: Divisions up to which it is visited.
    """

    value: Value
    dimension: int
    calls: tuple[int, ...] = ()
    most_found: float = math.inf


@dataclass(slots=True)
class DimensionTrace:
    """Follows one dimension back to a sharding.

    Attributes:
        mesh: Mesh to name axes by; None for that of the sharding.
        meshes: Meshes of the text by name.
        distance: Number of instructions visited so far.
    """

    mesh: Mesh | None
    meshes: Mapping[str, Mesh]
    distance: int = 0

    def own(self, instruction: HloInstruction, dimension: int) -> Division | None:
        """Return the axes of a dimension by the instruction's own sharding.

        None if propagation may add axes to the dimension.
        """
        sharding = self._sharding(instruction, ())
        if sharding is None:
            return None
        dims = () if sharding.named is None else sharding.named.dim_shardings
        is_open = dimension < len(dims) and dims[dimension].is_open
        axes = None if is_open else self._axes(sharding, dimension)
        return None if axes is None else (axes, instruction)

    def operand(self, user: HloInstruction, position: int, dimension: int) -> Division | None:
        """Return the axes that divide a dimension of an operand, and the instruction with them.

        The first that are found in front of all others; no axes only if none has some.
        """
        flow = value_flow(user.computation.module)
        start = flow.operand(user.row, position)
        waiting = [] if start is None else [_Visit(start, dimension)]
        found: list[Division] = []
        seen: set[tuple[Value, int]] = set()
        while waiting and self.distance < _VISITS:
            visit = waiting.pop()
            if len(found) > visit.most_found:
                continue
            self.distance += 1
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
        return max(found, key=lambda division: len(division[0]) > 0, default=None)

    def _sharding(self, instruction: HloInstruction, index: ShapeIndex) -> HloSharding | None:
        """Return the sharding that an instruction prints for one array, or None."""
        if len(index) > 1:
            return None
        text = instruction.frontend_attributes.get(shardy.SHARDING)
        place = index[0] if index else 0
        try:
            found = shardy.shardy_shardings(text, self.meshes) if text else ()
            printed = instruction.sharding
        except DumpSyntaxError:
            return None
        if index and printed is not None:
            printed = printed.elements[place] if place < len(printed.elements) else None
        is_whole = len(found) == 1 and not index
        sharding = found[place] if is_whole or (index and place < len(found)) else printed
        sharding = sharding or printed
        if sharding is None or sharding.elements or sharding.kind.value in ("manual", "unknown"):
            return None
        return sharding

    def _axes(self, sharding: HloSharding, dimension: int) -> tuple[str, ...] | None:
        """Return the axes that divide a dimension; None without a mesh."""
        mesh = self.mesh or (None if sharding.named is None else sharding.named.mesh)
        try:
            spec = None if mesh is None else sharding.to_partition_spec(mesh)
        except UsageError:
            spec = None
        if spec is None:
            return None
        axes = spec[dimension] if dimension < len(spec) else None
        return (axes,) if isinstance(axes, str) else axes or ()


def _sources(
    flow: ValueFlow, instruction: HloInstruction, visit: _Visit, found: int
) -> Iterator[_Visit]:
    """Yield the values that one is computed from, in the order to visit them."""
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
        for position, source in dimension_sources(instruction, dimension):
            operand = flow.operand(row, position, value.element)
            if operand is not None:
                yield _Visit(operand, source, calls)
    if before is not None:
        yield _Visit(before, dimension, calls)
    after_trip = flow.result(value, "body") if opcode == "while" and value.element else None
    if after_trip is not None:  # only if the way before the loop finds no axes
        yield _Visit(after_trip, dimension, (), found)


_CONSTRAINT = "Sharding"
_OUTPUT = "xla.sdy.FuncResultSharding"
_STEPS = 200
_MOST_FRAMES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDimension:
    """One dimension that a constraint divides in another way than its operand is.

    Attributes:
        dimension: The dimension.
        before: Axes that divide the operand.
        origin: Name of the argument or instruction that they come from.
        after: Axes of the constraint.
    """

    dimension: int
    before: tuple[str, ...]
    origin: str
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A sharding constraint, or the sharding of an output.

    Attributes:
        name: Its instruction in the text from before optimizations.
        operand: The instruction that it constrains.
        is_output: Whether it is the sharding of an output.
        place: Place in the user's program and the caller of its function; None if not known.
        changed: Dimensions that it divides in another way.
    """

    name: str
    operand: str
    is_output: bool
    place: str | None
    changed: tuple[ChangedDimension, ...]


def is_constraint(instruction: HloInstruction) -> bool:
    """Return whether an instruction is a constraint, or the sharding of an output."""
    if instruction.opcode != "custom-call":
        return False
    return _target(instruction) in (_CONSTRAINT, _OUTPUT)


def _target(instruction: HloInstruction) -> str:
    return (instruction.attribute("custom_call_target") or "").strip('"')


def constraints_on(
    operation: HloInstruction,
    axes: Collection[str],
    divided: Callable[[HloInstruction, int | None], Collection[DividedDimension]],
) -> tuple[Constraint, ...]:
    """Return the constraints that need the result of an operation divided in another way.

    Args:
        operation: The operation, which may be a constraint itself.
        axes: Mesh axes that matter.
        divided: Returns the divided dimensions of an operand of an instruction, or of its result
            for None.
    """
    found = []
    for constraint in _constraints_behind(operation):
        changed = tuple(_changed(constraint, axes, divided))
        if changed:
            found.append(
                Constraint(
                    name=constraint.name,
                    operand=next(iter(constraint.operand_names), "?"),
                    is_output=_target(constraint) == _OUTPUT,
                    place=_place(constraint),
                    changed=changed,
                )
            )
    return tuple(found)


def _changed(
    constraint: HloInstruction,
    axes: Collection[str],
    divided: Callable[[HloInstruction, int | None], Collection[DividedDimension]],
) -> Iterator[ChangedDimension]:
    """Yield the dimensions where a constraint and its operand differ in some axes."""
    before = {one.dimension: one for one in divided(constraint, 0)}
    after = {one.dimension: one.axes for one in divided(constraint, None)}
    for dimension, wanted in after.items():
        given = before.get(dimension)
        if given is None or given.axes == wanted:
            continue
        if set(given.axes).symmetric_difference(wanted).intersection(axes):
            yield ChangedDimension(
                dimension=dimension, before=given.axes, origin=given.origin, after=wanted
            )


def _constraints_behind(operation: HloInstruction) -> Iterator[HloInstruction]:
    """Yield the constraints that a result goes to; nothing else changes its dimensions."""
    waiting = deque([operation])
    seen = {(operation.computation.place, operation.row)}
    while waiting and len(seen) < _STEPS:
        instruction = waiting.popleft()
        if is_constraint(instruction):
            yield instruction
            continue
        for user in _users(instruction):
            key = (user.computation.place, user.row)
            if key not in seen:
                seen.add(key)
                waiting.append(user)


def _users(instruction: HloInstruction) -> Iterator[HloInstruction]:
    """Yield the instructions that a value goes to with its dimensions as they are."""
    computation = instruction.computation
    module, links = computation.module, computation.module.links
    if instruction.is_root and not computation.is_entry:
        yield from (caller for caller in computation.callers if caller.opcode == "call")
    for row, position in links.users_of(instruction.row):
        user = HloInstruction(computation, row)
        if user.opcode == "call":
            for call in links.calls.of_row(row):
                parameters = {} if call.place == NOTHING else links.parameters_of(call.place)
                if position in parameters:
                    yield module.instruction(parameters[position])
        elif is_constraint(user) or keeps_dimensions(user, position):
            yield user


def keeps_dimensions(user: HloInstruction, position: int) -> bool:
    """Return whether an instruction computes element by element from an operand."""
    traits = opcode_traits(user.opcode)
    if not (traits.is_elementwise or traits.is_same):
        return False
    given, made = operand_array_shape(user, position), user.shape
    return given is not None and made is not None and given.dimensions == made.dimensions


def _place(instruction: HloInstruction) -> str | None:
    """Return the innermost places of the user's program: ``gpt.py:16 (cs) < gpt.py:39 (call)``."""
    own = instruction.user_stack
    shown = [f"{one} ({one.function})" if one.function else str(one) for one in own]
    if shown:
        return " < ".join(shown[:_MOST_FRAMES])
    return instruction.source


_MOST_OPERATIONS = 48
"""Most operations of one path and line that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedDimension:
    """One dimension of an operand, and the axes that divide it.

    Attributes:
        dimension: The dimension.
        axes: Mesh axes that divide it, most major first; () for none.
        origin: Name of the argument or instruction with the sharding.
        is_needed: Whether the operation combines elements along it: sums, sorts, shifts, ...
    """

    dimension: int
    axes: tuple[str, ...]
    origin: str
    is_needed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedOperand:
    """One operand of an operation.

    Attributes:
        position: Which operand of it.
        dimensions: Its dimensions with known shardings.
    """

    position: int
    dimensions: tuple[DividedDimension, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The operation that needed a collective, in the text from before optimizations.

    Attributes:
        name: Its name.
        verb: How it combines elements along dimensions: ``sums over``.
        is_product: Whether it is a matrix product or convolution.
        operands: Its operands with any known sharding.
        constraints: Constraints that need its result divided in another way.
    """

    name: str
    verb: str
    is_product: bool
    operands: tuple[ShardedOperand, ...]
    constraints: tuple[Constraint, ...]

    def uses_of(self, axis: str) -> tuple[list[Use], list[Use]]:
        """Return the dimensions that an axis divides: those it combines, and those it keeps."""
        uses = [
            (operand.position, found)
            for operand in self.operands
            for found in operand.dimensions
            if axis in found.axes
        ]
        return [use for use in uses if use[1].is_needed], [
            use for use in uses if not use[1].is_needed
        ]

    def has_partial_result(self, axis: str) -> bool:
        """Return whether each device of an axis has a part of what the operation combines."""
        needed, kept = self.uses_of(axis)
        return bool(needed) and not kept

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
        places = {position for position, _ in kept}
        return len(places) > 1 and len({found.dimension for _, found in kept}) > 1

    def is_explained(self, wanted: set[str], *, is_partial: bool) -> bool:
        """Return whether its shardings need communication along some axes.

        Args:
            wanted: The axes.
            is_partial: Whether partial results are added up.
        """
        if is_partial:
            return any(self.has_partial_result(axis) for axis in wanted)
        return any(self.has_half_combined(a) or self.has_conflict(a) for a in wanted)


Use = tuple[int, DividedDimension]
"""Number of an operand, and a dimension of it."""


def needing_operation(
    before: HloModule,
    collective: Collective,
    mesh: Mesh | None,
    paths: Mapping[str, SourceLocation | None],
) -> Operation | None:
    """Return the operation that needed a collective; None if the text has none of its paths.

    Of several operations of these paths, the first with a constraint on its result; else the first
    whose operands need communication along the collective's axes; else the first. Those at the
    places come before all others.

    Args:
        before: The text from before optimizations.
        collective: The collective.
        mesh: Mesh to name axes by.
        paths: Operation paths, with places in the user's program.
    """
    tracer = _Tracer(mesh, shardy.shardy_meshes(before.frontend_attributes.get(shardy.MESHES, "")))
    wanted = set(collective.axes or ())
    members = {member: place for path, place in paths.items() for member in member_paths(path)}
    users = [*itertools.islice(operations_of(before, members), _MOST_OPERATIONS)]
    found = [tracer.operation(user, wanted) for _, user in users]
    nearest = [one for one, (frame, _) in zip(found, users, strict=True) if frame == users[0][0]]
    is_partial = opcode_traits(collective.kind).is_reduction
    communicating = (
        one
        for group in (nearest, found)
        for one in (
            *(one for one in group if one.constraints and not is_partial),
            *(one for one in group if one.is_explained(wanted, is_partial=is_partial)),
        )
    )
    summing = (one for one in found if is_partial and any(one.uses_of(a)[0] for a in wanted))
    return next(itertools.chain(communicating, summing, found), None)


def divided_dimensions(
    before: HloModule, user: HloInstruction, position: int | None, mesh: Mesh | None
) -> tuple[DividedDimension, ...]:
    """Return the known dimensions of an operand of an instruction, or of its result for None."""
    meshes = shardy.shardy_meshes(before.frontend_attributes.get(shardy.MESHES, ""))
    return _Tracer(mesh, meshes).divided(user, position)


class _Tracer:
    """Finds how operands and results are divided.

    Args:
        mesh: Mesh to name axes by.
        meshes: Meshes of the text by name.
    """

    def __init__(self, mesh: Mesh | None, meshes: Mapping[str, Mesh]) -> None:
        self._mesh = mesh
        self._meshes = meshes

    def operation(self, user: HloInstruction, wanted: set[str]) -> Operation:
        """Return an operation with the constraints on its result."""
        computing = computing_one(user)
        operands = (
            ShardedOperand(position=k, dimensions=self.divided(computing, k))
            for k in range(len(computing.operands))
        )
        return Operation(
            name=computing.name,
            verb=COMBINING.get(computing.opcode, "reads all of"),
            is_product=opcode_traits(computing.opcode).is_product,
            operands=tuple(operand for operand in operands if operand.dimensions),
            constraints=constraints_on(user, wanted, self.divided),
        )

    def divided(self, user: HloInstruction, position: int | None) -> tuple[DividedDimension, ...]:
        """Return the known dimensions of an operand, or of the result by its own sharding."""
        shape = user.shape if position is None else operand_array_shape(user, position)
        if shape is None or shape.is_tuple:
            return ()
        needed = () if position is None else needed_dimensions(user, position)
        found: list[tuple[int, DividedDimension]] = []
        for dimension in range(len(shape.dimensions)):
            trace = DimensionTrace(mesh=self._mesh, meshes=self._meshes)
            if position is None:
                divided = trace.own(user, dimension)
            else:
                divided = trace.operand(user, position, dimension)
            if divided is not None:
                axes, origin = divided
                one = DividedDimension(
                    dimension=dimension,
                    axes=axes,
                    origin=_name(origin),
                    is_needed=dimension in needed,
                )
                found.append((trace.distance, one))
        return _without_repeated_axes(found)


def _without_repeated_axes(
    found: list[tuple[int, DividedDimension]],
) -> tuple[DividedDimension, ...]:
    """Return dimensions without those whose axes divide a dimension with a nearer origin.

    An axis divides one dimension of a value; propagation keeps the first that reaches it.

    Args:
        found: Each with the distance of its origin.
    """
    taken: set[str] = set()
    kept: list[DividedDimension] = []
    for _, one in sorted(found, key=lambda pair: pair[0]):
        if taken.isdisjoint(one.axes):
            kept.append(one)
            taken.update(one.axes)
    return tuple(sorted(kept, key=lambda one: one.dimension))


def _name(origin: HloInstruction) -> str:
    """Return the program's name of an argument, or the name of another instruction."""
    metadata = origin.metadata
    if origin.opcode == "parameter" and metadata is not None and metadata.op_name:
        return metadata.op_name
    return origin.name


_MOST = 200
"""Limit on the constraints examined, in text order."""

_DROPPED_AXES_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedAxes:
    """A constraint that leaves out axes of its operand.

    Attributes:
        name: Name of the constraint in the text before optimizations.
        operand: Name of its operand.
        axes: Axes that divide the operand, and that the constraint has nowhere.
        origin: Name of the argument or instruction that they come from.
        paths: Operation paths of the constraint and of what computes its operand.
        place: Line to blame; None if not known.
    """

    name: str
    operand: str
    axes: tuple[str, ...]
    origin: str
    paths: frozenset[str]
    place: SourceLocation | None


def dropped_axes(before: HloModule, mesh: Mesh | None) -> tuple[DroppedAxes, ...]:
    """Return the constraints of a program that leave out axes of their operands.

    Args:
        before: The text from before optimizations.
        mesh: Mesh to name axes by.
    """
    rows = before.columns.rows_with_attribute_text('custom_call_target="Sharding"')
    calls = (before.instruction(row) for row in rows)
    constraints = list(islice((call for call in calls if is_constraint(call)), _MOST))
    found: list[DroppedAxes] = []
    wrappers = _wrappers(constraints)
    for one in constraints:
        if not _is_argument(one):
            found += _dropped(one, mesh, wrappers)
    return tuple(found)


def _dropped(
    constraint: HloInstruction, mesh: Mesh | None, wrappers: Collection[str]
) -> Iterator[DroppedAxes]:
    before = constraint.computation.module
    given = divided_dimensions(before, constraint, 0, mesh)
    own = divided_dimensions(before, constraint, None, mesh)
    wanted = {axis for one in own for axis in one.axes}
    axes = {axis: one.origin for one in given for axis in one.axes if axis not in wanted}
    if axes:
        frames = constraint.user_stack
        is_wrapped = len(frames) > 1 and str(frames[0]) in wrappers
        yield DroppedAxes(
            name=constraint.name,
            operand=next(iter(constraint.operand_names), "?"),
            axes=tuple(axes),
            origin=next(iter(axes.values())),
            paths=frozenset(path for one in _computed(constraint) for path in inlined_paths(one)),
            place=next(iter(frames[is_wrapped:]), None),
        )


def _wrappers(constraints: Sequence[HloInstruction]) -> Collection[str]:
    """Return the lines of constraints that are called from several lines, which are to blame."""
    called = {tuple(map(str, one.user_stack[:2])) for one in constraints}
    callers = Counter(lines[0] for lines in called if len(lines) > 1)
    return {line for line, count in callers.items() if count > 1}


def _is_argument(constraint: HloInstruction) -> bool:
    """Return whether a constraint is of an argument, or of a part of one."""
    instruction = constraint
    for _ in range(_DROPPED_AXES_STEPS):
        made = instruction.producer(0)
        if made is None:
            return instruction.opcode == "parameter"
        instruction = made[0]
        traits = opcode_traits(instruction.opcode)
        if not (traits.is_formatting or traits.is_view or traits.opcode == CUSTOM_CALL):
            return instruction.opcode == "parameter"
    return False


def _computed(constraint: HloInstruction) -> Iterator[HloInstruction]:
    """Yield a constraint and the instructions that compute its operand, element by element."""
    waiting, seen = deque([constraint]), {constraint.row}
    while waiting and len(seen) < _DROPPED_AXES_STEPS:
        instruction = waiting.popleft()
        yield instruction
        for position in range(len(instruction.operands)):
            made = instruction.producer(position)
            is_same = instruction is constraint or keeps_dimensions(instruction, position)
            if made is not None and made[0].row not in seen and is_same:
                seen.add(made[0].row)
                waiting.append(made[0])
