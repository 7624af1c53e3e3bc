"""What rules ask about values: uses, makers, names, lines of the program, transfers."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.buffers.assignment import parse_index
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.metadata import MAX_FRAMES, SourceLocation
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import origins
from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.program.value_flow import Value, value_flow
from hlo_lens.questions.collectives.collective import (
    RING,
    WIRE,
    axis_text,
    collectives,
    end_of,
    instruction_of,
    run_sum,
)
from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.memory.roles import WEIGHTS, argument_roles
from hlo_lens.questions.work.work import inputs_of, sharded_parameters
from hlo_lens.shapes.named_sharding import axes_of_entry
from hlo_lens.text.names import steps_of
from hlo_lens.text.units import format_bytes, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hlo_lens.hlo.metadata import StackFrames
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.runs import SumBounds
    from hlo_lens.program.value_flow import Use
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.collectives.operand_shardings import ChangedAxes
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.shapes.shape import Shape


_MOST_STEPS = 64


def uses_of(module: HloModule, value: Value) -> tuple[Use, ...] | None:
    """Return the uses of an array, in text order; None if it is in a tuple, or leaves otherwise."""
    uses = [*value_flow(module).array_uses(value)]
    known = sorted(use for use in uses if use is not None)
    return tuple(known) if len(known) == len(uses) else None


def are_all_uses(module: HloModule, value: Value, is_wanted: Callable[[Use], bool]) -> bool:
    """Return whether an array has uses and all are wanted; stops at the first that is not."""
    has_uses = False
    for use in value_flow(module).array_uses(value):
        if use is None or not is_wanted(use):
            return False
        has_uses = True
    return has_uses


def maker_of(module: HloModule, value: Value) -> Value | None:
    """Return the value whose instruction computes an array's elements; None if not in the text."""
    return value_flow(module).maker(value)


def operands_of(module: HloModule, row: int) -> list[Value]:
    """Return the operands of an instruction; `NOTHING` for those that are not in the text."""
    count = len(module.links.operands_of(row))
    return [Value(*module.links.operand(row, position)) for position in range(count)]


def shape_of(module: HloModule, value: Value) -> Shape | None:
    """Return the shape of a value; None if not known."""
    return module.instruction(value.row).shape_of(value.element)


def is_cut_to_own_part(module: HloModule, value: Value) -> bool:
    """Return whether all uses of an array, or of its conversion, are slices of the own part."""

    def is_own(use: Use) -> bool:
        if module.opcodes[use.row] == "convert":
            return is_cut_to_own_part(module, Value(use.row))
        return is_own_slice(module, use)

    return are_all_uses(module, value, is_own)


def is_own_slice(module: HloModule, use: Use) -> bool:
    """Return whether a use takes the part of a value that depends on the device."""
    is_slice = module.opcodes[use.row] == "dynamic-slice" and use.position == 0
    offsets = operands_of(module, use.row)[1:] if is_slice else ()
    return any(_depends_on_device(module, value) for value in offsets)


def _depends_on_device(module: HloModule, value: Value) -> bool:
    waiting, seen = [value], {value}
    while waiting and len(seen) <= _MOST_STEPS:
        made = maker_of(module, waiting.pop())
        if made is None:
            continue
        if opcode_traits(module.opcodes[made.row]).is_device_number:
            return True
        new = set(operands_of(module, made.row)) - seen
        seen |= new
        waiting += new
    return False


def is_converted(module: HloModule, value: Value, types: tuple[str, ...]) -> bool:
    """Return whether all uses of an array convert it to one of some element types."""

    def is_wanted(use: Use) -> bool:
        shape = module.instruction(use.row).shape
        is_conversion = module.opcodes[use.row] == "convert" and shape is not None
        return is_conversion and shape is not None and shape.element_type in types

    return are_all_uses(module, value, is_wanted)


def converted_from(module: HloModule, value: Value) -> str | None:
    """Return the element type that a value was converted from; None if it was not converted."""
    made = maker_of(module, value)
    if made is None or module.opcodes[made.row] != "convert":
        return None
    shape = module.operand_shape(made.row, 0)
    return None if shape is None else shape.element_type


_PART = re.compile(r"(extracted|called_computation)\b")
"""Names of the modules that XLA:TPU makes of parts that a SparseCore or the host runs."""

_MOST_USERS = 16
_MOST_COPIES = 8


def is_part(known: ModuleDump) -> bool:
    """Return whether XLA made a module of a part of another: no user has its arguments."""
    return _PART.match(hlo_text(known).name) is not None


def is_on_host(known: ModuleDump, value: ShardedValue) -> bool:
    """Return whether a value takes no memory of the device; on CPU, host memory is the device's."""
    return value.is_in_host_memory and backend_of_dump(known) != "cpu"


def argument_of(name: str) -> str:
    """Return the argument of the function that a leaf belongs to: ``state`` of ``state['w']``.

    Arguments without a name, ``args[0]['w']``, keep their position: ``args[0]``.

    >>> argument_of("state.opt[0].mu"), argument_of("args[1]['w']"), argument_of("Arg_0.1")
    ('state', 'args[1]', 'Arg_0.1')
    """
    steps = steps_of(name)
    head = steps[0] if steps else name
    if head == "args" and name.startswith("args["):
        return name[: name.find("]") + 1]
    rest = name.removeprefix(head)
    is_part = rest.startswith(("[", ".")) and not rest[1:].isdecimal()  # Arg_0.1 is a whole name
    return head if is_part else name


def call_place(known: ModuleDump) -> SourceLocation | None:
    """Return the line that calls, or lowers, the jitted function; None if not known.

    That is the caller of the first frame in the function of the module's name; where stacks begin
    in that function, or it is called from another file, its own first line. Without such a frame it
    is the last one that all stacks share, since stacks of all instructions begin with the callers
    of the jitted function.
    """
    caller, own = _call(known)
    return own if caller is None or (own is not None and caller.file != own.file) else caller


def call_note(known: ModuleDump) -> tuple[str, ...]:
    """Return the line that calls the jitted function, where it is in another file."""
    caller, own = _call(known)
    is_other = caller is not None and own is not None and caller.file != own.file
    return (f"called at {caller}",) if is_other else ()


@fact
def _call(known: ModuleDump) -> tuple[SourceLocation | None, SourceLocation | None]:
    frames = hlo_text(known).stack_frames
    if not frames:
        return None, None
    name = hlo_text(known).name.removeprefix("jit_")
    names = enumerate(frames.function_names, start=1)  # ``build.<locals>.step.<locals>.<lambda>``
    numbers = {k for k, one in names if name in one.split(".")}
    functions = enumerate(frames.file_locations.columns["function_name_id"], start=1)
    inside = {place for place, function in functions if function in numbers}
    locations = frames.frames.columns["file_location_id"] if inside else ()
    rows = [row for row, location in enumerate(locations) if location in inside]
    if not rows:
        return None, _shared_place(frames)
    own = filter(None, (frames.location(row + 1) for row in rows))
    first = min(own, key=lambda one: one.line or 0, default=None)
    return frames.location(frames.frames[rows[0]].parent_frame_id), first


def _shared_place(frames: StackFrames) -> SourceLocation | None:
    """Return the last frame that all stacks of the most frames share."""
    parents = frames.frames.columns["parent_frame_id"]
    if not parents:
        return None
    roots = [0] * (len(parents) + 1)
    for number, parent in enumerate(parents, start=1):  # callers come first
        roots[number] = roots[parent] if 0 < parent < number else number
    level = Counter(roots[1:]).most_common(1)[0][0]
    counts: Counter[int] = Counter(parents)
    last_called = dict(zip(parents, range(1, len(roots)), strict=True))
    last = frames.location(level)
    for _ in range(MAX_FRAMES):
        if counts[level] != 1:
            break
        level = last_called[level]
        last = frames.location(level) or last
    return last


def has_shape_of_weight(known: ModuleDump, shape: Shape) -> bool:
    """Return whether a value may be the gradient of a weight, or of one layer of a stack of them.

    Its dimensions are those of the weight, in any order, each divided or not.
    """
    for one in sharded_parameters(known):
        role = argument_roles(known).of_number(one.value.number or 0).role
        if role != WEIGHTS or one.global_shape is None:
            continue
        whole, part = one.global_shape.dimensions, (one.device_shape or one.global_shape).dimensions
        free = list(zip(whole, part, strict=True))
        for size in shape.dimensions:
            match = next((pair for pair in free if size in pair), None)
            if match is None:
                break
            free.remove(match)
        else:
            if len(free) <= 1:
                return True
    return False


def undivided_axes(known: ModuleDump, dimensions: Sequence[int | None]) -> tuple[str, ...]:
    """Return the axes that divide the batch of an input and not that of a value of a device."""
    found: list[str] = []
    for one in inputs_of(known):
        if one.spec and one.global_shape is not None and one.device_shape is not None:
            whole, part = one.global_shape.dimensions[:1], one.device_shape.dimensions[:1]
            if whole != part and whole[0] in dimensions and part[0] not in dimensions:
                found += axes_of_entry(one.spec[0])
    return tuple(dict.fromkeys(found))


def axes_dividing(value: ShardedValue) -> set[str]:
    """Return the mesh axes that divide a value."""
    return {axis for entry in value.spec or () for axis in axes_of_entry(entry)}


def of_weights(axis: str) -> str:
    """Return the key by which weights along an axis follow from inputs that it does not divide.

    Then they are data parallel, and whole by design.
    """
    return f"weights along {axis}"


def first_use(known: ModuleDump, number: int | None) -> SourceLocation | None:
    """Return the line that first uses a parameter of the entry; None if not known."""
    for parameter in hlo_text(known).entry.parameters if number is not None else ():
        if parameter.parameter_number == number:
            users = hlo_text(known).links.users_of(parameter.row)
            places = (origins(known).place(user) for user, _ in islice(users, _MOST_USERS))
            return next((place for place in places if place is not None), None)
    return None


def maker_place(known: ModuleDump, name: str, index: str) -> SourceLocation | None:
    """Return the line that makes a result of the entry, or what it copies; None if not known.

    Copies into the layout of a result have no line of their own. Where nothing has one, it is the
    line that calls the program, which chooses the shardings of results. A result of a combined
    collective has the line of its part.
    """
    module, of_values = hlo_text(known), origins(known)
    root = Value(module.entry.root_row, parse_index(index))
    part = _part_places(known).get(maker_of(module, root))
    if part is not None:
        return part
    found = module.entry.instruction(name)
    value = None if found is None else Value(found.row)
    for _ in range(_MOST_COPIES):
        if value is None:
            break
        is_whole = not value.element
        place = of_values.place(value.row) if is_whole else of_values.of_value(value).place
        if place is not None:
            return place
        operands = operands_of(module, value.row)
        value = operands[0] if len(operands) == 1 and operands[0].row != NOTHING else None
    return call_place(known)


@fact
def _part_places(known: ModuleDump) -> dict[Value | None, SourceLocation]:
    found: dict[Value | None, SourceLocation] = {}
    for one in collectives(known).collectives:
        for number, (file, line, *_) in enumerate(one.members):
            if one.end_row is not None and file is not None:
                made = maker_of(hlo_text(known), Value(one.end_row, (number,)))
                found[made] = SourceLocation(file=file, line=line)
    return found


@fact
def dropping_constraints(known: ModuleDump) -> list[ChangedAxes]:
    """Return the constraints that leave out axes that divide values, by mistake.

    Weights over an axis that divides inputs are gathered layer by layer on purpose; the same line
    constrains their gradients.
    """
    before, meshes = known.before, collectives(known).meshes
    if before is None:
        return []
    from hlo_lens.questions.collectives.operand_shardings import changed_axes

    of_inputs = {axis for one in inputs_of(known) for axis in axes_dividing(one)}
    changed = changed_axes(before, meshes[0].mesh if meshes else None)
    dropped = [one for one in changed if one.axes]
    meant = {
        one.place
        for one in dropped
        if one.argument is not None and not of_inputs.isdisjoint(one.axes)
    }
    return [one for one in dropped if one.place not in meant]


_MOST = 1000
"""Most collectives of a module whose values are followed: those that move the most in one run."""

_MOST_SHOWN = 5


class Part(NamedTuple):
    """Operand of a collective, and its result or that of its end."""

    operand: Value
    result: Value


class Transfer(NamedTuple):
    """A collective, and its values; none if the text does not show them."""

    collective: Collective
    parts: tuple[Part, ...]


@fact
def transfers(known: ModuleDump) -> tuple[Transfer, ...]:
    """Return the collectives that move the most, with their values, in text order."""
    moving = [one for one in collectives(known).collectives if not one.moves_nothing]
    most = {*map(id, heapq.nlargest(_MOST, moving, key=lambda one: one.wire_bytes_per_run or 0))}
    return tuple(Transfer(one, _parts(known, one)) for one in moving if id(one) in most)


def _parts(known: ModuleDump, collective: Collective) -> tuple[Part, ...]:
    """Return operands and results; none of a ring of permutes, whose values are of its steps."""
    module = hlo_text(known)
    start, end = instruction_of(module, collective), end_of(module, collective)
    if collective.performed_as == RING or start is None or end is None or end.shape is None:
        return ()
    operands, results = operands_of(module, start.row), [Value(end.row)]
    if end.shape.is_tuple:
        results = [Value(end.row, (k,)) for k in range(len(end.shape.tuple_shapes))]
    if any(one.row == NOTHING for one in operands) or len(results) != len(operands):
        return ()
    flow, pairs = value_flow(module), zip(operands, results, strict=True)
    return tuple(Part(*pair) for pair in pairs if any(True for _ in flow.array_uses(pair[1])))


def by_line(collectives: Iterable[Collective]) -> Iterator[list[Collective]]:
    """Yield collectives of the same kind, axes and source line, in text order."""
    groups: dict[object, list[Collective]] = {}
    for one in collectives:
        groups.setdefault((one.kind, one.axis, one.source), []).append(one)
    yield from groups.values()


def subject(collectives: Sequence[Collective]) -> str:
    """Return the number of some collectives of one kind and axes, with both."""
    first, many = collectives[0], len(collectives)
    return f"{first.kind}{over(first)}" if many == 1 else f"{many} {first.kind}s{over(first)}"


def over(collective: Collective) -> str:
    """Return `` over data,model``, the axes of a collective; empty if they are not known."""
    return "" if collective.axis in ("?", "-") else f" over {axis_text(collective.axis)}"


def finding_of(
    collectives: Sequence[Collective],
    message: str,
    fix: str,
    *,
    saved_share: float = 1.0,
    saves: Saves | None = None,
    severity: Severity | None = None,
) -> Finding:
    """Return the finding about collectives of one kind, axes and line.

    Args:
        collectives: The collectives.
        message: What is wrong with them.
        fix: What to write instead.
        saved_share: Share of their bytes on the wire that the fix saves, at most.
        saves: Saving, where it is no share of these bytes.
        severity: Severity, where the saving does not decide it.
    """
    wire = run_sum(collectives, WIRE)
    first = collectives[0]
    saved = Saves.up_to(sent_bytes=None if wire is None else int(wire.most * saved_share))
    return Finding(
        message=message,
        fix=fix,
        **at(place_of(first)),
        values=tuple(one.name for one in collectives),
        evidence=(
            f"{listed([one.name for one in collectives], _MOST_SHOWN)}: "
            f"{'not known' if wire is None else bound_text(wire)} sent by each device in one run",
        ),
        saves=saved if saves is None else saves,
        severity=severity,
    )


def bound_text(amount: SumBounds) -> str:
    """Return a sum of bytes, as an upper bound where it is one."""
    return f"{'at most ' * amount.is_at_most}{format_bytes(amount.most)}"


def line_text(place: SourceLocation | None) -> str:
    """Return a line with the name of its file alone, as changes have it; empty if not known."""
    return "" if place is None else f"{place.file.rpartition('/')[2]}:{place.line}"


def place_of(collective: Collective) -> SourceLocation | None:
    """Return the line of a collective; None if not known."""
    if collective.source_file is None:
        return None
    return SourceLocation(file=collective.source_file, line=collective.source_line)
