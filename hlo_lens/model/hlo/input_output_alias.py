"""InputOutputAlias: an entry of a module's ``input_output_alias`` config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.model.shapes.shape import ShapeIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutputAlias:
    """An output buffer that shares the memory of an entry parameter.

    Attributes:
        output_index: Index into the result shape of the entry computation.
        parameter_number: Number of the entry parameter.
        parameter_index: Index into that parameter's shape.
        kind: ``may-alias`` or ``must-alias``.
    """

    output_index: ShapeIndex
    parameter_number: int
    parameter_index: ShapeIndex
    kind: str = "may-alias"
