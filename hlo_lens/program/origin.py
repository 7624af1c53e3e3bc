"""The origin of a value in the user's program, and the ways to find it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hlo_lens.hlo.metadata import SourceLocation

INFERRED = "~"
"""Mark of an inferred source line in text."""


class Basis(StrEnum):
    """The way an origin was found.

    Attributes:
        OWN: Metadata of the instruction itself.
        FUSION_BODY: An instruction in the fusion or in another computation that it calls.
        LOOP_BODY: The instruction in the loop's body that writes the value.
        OPERAND: The value that it is computed from.
        USER: The instruction that uses it.
        ARGUMENT: The argument of the program that it is, or is computed from.
        BEFORE: The call that asks for it, in the text from before optimizations.
        COMBINED: The collective that it was combined into, which has the metadata of one member.
    """

    OWN = "own"
    FUSION_BODY = "fusion body"
    LOOP_BODY = "loop body"
    OPERAND = "operand"
    USER = "user"
    ARGUMENT = "argument"
    BEFORE = "before optimizations"
    COMBINED = "combined"


def is_inferred(basis: str | None) -> bool:
    """Return whether an origin of a basis is not of the instruction's own metadata."""
    return basis not in (None, Basis.OWN, Basis.ARGUMENT)


def marked(source: str | None, basis: str | None) -> str | None:
    """Return a source line as text, with `INFERRED` after it if it is inferred."""
    return f"{source} {INFERRED}" if source is not None and is_inferred(basis) else source


class Origin(NamedTuple):
    """Origin of a value in the user's program.

    Attributes:
        place: Innermost place outside libraries; the innermost of all if there is none.
        op_name: Operation path; of an argument its name.
        basis: Way that the origin was found; None for no origin.
        row: Row of the instruction whose metadata it is; None for no origin.
        argument: Name of the argument that the value is, or is computed from, where nothing else
            on the way to it has an origin.
        has_own_path: Whether the operation path is of the instruction itself; the place may be
            inferred.
    """

    place: SourceLocation | None = None
    op_name: str | None = None
    basis: Basis | None = None
    row: int | None = None
    argument: str | None = None
    has_own_path: bool = False

    @property
    def is_inferred(self) -> bool:
        """Whether the source line is not of the instruction's own metadata."""
        return is_inferred(self.basis)

    @property
    def source(self) -> str | None:
        """The place as ``file:line``; None if not known."""
        return None if self.place is None else str(self.place)

    @property
    def marked_source(self) -> str | None:
        """The place as text, with `INFERRED` after it if it is inferred; None if not known."""
        return marked(self.source, self.basis)

    def inferred(self, basis: Basis) -> Origin:
        """Return the origin as that of another value, found in another way."""
        return Origin(self.place, self.op_name, basis, self.row, self.argument)


NO_ORIGIN = Origin()
