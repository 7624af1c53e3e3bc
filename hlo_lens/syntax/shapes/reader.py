"""The reader of `hlo_lens.model.shapes.parsing_port`, by the parsers of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.syntax.shapes.replica_groups import parse_device_list
from hlo_lens.syntax.shapes.shape import parse_shape
from hlo_lens.syntax.shapes.sharding import parse_sharding

if TYPE_CHECKING:
    from hlo_lens.model.shapes.replica_groups import CollectiveDeviceList
    from hlo_lens.model.shapes.shape import Shape
    from hlo_lens.model.shapes.sharding import HloSharding


class SyntaxReader:
    """Reader of the small languages inside HLO; implements `parsing_port.Reader`."""

    def shape(self, text: str) -> Shape:
        """Return the shape that a text prints."""
        return parse_shape(text)

    def sharding(self, text: str) -> HloSharding:
        """Return the sharding that a text prints."""
        return parse_sharding(text)

    def device_list(self, text: str) -> CollectiveDeviceList:
        """Return the device list that a text prints."""
        return parse_device_list(text)
