"""The reader of a module: parts of HLO text, each parsed when first asked for."""

from __future__ import annotations

from hlo_lens.hlo import text as hlo_text
from hlo_lens.hlo.metadata import parse_metadata, parse_metadata_string
from hlo_lens.hlo.patterns import LOOSE_PROGRAM_SHAPE, SHAPE_ITEM
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.replica_groups import parse_device_list
from hlo_lens.shapes.shape import (
    REMEMBERED_LENGTH,
    ProgramShape,
    Shape,
    parse_shape,
    remembered_shape,
)
from hlo_lens.shapes.sharding import HloSharding, parse_sharding
from hlo_lens.text.errors import DumpSyntaxError


class HloTextReader:
    """Reads parts of HLO text; implements `hlo_lens.hlo.text_reader.HloReader`.

    `parse_shape`, `parse_sharding` and `parse_device_list` have the one cache of a process. Only
    very long shapes are cached here, as long as the module lives.
    """

    sharding = staticmethod(parse_sharding)
    device_list = staticmethod(parse_device_list)
    metadata = staticmethod(parse_metadata)
    metadata_string = staticmethod(parse_metadata_string)
    operands = staticmethod(hlo_text.parse_operands)
    attributes = staticmethod(hlo_text.parse_attributes)
    attribute = staticmethod(hlo_text.parse_attribute)
    string = staticmethod(hlo_text.parse_string)
    frontend_attributes = staticmethod(hlo_text.parse_frontend_attributes)
    names = staticmethod(hlo_text.parse_names)
    aliasing = staticmethod(hlo_text.parse_aliasing)
    donors = staticmethod(hlo_text.parse_donors)

    def __init__(self) -> None:
        self._long_shapes: dict[str, Shape] = {}

    def printed_sharding(self, text: str) -> HloSharding:
        """Return the sharding of an instruction; for a text of unknown form one not known."""
        try:
            return self.sharding(text)
        except DumpSyntaxError:
            return HloSharding(kind=ShardingKind.UNKNOWN, text=text)

    def shape(self, text: str) -> Shape:
        """Return the shape that a text prints."""
        if len(text) <= REMEMBERED_LENGTH:
            return remembered_shape(text)
        known = self._long_shapes.get(text)
        if known is None:
            known = self._long_shapes[text] = parse_shape(text)
        return known

    def program_shape(self, text: str) -> ProgramShape:
        """Return the signature that an ``entry_computation_layout`` value prints.

        Raises:
            DumpSyntaxError: If it is not of the form ``{(shape, ...)->shape}``.
        """
        match = LOOSE_PROGRAM_SHAPE.fullmatch(text)
        if match is None:
            raise DumpSyntaxError("expected {(shape, ...)->shape}")
        parameters = tuple(self.shape(item[1]) for item in SHAPE_ITEM.finditer(match[1]))
        return ProgramShape(parameters=parameters, result=self.shape(match[2]))
