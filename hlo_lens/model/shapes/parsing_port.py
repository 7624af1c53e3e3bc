"""The port through which the model has small texts read, without knowing how that is done.

Shapes, shardings and device lists are parsed by `hlo_lens.syntax`, which the model must not import.
`hlo_lens/__init__.py` names the reader once; nothing is imported or built until it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.model.shapes.replica_groups import CollectiveDeviceList
    from hlo_lens.model.shapes.shape import Shape
    from hlo_lens.model.shapes.sharding import HloSharding


class Reader(Protocol):
    """Reads the small languages inside HLO; each method raises DumpSyntaxError."""

    def shape(self, text: str) -> Shape:
        """Return the shape that a text prints."""
        ...

    def sharding(self, text: str) -> HloSharding:
        """Return the sharding that a text prints, outer braces included."""
        ...

    def device_list(self, text: str) -> CollectiveDeviceList:
        """Return the device list that a text prints: the value of ``replica_groups``."""
        ...


class _Port:
    """Where the factory of the reader, and the reader once made, are kept."""

    factory: Callable[[], Reader] | None = None
    made: Reader | None = None


def use_reader(factory: Callable[[], Reader]) -> None:
    """Have a reader made by this factory when one is first needed."""
    _Port.factory = factory
    _Port.made = None


def reader() -> Reader:
    """Return the reader; raises RuntimeError if `use_reader` was never called."""
    if _Port.made is None:
        if _Port.factory is None:
            message = "no reader was named; import hlo_lens first"
            raise RuntimeError(message)
        _Port.made = _Port.factory()
    return _Port.made
