"""Instructions of an operation path in the text from before optimizations.

There calls are not inlined: the path of an instruction in a called function is that of the call and
its own. Instructions that XLA combined have one path of all members.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule

_REORDERING = ("convert", "copy", "transpose", "bitcast-convert")

_FORMATTED = 8
"""Limit on the conversions and transposes of a result that are followed back."""

_CALLS = 16
"""Deepest nesting of calls in an operation path."""

_MOST_PATHS = 1000
"""Most operation paths of one instruction; computations that call each other have any number."""


def operations_of(
    before: HloModule, paths: Mapping[str, SourceLocation | None]
) -> Iterator[tuple[int, HloInstruction]]:
    """Yield the instructions of some paths; those at their places and products first.

    Each comes with the frame of its call stack that is at one of the places: 0 for the innermost.

    Args:
        before: The text from before optimizations.
        paths: Operation paths as in the optimized text, with places in the user's program.
    """
    if not paths:
        return
    places = {(place.file, place.line) for place in paths.values() if place is not None}
    listed: list[tuple[int, HloInstruction]] = []
    for instruction in before.instructions:
        metadata = instruction.metadata
        if metadata is None or not metadata.op_name:
            continue
        if not any(path.endswith(metadata.op_name) for path in paths):
            continue
        if opcode_traits(instruction.opcode).is_view or paths.keys().isdisjoint(
            inlined_paths(instruction)
        ):
            continue
        listed.append((_distance(instruction, places), instruction))
    yield from sorted(
        listed,
        key=lambda one: (one[0], not opcode_traits(computing_one(one[1]).opcode).is_heavy),
    )


def computing_one(instruction: HloInstruction) -> HloInstruction:
    """Return an instruction, or the one whose result it converts, reorders or copies."""
    for _ in range(_FORMATTED):
        found = instruction.producer(0)
        if found is None or instruction.opcode not in _REORDERING:
            break
        if found[0].opcode in ("parameter", "get-tuple-element"):
            break
        instruction = found[0]
    return instruction


def _distance(instruction: HloInstruction, places: Set[tuple[str, int | None]]) -> int:
    """Return at which frame of its call stack an instruction is at one of some places.

    0 is the innermost frame in the user's program; also where either is not known.
    """
    place = instruction.source_location
    if not places or place is None:
        return 0
    stack = instruction.user_stack or [place]
    found = (n for n, frame in enumerate(stack) if (frame.file, frame.line) in places)
    return next(found, len(stack))


_PART = re.compile(r"[():]")


def member_paths(path: str) -> list[str]:
    """Return the operation paths of a collective's members; XLA joins those of combined ones.

    >>> member_paths("a/(b:jvp(c)/d)"), member_paths("jit(f)/b")
    (['a/b', 'a/jvp(c)/d'], ['jit(f)/b'])
    """
    start, cuts, depth = -1, [], 0
    for match in _PART.finditer(path):
        place, sign = match.start(), match[0]
        if sign == "(" and start < 0 and (not place or path[place - 1] == "/"):
            start, cuts, depth = place, [place], 0
        elif start >= 0 and sign == ":" and not depth:
            cuts.append(place)
        elif sign == ")" and not depth and start >= 0:
            cuts.append(place)
            break
        else:
            depth += {"(": 1, ")": -1}.get(sign, 0)
    if len(cuts) < _LEAST_CUTS or cuts[-1] != len(path) - 1:
        return [path] if path else []
    members = (path[one + 1 : two] for one, two in itertools.pairwise(cuts))
    return list(dict.fromkeys(f"{path[:start]}{one}" for one in members))


_LEAST_CUTS = 3
"""Parentheses and colons of a path with two members."""


def inlined_paths(instruction: HloInstruction) -> set[str]:
    """Return the operation paths that an instruction gets when calls are inlined.

    The path of an instruction in a loop or a conditional has that of the loop in it already.
    """
    own = instruction.op_name or ""
    paths = {own}
    waiting = [(instruction.computation, own, 0)]
    seen: set[tuple[int, str]] = set()
    while waiting and len(paths) < _MOST_PATHS:
        computation, path, depth = waiting.pop()
        if (computation.place, path) in seen:
            continue
        seen.add((computation.place, path))
        for caller in computation.callers if depth < _CALLS else ():
            if caller.opcode == "call":
                outer = f"{caller.op_name}/{path}" if caller.op_name else path
                paths.add(outer)
                waiting.append((caller.computation, outer, depth + 1))
            elif caller.opcode in ("while", "conditional"):
                waiting.append((caller.computation, path, depth + 1))
    return paths
