"""The port through which the model has parts of HLO text read.

Shapes, shardings, device lists and attributes are parsed by `hlo_lens.syntax`, which the model must
not import. A module holds a reader of its own; `Shape.parse` and the like use `reader`, which
`hlo_lens/__init__.py` registers. Nothing is imported or built until it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.hlo.columns import HloOperand
    from hlo_lens.hlo.metadata import OpMetadata
    from hlo_lens.hlo.text import InputOutputAlias
    from hlo_lens.shapes.replica_groups import CollectiveDeviceList
    from hlo_lens.shapes.shape import ProgramShape, Shape, ShapeIndex
    from hlo_lens.shapes.sharding import HloSharding


class HloReader(Protocol):
    """Parses parts of HLO text; raises DumpSyntaxError for a text that is malformed."""

    def shape(self, text: str) -> Shape:
        """Return the shape that a text prints."""
        ...

    def sharding(self, text: str) -> HloSharding:
        """Return the sharding that a text prints, outer braces included."""
        ...

    def printed_sharding(self, text: str) -> HloSharding:
        """Return the sharding of an instruction; for a text of unknown form one not known."""
        ...

    def device_list(self, text: str) -> CollectiveDeviceList:
        """Return the device groups that a ``replica_groups`` value prints."""
        ...

    def metadata(self, text: str) -> OpMetadata:
        """Return the fields of a ``metadata`` value."""
        ...

    def metadata_string(self, text: str, name: str) -> str | None:
        """Return a text field of a ``metadata`` value, the last of that name, or None."""
        ...

    def operands(self, text: str) -> tuple[HloOperand, ...]:
        """Return the operands between an instruction's parentheses."""
        ...

    def attributes(self, text: str) -> tuple[tuple[str, str], ...]:
        """Return names and values of an attribute list, in order, as written."""
        ...

    def attribute(self, text: str, name: str) -> str | None:
        """Return the first value of a name in an attribute list, as written; None without any."""
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
        """Return the signature that an ``entry_computation_layout`` value prints."""
        ...

    def aliasing(self, text: str) -> tuple[InputOutputAlias, ...]:
        """Return the entries of an ``input_output_alias`` value, in order."""
        ...

    def donors(self, text: str) -> tuple[tuple[int, ShapeIndex], ...]:
        """Return parameter numbers and indices of a ``buffer_donor`` value."""
        ...


class _Port:
    """The factory of the reader, and the reader once it is made."""

    factory: Callable[[], HloReader] | None = None
    made: HloReader | None = None


def use_reader(factory: Callable[[], HloReader]) -> None:
    """Set the factory that makes the reader when one is first needed."""
    _Port.factory = factory
    _Port.made = None


def reader() -> HloReader:
    """Return the reader; raises RuntimeError if `use_reader` was never called."""
    if _Port.made is None:
        if _Port.factory is None:
            raise RuntimeError("no reader is registered; import hlo_lens first")
        _Port.made = _Port.factory()
    return _Port.made
