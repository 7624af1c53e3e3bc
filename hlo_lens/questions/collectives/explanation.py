"""Reasons for a collective, in sentences.

The partitioner gives a collective the operation path of the instruction that needed it. The
instruction of that path in the text from before optimizations shows the cause: a sharding
constraint of the program behind it, else operands whose shardings cannot both stay. Without
that text or path, and where the shardings there need no communication along the collective's axes,
the cause is not determined. Producers and consumers are facts, not causes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.metadata import SourceLocation
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import names_printed_as
from hlo_lens.program.origins import is_inferred
from hlo_lens.program.value_flow import consumers, producers
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
    changed_axes,
    needing_operation,
)
from hlo_lens.questions.collectives.origin import is_asked_path, last_part, member_paths
from hlo_lens.questions.sharding.placement import ShardedValue, module_shardings, sharding_table
from hlo_lens.render.result import Records
from hlo_lens.shapes.named_sharding import axes_of_entry
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.shapes.mesh import Mesh

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
    """Reasons for one collective, the cause first.

    Attributes:
        neighbours: Instructions that make its operands, the largest first, then those that need its
            result, the nearest first.
    """

    KIND: ClassVar[str] = "why"
    neighbours: tuple[NeighbourRow, ...]
    collective: Collective
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        one = self.collective
        head = f"{one.name}: {one.kind} over {axis_text(one.axis)}"
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
    """Return the modules that have a collective of a name; UnknownNameError if none has."""
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
    """Return the reasons for one of the collectives `found` in a module.

    `before` is the text from before optimizations, if there is one.
    """
    instruction, end = instruction_of(module, collective), end_of(module, collective)
    mesh = found.meshes[0].mesh if found.meshes else None
    shardings = {
        value.value.number: value
        for value in sharding_table(module_shardings(module, before, mesh)).values
        if value.value.kind == "parameter" and value.value.number is not None
    }
    sources = [] if instruction is None else producers(instruction)
    sources.sort(key=_bytes_of, reverse=True)
    nearest = [] if end is None else consumers(end)
    known = {one.name: one for one in found.collectives}
    users: list[HloInstruction] = []
    for consumer in nearest:  # of another collective, which does the rest of a gather, its users
        other = known.get(consumer.name)
        other_end = None if other is None else end_of(module, other)
        users += [consumer] if other_end is None else consumers(other_end)
    paths = [*_paths_of(collective, sources, users)]
    arguments = {one.value.name for one in shardings.values()}
    causes = list(_causes(before, collective, mesh, paths, arguments))
    names = collective.parameters or tuple(filter(None, [collective.argument]))
    stored = _stored_cause(collective, shardings, users)
    if stored is not None and causes and causes[0].startswith(_UNDETERMINED):
        causes = [stored]
    elif stored is not None:
        causes.append(stored)
    elif names:
        causes.append(f"it moves the argument{'s' * (len(names) > 1)} {', '.join(names)}")
    return Why(
        neighbours=tuple(
            NeighbourRow(
                role,
                neighbour.name,
                neighbour.opcode,
                _plain_shape(neighbour),
                _sharding_text(neighbour, shardings),
                neighbour.op_name,
                neighbour.source,
            )
            for role, listed in (("producer", sources), ("consumer", nearest))
            for neighbour in listed
        ),
        collective=collective,
        sentences=(*_origin(collective), *causes, *_performance(collective)),
    )


def _bytes_of(near: HloInstruction) -> int:
    return 0 if near.shape is None else near.shape.size_bytes or 0


_UNDETERMINED = "the cause is not determined"


def _origin(collective: Collective) -> Iterator[str]:
    path = collective.own_op_name
    if path is None:
        yield "the text does not show which operation it belongs to"
        if collective.op_name and collective.op_name != collective.argument:
            yield f"its {collective.origin_basis} is of {collective.op_name}"
        return
    is_own = collective.source_file is not None and not is_inferred(collective.origin_basis)
    place = f" at {collective.source}" if is_own else ""
    is_asked = is_asked_path(path)
    reason = "the program asks for it:" if is_asked else "the partitioner put it in for"
    yield f"{reason} {last_part(path)}{place}"


def _paths_of(
    collective: Collective, sources: Sequence[HloInstruction], users: Sequence[HloInstruction]
) -> Iterator[Mapping[str, SourceLocation | None]]:
    """Yield the operation path of a collective, then those of the products that it belongs to.

    Partial results are of its producers; a value is gathered for its consumers.
    """
    place = None
    if collective.source_file is not None:
        place = SourceLocation(file=collective.source_file, line=collective.source_line)
    if collective.own_op_name is not None:
        yield {collective.own_op_name: place}
    is_reduction = opcode_traits(collective.kind).is_reduction
    near = sources if is_reduction else users
    found = {one.op_name: one.source_location for one in near}
    if is_reduction and collective.own_op_name is None:
        found.setdefault(collective.op_name, place)
    yield {path: at for path, at in found.items() if path is not None}


def _causes(
    before: HloModule | None,
    collective: Collective,
    mesh: Mesh | None,
    candidates: Sequence[Mapping[str, SourceLocation | None]],
    arguments: Collection[str | None],
) -> Iterator[str]:
    """Yield the cause by the text from before optimizations, or that it is not determined.

    Of the candidates those paths count of which the text has an operation first.
    """
    path = collective.own_op_name
    if is_asked_path(path) or collective.moves_nothing:
        return
    if path is not None and last_part(path) == "shard_map":
        yield "the in_specs or out_specs of the shard_map need another sharding than the value has"
        return
    if before is None:
        yield f"{_UNDETERMINED}: there is no text from before optimizations"
        return
    is_partial = opcode_traits(collective.kind).is_reduction  # which a constraint does not change
    constraints = (
        [] if is_partial else _constraint_causes(before, collective, mesh, candidates, arguments)
    )
    yield from constraints
    if constraints:
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
    found = [*_operation_causes(operation, collective)]
    yield from found
    if not found:
        yield (
            f"{_UNDETERMINED}: before optimizations, the shardings known around {operation.name} "
            f"need no {collective.kind} along {axis_text(collective.axis)}"
        )


def _constraint_causes(
    before: HloModule,
    collective: Collective,
    mesh: Mesh | None,
    candidates: Sequence[Mapping[str, SourceLocation | None]],
    arguments: Collection[str | None],
) -> list[str]:
    wanted = {*(collective.axes or ())}
    members = {member for paths in candidates for path in paths for member in member_paths(path)}
    names = collective.parameters
    texts: dict[object, str] = {}  # one of several on the same array at a line
    for one in changed_axes(before, mesh):
        if names and one.origin not in names and one.origin in arguments:
            continue
        lost = [f"drops {axis}" for axis in one.axes if axis in wanted]
        lost += [
            f"moves {move.axis} from dimension {move.before} to {move.after}"
            for move in one.moved
            if move.axis in wanted
        ]
        if lost and not members.isdisjoint(one.paths):
            place = "" if one.place is None else f" at {one.place}"
            text = f"{' and '.join(lost)} (as {one.origin})"
            texts.setdefault(
                (place, text),
                f"a sharding constraint{place} ({one.name} of {one.operand}) {text}",
            )
    return list(texts.values())


def _operation_causes(operation: Operation, collective: Collective) -> Iterator[str]:
    is_partial = opcode_traits(collective.kind).is_reduction
    start = f"before optimizations, {operation.name}"
    for axis in collective.axes or ():
        needed, kept = operation.uses_of(axis)
        if (needed and is_partial) or operation.has_half_combined(axis):
            places = " and ".join(map(_dimension_text, needed))
            yield f"{start} {operation.verb} {places}, divided over {axis}"
        elif not is_partial and operation.has_conflict(axis):
            texts = [f"{_dimension_text(one)}, which it {operation.verb}" for one in needed]
            texts += [f"{_dimension_text(one)}, which it keeps" for one in kept]
            yield f"{start} cannot keep all that {axis} divides: {' and '.join(texts)}"


def _dimension_text(one: DividedDimension) -> str:
    return f"dimension {one.dimension} of operand {one.position} (as {one.origin})"


def _stored_cause(
    collective: Collective, shardings: Mapping[int, ShardedValue], users: Sequence[HloInstruction]
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
    needing = [one for one in users if _is_product(one)]
    if not dimensions or not needing:
        return None
    verb = "needs" if len(needing) == 1 else "need"
    paths = ((one.name, (one.op_name or "").rpartition("/")[2]) for one in needing)
    products = listed([f"{n} ({path})" if path else n for n, path in paths], _MOST_NAMED)
    return f"{name} is stored with {' and '.join(dimensions)}; {products} {verb} it whole"


def _is_product(instruction: HloInstruction) -> bool:
    module = instruction.computation.module
    called = [module.computation(name) for name in instruction.called_computations]
    inside = {i.opcode for c in called if c is not None for i in c.instructions}
    is_heavy = opcode_traits(instruction.opcode).is_heavy
    return is_heavy or not inside.isdisjoint(("dot", "convolution"))


def _performance(collective: Collective) -> Iterator[str]:
    if collective.moves_nothing:
        yield "its groups are of one device each: it moves nothing"
    elif collective.crosses_slices:
        what = collective.performed_as or collective.kind
        article = "an" if what[0] in "aeiou" else "a"
        yield (
            f"it is {article} {what} between slices, carried by the multi-slice runtime as send "
            "and recv"
        )
    elif collective.performed_as == RING:
        yield "it is performed as a ring of permutes, beside a product that is computed in steps"
    elif collective.is_host_transfer:
        yield "it goes between the device and its host"


def _plain_shape(instruction: HloInstruction) -> str | None:
    shape = instruction.shape
    return None if shape is None or shape.is_tuple else shape.to_text(layout=False)


def _sharding_text(
    instruction: HloInstruction, shardings: Mapping[int, ShardedValue]
) -> str | None:
    if instruction.opcode == "parameter" and instruction.computation.is_entry:
        value = shardings.get(instruction.parameter_number or 0)
        if value is not None and value.sharding is not None:
            return value.spec_text or str(value.sharding)
    return instruction.attribute("sharding")
