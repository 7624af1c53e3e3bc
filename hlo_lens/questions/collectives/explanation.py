"""Reasons for a collective, in sentences: the cause, what is exchanged, producers and consumers.

The cause follows from the text from before optimizations (`causes`). The optimized text shows what
is exchanged: an all-gather's operand was divided along its dimension, an all-reduce's is a partial
result; producers and consumers are facts, not causes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.printed_names import names_printed_as
from hlo_lens.program.origins import is_inferred
from hlo_lens.program.value_flow import Neighbour, Neighbourhood
from hlo_lens.questions.collectives.asked import last_part
from hlo_lens.questions.collectives.causes import causes, is_asked_for, paths_of
from hlo_lens.questions.collectives.collectives import (
    Collective,
    Collectives,
    collectives,
    end_of,
    instruction_of,
)
from hlo_lens.questions.collectives.dimension_sources import listed_numbers, summed_dimensions
from hlo_lens.questions.sharding.placement import ShardedValue, module_shardings, sharding_table
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Why(Result):
    """Reasons for one collective.

    Attributes:
        collective: The collective.
        sentences: The reasons: the cause first.
        producers: Instructions that make its operands, the largest first.
        consumers: Instructions that need its result.
        shardings: Sharding of entry parameters by number.
    """

    KIND: ClassVar[str] = "why"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("role", Unit.NONE, "producer or consumer"),
        Column("name", Unit.NONE, "the instruction"),
        Column("opcode", Unit.NONE, "its opcode"),
        Column("shape", Unit.NONE, "its result on one device, as written without layout"),
        Column("sharding", Unit.NONE, "its sharding"),
        Column("op_name", Unit.NONE, "scope path of the framework, or name of the argument"),
        Column("source", Unit.NONE, "innermost place in the user's program"),
        Column("loops", Unit.NONE, "loops through whose carried values it passes"),
    )
    collective: Collective
    sentences: tuple[str, ...]
    producers: tuple[Neighbour, ...]
    consumers: tuple[Neighbour, ...]
    shardings: Mapping[int, ShardedValue]

    def rows(self) -> Iterator[Row]:
        """Yield producers, the largest first, then consumers, nearest first."""
        for role, listed in (("producer", self.producers), ("consumer", self.consumers)):
            for near in listed:
                instruction = near.instruction
                yield (
                    role,
                    instruction.name,
                    instruction.opcode,
                    plain_shape(instruction),
                    _sharding_text(instruction, self.shardings),
                    instruction.op_name,
                    instruction.source,
                    near.loops,
                )


def find_collectives(found: Collectives, name: str) -> list[Collective]:
    """Return the collectives with a printed name, their own or that of their start."""
    own = {one for c in found.collectives for one in (c.name, c.started_by) if one is not None}
    wanted = {*names_printed_as(name, own)}
    return [c for c in found.collectives if wanted & {c.name, c.started_by}]


def explain_collectives(module: ModuleDump, name: str) -> tuple[Why, ...]:
    """Return explanations of the collectives of a name; none without HLO text."""
    if module.hlo is None:
        return ()
    found = collectives(module)
    chosen = find_collectives(found, name)
    before = module.before if chosen else None
    return tuple(why(module.hlo, one, found, before) for one in chosen)


def why(
    module: HloModule, collective: Collective, found: Collectives, before: HloModule | None
) -> Why:
    """Return the reasons for a collective.

    Args:
        module: The module that has it.
        collective: The collective.
        found: All collectives of the module, with its meshes.
        before: The text from before optimizations, if there is one.
    """
    instruction = instruction_of(module, collective)
    mesh = found.meshes[0].mesh if found.meshes else None
    table = sharding_table(module_shardings(module, before, mesh))
    shardings = {
        value.value.number: value
        for value in table.values
        if value.value.kind == "parameter" and value.value.number is not None
    }
    near = Neighbourhood(module)
    producers = near.producers(instruction) if instruction is not None else ()
    producers = tuple(sorted(producers, key=_bytes_of, reverse=True))
    end = end_of(module, collective)
    consumers = near.consumers(end) if end is not None else ()
    users = [*_behind_collectives(module, found, near, consumers)]
    candidates = [*paths_of(collective, producers, users)]
    sentences = [*_origin(collective), *causes(before, collective, mesh, candidates)]
    if instruction is not None:
        sentences += _meaning(instruction, collective)
    sentences += _made_by(producers, shardings, collective)
    sentences += _needed_by(consumers, collective, instruction)
    return Why(
        collective=collective,
        sentences=tuple(sentences),
        producers=producers,
        consumers=consumers,
        shardings=shardings,
    )


def _behind_collectives(
    module: HloModule, found: Collectives, near: Neighbourhood, consumers: Sequence[Neighbour]
) -> Iterator[Neighbour]:
    """Yield consumers; of another collective, which does the rest of a gather, its consumers."""
    known = {one.name: one for one in found.collectives}
    for one in consumers:
        other = known.get(one.instruction.name)
        end = None if other is None else end_of(module, other)
        yield from (one,) if end is None else near.consumers(end)


def _bytes_of(near: Neighbour) -> int:
    shape = near.instruction.shape
    return 0 if shape is None else shape.size_bytes or 0


def _origin(collective: Collective) -> Iterator[str]:
    """Yield whether the program calls it itself."""
    path = collective.own_op_name
    if path is None:
        yield "the text does not show which operation it belongs to"
        if collective.op_name and collective.op_name != collective.argument:
            yield f"its {collective.origin_basis} is of {collective.op_name}"
        if collective.argument:
            yield f"it moves the argument {collective.argument}"
        return
    last = last_part(path)
    is_own = collective.source_file is not None and not is_inferred(collective.origin_basis)
    place = f" at {collective.source}" if is_own else ""
    if is_asked_for(collective):
        yield f"the program asks for it: {last}{place}"
    else:
        yield f"the partitioner put it in for {last}{place}"


def _dimension(instruction: HloInstruction) -> int | None:
    numbers = listed_numbers(instruction, "dimensions")
    return numbers[0] if len(numbers) == 1 else None


def _along(collective: Collective) -> str:
    axis = collective.axis
    if axis == "?":
        return f"among {collective.group_size or '?'} devices"
    return f"along {axis} ({collective.group_size or '?'} devices)"


def _meaning(instruction: HloInstruction, collective: Collective) -> Iterator[str]:
    if collective.moves_nothing:
        yield "its groups are of one device each: it moves nothing"
        return
    if collective.crosses_slices:
        what = collective.performed_as or collective.kind
        article = "an" if what[0] in "aeiou" else "a"
        yield (
            f"it is {article} {what} between slices, carried by the multi-slice runtime as send "
            "and recv"
        )
    along, dimension = _along(collective), _dimension(instruction)
    of = "" if dimension is None else f" of dimension {dimension}"
    if collective.kind == "all-gather":
        yield f"each device has a part{of} {along}, and gets all of it"
    elif collective.kind == "all-reduce":
        yield f"each device has a partial result {along}, and gets the whole one"
    elif collective.kind == "reduce-scatter":
        yield f"each device has a partial result {along}, and gets a part{of} of the sum"
    elif collective.kind in ("all-to-all", "ragged-all-to-all"):
        yield (
            f"each device sends another part to each other one {along}: operand and result are "
            f"divided along different dimensions{f', one of them {dimension}' if of else ''}"
        )
    elif collective.kind == "collective-permute" and collective.transfer is not None:
        yield f"each device passes its part on: {collective.transfer}"
    elif collective.is_host_transfer and not collective.crosses_slices:
        yield "it goes between the device and its host"


def _made_by(
    producers: Sequence[Neighbour],
    shardings: Mapping[int, ShardedValue],
    collective: Collective,
) -> Iterator[str]:
    for near in producers[:_MOST_NAMED]:
        instruction = near.instruction
        loops = f", through {' and '.join(near.loops)}" if near.loops else ""
        if instruction.opcode == "parameter":
            yield f"it reads {_parameter(instruction, shardings)}{loops}"
            continue
        yield f"it reads {_named(instruction)}{loops}{_partial(instruction, collective)}"
    if len(producers) > _MOST_NAMED:
        yield f"and reads {len(producers) - _MOST_NAMED} more, below"


def _parameter(instruction: HloInstruction, shardings: Mapping[int, ShardedValue]) -> str:
    number = instruction.parameter_number
    name = f" {instruction.op_name}" if instruction.op_name else ""
    text = f"parameter {number}{name} {plain_shape(instruction) or ''}".rstrip()
    said = _sharding_text(instruction, shardings)
    return f"{text}, {said}" if said else text


def _named(instruction: HloInstruction) -> str:
    path = (instruction.op_name or "").rpartition("/")[2]
    return f"{instruction.name}{f' ({path})' if path else ''}"


def _partial(instruction: HloInstruction, collective: Collective) -> str:
    """Return a sentence on a product that sums over a divided dimension."""
    if not opcode_traits(collective.kind).is_reduction or is_asked_for(collective):
        return ""
    module = instruction.computation.module
    called = [module.computation(name) for name in instruction.called_computations]
    inside = [i.opcode for c in called if c is not None for i in c.instructions]
    if not {"dot", "convolution", "reduce"}.intersection([instruction.opcode, *inside]):
        return ""
    return ", which sums over a dimension of which each device has only its part"


def _needed_by(
    consumers: Sequence[Neighbour], collective: Collective, instruction: HloInstruction | None
) -> Iterator[str]:
    for near in consumers[:_MOST_NAMED]:
        consumer = near.instruction
        if consumer.is_root and consumer.computation.is_entry and near.position is None:
            place = f" {near.index[0]}" if near.index else ""
            yield f"it goes to output{place} of the program"
            continue
        needs = _needs(near, collective, instruction)
        yield f"it goes to {_named(consumer)}, operand {near.position}{needs}"
    if len(consumers) > _MOST_NAMED:
        yield f"and goes to {len(consumers) - _MOST_NAMED} more, below"


def _needs(near: Neighbour, collective: Collective, instruction: HloInstruction | None) -> str:
    """Return how a product uses the gathered dimension."""
    consumer = near.instruction
    dimension = None if instruction is None else _dimension(instruction)
    if collective.kind != "all-gather" or dimension is None or near.position is None:
        return ""
    summed = summed_dimensions(consumer, near.position)
    if summed is None:
        return ""
    shape = None if instruction is None else instruction.shape
    given = consumer.operand_shape(near.position)
    if shape is None or given is None:
        return ""
    if shape.is_tuple or shape.dimensions != given.dimensions:
        return ""
    return f", which {'sums over' if dimension in summed else 'keeps'} dimension {dimension}"


def plain_shape(instruction: HloInstruction) -> str | None:
    """Return the shape of a result without layout; None for a tuple or if unknown."""
    shape = instruction.shape
    if shape is None or shape.is_tuple:
        return None
    return f"{shape.element_type}[{','.join(map(str, shape.dimensions))}]"


def _sharding_text(
    instruction: HloInstruction, shardings: Mapping[int, ShardedValue]
) -> str | None:
    """Return the sharding of a result, by mesh axes or as written."""
    if instruction.opcode == "parameter" and instruction.computation.is_entry:
        value = shardings.get(instruction.parameter_number or 0)
        if value is not None and value.spec is not None:
            whole = value.global_shape
            dims = "" if whole is None else f" of [{','.join(map(str, whole.dimensions))}]"
            return f"{spec_words(value.spec)}{dims}"
        if value is not None and value.sharding is not None:
            return str(value.sharding)
    return instruction.attribute("sharding")


def spec_words(spec: Sequence[str | tuple[str, ...] | None]) -> str:
    """Return a partition spec in words.

    >>> spec_words(("data", None, ("x", "y")))
    'dimension 0 over data, dimension 2 over x,y'
    >>> spec_words((None,))
    'whole on each device'
    """
    parts = [
        f"dimension {place} over {axes if isinstance(axes, str) else ','.join(axes)}"
        for place, axes in enumerate(spec)
        if axes
    ]
    return ", ".join(parts) or "whole on each device"
