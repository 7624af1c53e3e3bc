"""What an operation's operands were sharded like, by the text from before optimizations.

Operands are followed back through conversions, transposes, slices of stacked values and the carried
values of loops to what has a sharding: an argument of the program, a sharding constraint, or any
instruction that prints one. Which of its dimensions is which of the operand's is kept track of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.model import shardy
from hlo_lens.text.errors import DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.analysis.collectives import Collective
    from hlo_lens.model.hlo import HloInstruction, HloModule
    from hlo_lens.model.mesh import Mesh
    from hlo_lens.model.partition_spec import PartitionSpec
    from hlo_lens.model.sharding import HloSharding

_NUMBER = re.compile(r"\d+")
_SAME = frozenset("convert copy bitcast-convert opt-barrier reduce-precision negate".split())
_STEPS = 64
_MOST = 6
_USERS = frozenset("dot convolution reduce gather scatter sort custom-call".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedOperand:
    """One operand of an operation, and what it is sharded like.

    Attributes:
        user: Name of the operation.
        position: Which operand of it.
        origin: What has the sharding: an argument's name, or an instruction's.
        spec: Mesh axes of each dimension of the origin; None where no spec says it.
        sharding: The sharding as written.
        summed: Dimensions of the operand that the operation sums over, and the axes that divide
            them, as far as known.
    """

    user: str
    position: int
    origin: str
    spec: PartitionSpec | None
    sharding: str
    summed: tuple[tuple[int, str], ...] = ()

    def words(self) -> str:
        """Return the operand and its sharding in words."""
        how = self.sharding
        if self.spec is not None:
            divided = [
                f"dimension {place} over {axes if isinstance(axes, str) else ','.join(axes)}"
                for place, axes in enumerate(self.spec)
                if axes
            ]
            how = ", ".join(divided) or "whole on each device"
        return f"{self.origin} ({how}) as operand {self.position}"


def sharded_operands(
    before: HloModule, collective: Collective, mesh: Mesh | None
) -> tuple[ShardedOperand, ...]:
    """Return the sharded operands of the operation that a collective was put in for.

    Args:
        before: The text from before optimizations.
        collective: The collective, which has the operation's path and source line.
        mesh: Mesh to name axes by.
    """
    meshes = shardy.shardy_meshes(before.frontend_attributes.get(shardy.MESHES, ""))
    found: list[ShardedOperand] = []
    for user in _operations(before, collective):
        for position in range(len(user.operands)):
            operand = _sharded(user, position, mesh, meshes)
            if operand is not None and operand not in found:
                found.append(operand)
        if len(found) >= _MOST:
            break
    return tuple(found[:_MOST])


def _operations(before: HloModule, collective: Collective) -> Iterator[HloInstruction]:
    """Yield the instructions with a collective's path and source line; products first."""
    if not collective.op_name:
        return
    listed = []
    for instruction in before.instructions:
        metadata = instruction.metadata
        if metadata is None or metadata.op_name != collective.op_name:
            continue
        place = instruction.source_location
        if collective.source_line is None or place is None or place.line == collective.source_line:
            listed.append(instruction)
    for wanted in (True, False):
        chosen = [i for i in listed if (i.opcode in _USERS) is wanted]
        yield from chosen
        if wanted and chosen:
            return


def _sharded(
    user: HloInstruction, position: int, mesh: Mesh | None, meshes: Mapping[str, Mesh]
) -> ShardedOperand | None:
    traced = _traced(user, position, meshes)
    if traced is None:
        return None
    origin, sharding, dimensions = traced
    known = mesh or (sharding.named.mesh if sharding.named is not None else None)
    try:
        spec = None if known is None else sharding.to_partition_spec(known)
    except UsageError:
        spec = None
    summed = []
    for place in _summed(user, position) if spec is not None else ():
        source = dimensions[place] if place < len(dimensions) else None
        axes = spec[source] if spec is not None and source is not None and source < len(spec) else None
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            summed.append((place, axis))
    metadata = origin.metadata
    name = origin.name
    if origin.opcode == "parameter" and metadata is not None and metadata.op_name:
        name = metadata.op_name
    return ShardedOperand(
        user=user.name,
        position=position,
        origin=name,
        spec=spec,
        sharding=str(sharding),
        summed=tuple(summed),
    )


def _summed(user: HloInstruction, position: int) -> tuple[int, ...]:
    if user.opcode == "reduce" and position == 0:
        return tuple(int(n) for n in _NUMBER.findall(user.attribute("dimensions") or ""))
    return summed_dimensions(user, position) or ()


def summed_dimensions(instruction: HloInstruction, position: int) -> tuple[int, ...] | None:
    """Return the dimensions of an operand that a product sums over; None for other instructions."""
    if instruction.opcode == "dot":
        name = "lhs_contracting_dims" if position == 0 else "rhs_contracting_dims"
        return tuple(int(n) for n in _NUMBER.findall(instruction.attribute(name) or ""))
    if instruction.opcode == "convolution":
        labels = re.match(r"(\w+)_(\w+)->", instruction.attribute("dim_labels") or "")
        if labels is None or position > 1:
            return None
        text, wanted = (labels[1], "f") if position == 0 else (labels[2], "i")
        return (text.index(wanted),) if wanted in text else None
    return None


def _traced(
    user: HloInstruction, position: int, meshes: Mapping[str, Mesh]
) -> tuple[HloInstruction, HloSharding, list[int | None]] | None:
    """Return what has a sharding behind an operand, and which of its dimensions is which."""
    step = _operand(user, position, ())
    dimensions: list[int | None] | None = None
    for _ in range(_STEPS):
        if step is None:
            return None
        instruction, index = step
        if dimensions is None:
            shape = _element_shape(instruction, index)
            if shape is None:
                return None
            dimensions = list(range(len(shape)))
        sharding = _own_sharding(instruction, index, meshes)
        if sharding is not None:
            return instruction, sharding, dimensions
        step, dimensions = _back(instruction, index, dimensions)
    return None


def _operand(
    user: HloInstruction, position: int, index: tuple[int, ...]
) -> tuple[HloInstruction, tuple[int, ...]] | None:
    operands = user.operands
    if position >= len(operands):
        return None
    producer = user.computation.instruction(operands[position].name)
    return None if producer is None else (producer, (*operands[position].index, *index))


def _element_shape(instruction: HloInstruction, index: tuple[int, ...]) -> tuple[int, ...] | None:
    shape = instruction.shape
    for place in index:
        parts = () if shape is None else shape.tuple_shapes
        shape = parts[place] if place < len(parts) else None
    return None if shape is None or shape.is_tuple else shape.dimensions


def _own_sharding(
    instruction: HloInstruction, index: tuple[int, ...], meshes: Mapping[str, Mesh]
) -> HloSharding | None:
    """Return the sharding that an instruction prints for one array of its result; or None."""
    if index:
        return None
    frontend = instruction.frontend_attributes
    text = frontend.get(shardy.SHARDING)
    try:
        found = shardy.shardy_shardings(text, meshes) if text else ()
        sharding = found[0] if len(found) == 1 and found[0] is not None else instruction.sharding
    except DumpSyntaxError:
        return None
    return None if sharding is None or sharding.elements or _is_manual(sharding) else sharding


def _is_manual(sharding: HloSharding) -> bool:
    return sharding.kind.value in ("manual", "unknown")


_Step = tuple["HloInstruction", tuple[int, ...]] | None


def _back(
    instruction: HloInstruction, index: tuple[int, ...], dimensions: list[int | None]
) -> tuple[_Step, list[int | None]]:
    """Return what a value is made of, dimension by dimension; nothing where that is not plain."""
    opcode = instruction.opcode
    if opcode == "get-tuple-element":
        number = instruction.attributes.get("index", "0")
        return _operand(instruction, 0, (int(number), *index)), dimensions
    if opcode == "tuple" and index:
        return _operand(instruction, index[0], index[1:]), dimensions
    if opcode in _SAME or opcode in ("custom-call", "slice", "dynamic-slice", "pad"):
        return _operand(instruction, 0, index), dimensions
    if opcode in ("transpose", "broadcast"):
        return _operand(instruction, 0, index), _rearranged(instruction, dimensions)
    if opcode == "reshape":
        return _operand(instruction, 0, index), _reshaped(instruction, dimensions)
    if opcode in ("parameter", "while"):
        return _carried(instruction, index), dimensions
    return None, dimensions


def _rearranged(instruction: HloInstruction, dimensions: list[int | None]) -> list[int | None]:
    """Follow dimensions through a transpose or broadcast: `dimensions={1,0}`."""
    order = [int(n) for n in _NUMBER.findall(instruction.attribute("dimensions") or "")]

    def source(place: int | None) -> int | None:
        if place is None:
            return None
        if instruction.opcode == "transpose":
            return order[place] if place < len(order) else None
        return order.index(place) if place in order else None

    return [source(place) for place in dimensions]


def _reshaped(instruction: HloInstruction, dimensions: list[int | None]) -> list[int | None]:
    """Follow dimensions through a reshape that adds or drops dimensions of size 1."""
    operand = _operand(instruction, 0, ())
    before = None if operand is None else _element_shape(*operand)
    after = _element_shape(instruction, ())
    if before is None or after is None:
        return [None for _ in dimensions]
    places = [place for place, size in enumerate(before) if size != 1]
    if [before[place] for place in places] != [size for size in after if size != 1]:
        return [None for _ in dimensions]
    rest = iter(places)
    sources = [next(rest) if size != 1 else None for size in after]
    return [None if place is None else sources[place] for place in dimensions]


def _carried(instruction: HloInstruction, index: tuple[int, ...]) -> _Step:
    """Return what enters a loop, call or branch as a parameter, or a loop as a whole."""
    if instruction.opcode == "while":
        return _operand(instruction, 0, index)
    computation = instruction.computation
    if computation.is_entry or not computation.callers:
        return None
    caller = computation.callers[0]
    number = 0 if caller.opcode == "while" else instruction.parameter_number or 0
    if caller.opcode == "conditional":
        number = 1 + caller.called_computations.index(computation.name)
    return _operand(caller, number, index)
