"""What the model asks of syntax about HLO: the meaning of parts of the text, read on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.model.hlo.metadata import OpMetadata
    from hlo_lens.model.shapes.replica_groups import CollectiveDeviceList
    from hlo_lens.model.shapes.shape import ProgramShape, Shape, ShapeIndex
    from hlo_lens.model.shapes.sharding import HloSharding


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


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutputAlias:
    """An output buffer that is the buffer of a parameter.

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


class HloReader(Protocol):
    """What the model asks of syntax: the meaning of a part of an instruction's text."""

    def shape(self, text: str) -> Shape:
        """Return the shape that a text prints."""
        ...

    def sharding(self, text: str) -> HloSharding:
        """Return the sharding that a text prints."""
        ...

    def device_list(self, text: str) -> CollectiveDeviceList:
        """Return the device groups that a ``replica_groups`` value prints."""
        ...

    def metadata(self, text: str) -> OpMetadata:
        """Return what a ``metadata`` value prints."""
        ...

    def metadata_string(self, text: str, name: str) -> str | None:
        """Return one field of a ``metadata`` value that is text, the last of that name, or None."""
        ...

    def operands(self, text: str) -> tuple[HloOperand, ...]:
        """Return the operands between an instruction's parentheses."""
        ...

    def attributes(self, text: str) -> tuple[tuple[str, str], ...]:
        """Return names and values of an attribute list, in order, as written."""
        ...

    def attribute(self, text: str, name: str) -> str | None:
        """Return the first value of one name in an attribute list, as written; None without any."""
        ...

    def string(self, text: str) -> str:
        """Return a quoted string without quotes and C escapes; any other text as it is."""
        ...

    def frontend_attributes(self, text: str) -> Mapping[str, str]:
        """Return the keys and values of a ``frontend_attributes`` value, unquoted."""
        ...

    def names(self, text: str) -> tuple[str, ...]:
        """Return the names in a list such as ``{%a, %b}`` or ``%a``, without ``%``."""
        ...

    def program_shape(self, text: str) -> ProgramShape:
        """Return what an ``entry_computation_layout`` value prints."""
        ...

    def aliasing(self, text: str) -> tuple[InputOutputAlias, ...]:
        """Return what an ``input_output_alias`` value prints."""
        ...

    def donors(self, text: str) -> tuple[tuple[int, ShapeIndex], ...]:
        """Return parameter numbers and indices of a ``buffer_donor`` value."""
        ...
