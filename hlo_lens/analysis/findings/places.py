"""Lines of the user's program that a finding about an argument names."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.text.argument_pattern import steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.model.hlo.metadata import SourceLocation, StackFrames

_MOST_USERS = 16


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
    return head if name.startswith(f"{head}[") or name.startswith(f"{head}.") else name


def call_place(known: ModuleAnalysis) -> SourceLocation | None:
    """Return the line that calls, or lowers, the jitted function; None if not known.

    Stacks of all instructions begin with the frames of the callers of the jitted function: the
    frame above the first frame in the function of the module's name, else the last one that all
    stacks share.
    """
    frames = known.module.stack_frames
    if not frames:
        return None
    children: dict[int, list[int]] = {}
    for number, frame in enumerate(frames.frames, start=1):
        children.setdefault(frame.parent_frame_id, []).append(number)
    function = known.module.name.removeprefix("jit_")
    last: SourceLocation | None = None
    level = [max(children.get(0, [0]), key=lambda root: _size(root, children))]
    while level:
        place = frames.location(level[0])
        if last is not None and place is not None and place.function == function:
            return last
        last = place or last
        level = children.get(level[0], [])
        if len({_function(frames, one) for one in level}) != 1:
            break
        if len(level) > 1 and _function(frames, level[0]) == function:
            return last
        if len(level) > 1:
            break
    return last


def _function(frames: StackFrames, number: int) -> str | None:
    place = frames.location(number)
    return None if place is None else place.function


def _size(root: int, children: Mapping[int, Sequence[int]]) -> int:
    """Return the number of frames under a frame, itself included."""
    count, open_ = 0, [root]
    while open_:
        count += 1
        open_ += children.get(open_.pop(), ())
    return count


def first_use(known: ModuleAnalysis, number: int | None) -> SourceLocation | None:
    """Return the line that first uses a parameter of the entry; None if not known."""
    parameter = next(
        (one for one in known.module.entry.parameters if one.parameter_number == number), None
    )
    if parameter is None or number is None:
        return None
    users = (user for user, _ in known.module.links.users_of(parameter.row))
    places = (known.origins.place(user) for user in islice(users, _MOST_USERS))
    return next((place for place in places if place is not None), None)


def maker_place(known: ModuleAnalysis, name: str) -> SourceLocation | None:
    """Return the line of an instruction of the entry; None if not known."""
    found = known.module.entry.instruction(name)
    return None if found is None else known.origins.place(found.row)
