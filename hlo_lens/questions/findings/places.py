"""Names, places and lines of the user's program of the arguments that a finding is about."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.buffers.assignment import parse_index
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.metadata import MAX_FRAMES, SourceLocation
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import origins
from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.values import maker_of, operands_of
from hlo_lens.text.patterns import steps_of

if TYPE_CHECKING:
    from hlo_lens.hlo.metadata import StackFrames
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.sharding.placement import ShardedValue

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


@fact
def call_place(known: ModuleDump) -> SourceLocation | None:
    """Return the line that calls, or lowers, the jitted function; None if not known.

    That is the caller of the first frame in the function of the module's name; where stacks begin
    in that function, its own line. Without such a frame it is the last one that all stacks share,
    since stacks of all instructions begin with the callers of the jitted function.
    """
    frames = hlo_text(known).stack_frames
    if not frames:
        return None
    name = hlo_text(known).name.removeprefix("jit_")
    numbers = {k for k, one in enumerate(frames.function_names, start=1) if one == name}
    found = frames.file_locations.columns["function_name_id"] if numbers else ()
    functions = enumerate(found, start=1)
    inside = {place for place, function in functions if function in numbers}
    locations = frames.frames.columns["file_location_id"] if inside else ()
    for row, location in enumerate(locations):
        if location in inside:
            caller = frames.location(frames.frames[row].parent_frame_id)
            return caller or frames.location(row + 1)
    return _shared_place(frames)


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


def first_use(known: ModuleDump, number: int | None) -> SourceLocation | None:
    """Return the line that first uses a parameter of the entry; None if not known."""
    parameter = next(
        (one for one in hlo_text(known).entry.parameters if one.parameter_number == number), None
    )
    if parameter is None or number is None:
        return None
    users = (user for user, _ in hlo_text(known).links.users_of(parameter.row))
    places = (origins(known).place(user) for user in islice(users, _MOST_USERS))
    return next((place for place in places if place is not None), None)


def maker_place(known: ModuleDump, name: str, index: str) -> SourceLocation | None:
    """Return the line that makes a result of the entry, or what it copies; None if not known.

    Copies into the layout of a result have no line of their own. Where nothing has one, it is the
    line that calls the program, which chooses the shardings of results. A result of a combined
    collective has the line of its part.

    Args:
        known: Analysis of the module.
        name: Name of the instruction of the result.
        index: Shape index of the result in that of the entry, as XLA prints it.
    """
    root = Value(hlo_text(known).entry.root_row, parse_index(index))
    part = _part_places(known).get(maker_of(hlo_text(known), root))
    if part is not None:
        return part
    found = hlo_text(known).entry.instruction(name)
    value = None if found is None else Value(found.row)
    for _ in range(_MOST_COPIES):
        if value is None:
            break
        of_values, is_whole = origins(known), not value.element
        place = of_values.place(value.row) if is_whole else of_values.of_value(value).place
        if place is not None:
            return place
        operands = operands_of(hlo_text(known), value.row)
        value = operands[0] if len(operands) == 1 and operands[0].row != NOTHING else None
    return call_place(known)


@fact
def _part_places(known: ModuleDump) -> dict[Value | None, SourceLocation]:
    """Return the lines of the results of combined collectives."""
    found: dict[Value | None, SourceLocation] = {}
    for one in collectives(known).collectives:
        for number, (file, line, *_) in enumerate(one.members):
            if one.end_row is not None and file is not None:
                made = maker_of(hlo_text(known), Value(one.end_row, (number,)))
                found[made] = SourceLocation(file=file, line=line)
    return found
