"""Collectives that a program calls itself (``jax.lax.psum``), before optimizations.

There each is an instruction of its own. The text after optimizations may show several as one, with
the metadata of one of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.origins import InstructionPlaces
from hlo_lens.questions.collectives.operation_search import (
    inlined_paths,
    member_paths,
    operations_of,
)
from hlo_lens.shapes.primitive_type import primitive_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.origins import Stack
    from hlo_lens.shapes.shape import Shape

_NAMES = """
    psum psum_invariant psum2 pmax pmin pmean all_gather all_gather_invariant reduce_scatter
    psum_scatter all_to_all ragged_all_to_all ppermute pshuffle pswapaxes pbroadcast psend precv
    pgather
"""
_ASKED = frozenset(_NAMES.split())
"""Last part of the operation path of collectives that a program calls itself (jax/_src/lax/
parallel.py)."""


_MOST_VIEWS = 8
"""Limit on the conversions and views of an operand that are followed back."""


def last_part(path: str) -> str:
    """Return the operation of a path; of several that were combined, ``(a/x:b/y)``, the last."""
    whole = path.rstrip("/)")
    return whole[max(whole.rfind("/"), whole.rfind(":")) + 1 :]


def is_asked_path(path: str | None) -> bool:
    """Return whether an operation path is of collectives that the program calls itself."""
    if path is None or last_part(path) not in _ASKED:
        return False
    return all(last_part(one) in _ASKED for one in member_paths(path))


class Asked(NamedTuple):
    """One operand of a collective that a program calls itself.

    Attributes:
        path: Its operation path.
        shapes: Shapes on one device of the operand, and of it before conversions and views, which
            XLA may move behind the collective.
        makers: Operation paths of what makes the operand, and of those before.
        place: Line of the call; None if not known.
        stack: Call stack of the call, innermost first, without the callers of a function that the
            text has as a computation of its own.
    """

    path: str
    shapes: tuple[Shape, ...]
    makers: frozenset[str]
    place: SourceLocation | None
    stack: Stack

    def stack_within(self, other: Stack) -> Stack:
        """Return the call stack, with the outer frames of another call in the same function."""
        function = self.stack[-1].function if self.stack else None
        places = (n for n, frame in enumerate(other) if frame.function == function)
        return (*self.stack, *other[next(places, len(other)) + 1 :])


class AskedCollectives:
    """The collectives of a program that have an operation path, found once for each path.

    Args:
        before: Returns the text from before optimizations, or None; called when a path is asked.
    """

    def __init__(self, before: Callable[[], HloModule | None] | None) -> None:
        self._before = before
        self._of_path: dict[str, tuple[Asked, ...]] = {}

    def of(self, path: str, shape: Shape | None, maker: str | None) -> Asked | None:
        """Return the one that an operand belongs to; None if several lines are possible.

        Args:
            path: Operation path of the collective, or of several that were combined.
            shape: Shape of the operand; None if not known. XLA may have changed its element type.
            maker: Operation path of what makes the operand; None if not known.
        """
        if path not in self._of_path:
            self._of_path[path] = self._listed(path)
        every = self._of_path[path]
        if shape is None:
            return _agreed(every)
        alike = [one for one in every if any(_may_be(a, shape) for a in one.shapes)]
        made = [one for one in alike if maker in one.makers]
        return _agreed(made) or _agreed(alike) or _agreed(every)

    def _listed(self, path: str) -> tuple[Asked, ...]:
        before = None if self._before is None else self._before()
        if before is None:
            return ()
        places = InstructionPlaces(before)
        found: list[Asked] = []
        paths = dict.fromkeys(member_paths(path))
        for _, one in operations_of(before, paths):
            if opcode_traits(one.opcode).collective_kind is None:
                continue
            own = min(inlined_paths(one) & paths.keys())
            place, stack = places.innermost(one.row), places.stack(one.row)
            positions = range(len(one.operands))
            found += [_asked(one, position, own, place, stack) for position in positions]
        return tuple(found)


def _asked(
    one: HloInstruction, position: int, path: str, place: SourceLocation | None, stack: Stack
) -> Asked:
    """Return an operand of a collective, with what makes it before conversions and views."""
    shapes: list[Shape] = []
    makers: set[str] = set()
    made = one.producer(position)
    for _ in range(_MOST_VIEWS):
        if made is None:
            break
        shape = made[0].shape_of(made[1])
        shapes += [] if shape is None else [shape]
        makers |= inlined_paths(made[0])
        made = made[0].producer(0) if opcode_traits(made[0].opcode).is_formatting else None
    return Asked(path, tuple(shapes), frozenset(makers), place, stack)


def _may_be(asked: Shape, shape: Shape) -> bool:
    """Return whether XLA may have given an operand another shape.

    It widens element types, and reorders and joins dimensions.
    """
    counts = {math.prod(size or 0 for size in one.dimensions) for one in (asked, shape)}
    if len(counts) > 1:
        return False
    before, after = (primitive_type(one.element_type) for one in (asked, shape))
    if before is None or after is None or before == after:
        return before == after
    kinds = {one.name.lstrip("b")[0] == "f" for one in (before, after)}
    return len(kinds) == 1 and before.bits <= after.bits


def _agreed(found: Sequence[Asked]) -> Asked | None:
    """Return the first of some operands if the lines of all are known, and one."""
    lines = {one.place for one in found}
    return found[0] if len(lines) == 1 and None not in lines else None
