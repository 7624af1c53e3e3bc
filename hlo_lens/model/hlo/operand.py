"""HloOperand: an operand of an instruction as written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.model.shapes.shape import ShapeIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class HloOperand:
    """One operand as written.

    Attributes:
        name: Name of the instruction, without ``%``.
        index: Tuple index after ``#`` (compact get-tuple-element), outermost first; () for none.
        shape_text: The operand's shape where it is printed, else None.
    """

    name: str
    index: ShapeIndex = ()
    shape_text: str | None = None
