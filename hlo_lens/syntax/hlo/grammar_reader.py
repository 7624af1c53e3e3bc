"""The reader of a module that the grammar read: shapes, shardings and groups by the grammar too."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from hlo_lens.syntax.hlo.reader import HloTextReader
from hlo_lens.syntax.shapes.replica_groups_grammar import parse_device_list_with_grammar
from hlo_lens.syntax.shapes.shape_grammar import parse_shape_with_grammar
from hlo_lens.syntax.shapes.sharding_grammar import parse_sharding_with_grammar

if TYPE_CHECKING:
    from hlo_lens.model.shapes.replica_groups import CollectiveDeviceList
    from hlo_lens.model.shapes.shape import Shape
    from hlo_lens.model.shapes.sharding import HloSharding

_REMEMBERED = 1 << 12

_shape = functools.lru_cache(_REMEMBERED)(parse_shape_with_grammar)
_sharding = functools.lru_cache(_REMEMBERED)(parse_sharding_with_grammar)
_device_list = functools.lru_cache(_REMEMBERED)(parse_device_list_with_grammar)


class HloGrammarReader(HloTextReader):
    """Reads shapes, shardings and device lists by the grammar alone."""

    def shape(self, text: str) -> Shape:
        """Return the shape that a text prints."""
        return _shape(text)

    def sharding(self, text: str) -> HloSharding:
        """Return the sharding that a text prints."""
        return _sharding(text)

    def device_list(self, text: str) -> CollectiveDeviceList:
        """Return the device groups that a ``replica_groups`` value prints."""
        return _device_list(text)
