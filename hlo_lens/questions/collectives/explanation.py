"""Reasons for a collective, in sentences: the cause, what is exchanged, producers and consumers.

The partitioner gives a collective the operation path of the instruction that needed it. The
instruction of that path in the text from before optimizations shows the cause: a sharding
constraint of the program on its result, then operands whose shardings cannot both stay. Without
that text or path, and where the shardings there need no communication along the collective's axes,
the cause is not determined.

The optimized text shows what is exchanged: an all-gather's operand was divided along its dimension,
an all-reduce's is a partial result; producers and consumers are facts, not causes.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, TypeAlias

from hlo_lens.hlo.metadata import SourceLocation
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import names_printed_as
from hlo_lens.program.origins import is_inferred
from hlo_lens.program.value_flow import Neighbour, Neighbourhood
from hlo_lens.questions.collectives.collective import (
    RING,
    Collective,
    Collectives,
    axis_text,
    collectives,
    end_of,
    instruction_of,
)
from hlo_lens.questions.collectives.operand_shardings import (
    DividedDimension,
    Operation,
    listed_numbers,
    needing_operation,
    summed_dimensions,
)
from hlo_lens.questions.collectives.origin import is_asked_path, last_part
from hlo_lens.questions.sharding.placement import ShardedValue, module_shardings, sharding_table
from hlo_lens.render.result import Records
from hlo_lens.shapes.named_sharding import axes_of_entry
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.shapes.mesh import Mesh

Paths: TypeAlias = "Mapping[str, SourceLocation | None]"
"""Operation paths, each with a place in the user's program."""

_MOST_NAMED = 3


class NeighbourRow(NamedTuple):
    """A producer or consumer of a collective; its fields are the columns of `Why`."""

    role: Annotated[str, "producer or consumer"]
    name: Annotated[str, "the instruction"]
    opcode: Annotated[str, "its opcode"]
    shape: Annotated[str | None, "its result on one device, as written without layout"]
    sharding: Annotated[str | None, "its sharding"]
    op_name: Annotated[str | None, "scope path of the framework, or name of the argument"]
    source: Annotated[str | None, "innermost place in the user's program"]


@dataclass(frozen=True, kw_only=True)
class Why(Records[NeighbourRow]):
    """Reasons for one collective.

    Attributes:
        neighbours: Instructions that make its operands, the largest first, then those that need its
            result, the nearest first.
        collective: The collective.
        sentences: The reasons: the cause first.
    """

    KIND: ClassVar[str] = "why"
    neighbours: tuple[NeighbourRow, ...]
    collective: Collective
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        """The sentences, a line each, after name, kind and axes."""
        head = (
            f"{self.collective.name}: {self.collective.kind} over {axis_text(self.collective.axis)}"
        )
        return "\n".join((head, *(f"  {sentence}" for sentence in self.sentences)))


def asked_collectives(found: Collectives, name: str) -> tuple[list[Collective], list[Collective]]:
    """Return the collectives of a name, and the others of a kind that was named instead.

    A name is printed for the collective or its start. Of a kind (``all-gather``) the largest is
    asked for; one of that very name is ``%all-gather``.
    """
    listed = found.collectives
    of_kind = [one for one in listed if one.kind == name]
    of_kind.sort(key=lambda c: (-(c.wire_bytes_per_run or c.wire_bytes_per_device or 0), c.name))
    own = {one for c in listed for one in (c.name, c.started_by) if one is not None}
    wanted = {*names_printed_as(name, own)}
    chosen = of_kind[:1] or [c for c in listed if wanted & {c.name, c.started_by}]
    return chosen, [one for one in of_kind if one not in chosen]


def modules_with_collective(modules: Sequence[ModuleDump], name: str) -> list[ModuleDump]:
    """Return the modules that have a collective of a name.

    Raises:
        UnknownNameError: If none has it.
    """
    tables = [(module, collectives(module)) for module in modules if module.hlo is not None]
    having = [module for module, table in tables if asked_collectives(table, name)[0]]
    if not having:
        names = [one.name for _, table in tables for one in table.collectives]
        hint = did_you_mean(name.removeprefix("%"), names)
        raise UnknownNameError(
            f"no collective is named {name!r}{hint or '; see hlo-lens collectives PATH -n 0'}"
        )
    return having


def explain_collectives(module: ModuleDump, name: str) -> tuple[Why, ...]:
    """Return explanations of the collectives of a name; none without HLO text."""
    if module.hlo is None:
        return ()
    found = collectives(module)
    chosen, _ = asked_collectives(found, name)
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
    instruction, end = instruction_of(module, collective), end_of(module, collective)
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
    consumers = near.consumers(end) if end is not None else ()
    known = {one.name: one for one in found.collectives}
    users: list[Neighbour] = []
    for consumer in consumers:  # of another collective, which does the rest of a gather, its users
        other = known.get(consumer.instruction.name)
        other_end = None if other is None else end_of(module, other)
        users += [consumer] if other_end is None else near.consumers(other_end)
    candidates = [*_paths_of(collective, producers, users)]
    stored = _stored_cause(collective, shardings, users)
    causes = list(_causes(before, collective, mesh, candidates))
    names = collective.parameters or tuple(filter(None, [collective.argument]))
    if stored is not None and causes and causes[0].startswith(_UNDETERMINED):
        causes = [stored]
    elif names:
        causes.append(f"it moves the argument{'s' * (len(names) > 1)} {', '.join(names)}")
    sentences = [*_origin(collective), *causes]
    if instruction is not None:
        sentences += _meaning(instruction, collective)
    sentences += _made_by(producers, shardings, collective)
    sentences += _needed_by(consumers, collective, instruction)
    return Why(
        neighbours=tuple(
            NeighbourRow(
                role,
                neighbour.instruction.name,
                neighbour.instruction.opcode,
                _plain_shape(neighbour.instruction),
                _sharding_text(neighbour.instruction, shardings),
                neighbour.instruction.op_name,
                neighbour.instruction.source,
            )
            for role, listed in (("producer", producers), ("consumer", consumers))
            for neighbour in listed
        ),
        collective=collective,
        sentences=tuple(sentences),
    )


def _bytes_of(near: Neighbour) -> int:
    shape = near.instruction.shape
    return 0 if shape is None else shape.size_bytes or 0


# ---- the cause ---------------------------------------------------------------------------------

_UNDETERMINED = "the cause is not determined"


def _is_asked_for(collective: Collective) -> bool:
    """Return whether the program calls it itself, as by its operation path."""
    return is_asked_path(collective.own_op_name)


def _origin(collective: Collective) -> Iterator[str]:
    """Yield whether the program calls it itself."""
    path = collective.own_op_name
    if path is None:
        yield "the text does not show which operation it belongs to"
        if collective.op_name and collective.op_name != collective.argument:
            yield f"its {collective.origin_basis} is of {collective.op_name}"
        return
    is_own = collective.source_file is not None and not is_inferred(collective.origin_basis)
    place = f" at {collective.source}" if is_own else ""
    is_asked = _is_asked_for(collective)
    reason = "the program asks for it:" if is_asked else "the partitioner put it in for"
    yield f"{reason} {last_part(path)}{place}"


def _paths_of(
    collective: Collective, producers: Sequence[Neighbour], consumers: Sequence[Neighbour]
) -> Iterator[Paths]:
    """Yield the operation path of a collective, then those of the products that it belongs to.

    Partial results are of its producers; a value is gathered for its consumers.
    """
    place = None
    if collective.source_file is not None:
        place = SourceLocation(file=collective.source_file, line=collective.source_line)
    if collective.own_op_name is not None:
        yield {collective.own_op_name: place}
    is_reduction = opcode_traits(collective.kind).is_reduction
    near = (one.instruction for one in (producers if is_reduction else consumers))
    found = {one.op_name: one.source_location for one in near}
    if is_reduction and collective.own_op_name is None:
        found.setdefault(collective.op_name, place)
    yield {path: at for path, at in found.items() if path is not None}


def _causes(
    before: HloModule | None,
    collective: Collective,
    mesh: Mesh | None,
    candidates: Sequence[Paths],
) -> Iterator[str]:
    """Yield the cause by the text from before optimizations, or that it is not determined.

    Of the candidates those paths count of which the text has an operation first.
    """
    if _is_asked_for(collective) or collective.moves_nothing:
        return
    if collective.own_op_name is not None and last_part(collective.own_op_name) == "shard_map":
        yield "the in_specs or out_specs of the shard_map need another sharding than the value has"
        return
    if before is None:
        yield f"{_UNDETERMINED}: there is no text from before optimizations"
        return
    operations = (needing_operation(before, collective, mesh, paths) for paths in candidates)
    operation = next((one for one in operations if one is not None), None)
    if operation is None:
        problem = "before optimizations, no instruction has its operation path"
        yield f"{_UNDETERMINED}: {problem if any(candidates) else 'it has no operation path'}"
        return
    if collective.axes is None:
        yield f"{_UNDETERMINED}: its mesh axes are not known"
        return
    found = [*_constraint_causes(operation, collective), *_operand_causes(operation, collective)]
    yield from found
    if not found:
        yield (
            f"{_UNDETERMINED}: before optimizations, the shardings known around {operation.name} "
            f"need no {collective.kind} along {axis_text(collective.axis)}"
        )
    for position, dimensions in itertools.groupby(operation.dimensions, lambda one: one.position):
        divided = [
            f"dimension {one.dimension} over {','.join(one.axes)} (as {one.origin})"
            for one in dimensions
            if one.axes
        ]
        if divided:
            words = ", ".join(divided)
            yield f"before optimizations, operand {position} of {operation.name}: {words}"


def _stored_cause(
    collective: Collective, shardings: Mapping[int, ShardedValue], users: Sequence[Neighbour]
) -> str | None:
    """Return that an argument is stored divided and needed whole by products; None if not so."""
    if collective.kind != "all-gather" or len(collective.parameters) != 1:
        return None
    (name,) = collective.parameters
    stored = next((one for one in shardings.values() if one.value.name == name), None)
    axes = {*(collective.axes or ())}
    dimensions = [
        f"dimension {place} divided over {','.join(axes_of_entry(entry))}"
        for place, entry in enumerate((stored and stored.spec) or ())
        if entry and axes & {*axes_of_entry(entry)}
    ]
    needing = [
        one.instruction
        for one in users
        if opcode_traits(one.instruction.opcode).is_heavy or _is_product(one.instruction)
    ]
    if not dimensions or not needing:
        return None
    verb = "needs" if len(needing) == 1 else "need"
    products = listed(list(map(_named, needing)), _MOST_NAMED)
    return f"{name} is stored with {' and '.join(dimensions)}; {products} {verb} it whole"


def _constraint_causes(operation: Operation, collective: Collective) -> Iterator[str]:
    """Yield the constraints that need the result divided in another way."""
    if collective.kind == "all-reduce":  # which adds up what the operands make partial
        return
    for constraint in operation.constraints:
        what = "the sharding of an output" if constraint.is_output else "a sharding constraint"
        place = "" if constraint.place is None else f" at {constraint.place}"
        changes = " and ".join(
            f"dimension {one.dimension} {_over(one.after)} where its operand has it "
            f"{_over(one.before)} (as {one.origin})"
            for one in constraint.changed
        )
        names = f"{constraint.name} of {constraint.operand}"
        yield f"{what}{place} ({names}) wants {changes}"


def _over(axes: Sequence[str]) -> str:
    return f"divided over {','.join(axes)}" if axes else "whole"


def _operand_causes(operation: Operation, collective: Collective) -> Iterator[str]:
    """Yield the shardings of operands that cannot both stay, for each axis of a collective."""
    is_partial = opcode_traits(collective.kind).is_reduction
    for axis in collective.axes or ():
        needed, kept = operation.uses_of(axis)
        if (needed and is_partial) or operation.has_half_combined(axis):
            places = " and ".join(map(_dimension_text, needed))
            yield (
                f"before optimizations, {operation.name} {operation.verb} {places}, "
                f"divided over {axis}"
            )
        elif not is_partial and operation.has_conflict(axis):
            texts = [f"{_dimension_text(one)}, which it {operation.verb}" for one in needed]
            texts += [f"{_dimension_text(one)}, which it keeps" for one in kept]
            yield (
                f"before optimizations, {operation.name} cannot keep all that {axis} divides: "
                f"{' and '.join(texts)}"
            )


def _dimension_text(one: DividedDimension) -> str:
    return f"dimension {one.dimension} of operand {one.position} (as {one.origin})"


# ---- what is exchanged -------------------------------------------------------------------------


def _dimension(instruction: HloInstruction) -> int | None:
    numbers = listed_numbers(instruction, "dimensions")
    return numbers[0] if len(numbers) == 1 else None


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
    if collective.performed_as == RING:
        yield "it is performed as a ring of permutes, beside a product that is computed in steps"
    devices = f"{collective.group_size or '?'} devices"
    along = (
        f"along {axis_text(collective.axis)} ({devices})"
        if collective.axis != "?"
        else f"among {devices}"
    )
    dimension = _dimension(instruction)
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


# ---- producers and consumers -------------------------------------------------------------------


_PARTIAL = ", which sums over a dimension of which each device has only its part"


def _made_by(
    producers: Sequence[Neighbour],
    shardings: Mapping[int, ShardedValue],
    collective: Collective,
) -> Iterator[str]:
    is_summed = opcode_traits(collective.kind).is_reduction and not _is_asked_for(collective)
    for near in producers[:_MOST_NAMED]:
        instruction = near.instruction
        if instruction.opcode == "parameter":
            name = f" {instruction.op_name}" if instruction.op_name else ""
            shape = _plain_shape(instruction) or ""
            text = f"parameter {instruction.parameter_number}{name} {shape}".rstrip()
            sharding = _sharding_text(instruction, shardings)
            yield f"it reads {text}{f', {sharding}' if sharding else ''}"
        else:
            is_partial = is_summed and _is_product(instruction, "reduce")
            yield f"it reads {_named(instruction)}{_PARTIAL * is_partial}"
    if len(producers) > _MOST_NAMED:
        yield f"and reads {len(producers) - _MOST_NAMED} more, below"


def _named(instruction: HloInstruction) -> str:
    path = (instruction.op_name or "").rpartition("/")[2]
    return f"{instruction.name}{f' ({path})' if path else ''}"


def _is_product(instruction: HloInstruction, *others: str) -> bool:
    """Return whether an instruction is a product, or runs one; or one of other opcodes."""
    module = instruction.computation.module
    called = [module.computation(name) for name in instruction.called_computations]
    inside = [i.opcode for c in called if c is not None for i in c.instructions]
    return not {"dot", "convolution", *others}.isdisjoint([instruction.opcode, *inside])


def _needed_by(
    consumers: Sequence[Neighbour], collective: Collective, instruction: HloInstruction | None
) -> Iterator[str]:
    for near in consumers[:_MOST_NAMED]:
        consumer = near.instruction
        if consumer.is_root and consumer.computation.is_entry and near.position is None:
            place = f" {near.index[0]}" if near.index else ""
            yield f"it goes to output{place} of the program"
            continue
        needs = "" if instruction is None else _needs(near, collective, instruction)
        yield f"it goes to {_named(consumer)}, operand {near.position}{needs}"
    if len(consumers) > _MOST_NAMED:
        yield f"and goes to {len(consumers) - _MOST_NAMED} more, below"


def _needs(near: Neighbour, collective: Collective, instruction: HloInstruction) -> str:
    """Return how a product uses the gathered dimension."""
    dimension = _dimension(instruction)
    if collective.kind != "all-gather" or dimension is None or near.position is None:
        return ""
    summed = summed_dimensions(near.instruction, near.position)
    shape, given = instruction.shape, near.instruction.operand_shape(near.position)
    if summed is None or shape is None or given is None or shape.is_tuple:
        return ""
    if shape.dimensions != given.dimensions:
        return ""
    return f", which {'sums over' if dimension in summed else 'keeps'} dimension {dimension}"


def _plain_shape(instruction: HloInstruction) -> str | None:
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
